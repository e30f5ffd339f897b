"""Weakly typed inputs and intermediate values, as Python's numbers make them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax2onnx_core import to_onnx


def _loop(x):
    return lax.while_loop(lambda c: c[0] < 3.0, lambda c: (c[0] + 1.0, jnp.expm1(c[1])), (0.0, 0.5))[1] * x


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: jnp.expm1(jnp.where(x > 0, 0.1, 0.2)),
        lambda x: jax.scipy.special.erfinv(jnp.where(x > 0, 0.1, 0.2)),
        lambda x: jax.scipy.special.i1(jnp.where(x > 0, 0.1, 0.2)),
        lambda x: lax.scan(lambda c, v: (c * 1.5, jnp.expm1(c) + v), 1.0, x)[1],
        _loop,
    ],
    ids=["expm1", "erf_inv", "bessel", "scan", "while"],
)
def test_weakly_typed_values_keep_their_dtype(fn, x64):
    program = to_onnx(fn, [jax.ShapeDtypeStruct((3,), np.float32)], x64=x64)
    with jax.enable_x64(x64):
        want = fn(jnp.asarray([-1.0, 0.5, 2.0], np.float32))
    got = program(np.array([-1.0, 0.5, 2.0], np.float32))
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("name", ["erfc", "i0", "i1"])
def test_functions_and_gradients_of_python_numbers(name):
    fn = getattr(jax.scipy.special, name)
    assert to_onnx(fn, [0.5]).verify() < 1e-6
    assert to_onnx(jax.grad(fn), [0.5]).verify() < 1e-6


_SPECS = [
    True, 1, 0.5, 1j, np.int32(1), np.float32(1), np.float64(1), np.ones(3, np.float32),
    jnp.asarray(1.0), jnp.broadcast_to(1.0, (3,)), jnp.ones(3), jax.ShapeDtypeStruct((3,), np.float32, weak_type=True),
]  # fmt: skip


@pytest.mark.parametrize("spec", _SPECS, ids=repr)
def test_results_of_weak_inputs_have_the_dtypes_that_jax_gives_them(spec):
    def fn(x):
        return x, x * jnp.ones(3, jnp.bfloat16), x + jnp.ones(3, jnp.int8)

    program = to_onnx(fn, [spec])
    assert [aval.dtype for aval in program.traced.out_avals] == [s.dtype for s in jax.eval_shape(fn, spec)]
    assert program.verify() == 0.0
