"""Models on the NPU, or on its simulation; run where the provider is installed, as by `nox -s qnn`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax2onnx_core import to_onnx
from jax2onnx_graph.errors import TargetError
from jax2onnx_qnn import compile_model, load
from jax2onnx_qnn.runtime import QnnRuntime

if not QnnRuntime().is_installed:
    pytest.skip("the provider of the NPU is installed by nox -s qnn alone", allow_module_level=True)


def network(x):
    return jax.nn.softmax(jax.nn.gelu(x @ np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)), axis=-1)


def test_a_program_is_verified_there():
    to_onnx(network, [(4, 8)], target="qnn").verify()


@pytest.mark.parametrize(
    "fn", [jnp.fft.ifft, jnp.fft.fft2, lambda x: (x.reshape(1, 16) @ np.eye(16, dtype=np.float32)).reshape(2, 8)]
)
def test_products_between_reshapes_are_right_there(fn):
    to_onnx(fn, [(2, 8)], target="qnn").verify()


@pytest.mark.parametrize("shape", [(9, 1, 32), (12, 4, 32), (9, 1, 1, 32), (20, 32)])
def test_a_norm_is_right_there_for_any_number_of_rows(shape):
    to_onnx(lambda x: x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6), [shape], target="qnn").verify()


@pytest.mark.parametrize(
    "fn", [jax.lax.erf, jax.lax.erfc, jax.vmap(jax.grad(lambda x: jax.nn.gelu(x, approximate=False)))]
)
def test_the_error_function_is_right_there(fn):
    x = np.linspace(-3, 3, 25, dtype=np.float32)
    np.testing.assert_allclose(to_onnx(fn, [x], target="qnn")(x), fn(x), atol=2e-3)


@pytest.mark.parametrize("cell", [nnx.OptimizedLSTMCell, nnx.GRUCell])
def test_cells_of_mixed_precision_run_there(cell):
    layer = nnx.RNN(cell(8, 16, dtype=jnp.float16, rngs=nnx.Rngs(0)))
    to_onnx(layer, [((2, 5, 8), jnp.float16)], target="qnn").verify()


@pytest.mark.parametrize(
    ("fn", "shape", "dtype"),
    [(lambda x: x.astype(np.float32) / 255, (1, 256), np.uint8), (lambda x: x.reshape(2, 2, 4, 2, 4, 3).transpose(0, 1, 3, 2, 4, 5).reshape(8, 16, 3), (2, 8, 8, 3), np.float32),
     (lambda x: jnp.concatenate([x, np.zeros((2, 1), np.int32)], 1).reshape(6), (2, 2), np.int32)],
    ids=["bytes", "windows", "integers"],
)  # fmt: skip
def test_ordinary_steps_before_networks_are_right_there(fn, shape, dtype):
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    np.testing.assert_allclose(to_onnx(fn, [x], target="qnn")(x), fn(x), rtol=2e-3, atol=1e-3)


def test_what_does_not_run_wholly_there_is_an_error():
    program = to_onnx(lambda x: jax.lax.fori_loop(0, 3, lambda _, y: jnp.sin(y), x), [(3,)])
    with pytest.raises(TargetError, match="does not run the whole model"):
        program.bisect(runtime="qnn")


def test_the_first_value_that_differs_there_is_named():
    program = to_onnx(lambda x: jnp.exp(x * 4) - 1, [(2, 3)], target="qnn")
    found = program.bisect(np.full((2, 3), 5.0, np.float32))  # beyond half precision
    assert found.first is not None
    assert found.first.source.operation == "exp"


def test_a_compiled_file_gives_the_same(tmp_path):
    program = to_onnx(network, [(4, 8)], target="qnn")
    path = compile_model(program.model, tmp_path / "model.onnx")
    x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
    (got,) = load(path)({"x": x})
    np.testing.assert_allclose(got, network(x), atol=2e-3)


def test_a_quantised_program_runs_wholly_there():
    rng = np.random.default_rng(0)
    kernel, head = rng.normal(size=(3, 3, 1, 8)).astype(np.float32) / 3, rng.normal(size=(8, 10)).astype(np.float32)

    def convolved(x):
        y = jax.lax.conv_general_dilated(x, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jnp.maximum(y, 0).mean(axis=(1, 2)) @ head

    images = [(rng.random((4, 8, 8, 1), dtype=np.float32),) for _ in range(8)]
    program = to_onnx(convolved, [(4, 8, 8, 1)], target="qnn")
    for quantised in (
        program.quantize("static_int8", calibration=images),
        program.quantize("static_int8", calibration=images, tolerance=0.02),
    ):
        assert any(node.op_type == "QuantizeLinear" for node in quantised.model.graph)
        assert quantised.accuracy(images).worst.snr > 30
