"""Bits of weights that are chosen so that a tolerance is held."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.forms import Form
from jax2onnx_graph.traversal import walk
from jax2onnx_onnxruntime._quantization.noise import Noise
from jax2onnx_onnxruntime.loading import load
from jax2onnx_onnxruntime.runtime import OrtRuntime
from jax2onnx_onnxruntime.target import OnnxRuntime
from jax2onnx_runtime.mixed_bits import MixedBits, read_mixed_bits
from jax2onnx_runtime.quantization import Mode, Quantization
from onnx_ir.passes.common import ShapeInferencePass

quantize = functools.partial(OrtRuntime().quantize, target=OnnxRuntime())
RNG = np.random.default_rng(0)
SMOOTH = RNG.normal(size=(64, 64)).astype(np.float32) / 8
#: In each block of a column, one weight is much larger than the rest, which lose their bits to it, and the activations cancel it.
OUTLIERS = SMOOTH + np.where(
    np.arange(64)[:, None] % 16 == 0, np.where(np.arange(64)[:, None] % 32, -12.0, 12.0), 0.0
).astype(np.float32)
SUM = "h = MatMul(x, smooth) k = MatMul(x, outliers) y = Add(h, k)"


def model(body: str = SUM, x: str = "float[N,64] x", y: str = "float[N,64] y", **weights: np.ndarray) -> ir.Model:
    made = ir.from_onnx_text(f'<ir_version: 10, opset_import: ["" : 20]> main ({x}) => ({y}) {{ {body} }}')
    values = {v.name: v for node in walk(made.graph) for v in node.inputs if v is not None}
    for name, array in {"smooth": SMOOTH, "outliers": OUTLIERS, **weights}.items():
        if name in values:
            value = values[name]
            value.const_value = ir.Tensor(array, name=name)
            value.type, value.shape = ir.TensorType(value.const_value.dtype), ir.Shape(array.shape)
            made.graph.register_initializer(value)
    return ShapeInferencePass()(made).model


def calls(count: int = 3) -> list[dict[str, np.ndarray]]:
    """Activations in which the channels of the outliers are equal, so that these cancel each other."""
    rows = [RNG.normal(size=(5, 64)).astype(np.float32) for _ in range(count)]
    for array in rows:
        array[:, ::16] = array[:, :1]
    return [{"x": array} for array in rows]


CALLS = calls()


def mixed(
    made: ir.Model,
    mode: Mode,
    tolerance: float,
    exclude: Sequence[str] = (),
    runs: Sequence[dict[str, np.ndarray]] = CALLS,
) -> tuple[ir.Model, MixedBits]:
    quantised = quantize(made, Quantization(mode, exclude=exclude, calibration=runs, tolerance=tolerance))
    found = read_mixed_bits(quantised)
    assert found is not None
    return quantised, found


def noise(original: ir.Model, quantised: ir.Model, runs: Sequence[dict[str, np.ndarray]] = CALLS) -> float:
    pairs = [(load(original)(feeds)[0], load(quantised)(feeds)[0]) for feeds in runs]
    return float(np.sqrt(sum(np.sum((a - b) ** 2) for a, b in pairs) / sum(np.sum(a**2) for a, _ in pairs)))


def bits(found: MixedBits) -> dict[str, int]:
    return {weight.name: weight.bits for weight in found.weights}


def test_what_hurts_most_gets_more_bits() -> None:
    assert bits(mixed(model(), "int4", 0.2)[1]) == {"outliers": 8, "smooth": 4}


def test_products_of_integers_that_hurt_most_stay_floats() -> None:
    made = model()
    plain = quantize(made, Quantization("static_int8", calibration=CALLS))
    whole = noise(made, plain)
    quantised, found = mixed(made, "static_int8", whole / 4)
    assert bits(found) == {"outliers": 32, "smooth": 8}
    assert found.noise == pytest.approx(noise(made, quantised), rel=1e-3)
    assert found.noise <= whole / 4
    assert found.uniform_noise == pytest.approx(whole, rel=1e-3)


class LikesIntegers(OnnxRuntime):
    """A target with products of 16-bit integers."""

    def prefers(self, *forms: Form) -> Form:
        """Those."""
        return Form.PRODUCT_OF_16_BITS if Form.PRODUCT_OF_16_BITS in forms else super().prefers(*forms)


@pytest.mark.parametrize(("share", "large", "smooth"), [(4, 16, 8), (30, 16, 16), (50, 32, 16)])
def test_products_that_hurt_most_have_activations_in_16_bits_first(share: float, large: int, smooth: int) -> None:
    channel = np.where(np.arange(64) == 5, 100.0, 1.0).astype(np.float32)
    made = model(
        "z = Mul(x, channel) h = MatMul(x, smooth) k = MatMul(z, large) y = Add(h, k)",
        channel=channel,
        large=SMOOTH * np.where(channel == 1, 1, 0)[:, None].astype(np.float32),
    )
    whole = noise(made, quantize(made, Quantization("static_int8", calibration=CALLS)))
    request = Quantization("static_int8", calibration=CALLS, tolerance=whole / share)
    quantised = OrtRuntime().quantize(made, request, LikesIntegers())
    found = read_mixed_bits(quantised)
    assert found is not None
    assert bits(found) == {"large": large, "smooth": smooth}
    assert found.noise == pytest.approx(Noise(made, CALLS).of_model(quantised), rel=1e-3)
    zeros = [node.inputs[2] for node in walk(quantised.graph) if node.op_type == "QuantizeLinear"]
    types = {zero.dtype for zero in zeros if zero is not None}
    assert ir.DataType.UINT16 in types
    assert (ir.DataType.UINT8 in types) == (smooth == 8)
    again = Quantization("static_int8", calibration=CALLS, bits=bits(found))
    assert noise(quantised, OrtRuntime().quantize(made, again, LikesIntegers())) == 0


def test_products_of_integers_all_hold_a_loose_tolerance() -> None:
    assert set(bits(mixed(model(), "static_int8", 0.9)[1]).values()) == {8}


def test_no_product_of_integers_holds_a_tolerance_that_is_too_tight() -> None:
    with pytest.raises(OptionError, match="No product can be in integers with a tolerance of 1e-06"):
        mixed(model(), "static_int8", 1e-6)


def test_the_choice_of_products_is_kept() -> None:
    made = model()
    chosen = bits(
        mixed(made, "static_int8", noise(made, quantize(made, Quantization("static_int8", calibration=CALLS))) / 4)[1]
    )
    again = quantize(made, Quantization("static_int8", calibration=CALLS, bits=chosen))
    assert "outliers" in again.graph.initializers
    assert "smooth" not in again.graph.initializers


def test_what_hurts_in_8_bits_too_stays_in_full_precision() -> None:
    assert bits(mixed(model(), "int8", 0.012)[1]) == {"outliers": 32, "smooth": 8}


@pytest.mark.parametrize("tolerance", [0.3, 0.1, 0.03, 0.01])
def test_the_tolerance_is_held(tolerance: float) -> None:
    made = model()
    assert noise(made, mixed(made, "int4", tolerance)[0]) <= tolerance


@pytest.mark.parametrize("tolerance", [0.9, 0.1])
def test_the_noise_that_is_reported_is_that_of_the_model(tolerance: float) -> None:
    made = model()
    quantised, found = mixed(made, "int4", tolerance)
    assert found.noise == pytest.approx(noise(made, quantised), rel=1e-4)
    assert found.uniform_noise == pytest.approx(noise(made, quantize(made, Quantization("int4"))), rel=1e-4)


@pytest.mark.parametrize("rows", [1, 64])
@pytest.mark.parametrize("tolerance", [0.15, 0.05, 0.02])
def test_noise_of_8_bits_in_a_row_of_layers_is_that_of_the_model(rows: int, tolerance: float) -> None:
    rng = np.random.default_rng(1)
    weights = {f"w{i}": (rng.standard_t(2, size=(256, 256)) / 16).astype(np.float32) for i in range(3)}
    body = "a = MatMul(x, w0) b = Relu(a) c = MatMul(b, w1) d = Relu(c) y = MatMul(d, w2)"
    made = model(body, "float[N,256] x", "float[N,256] y", **weights)
    runs = [{"x": rng.standard_t(2, size=(rows, 256)).astype(np.float32)} for _ in range(3)]
    quantised, found = mixed(made, "int4", tolerance, runs=runs)
    assert found.noise == pytest.approx(noise(made, quantised, runs), rel=1e-4)
    assert noise(made, quantised, runs) <= tolerance


def test_the_noise_of_a_weight_alone_is_that_of_a_model_with_it_alone() -> None:
    made = model()
    found = mixed(made, "int4", 0.1)[1]
    alone = quantize(made, Quantization("int4", exclude=["smooth"]))
    assert found.weights[0].noise[4] == pytest.approx(noise(made, alone), rel=1e-4)


def test_nothing_is_measured_where_the_fewest_bits_are_enough() -> None:
    _, found = mixed(model("y = MatMul(x, smooth)"), "int4", 0.5)
    assert (found.kept, [dict(weight.noise) for weight in found.weights]) == ([], [{}])


def test_the_bytes_are_those_of_the_weights() -> None:
    quantised, found = mixed(model(), "int4", 0.2)
    tensors = [value.const_value for value in quantised.graph.initializers.values()]
    assert found.bytes == sum(tensor.nbytes for tensor in tensors if tensor is not None)


def test_a_weight_that_is_left_out_is_not_chosen_for() -> None:
    assert bits(mixed(model(), "int4", 0.5, exclude=["outliers"])[1]) == {"smooth": 4}


def test_a_weight_of_two_products_has_one_entry() -> None:
    twice = "h = MatMul(x, outliers) z = Tanh(h) y = MatMul(z, outliers)"
    assert list(bits(mixed(model(twice), "int4", 0.6)[1])) == ["outliers"]


def test_products_in_branches_are_chosen_for() -> None:
    branches = """s = ReduceSum<keepdims=0>(x) zero = Constant<value = float {0.0}>() c = Greater(s, zero)
                  y = If(c) <then_branch = a () => (float[N,64] p) { p = MatMul(x, outliers) },
                             else_branch = b () => (float[N,64] q) { q = MatMul(x, smooth) }>"""
    assert bits(mixed(model(branches), "int4", 0.4)[1])["outliers"] == 8


def test_only_floating_point_outputs_are_compared() -> None:
    both = f"{SUM} i = ArgMax<axis=1, keepdims=0>(y)"
    _, found = mixed(model(both, y="int64[N] i, float[N,64] y"), "int4", 0.1)
    assert found.noise <= 0.1


def test_outputs_without_floating_point_numbers_are_an_error() -> None:
    with pytest.raises(OptionError, match="no output of the model is of floating-point numbers"):
        mixed(model(f"{SUM} i = ArgMax<axis=1, keepdims=0>(y)", y="int64[N] i"), "int4", 0.1)


def test_a_tolerance_that_no_weight_allows_is_an_error() -> None:
    with pytest.raises(OptionError, match="No weight can be in 8 bits with a tolerance of 1e-06"):
        mixed(model("y = MatMul(x, outliers)"), "int8", 1e-6)


def test_the_model_itself_stays_as_it_is() -> None:
    made = model()
    before = ir.to_proto(made).SerializeToString()
    mixed(made, "int4", 0.1)
    assert ir.to_proto(made).SerializeToString() == before
