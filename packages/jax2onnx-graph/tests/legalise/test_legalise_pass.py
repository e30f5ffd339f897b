"""The legalisation pass, for a runtime with few kernels: graphs before and after, as text."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest
from jax2onnx_graph.legalise.kernels import KernelTable
from jax2onnx_graph.legalise.legalisation import Legalisation
from jax2onnx_graph.legalise.legalise_pass import LegalisePass
from jax2onnx_graph.targets import standard_target
from jax2onnx_testing.pass_fixtures import node_lines

CASTS = "f8e5m2 f32 f16 f64 bf16 i8 i16 i32 i64 u8 u32 u64 b8"
#: The element types of the first operand with which the runtime computes an operator.
TYPES = {
    "ArgMax": "f32 i64", "BitwiseXor": "i64 u64", "CumSum": "f32 i32 i64", "Erf": "f32", "Exp": "f32 f16", "Expand": "f32 i64",
    "Less": "f32 f16 i32 i64", "Equal": "f32 f16", "Abs": "f32 f16", "ConstantOfShape": "f32 i64", "Log": "f32", "Max": "f32 i32 i64", "Min": "f32 i64", "Mul": "f32", "Neg": "f32", "Where": "f32 u8 i64",
}  # fmt: skip
TABLE = KernelTable({
    "Cast": {"13": {"T1": CASTS, "T2": CASTS}},
    "Gather": {"13": {"T": "f32", "Tind": "i32 i64"}},
    **{operator: {"7": {"T": types, "T1": types, "T2": types}} for operator, types in TYPES.items()},
})  # fmt: skip
PASS = LegalisePass(standard_target, Legalisation(TABLE, held_wider=frozenset({ir.DataType.FLOAT16})))


def legalised(body: str) -> str:
    """The nodes of the legalised graph, see `node_lines`."""
    return node_lines(PASS, body)


def test_a_model_that_runs_as_it_is_stays_as_it_is():
    model = ir.from_onnx_text('<ir_version: 10, opset_import: ["" : 23]> g (float[N] x) => (float[N] y) { y = Exp(x) }')
    assert not PASS(model).modified


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


def test_a_comparison_of_a_wrapped_sum_sees_the_wrapped_value():
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["" : 23]> g (int16[N,M] x, int64 i) => (int16[N,M] z) '
        "{ y = CumSum(x, i) z = Max(y, x) }"
    )
    for node in model.graph:
        node.outputs[0].type = ir.TensorType(ir.DataType.INT16)
    PASS(model)
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


@pytest.mark.parametrize(("size", "is_cast"), [(64, False), (65, True)])
def test_a_large_weight_stays_narrow_in_the_file(size, is_cast):
    values = ", ".join("16256" for _ in range(size))  # the bits of 1.0
    body = f"g (bfloat16[N] x) => (bfloat16[N] y) <bfloat16[{size}] w = {{{values}}}> {{ y = Mul(x, w) }}"
    assert ("w_f32 = Cast <to=1> (w)" in legalised(body)) == is_cast


@pytest.mark.parametrize(
    ("results", "more", "left"),
    [("", "", {"c.i32"}), (", int16 d", "d = Identity(c)", {"c", "c.i32"}), (", int16 c", "", {"c", "c.i32"})],
)
def test_a_constant_stays_where_something_else_reads_it(results, more, left):
    text = f"g (int16[N] x) => (int16[N] y{results}) <int16 c = {{7}}> {{ y = Max(x, c) {more} }}"
    model = ir.from_proto(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 23]> {text}'))
    PASS(model)
    assert set(model.graph.initializers) == left


def test_a_constant_that_callers_may_replace_is_cast():
    body = "g (int16[N] x, int16 c) => (int16[N] y) <int16 c = {7}> { y = Max(x, c) }"
    assert "c_i32 = Cast <to=6> (c)" in legalised(body)


def test_operators_of_other_domains_stay():
    text = '<ir_version: 10, opset_import: ["" : 23, "other" : 1]> g (bfloat16[N] x) => (bfloat16[N] y) { y = other.Exp(x) }'
    assert not PASS(ir.from_onnx_text(text)).modified


def test_a_fill_is_converted_with_its_result():
    body = "g (int64[1] s) => (bfloat16[N] y) { y = ConstantOfShape<value = bfloat16[1] {16256}>(s) }"
    model = ir.from_proto(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 23]> {body}'))
    PASS(model)
    fill, back = model.graph
    assert fill.attributes["value"].as_tensor().dtype == fill.outputs[0].dtype == ir.DataType.FLOAT
    assert fill.attributes["value"].as_tensor().numpy().tolist() == [1.0]
    assert (back.op_type, back.outputs[0].name) == ("Cast", "y")


def test_float8_keeps_its_infinities():
    text = legalised("g (float8e5m2[N] x) => (float8e5m2[N] y) { y = Max(x, x) }")
    assert text.split("\n")[-1] == "y = Cast <to=19, saturate=0> (y_f32)"


@pytest.mark.parametrize(
    ("body", "is_rounded"),
    [
        ("y = Abs(t) z = Less(y, x)", False),
        ("y = Exp(t) u = Abs(y) z = Less(u, x)", True),
        ("y = Exp(t) u = Cast<to = 1>(y) z = Less(u, w)", True),
        ("y = Exp(w) z = Less(y, w)", False),
        ("y = Exp(t) z = Equal(x, y)", True),
        ("y = Exp(t) u = Abs(y) b = Cast<to = 9>(u) z = Not(b)", True),
        ("u = Abs(t) b = Cast<to = 9>(u) z = Not(b)", False),
        ("y = Exp(t) u = Floor(y) v = Exp(u) z = IsNaN(v)", True),
        ("y = Exp(t) u = Cast<to = 11>(y) v = Clip(u) i = Cast<to = 6>(v) z = Cast<to = 9>(i)", True),
        ("y = Exp(t) u = Cast<to = 11>(y) v = Exp(u) z = IsNaN(v)", False),
    ],
)
def test_what_a_step_reads_is_rounded_where_it_may_be_wider(body, is_rounded):
    text = f'<ir_version: 10, opset_import: ["" : 23]> g (float16[2] x, float16[2] t, float[2] w) => (bool[2] z) {{ {body} }}'
    model = ir.from_proto(onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text)))
    PASS(model)
    half = [node for node in model.graph if node.op_type == "Cast" and node.outputs[0].dtype == ir.DataType.FLOAT16]
    assert bool(half) == is_rounded


def test_the_result_of_a_wide_cast_is_no_other_name_of_its_operand_where_the_graph_gives_it():
    body = "g (float[N] x) => (float[N] b) { a = Cast<to=11>(x) b = Cast<to=1>(a) }"
    assert legalised(body).split("\n")[-1].startswith("b = Cast <to=1>")


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
    PASS(model)
    assert [node.op_type for node in function] == ["Cast", "Exp", "Cast"]


def test_results_of_a_fixed_type_are_not_cast_back():
    body = "g (bfloat16[N] x) => (bool[N] z) { z = Less(x, x) }"
    assert legalised(body).split("\n")[1:] == ["z = Less (x_f32, x_f32)"]


def test_an_index_type_that_the_operator_does_not_take_is_widened():
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["" : 23]> g (float[N] x, uint32[M] i) => (float[M] y) { y = Gather(x, i) }'
    )
    PASS(model)
    assert [node.op_type for node in model.graph] == ["Cast", "Gather"]


@pytest.mark.parametrize("count", [10, 200])
def test_each_value_is_cast_once(count):
    uses = " ".join(f"a{i} = Max(x, x)" for i in range(count))
    body = f"g (bfloat16[N] x) => ({', '.join(f'bfloat16[N] a{i}' for i in range(count))}) {{ {uses} }}"
    assert legalised(body).count("(x)") == 1


def test_what_has_no_exact_carrier_is_left_alone():
    body = "g (double[N] x) => (double[N] y) { y = Erf(x) }"
    assert legalised(body) == "y = Erf (x)"
