"""Primitives of other libraries, which no plugin knows, are lowered by the functions that define them."""

from __future__ import annotations

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
import pytest
from jax.interpreters import mlir
from jax2onnx_core import errors, to_onnx


def _primitive(name, impl):
    primitive = jax.extend.core.Primitive(name)
    primitive.def_impl(impl)
    primitive.def_abstract_eval(lambda x, **_: jax.core.ShapedArray(x.shape, x.dtype))
    return primitive


def test_a_primitive_is_lowered_by_its_definition():
    scaled = _primitive("library_scaled", lambda x, *, by: jnp.sin(x) * by)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    program = to_onnx(lambda x: scaled.bind(x, by=3), [("B", 3)])
    np.testing.assert_allclose(program(x), np.sin(x) * 3, rtol=1e-6)


@pytest.mark.parametrize("platform", [None, "cpu"])
def test_a_primitive_is_lowered_by_the_function_that_compiles_it(platform):
    scaled = jax.extend.core.Primitive("library_compiled")
    scaled.def_abstract_eval(lambda x, **_: jax.core.ShapedArray(x.shape, x.dtype))
    mlir.register_lowering(scaled, mlir.lower_fun(lambda x, *, by: jnp.sin(x) * by, multiple_results=False), platform)
    to_onnx(jax.jit(lambda x: scaled.bind(x, by=3)), [("B", 3)]).verify()


@pytest.mark.parametrize("x64", [False, True])
def test_a_definition_is_traced_with_the_types_of_the_user(x64):
    counted = jax.extend.core.Primitive("library_counted")
    counted.def_impl(lambda x: jnp.sum(x > 0))
    counted.def_abstract_eval(lambda x: jax.core.ShapedArray((), jax.dtypes.canonicalize_dtype(np.int64)))
    to_onnx(lambda x: counted.bind(x), [("B", 3)], x64=x64).verify()


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype float64")
def test_a_definition_that_asks_for_float64_gets_the_types_of_the_user():
    precise = _primitive("library_precise", lambda x: jnp.cumsum(x.astype(jnp.float64), 0) + jnp.ones(3, jnp.float64))
    program = to_onnx(lambda x: precise.bind(x), [("B", 3)], x64=False)
    assert program(np.ones((2, 3), np.float32)).dtype == np.float32
    program.verify()


def test_a_definition_is_traced_with_composites():
    activated = _primitive("library_activated", lambda x: jax.nn.softplus(x))
    program = to_onnx(lambda x: activated.bind(x), [("B", 3)])
    assert [node.op_type for node in program.model.graph] == ["Softplus"]


opaque = _primitive("library_opaque", np.sin)
endless: jax.extend.core.Primitive = _primitive("library_endless", lambda x: endless.bind(x))


@pytest.mark.parametrize("primitive", [opaque, endless], ids=["numpy", "itself"])
def test_a_definition_that_jax_cannot_trace_is_unsupported(primitive):
    with pytest.raises(errors.UnsupportedError, match=primitive.name):
        to_onnx(lambda x: primitive.bind(x), [(2,)])


def test_a_callback_on_constants_is_not_run():
    def never(x):
        raise AssertionError("ran")

    def fn(x):
        return x + jax.pure_callback(never, jax.ShapeDtypeStruct((2,), np.float32), np.ones(2, np.float32))

    with pytest.raises(errors.UnsupportedError, match="pure_callback"):
        to_onnx(fn, [(2,)])
