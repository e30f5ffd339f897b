"""What tables of measurements say: of kernels, of what they keep, and of operators that run after legalisation."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.legalise.guarantees import GuaranteeTable, concerns
from jax2onnx_graph.legalise.kernels import KernelTable, bindings, operator_key, signature
from jax2onnx_graph.legalise.legalisation import Legalisation

T = ir.DataType
CASTS = {"Cast": {"18": {"T1": "f32 f16 bf16 i8 i32 i64", "T2": "f32 f16 bf16 i32 i64"}}}
KERNELS = KernelTable({
    **CASTS, "Max": {"18": {"T": "f32 i64"}, "21": {"T": "f32"}}, "Exp": {"18": {"T": "f32"}}, "MatMul": {"18": {"T": "f32"}},
    "Gather": {"18": {"T": "f32", "Tind": "i64"}}, "Nonsense": {"18": {"T": "f32"}}, "Less": {"18": {"T": "f32"}},
})  # fmt: skip


# -- kernels --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "variable", "opset", "expected"),
    [
        ("Max", "T", 18, {T.FLOAT, T.INT64}), ("Max", "T", 20, {T.FLOAT, T.INT64}), ("Max", "T", 21, {T.FLOAT}), ("Max", "T", 23, {T.FLOAT}),
        ("Max", "T", 17, None), ("Max", "T2", 18, None), ("Min", "T", 18, None), ("Nonsense", "T", 18, None),
    ],
)  # fmt: skip
def test_a_measurement_holds_from_its_opset_on(key, variable, opset, expected):
    assert KERNELS.types(key, variable, opset) == expected
    assert KERNELS.types(key, variable, opset) == expected, "the second answer is the first"


def test_what_was_measured_is_told_from_what_was_not():
    assert KERNELS.has("Max")
    assert not KERNELS.has("Min")


def node_of(body: str) -> ir.Node:
    head = '<ir_version: 10, opset_import: ["" : 23, "other" : 1]> g (double[N] x, int32[N] i) => (y)'
    return ir.from_onnx_text(f"{head} {{ {body} }}").graph[0]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Exp(x)", [T.DOUBLE]), ("y = Gather(x, i)", [T.DOUBLE, T.INT32]), ("y = Less(x, x)", [T.DOUBLE]), ("y = Neg(x)", []),
        ("y = other.Exp(x)", []), ("y = Nonsense(x)", []),
    ],
)  # fmt: skip
def test_the_types_that_a_node_lacks_kernels_for(body, expected):
    assert list(KERNELS.lacks(node_of(body), 23)) == expected


def test_an_element_type_with_a_kernel_is_not_lacking():
    node = node_of("y = Exp(x)")
    node.inputs[0].dtype = T.FLOAT
    assert not list(KERNELS.lacks(node, 23))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Exp(x)", "Exp"), ('y = ScatterND<reduction = "add">(x, i, x)', "ScatterND_add"), ("y = ScatterND(x, i, x)", "ScatterND"),
        ('y = ScatterND<reduction = "none">(x, i, x)', "ScatterND"), ('y = Exp<reduction = "add">(x)', "Exp"),
    ],
)  # fmt: skip
def test_a_reduction_is_part_of_the_name(body, expected):
    assert operator_key(node_of(body)) == expected


def test_a_signature_names_the_type_of_every_operand_and_result():
    found = signature("Concat", 23)
    assert found is not None
    assert (found.input(0), found.input(5), found.output(0)) == ("T", "T", "T")
    split = signature("TopK", 23)
    assert split is not None
    assert [split.input(0), split.input(1), split.output(0), split.output(1)] == ["T", "tensor(int64)", "T", "I"]
    assert split.floating == {"T"}
    fill = signature("ConstantOfShape", 23)
    assert fill is not None
    assert fill.main == "T2"
    drawn = signature("RandomNormal", 23)
    assert drawn is not None
    assert drawn.main == "T"
    assert signature("Nonsense", 23) is None


def test_types_come_from_operands_then_from_results():
    found = signature("Less", 23)
    assert found is not None
    node = node_of("y = Less(x, x)")
    assert bindings(node, found) == {"T": T.DOUBLE}
    node.outputs[0].dtype = T.BOOL
    assert bindings(node, found) == {"T": T.DOUBLE, "T1": T.BOOL}
    node.inputs[0].type = None
    assert bindings(node, found) == {"T1": T.BOOL}


# -- what is kept ---------------------------------------------------------------------------

GUARANTEES = GuaranteeTable(
    {
        "Max": {"nan": {"kept": "f32", "lost": "f64"}, "order": {"kept": "f32", "lost": "f64"}, "empty": {"lost": "f32 i64"}},
        "Exp": {"nan": {"kept": "f32"}, "order": {"kept": "f32"}},
        "Less": {"nan": {"lost": "f32"}},
        "Mul": {"wraps": {"lost": "i64"}},
    },
    KERNELS,
    23,
)  # fmt: skip


@pytest.mark.parametrize(
    ("operator", "dtype", "kept", "expected"),
    [
        ("Max", np.float32, "nan", True), ("Max", np.float64, "nan", False), ("Max", np.int64, "nan", True), ("Min", np.float64, "nan", True),
        ("Max", np.float32, "order", False), ("Exp", np.float64, "order", True), ("Max", np.int64, "empty", False),
        ("Exp", np.float16, "nan", True), ("Less", np.float16, "nan", False), ("Exp", np.float64, "nan", False),
        ("Mul", np.int64, "wraps", False), ("Mul", np.float32, "wraps", True), ("Mul", np.int64, "nan", True), ("Max", np.str_, "nan", True),
    ],
)  # fmt: skip
def test_what_a_kernel_keeps(operator, dtype, kept, expected):
    """At a type without a kernel the answer is that of the type that carries it; without that it is no."""
    assert GUARANTEES.keeps(operator, np.dtype(dtype), kept) is expected
    assert GUARANTEES.keeps(operator, np.dtype(dtype), kept) is expected, "the second answer is the first"


def test_properties_concern_the_numbers_that_have_them():
    assert [concerns("nan", dtype) for dtype in (T.FLOAT, T.INT8)] == [True, False]
    assert [concerns("wraps", dtype) for dtype in (T.FLOAT, T.INT8)] == [False, True]
    assert all(concerns(kept, dtype) for kept in ("empty", "order") for dtype in (T.FLOAT, T.INT8))


# -- what runs after legalisation -----------------------------------------------------------


@pytest.mark.parametrize(
    ("operator", "dtype", "expected"),
    [
        ("Exp", np.float32, True), ("Exp", ml_dtypes.bfloat16, True), ("Exp", np.float64, False), ("MatMul", np.int64, True),
        ("MatMul", np.int32, False), ("Neg", np.float64, True), ("Neg", np.bool_, False), ("Cast", np.int32, True), ("Cast", np.int8, False),
        ("Nonsense", np.float32, False), ("Exp", np.dtype("datetime64[s]"), False),
    ],
)  # fmt: skip
def test_an_operator_runs_by_a_kernel_a_carrier_or_others(operator, dtype, expected):
    legalisation = Legalisation(KERNELS, {"MatMul": (lambda *_: None, [T.INT64])})
    assert legalisation.supports(operator, np.dtype(dtype), 23) is expected
