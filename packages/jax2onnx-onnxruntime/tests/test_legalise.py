"""The legalisation pass: graphs before and after, as text."""

from __future__ import annotations

import re

import onnx
import onnx_ir as ir
import pytest
from jax2onnx_graph.legalise._carriers import find_carrier
from jax2onnx_onnxruntime import LegalisePass
from jax2onnx_onnxruntime._kernels import NEWEST, measured_versions, table

#: A version whose kernels compute maxima of large int64 wrongly.
LOSSY = measured_versions()["1.31"]


def legalised(body: str, opset: int = 23, version: str = NEWEST) -> str:
    """The nodes of the legalised graph, one per line, without node names and attribute types."""
    text = f'<ir_version: 10, opset_import: ["" : {opset}]>\n{body}'
    proto = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text))
    model = LegalisePass(version=version)(ir.from_proto(proto)).model
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    lines = ir.to_onnx_text(model).splitlines()
    nodes = [re.sub(r"^\[.*?\] ", "", line.strip()).replace(": int = ", "=") for line in lines]
    return "\n".join(line for line in nodes if " = " in line and "(" in line)


def test_a_model_that_runs_as_it_is_stays_as_it_is():
    model = ir.from_onnx_text('<ir_version: 10, opset_import: ["" : 23]> g (float[N] x) => (float[N] y) { y = Exp(x) }')
    assert not LegalisePass()(model).modified


def test_an_operator_without_a_bfloat16_kernel_runs_in_float32():
    assert legalised("g (bfloat16[N] x) => (bfloat16[N] y) { y = Exp(x) }").split("\n") == [
        "x_f32 = Cast <to=1> (x)",
        "y_f32 = Exp (x_f32)",
        "y = Cast <to=16> (y_f32)",
    ]


def test_results_of_different_primitives_are_rounded_between():
    assert legalised("g (bfloat16[N] x) => (bfloat16[N] z) { y = Exp(x) z = Log(y) }").split("\n") == [
        "x_f32 = Cast <to=1> (x)",
        "y_f32 = Exp (x_f32)",
        "y = Cast <to=16> (y_f32)",
        "y_f32_1 = Cast <to=1> (y)",
        "z_f32 = Log (y_f32_1)",
        "z = Cast <to=16> (z_f32)",
    ]


def test_movement_and_order_of_values_are_not_rounded_between():
    body = """g (bfloat16[N] x, int64[2] s) => (bfloat16[M,N] z) { y = Max(x, x) w = Expand(y, s) z = Min(w, x) }"""
    assert legalised(body).split("\n") == [
        "x_f32 = Cast <to=1> (x)",
        "y_f32 = Max (x_f32, x_f32)",
        "w_f32 = Expand (y_f32, s)",
        "z_f32 = Min (w_f32, x_f32)",
        "z = Cast <to=16> (z_f32)",
    ]


def test_what_is_compared_is_rounded_on_both_sides():
    body = "g (float16[N] x, float16[N] t) => (bool[N] z) { y = Exp(x) z = Less(y, t) }"
    assert legalised(body).split("\n") == [
        "x_f32 = Cast <to=1> (x)",
        "t_f32 = Cast <to=1> (t)",
        "y_f32 = Exp (x_f32)",
        "y = Cast <to=10> (y_f32)",
        "y_f32_1 = Cast <to=1> (y)",
        "z = Less (y_f32_1, t_f32)",
    ]


@pytest.mark.parametrize("made", ["Cast<to=10>(w)", "Slice(x, s, s)"])
def test_a_comparison_of_what_is_rounded_stays_as_it_is(made):
    body = f"g (float[N] w, float16[N] x, int64[1] s) => (bool[N] z) {{ y = {made} z = Less(y, x) }}"
    assert "Less (y, x)" in legalised(body)


def test_integer_sums_wrap_around_once_at_the_end():
    body = "g (uint64[N,M] x, int64 i) => (uint64[N,M] z) { y = CumSum(x, i) z = CumSum(y, i) }"
    assert legalised(body).split("\n") == [
        "x_i64 = Cast <to=7> (x)",
        "y_i64 = CumSum (x_i64, i)",
        "z_i64 = CumSum (y_i64, i)",
        "z = Cast <to=13> (z_i64)",
    ]


def test_integers_are_summed_where_the_float64_accumulator_of_the_kernel_is_exact():
    body = "g (int32[N,M] x) => (int32[N] z) <int64[1] a = {1}> { z = ReduceSum<keepdims=0>(x, a) }"
    assert [line.split(" = ")[1].split(" ")[0] for line in legalised(body).split("\n")] == ["Cast", "ReduceSum", "Cast"]


def test_counts_are_summed_by_the_kernel_as_they_are():
    body = "g (bool[N] x) => (int32 z) { y = Cast<to=6>(x) z = ReduceSum<keepdims=0>(y) }"
    assert legalised(body).split("\n") == ["y = Cast <to=6> (x)", "z = ReduceSum <keepdims=0> (y)"]


def test_large_int64_maxima_avoid_the_kernel():
    body = "g (int64[N] x, int64[N] y) => (int64[N] z) { z = Max(x, y) }"
    assert [line.split(" = ")[1].split(" ")[0] for line in legalised(body, version=LOSSY).split("\n")] == [
        "Less",
        "Where",
    ]


def test_maxima_of_sizes_and_widened_indices_use_the_kernel():
    body = """g (int32[N] i, float[K] x) => (int64[N] z) <int64 o = {0}> {
      n = Shape(x) w = Cast<to=7>(i) a = Max(w, o) b = Sub(n, o) z = Min(a, b) }"""
    assert legalised(body).count("Max") == 1
    assert "Less" not in legalised(body)


def test_a_comparison_of_a_wrapped_sum_sees_the_wrapped_value():
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["" : 23]> g (int16[N,M] x, int64 i) => (int16[N,M] z) '
        "{ y = CumSum(x, i) z = Max(y, x) }"
    )
    for node in model.graph:
        node.outputs[0].type = ir.TensorType(ir.DataType.INT16)
    LegalisePass()(model)
    assert [node.op_type for node in model.graph] == ["Cast", "CumSum", "Cast", "Cast", "Max", "Cast"]


def test_uint64_order_is_kept_by_inverting_the_sign_bit():
    body = "g (uint64[N] x) => (int64 y) { y = ArgMax<keepdims=0>(x) }"
    operators = [line.split(" = ")[1].split(" ")[0] for line in legalised(body).split("\n")]
    assert operators == ["Cast", "BitwiseXor", "ArgMax"]


def test_uint64_moves_through_int64():
    assert legalised("g (bool[N] p, uint64[N] x, uint64[N] y) => (uint64[N] z) { z = Where(p, x, y) }").split("\n") == [
        "x_i64 = Cast <to=7> (x)",
        "y_i64 = Cast <to=7> (y)",
        "z_i64 = Where (p, x_i64, y_i64)",
        "z = Cast <to=13> (z_i64)",
    ]


def test_booleans_move_through_bytes():
    text = legalised("g (bool[N] p, bool[N] x, bool[N] y) => (bool[N] z) { z = Where(p, x, y) }")
    assert text.split("\n")[2] == "z_u8 = Where (p, x_u8, y_u8)"


def test_a_small_constant_is_converted_and_its_old_form_dropped():
    body = "g (int16[N] x) => (int16[N] y) <int16 c = {7}> { y = Max(x, c) }"
    assert legalised(body).split("\n") == [
        "x_i32 = Cast <to=6> (x)",
        'y_i32 = Max (x_i32, "c.i32")',
        "y = Cast <to=5> (y_i32)",
    ]


def test_a_large_weight_stays_narrow_in_the_file():
    values = ", ".join("16256" for _ in range(100))  # the bits of 1.0
    body = f"g (bfloat16[N] x) => (bfloat16[N] y) <bfloat16[100] w = {{{values}}}> {{ y = Mul(x, w) }}"
    assert "w_f32 = Cast <to=1> (w)" in legalised(body)


def test_a_cast_there_and_back_through_a_wider_type_is_nothing():
    body = "g (float[N] x) => (float[N] y) { a = Cast<to=11>(x) b = Cast<to=1>(a) y = Neg(b) }"
    assert "y = Neg (x)" in legalised(body)


def test_a_cast_that_rounds_stays():
    body = "g (float[N] x) => (float[N] y) { a = Cast<to=10>(x) b = Cast<to=1>(a) y = Neg(b) }"
    assert legalised(body).count("Cast") == 2


def test_a_cast_of_a_legalised_result_reads_the_carrier():
    body = "g (bfloat16[N] x) => (int32[N] z) { y = Max(x, x) z = Cast<to=6>(y) }"
    assert legalised(body).split("\n") == [
        "x_f32 = Cast <to=1> (x)",
        "y_f32 = Max (x_f32, x_f32)",
        "z = Cast <to=6> (y_f32)",
    ]


def test_values_captured_by_a_subgraph_are_cast_once_outside():
    body = """g (bool p, bfloat16[N] x) => (bfloat16[N] y) {
      y = If (p) <then_branch = t () => (bfloat16[N] a) { a = Exp(x) }, else_branch = e () => (bfloat16[N] b) { b = Neg(x) }>
    }"""
    text = legalised(body)
    assert text.count("Cast <to=1> (x)") == 1
    assert "a_f32 = Exp (x_f32)" in text


def test_functions_are_legalised():
    text = """<ir_version: 10, opset_import: ["" : 23, "my" : 1]>
    g (bfloat16[N] x) => (bfloat16[N] y) { y = my.f(x) }
    <domain: "my", opset_import: ["" : 23]> f (a) => (b) { b = Exp(a) }"""
    model = ir.from_onnx_text(text)
    (function,) = model.functions.values()
    for value in (function.inputs[0], function[0].outputs[0]):
        value.type = ir.TensorType(ir.DataType.BFLOAT16)
    LegalisePass()(model)
    assert [node.op_type for node in function] == ["Cast", "Exp", "Cast"]


def test_results_of_a_fixed_type_are_not_cast_back():
    body = "g (bfloat16[N] x) => (bool[N] z) { z = Less(x, x) }"
    assert legalised(body).split("\n")[1:] == ["z = Less (x_f32, x_f32)"]


def test_an_index_type_that_the_operator_does_not_take_is_widened():
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["" : 23]> g (float[N] x, uint32[M] i) => (float[M] y) { y = Gather(x, i) }'
    )
    LegalisePass()(model)
    assert [node.op_type for node in model.graph] == ["Cast", "Gather"]


@pytest.mark.parametrize("count", [10, 200])
def test_each_value_is_cast_once(count):
    uses = " ".join(f"a{i} = Max(x, x)" for i in range(count))
    body = f"g (bfloat16[N] x) => ({', '.join(f'bfloat16[N] a{i}' for i in range(count))}) {{ {uses} }}"
    assert legalised(body).count("(x)") == 1


def test_what_has_no_exact_carrier_is_left_alone():
    body = "g (double[N] x) => (double[N] y) { y = Erf(x) }"
    assert legalised(body) == "y = Erf (x)"


def test_sums_that_a_scatter_makes_are_not_taken_for_small():
    body = """g (int32[2] x) => (int64[1] y) <int64[2,1] i = {0, 0}> {
      a = Cast<to=7>(x) b = ScatterND<reduction="add">(a, i, a) y = ReduceMax(b) }"""
    assert "ReduceMax" not in legalised(body, version=LOSSY)
    assert "ReduceMax" in legalised(body.replace('<reduction="add">', ""), version=LOSSY)


@pytest.mark.parametrize(
    ("size", "is_small"),
    [
        ("Sub(n, one)", True),
        ("Mul(n, four)", True),
        ("Div(n, four)", True),
        ("Add(n, large)", False),
        ("Mul(n, large)", False),
        ("Mul(n, n)", False),
        ("Add(n, half)", False),
        ("Neg(large)", False),
    ],
)
def test_arithmetic_on_sizes_is_as_large_as_its_numbers(size, is_small):
    constants = (
        "int64[1] one = {1}, int64[1] four = {4}, int64[1] half = {2147483647}, int64[1] large = {1099511627776}"
    )
    body = f"g (float[N] x) => (int64[1] y) <{constants}> {{ n = Shape(x) s = {size} y = Max(s, one) }}"
    assert ("Max" in legalised(body, version=LOSSY)) is is_small


def test_a_cast_to_a_narrower_type_bounds_a_number_again():
    body = """g (int64[N] x) => (int64[N] y) <int64[1] one = {1}> {
      a = Cast<to=6>(x) b = Cast<to=7>(a) y = Max(b, one) }"""
    assert "Max" in legalised(body)


@pytest.mark.parametrize("element", [2**40, 2**61])
def test_sums_of_large_constants_do_not_go_through_floats(element):
    body = f"""g (float[N] x) => (int64 y) <int64[1] large = {{{element}}}> {{
      n = Shape(x) s = Add(n, large) y = ReduceSum<keepdims=0>(s) }}"""
    assert "ReduceSum (s)" not in legalised(body)


def test_positions_of_the_largest_elements_are_small():
    body = "g (float[3,8] x) => (int64[1,1] y) <int64[1] k = {2}> { v, i = TopK(x, k) y = ReduceMax(i) }"
    assert "ReduceMax" in legalised(body)


def test_a_type_that_cannot_be_cast_has_no_carrier():
    assert find_carrier(table(), "Add", "T", ir.DataType.BFLOAT16, 23) is not None
    assert find_carrier(table(), "Add", "T", ir.DataType.FLOAT4E2M1, 23) is None


def test_a_rewrite_of_the_first_node_reads_casts_of_inputs_that_come_before_it():
    """`legalised` checks that the nodes are in an order in which they can run."""
    body = "g (uint64[B,7] x) => (uint64[B] y) <int64[1] a = {1}> { y = ReduceMax<keepdims = 0>(x, a) }"
    assert "ArgMax <axis=1, keepdims=1> (x_i64_flipped)" in legalised(body)
