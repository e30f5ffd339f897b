"""A function that was traced with shardings in its types is exported as if there were one device."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType
from jax2onnx_core import to_onnx

P = jax.P


def mesh(kind: AxisType = AxisType.Explicit) -> jax.sharding.Mesh:
    return jax.make_mesh((2, 4), ("x", "y"), axis_types=(kind,) * 2)


def placed(shape: tuple[int, ...], spec: jax.P, kind: AxisType = AxisType.Explicit) -> jax.Array:
    array = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    return jax.device_put(array, jax.NamedSharding(mesh(kind), spec))


@pytest.mark.parametrize("kind", [AxisType.Explicit, AxisType.Auto])
@pytest.mark.parametrize("spec", [P("x", "y"), P(("x", "y")), P(None, "x"), P()])
def test_a_sharded_weight_is_the_whole_array(kind: AxisType, spec: jax.P) -> None:
    weight = placed((8, 8), spec, kind)
    program = to_onnx(lambda x: x @ weight, [("B", 8)])
    program.verify()
    assert [node.op_type for node in program.model.graph] == ["MatMul"]
    (stored,) = program.model.graph.initializers.values()
    assert np.array_equal(stored.const_value.numpy(), np.asarray(weight))


def test_shardings_of_results_change_nothing() -> None:
    up, down = placed((8, 16), P(None, "y")), placed((16, 8), P("y"))
    with jax.set_mesh(mesh()):
        program = to_onnx(lambda x: jnp.dot(jnp.tanh(x @ up), down, out_sharding=P()), [("B", 8)])
        program.verify()
    assert [node.op_type for node in program.model.graph] == ["MatMul", "Tanh", "MatMul"]


def test_a_choice_between_sharded_weights() -> None:
    weight = placed((8, 8), P("x", "y"))
    to_onnx(lambda x: lax.cond(x.sum() > 0, lambda x: x @ weight, lambda x: x @ (2 * weight), x), [("B", 8)]).verify()


def test_the_mesh_of_the_context_stays_as_it_is() -> None:
    with jax.set_mesh(mesh()):
        to_onnx(lambda x: jnp.sort(x) + jnp.arange(8.0), [("B", 8)]).verify()
        assert jax.sharding.get_abstract_mesh() == mesh().abstract_mesh
    assert jax.sharding.get_abstract_mesh().empty


def test_constraints_and_shardings_of_jit_leave_no_trace() -> None:
    rows = jax.NamedSharding(mesh(AxisType.Auto), P("x"))
    fn = jax.jit(lambda x: lax.with_sharding_constraint(x * 2, rows), in_shardings=rows, out_shardings=rows)
    program = to_onnx(fn, [(4, 8)])
    program.verify()
    assert [node.op_type for node in program.model.graph] == ["Mul"]
