"""Quantised models as ONNX Runtime computes them, rule by rule."""

from __future__ import annotations

import functools
import logging
from collections import Counter

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.legalise.finite_recurrences import FiniteRecurrencesPass
from jax2onnx_graph.passes import make_names_unique
from jax2onnx_graph.traversal import walk
from jax2onnx_onnxruntime.loading import load
from jax2onnx_onnxruntime.runtime import OrtRuntime
from jax2onnx_onnxruntime.target import OnnxRuntime
from jax2onnx_runtime.accuracy import accuracy
from jax2onnx_runtime.quantization import Quantization, WeightMemory
from onnx_ir.passes.common import ShapeInferencePass

HEAD = '<ir_version: 10, opset_import: ["" : 20]>'
quantize = functools.partial(OrtRuntime().quantize, target=OnnxRuntime())
rng = np.random.default_rng(0)


def model(body: str, x: str = "float[N,32] x", y: str = "float[N,16] y", **weights: np.ndarray | float) -> ir.Model:
    made = ir.from_onnx_text(f"{HEAD} main ({x}) => ({y}) {{ {body} }}")
    return with_weights(made, {name: np.asarray(array, np.float32) for name, array in weights.items()})


def with_weights(made: ir.Model, weights: dict[str, np.ndarray]) -> ir.Model:
    values = {v.name: v for node in walk(made.graph) for v in node.inputs if v is not None}
    for name, array in weights.items():
        value = values[name]
        value.const_value = ir.Tensor(array, name=name)
        value.type, value.shape = ir.TensorType(value.const_value.dtype), ir.Shape(array.shape)
        made.graph.register_initializer(value)
    return ShapeInferencePass()(made).model


def normal(*shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype(np.float32)


def operators(quantised: ir.Model) -> Counter[str]:
    return Counter(node.op_type for node in walk(quantised.graph))


def snr(original: ir.Model, quantised: ir.Model, **feeds: np.ndarray) -> float:
    names = [value.name or "" for value in original.graph.outputs]
    return accuracy(names, [(load(original)(feeds), load(quantised)(feeds))]).worst.snr


def computed_in(quantised: ir.Model, op_type: str) -> ir.DataType | None:
    """The element type of the operator's first operand."""
    node = next(node for node in walk(quantised.graph) if node.op_type == op_type)
    return node.inputs[0].dtype


TIED = "e = Gather(table, i) y = Gemm<transB = 1>(e, table)"


@pytest.mark.parametrize("mode", ["int4", "int8", "dynamic_int8", "static_int8"])
def test_a_table_is_not_transposed_under_the_feet_of_a_gather(mode):
    table, i = normal(48, 32), np.array([3, 1], np.int64)
    original = model(TIED, "int64[N] i", "float[N,48] y", table=table)
    quantised = quantize(original, Quantization(mode, calibration=[{"i": i}] if mode == "static_int8" else None))
    gather = next(node for node in quantised.graph if node.op_type == "Gather")
    np.testing.assert_array_equal(gather.inputs[0].const_value.numpy(), table)
    assert not {"Gemm", "Transpose"} & set(operators(quantised))
    assert snr(original, quantised, i=i) > 15


def test_a_tied_table_in_half_precision_stays_one_table():
    original = model(TIED, "int64[N] i", "float[N,48] y", table=normal(48, 32))
    quantised = quantize(original, Quantization("float16"))
    assert [v.const_value.dtype.name for v in quantised.graph.initializers.values()] == ["FLOAT16"]


def test_biases_of_gemm_are_added():
    original = model("y = Gemm(x, w, b)", w=normal(32, 16), b=normal(16))
    quantised = quantize(original, Quantization("int8"))
    assert operators(quantised) == {"MatMulNBits": 1, "Add": 1}
    assert snr(original, quantised, x=normal(5, 32)) > 35


@pytest.mark.parametrize(
    ("gemm", "further"),
    [
        ("Gemm<alpha = 2.0>(h, v)", {"v": (16, 16)}),
        ("Gemm<beta = 2.0>(h, v, b)", {"v": (16, 16), "b": (16,)}),
        ("Gemm<transA = 1>(h, v)", {"v": (32, 16)}),
        ("Gemm(h, given)", {}),
        ("Gemm<transB = 1>(h, given)", {}),
    ],
)
def test_other_forms_of_gemm_stay(gemm, further):
    weights = {name: normal(*shape) for name, shape in further.items()}
    inputs = "float[32,32] x, float[16,16] given"
    original = model(f"h = MatMul(x, w) y = {gemm}", inputs, "float[M,16] y", w=normal(32, 16), **weights)
    quantised = quantize(original, Quantization("int8"))
    assert operators(quantised)["Gemm"] == 1
    assert snr(original, quantised, x=normal(32, 32), given=normal(16, 16)) > 30


@pytest.mark.parametrize("block_size", [16, 32, 64, 128, 256])
@pytest.mark.parametrize(("mode", "least"), [("int4", 13), ("int8", 35)])
def test_weights_may_be_in_blocks_of_any_size(mode, least, block_size):
    original = model("y = MatMul(x, w)", w=normal(32, 16))
    quantised = quantize(original, Quantization(mode, block_size))
    assert quantised.graph.node(0).attributes["block_size"].value == block_size
    assert snr(original, quantised, x=normal(5, 32)) > least


@pytest.mark.parametrize("mode", ["int4", "int8"])
@pytest.mark.parametrize(("shape", "sizes"), [("N", (16, 32)), ("2,N", (16, 5)), ("1", (1, 3))])
def test_products_of_one_activation_are_one_product(mode, shape, sizes):
    weights = dict(zip("wv", (normal(32, size) for size in sizes), strict=True))
    results = f"float[{shape},{sizes[0]}] y, float[{shape},{sizes[1]}] z"
    joined = quantize(
        model("y = MatMul(x, w) z = MatMul(x, v)", f"float[{shape},32] x", results, **weights), Quantization(mode)
    )
    assert operators(joined) == {"MatMulNBits": 1, "Split": 1}
    assert [value.name for value in joined.graph.outputs] == ["y", "z"]
    x = normal(*({"N": 5}.get(d) or int(d) for d in shape.split(",")), 32)
    for name, size, result in zip("wv", sizes, load(joined)({"x": x}), strict=True):
        alone = model("y = MatMul(x, w)", f"float[{shape},32] x", f"float[{shape},{size}] y", w=weights[name])
        np.testing.assert_allclose(result, load(quantize(alone, Quantization(mode)))({"x": x})[0], 1e-6, 1e-6)


def test_products_of_several_activations_and_those_left_out_are_not_joined():
    body = "h = MatMul(x, w) g = MatMul(x, v) r = Relu(g) z = MatMul(r, u) y = Add(h, z)"
    original = model(body, w=normal(32, 16), v=normal(32, 16), u=normal(16, 16))
    assert operators(quantize(original, Quantization("int4", exclude=["v"]))) == {
        "MatMulNBits": 2, "MatMul": 1, "Relu": 1, "Add": 1,
    }  # fmt: skip
    assert operators(quantize(original, Quantization("int4"))) == {"MatMulNBits": 2, "Split": 1, "Relu": 1, "Add": 1}


def test_a_weight_of_two_products_is_quantised_once():
    original = model("h = MatMul(x, w) r = Relu(h) y = MatMul(r, w)", y="float[N,32] y", w=normal(32, 32))
    quantised = quantize(original, Quantization("int4"))
    assert sorted(quantised.graph.initializers) == ["w.blocks", "w.scales", "w.zero_points"]
    assert snr(original, quantised, x=normal(5, 32)) > 10


def test_products_of_two_activations_are_left_to_float32():
    original = model(
        "t = Transpose(x) q = MatMul(x, t) y = MatMul(q, w)", "float[16,32] x", "float[16,16] y", w=normal(16, 16)
    )
    x = normal(16, 32)
    for mode in ("dynamic_int8", "static_int8"):
        quantised = quantize(original, Quantization(mode, calibration=[{"x": x}] if mode == "static_int8" else None))
        assert snr(original, quantised, x=x) > 25
        kept = [node for node in quantised.graph if node.op_type == "MatMul"]
        assert "x" in [value.name for node in kept for value in node.inputs]


def test_a_mask_constant_does_not_spoil_the_ranges_of_calibration():
    body = "h = MatMul(x, w) m = Less(h, zero) k = Where(m, low, h) s = Softmax(k) y = MatMul(s, v)"
    original = model(body, w=normal(32, 16), v=normal(16, 16), low=-3.4e38, zero=0.0)
    x = normal(7, 32)
    quantised = quantize(original, Quantization("static_int8", calibration=[{"x": x}]))
    assert snr(original, quantised, x=x) > 20


LSTM = "a, b, c = LSTM<hidden_size = 8>(x, w, r) y = Identity(b)"


@pytest.mark.parametrize("mode", ["dynamic_int8", "float16", "bfloat16"])
def test_a_recurrent_layer_loads_and_runs(mode):
    original = model(LSTM, "float[T,N,16] x", "float[1,N,8] y", w=normal(1, 32, 16) / 4, r=normal(1, 32, 8) / 3)
    quantised = quantize(original, Quantization(mode))
    assert snr(original, quantised, x=normal(5, 2, 16)) > 25
    if mode != "dynamic_int8":
        assert computed_in(quantised, "LSTM") == ir.DataType.FLOAT
        weights = [value for value in quantised.graph.initializers.values() if value.const_value.size > 1]
        assert [value.dtype.bitwidth for value in weights] == [16, 16]


@pytest.mark.parametrize(("direction", "count"), [("forward", 1), ("bidirectional", 2)])
def test_an_lstm_beside_a_branch_of_its_steps_is_in_integers_once(direction, count):
    body = f'a, b, c = LSTM<hidden_size = 8, direction = "{direction}">(x, w, r) y = Identity(b)'
    weights = {"w": normal(count, 32, 16) / 4, "r": normal(count, 32, 8) / 3}
    original = model(body, "float[T,N,16] x", f"float[{count},N,8] y", **weights)
    guarded = FiniteRecurrencesPass(OnnxRuntime())(original.clone()).model
    make_names_unique(guarded)
    quantised = quantize(guarded, Quantization("dynamic_int8"))
    assert operators(quantised)["DynamicQuantizeLSTM"] == 1
    assert [node.op_type for node in quantised.graph] == ["ReduceSumSquare", "Less", "If", "Identity"]
    large = [value for value in quantised.graph.initializers.values() if value.const_value.size > 100]
    assert [value.dtype for value in large] == 2 * [ir.DataType.INT8]
    x = normal(5, 2, 16)
    assert snr(original, quantised, x=x) > 25
    x[2, 1, 0] = np.nan  # the steps are computed, by the weights in integers
    plain, steps = (load(made)({"x": x})[0] for made in (original, quantised))
    np.testing.assert_array_equal(np.isnan(steps), [[[False] * 8, [True] * 8]] * count)
    np.testing.assert_allclose(steps[:, 0], plain[:, 0], atol=0.03)


@pytest.mark.parametrize(
    ("body", "op_type", "number"),
    [
        ("h = MatMul(x, w) y = Softmax(h)", "Softmax", None),
        ("h = MatMul(x, w) a = Abs(h) s = ReduceSum(a) y = Div(h, s)", "ReduceSum", None),
        ("h = MatMul(x, w) y = Add(h, e)", "Add", 1e-12),
        ("h = MatMul(x, w) y = Max(h, e)", "Max", -3e38),
        ("h = MatMul(x, w) s = Softmax(h) t = Transpose(s) y = Transpose(t)", "Transpose", None),
        ("h = MatMul(x, w) k = Shape<start = 0, end = 1>(x) p = Squeeze(k) f = Cast<to = 1>(p) c = Cos(f) y = Mul(h, c)",
         "Cos", None),
    ],
)  # fmt: skip
def test_half_precision_is_left_where_it_loses_too_much(body, op_type, number):
    original = model(body, w=normal(32, 16), **({} if number is None else {"e": number}))
    quantised = quantize(original, Quantization("float16"))
    assert computed_in(quantised, op_type) == ir.DataType.FLOAT
    assert snr(original, quantised, x=normal(3, 32)) > 45
    assert quantised.graph.inputs[0].dtype == quantised.graph.outputs[0].dtype == ir.DataType.FLOAT


def test_outputs_that_are_cast_keep_the_labels_of_fixed_dimensions():
    original = model("h = MatMul(x, w) y = Tanh(h)", x="float[4,32] x", y="float[4,16] y", w=normal(32, 16))
    original.graph.outputs[0].metadata_props["jax2onnx.dims"] = "B, 16"
    quantised = quantize(original, Quantization("float16"))
    assert quantised.graph.outputs[0].metadata_props["jax2onnx.dims"] == "B, 16"


@pytest.mark.parametrize(
    ("body", "op_type", "number"),
    [
        ("h = MatMul(x, w) y = Relu(h)", "Relu", None),
        ("h = MatMul(x, w) y = Transpose(h)", "Transpose", None),
        ("t = Transpose(x) u = Transpose(t) y = MatMul(u, w)", "MatMul", None),
        ("h = MatMul(x, w) y = Add(h, e)", "Add", 1e-3),
        ("h = MatMul(x, w) y = Max(h, e)", "Max", -6e4),
        ("h = MatMul(x, w) s = Softmax(h) y = Mul(h, s)", "Mul", None),
    ],
)
def test_what_is_no_trouble_is_computed_in_half_precision(body, op_type, number):
    y = "float[16,N] y" if body.endswith("Transpose(h)") else "float[N,16] y"
    numbers = {} if number is None else {"e": number}
    quantised = quantize(model(body, y=y, w=normal(32, 16), **numbers), Quantization("float16"))
    assert computed_in(quantised, op_type) == ir.DataType.FLOAT16


@pytest.mark.parametrize("mode", ["float16", "bfloat16", "int8", "dynamic_int8"])
def test_bodies_of_loops_and_branches_are_quantised(mode):
    text = f"""{HEAD} main (float[N,32] x, int64[K,1] xs, bool c) => (float[N,32] y, float[N,32] z) {{
      y, ys = Scan<num_scan_inputs = 1, body = step (float[N,32] h, int64[1] i) => (float[N,32] g, int64[1] j) {{
        p = MatMul(h, w) g = Tanh(p) j = Identity(i) }}>(x, xs)
      z = If<then_branch = yes () => (float[N,32] a) {{ a = MatMul(x, v) }},
             else_branch = no () => (float[N,32] b) {{ b = Softmax(x) }}>(c)
    }}"""
    original = with_weights(ir.from_onnx_text(text), {"w": normal(32, 32) / 5, "v": normal(32, 32)})
    quantised = quantize(original, Quantization(mode))
    feeds = {"x": normal(3, 32), "xs": np.zeros((4, 1), np.int64), "c": np.array(True)}
    assert snr(original, quantised, **feeds) > 25
    assert snr(original, quantised, **{**feeds, "c": np.array(False)}) > 25


@pytest.mark.parametrize("mode", ["int4", "int8"])
def test_weights_of_branches_with_one_name_stay_apart(mode):
    branches = """then_branch = yes () => (float[N,32] a) { a = MatMul(x, v) }, else_branch = no () => (float[N,32] b) { b = MatMul(x, w) }"""
    original = ir.from_onnx_text(f"{HEAD} main (float[N,32] x, bool c) => (float[N,32] y) {{ y = If<{branches}>(c) }}")
    for attribute in original.graph.node(0).attributes.values():
        body = attribute.as_graph()
        weight = ir.Value(name="w", const_value=ir.Tensor(normal(32, 32), name="w"))
        weight.type, weight.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([32, 32])
        body.register_initializer(weight)
        body.node(0).replace_input_with(1, weight)
    quantised = quantize(original, Quantization(mode))
    for chosen in (True, False):
        assert snr(original, quantised, x=normal(3, 32), c=np.array(chosen)) > 15


def test_a_constant_of_numbers_that_all_vanish_stays_in_float32():
    original = model("h = MatMul(x, w) s = Abs(h) d = Add(s, e) y = Div(h, d)", w=normal(32, 16), e=np.full(16, 1e-9))
    (got,) = load(quantize(original, Quantization("float16")))({"x": np.zeros((2, 32), np.float32)})
    np.testing.assert_array_equal(got, 0)


def test_functions_are_inlined():
    text = f"""{HEAD.replace('""', '"own" : 1, ""')} main (float[N,32] x) => (float[N,16] y) {{ y = own.twice(x, w) }}
    <domain: "own", opset_import: ["" : 20]> twice (a, b) => (c) {{ d = MatMul(a, b) c = Add(d, d) }}"""
    original = with_weights(ir.from_onnx_text(text), {"w": normal(32, 16)})
    for mode in ("int4", "float16"):
        quantised = quantize(original, Quantization(mode))
        assert not quantised.functions
        assert snr(original, quantised, x=normal(3, 32)) > 15


@pytest.mark.parametrize("pattern", ["up.kernel", "blocks.0.*", "blocks.0", "m?", "*.kernel*"])
def test_patterns_name_nodes_weights_and_modules(pattern):
    original = model("h = MatMul(x, a) y = MatMul(h, b)", a=normal(32, 32), b=normal(32, 16))
    first, second = original.graph
    first.name, second.name = "m1", "last"
    first.inputs[1].name, second.inputs[1].name = "blocks.0.up.kernel", "blocks.1.up.bias"
    if pattern == "up.kernel":
        with pytest.raises(OptionError, match=r"it has the weights blocks\.0\.up\.kernel, blocks\.1\.up\.bias"):
            quantize(original, Quantization("int8", exclude=[pattern]))
    else:
        quantised = quantize(original, Quantization("int8", exclude=[pattern]))
        assert [node.op_type for node in quantised.graph] == ["MatMul", "MatMulNBits"]


def test_the_original_stays_as_it_was_and_metadata_are_kept():
    original = model("y = Gemm(x, w)", w=normal(32, 16))
    original.metadata_props["mine"] = "1"
    before = ir.to_proto(original)
    for mode in ("int4", "dynamic_int8", "float16"):
        assert dict(quantize(original, Quantization(mode)).metadata_props) == {"mine": "1"}
    assert ir.to_proto(original) == before


def test_the_root_logger_stays_as_the_application_left_it():
    before = list(logging.getLogger().handlers), logging.getLogger().level
    quantize(model("y = MatMul(x, w)", w=normal(32, 16)), Quantization("int4"))
    assert (logging.getLogger().handlers, logging.getLogger().level) == before


WIDE = "float[N,64] x"


@pytest.mark.parametrize("mode", ["int4", "int8"])
def test_a_weight_of_two_models_is_quantised_once_for_both(mode):
    memory, w = WeightMemory(), normal(64, 16)
    first, second = (
        quantize(model(f"h = MatMul(x, w) y = {op}(h)", x=WIDE, w=w.copy()), Quantization(mode, memory=memory))
        for op in ("Tanh", "Exp")
    )
    blocks = [graph.initializers["w.blocks"].const_value for graph in (first.graph, second.graph)]
    assert blocks[0] is blocks[1]
    other = quantize(model("y = MatMul(x, w)", x=WIDE, w=-w), Quantization(mode, memory=memory))
    assert not np.array_equal(other.graph.initializers["w.blocks"].const_value.numpy(), blocks[0].numpy())
    coarse = quantize(model("y = MatMul(x, w)", x=WIDE, w=w), Quantization(mode, block_size=64, memory=memory))
    assert coarse.graph.initializers["w.scales"].shape != first.graph.initializers["w.scales"].shape


@pytest.mark.parametrize(("size", "dtype"), [(1.0, ir.DataType.FLOAT16), (1e-5, ir.DataType.FLOAT)])
def test_products_with_blocks_are_half_unless_a_scale_loses_digits(size, dtype):
    original = quantize(model("h = MatMul(x, w) y = Relu(h)", x=WIDE, w=normal(64, 16) * size), Quantization("int4"))
    quantised = quantize(original, Quantization("float16"))
    (product,) = (node for node in quantised.graph if node.op_type == "MatMulNBits")
    assert product.inputs[0].dtype == product.inputs[2].dtype == dtype
    assert snr(original, quantised, x=normal(3, 64)) > 40


BITS = ["int4", "int8", "int4_qdq", "float8", "dynamic_int8", "static_int8"]


def with_two_weights(number: float) -> tuple[ir.Model, np.ndarray]:
    """A model whose weight `broken` has such a number in it, and an argument."""
    broken = normal(32, 16)
    broken[3, 2] = number
    return model(
        "a = MatMul(x, broken) b = MatMul(x, whole) y = Add(a, b)", broken=broken, whole=normal(32, 16)
    ), normal(4, 32)


@pytest.mark.parametrize("mode", BITS)
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_refused(mode, number):
    original, x = with_two_weights(number)
    with pytest.raises(OptionError, match=r"There is NaN or infinity in broken, which .*exclude=\['broken'\]"):
        quantize(original, Quantization(mode, calibration=[{"x": x}] if mode == "static_int8" else None))


@pytest.mark.parametrize("mode", [mode for mode in BITS if mode != "static_int8"])
def test_weights_that_are_left_out_may_be_infinite(mode):
    original, x = with_two_weights(np.inf)
    quantised = quantize(original, Quantization(mode, exclude=["broken"]))
    assert not np.isfinite(load(quantised)({"x": x})[0][:, 2]).any()


@pytest.mark.parametrize("mode", ["float16", "bfloat16"])
def test_half_precision_keeps_infinities(mode):
    original, x = with_two_weights(np.inf)
    assert not np.isfinite(load(quantize(original, Quantization(mode)))({"x": x})[0][:, 2]).any()
