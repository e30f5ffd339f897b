from __future__ import annotations

import functools

import jax
import jax.experimental
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import checkify
from jax.sharding import AbstractMesh, AxisType, PartitionSpec
from jax2onnx_core import Rules, errors, hookimpl, to_onnx


class _ScalePlugin:
    """Claims the composite "mylib.scale"."""

    JAX2ONNX_API = 1

    @hookimpl
    def jax2onnx_register(self, registry):
        rules = Rules()

        @rules.lower("mylib.scale")
        def scale(ctx, x, *, factor):
            if factor < 0:
                ctx.decline("negative factors")
            return ctx.op.Sum(*[x] * int(factor))

        registry.add(rules)


def _scaled(x, factor):
    return lax.composite(functools.partial(lambda x, *, factor: x * factor), name="mylib.scale")(x, factor=factor)


def _operators(program):
    return [node.op_type for node in program.model.graph]


def test_a_composite_of_jax_is_lowered_by_the_rules_for_its_name():
    program = to_onnx(lambda x: jnp.sin(_scaled(x, 3.0)), [(2,)], plugins=[_ScalePlugin()])
    assert _operators(program) == ["Sum", "Sin"]
    np.testing.assert_allclose(program(np.ones(2, np.float32)), np.sin(3.0 * np.ones(2)), rtol=1e-6)


def test_a_composite_whose_rule_declines_is_inlined():
    program = to_onnx(lambda x: _scaled(x, -3.0), [(2,)], plugins=[_ScalePlugin()])
    assert _operators(program) == ["Mul"]


def test_a_callback_is_refused_with_the_reason_and_the_way_around():
    def calls_back(x):
        return jax.pure_callback(np.sin, x, x)

    with pytest.raises(errors.UnsupportedError, match=r"pure_callback.*calls back into Python.*Write the computation"):
        to_onnx(calls_back, [(2,)])


@pytest.mark.parametrize("callback", [jax.pure_callback, jax.experimental.io_callback])
def test_a_callback_says_how_a_check_is_left_out(callback):
    with pytest.raises(
        errors.UnsupportedError, match=r"equinox\.error_if, is left out if jax2onnx-equinox is installed"
    ):
        to_onnx(lambda x: callback(np.sin, x, x), [(2,)])


def _checked(x):
    checkify.check(jnp.all(x > -100), "too small")
    return 2 * x


def test_a_check_says_how_to_do_without():
    with pytest.raises(errors.UnsupportedError, match=r"lambda \*args: checkify\.checkify\(f\)\(\*args\)\[1\]"):
        to_onnx(_checked, [(2,)])
    program = to_onnx(lambda *args: checkify.checkify(_checked)(*args)[1], [("B", 2)])
    assert _operators(program) == ["Mul"]
    program.verify()


def test_a_token_is_refused_with_the_way_around():
    with pytest.raises(errors.UnsupportedError, match=r"create_token: once, .* Make the data arguments or results"):
        to_onnx(lambda x: (2 * x, lax.create_token()), [(2,)])


def test_a_mesh_of_devices_that_are_not_there_is_exported():
    mesh = AbstractMesh((2,), ("i",), axis_types=(AxisType.Auto,))
    spec = PartitionSpec("i")
    program = to_onnx(jax.shard_map(jnp.sin, mesh=mesh, in_specs=spec, out_specs=spec), [(2,)])
    assert [node.op_type for node in program.model.graph] == ["Sin"]


def test_an_unsupported_primitive_inside_a_loop_is_reported():
    def body(carry, row):
        return carry + jax.pure_callback(np.sin, row, row), None

    with pytest.raises(errors.UnsupportedError, match="pure_callback"):
        to_onnx(lambda x: lax.scan(body, x[0], x)[0], [(3, 2)])
