"""Functions of doubles have the precision of doubles: in every opset, and at every optimisation level of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
from flax import nnx
from jax2onnx_core import to_onnx

LEVELS = [
    ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
    ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
]

Function = Callable[..., jax.Array]


@pytest.fixture(autouse=True)
def doubles() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def check(fn: Function, *inputs: np.ndarray, **options: Any) -> None:
    """Export `fn` and compare it with JAX at each level, to 1e-13 of the largest element."""
    program = to_onnx(fn, [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in inputs], **options)
    content, want = ir.to_proto(program.model).SerializeToString(), np.asarray(jax.jit(fn)(*inputs))
    for level in LEVELS:
        session_options = ort.SessionOptions()
        session_options.graph_optimization_level = level
        session = ort.InferenceSession(content, session_options, providers=["CPUExecutionProvider"])
        (got,) = session.run(None, dict(zip((i.name for i in session.get_inputs()), inputs, strict=True)))
        np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-13 * np.abs(want).max(), err_msg=str(level))


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape)


ACTIVATIONS: dict[str, Function] = {
    "leaky_relu": lambda x: jax.nn.leaky_relu(x, 0.1),
    "elu": lambda x: jax.nn.elu(x, 0.7),
    "celu": lambda x: jax.nn.celu(x, 0.7),
    "selu": jax.nn.selu,
    "hard_sigmoid": jax.nn.hard_sigmoid,
    "hard_silu": jax.nn.hard_silu,
    "softplus": jax.nn.softplus,
    "soft_sign": jax.nn.soft_sign,
    "mish": jax.nn.mish,
    "silu": jax.nn.silu,
    "gelu": jax.nn.gelu,
    "gelu_erf": lambda x: jax.nn.gelu(x, approximate=False),
    "log_sigmoid": jax.nn.log_sigmoid,
    "softmax": jax.nn.softmax,
    "log_softmax": jax.nn.log_softmax,
    "standardize": jax.nn.standardize,
    "clipped_relu": lambda x: jnp.clip(jax.nn.relu(x), 0, 0.1),
    "quick_gelu": lambda x: x * jax.nn.sigmoid(1.702 * x),
    "layer_norm": lambda x: (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5),
    "rms_norm": lambda x: x / jnp.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * jnp.arange(1.0, 5.0),
}


@pytest.mark.parametrize("opset", range(18, 27))
def test_activations(opset: int) -> None:
    for fn in ACTIVATIONS.values():
        check(fn, numbers(4, 4), opset=opset)


NORMS = {
    "layer": lambda **options: nnx.LayerNorm(4, **options),
    "rms": lambda **options: nnx.RMSNorm(4, **options),
    "group": lambda **options: nnx.GroupNorm(4, num_groups=2, **options),
    "instance": lambda **options: nnx.InstanceNorm(4, **options),
    "batch": lambda **options: nnx.BatchNorm(4, use_running_average=True, **options),
}


@pytest.mark.parametrize("opset", range(18, 27))
def test_norms_of_numbers_as_small_as_their_epsilon(opset: int) -> None:
    for make in NORMS.values():
        norm = make(rngs=nnx.Rngs(0), dtype=jnp.float64, param_dtype=jnp.float64)
        check(norm, numbers(2, 5, 4) * 1e-3, opset=opset)


PRODUCTS: dict[str, Callable[[jax.Array, float], jax.Array]] = {
    "scaled": lambda x, s: (x @ x) * s,
    "divided": lambda x, s: (x @ x) / s,
    "operand": lambda x, s: (x * s) @ x,
    "transposed": lambda x, s: s * (x @ x.T),
    "both": lambda x, s: (x * s) @ (x.T / s),
    "twice": lambda x, s: (x @ x) * s * 0.3,
    "vectors": lambda x, s: (x[0] @ x[1]) * s,
    "batch": lambda x, s: (jnp.stack([x, x]) * s) @ x,
    "biased": lambda x, s: (x @ x) * s + x,
}


def test_attention_by_hand() -> None:
    check(lambda x: jax.nn.softmax((x @ jnp.swapaxes(x, -1, -2)) / np.sqrt(6.0)) @ x, numbers(2, 3, 4, 6))


@pytest.mark.parametrize("product", PRODUCTS)
def test_factors_of_products(product: str) -> None:
    for factor in (1e-50, 0.1, 0.125, -0.3, 3.0, 1e50):
        check(lambda x, s=factor: PRODUCTS[product](x, s), numbers(4, 4))
