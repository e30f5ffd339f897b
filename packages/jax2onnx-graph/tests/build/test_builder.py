"""Graphs that `GraphBuilder` writes, run by ONNX's reference evaluator and compared with NumPy; its errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.build.builder import Value
from jax2onnx_graph.errors import ConversionError, Declined, RuleError
from jax2onnx_graph.facts.dims import Dim
from jax2onnx_graph.weights.absent import absent_weight
from plain_builder import PlainBuilder

NUMBERS = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.fixture
def builder() -> PlainBuilder:
    return PlainBuilder(NUMBERS)


@pytest.fixture
def x(builder: PlainBuilder) -> Value:
    return builder.graph.inputs[0]


# -- nodes -------------------------------------------------------------------------------------------


def test_a_node_has_the_type_and_the_shape_that_follow_from_its_operands(builder, x):
    y = builder.op.Greater(builder.op.MatMul(x, builder.constant(np.ones((4, 5)), like=x)), builder.constant(3, like=x))
    assert (y.dtype, builder.dims(y)) == (ir.DataType.BOOL, (2, 3, 5))
    np.testing.assert_array_equal(builder.run(y), NUMBERS @ np.ones((4, 5), np.float32) > 3)


def test_a_node_and_its_result_have_the_name_of_the_operator(builder, x):
    first, second = builder.op.Neg(x), builder.op.Neg(x)
    assert [node.name for node in builder.graph] == ["Neg", "Neg_1"]
    assert [first.name, second.name] == ["Neg", "Neg_1"]


def test_several_results_have_numbers_in_their_names(builder, x):
    parts = builder.op.several("Split", x, outputs=2, axis=2, num_outputs=2)
    assert [part.name for part in parts] == ["Split.0", "Split.1"]
    assert [builder.dims(part) for part in parts] == [(2, 3, 2)] * 2
    np.testing.assert_array_equal(builder.run(parts[1]), NUMBERS[..., 2:])


def test_attributes_that_are_none_are_left_out(builder, x):
    node = builder.op.Softmax(x, axis=None).producer()
    assert not node.attributes


def test_the_type_of_a_result_can_be_named_by_an_attribute(builder, x):
    assert builder.op.Cast(x, to=np.dtype(np.int32)).dtype == ir.DataType.INT32


def test_the_type_and_shape_of_a_foreign_operator_are_given(builder, x):
    y = builder.op("Own", x, domain="own", dtype=np.int64, dims=[7])
    assert (y.dtype, builder.dims(y), y.producer().domain) == (ir.DataType.INT64, (7,), "own")
    with pytest.raises(
        RuleError, match=r"The type of output 0 of own.Own does not follow from its schema; pass dtype=…"
    ):
        builder.op("Own", x, domain="own")


def test_results_of_control_flow_have_the_types_of_its_bodies(builder):
    branches = {}
    for name in ("then_branch", "else_branch"):
        value = ir.val(name, ir.DataType.INT32, [2])
        branches[name] = ir.Graph([], [value], nodes=[], name=name)
    result = builder.op.If(builder.constant(True), dims=[2], **branches)
    assert result.dtype == ir.DataType.INT32


ERRORS = {
    "an operator that is not there": (lambda b, x: b.op.Nonsense(x), r"Opset 23 of ONNX has no operator Nonsense"),
    "an operator that came later": (lambda b, x: b.op.TensorScatter(x, x), r"Opset 23 of ONNX has no operator TensorScatter"),
    "too many operands": (lambda b, x: b.op.Neg(x, x), r"Neg of opset 23 takes 1 operands, not 2\."),
    "an operand that is needed": (lambda b, x: b.op.Add(x, None), r"Operand 1 of Add cannot be left out\."),
    "a number for a value": (lambda b, x: b.op.Add(x, 2.0), r"Operand 1 of Add is 2\.0, not a value of the graph; write ctx\.constant"),
    "an unknown attribute": (lambda b, x: b.op.Softmax(x, axes=1), r"Softmax of opset 23 has no attribute 'axes'; it has: axis\."),
    "an attribute of another type": (lambda b, x: b.op.Softmax(x, axis=1.5), r"attribute axis of Softmax .* is of type INT, not FLOAT"),
    "an attribute that is needed": (lambda b, x: b.op.Concat(x, x), r"Concat of opset 23 needs the attribute axis\."),
    "operands of two types": (
        lambda b, x: b.op.Add(x, b.constant(1, np.int32)), r"Operand 1 \(B\) of Add is INT32, but it has to be FLOAT",
    ),
    "a type that the operator does not take": (
        lambda b, x: b.op.Sqrt(b.constant(1, np.int32)), r"Sqrt of opset 23 takes no INT32 as its operand 0",
    ),
    "too many results": (lambda b, x: b.op.several("Neg", x, outputs=2), r"Neg of opset 23 has 1 results, not 2\."),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_what_the_schema_does_not_allow_is_an_error(builder, x, name):
    emit, message = ERRORS[name]
    with pytest.raises(RuleError, match=message):
        emit(builder, x)
    assert builder.operators == []


def test_an_element_type_of_a_later_opset_is_an_error():
    array = np.zeros(2, ml_dtypes.float8_e8m0fnu)
    builder = PlainBuilder(array)
    with pytest.raises(ConversionError, match=r"which ONNX has from opset 24 on, and it is for opset 23"):
        builder.op.Identity(builder.graph.inputs[0])


def test_a_double_that_an_attribute_cannot_hold_is_declined():
    builder = PlainBuilder(NUMBERS.astype(np.float64))
    with pytest.raises(Declined, match=r"the attribute alpha of Elu is float32 and cannot hold 0\.1 of float64"):
        builder.op.Elu(builder.graph.inputs[0], alpha=0.1)


# -- constants ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "dtype"), [({}, np.int64), ({"dtype": np.float16}, np.float16), ({"like": "x"}, np.float32)]
)
def test_a_constant_has_the_type_that_is_asked_for(builder, x, options, dtype):
    value = builder.constant([1, 2], **{name: x if given == "x" else given for name, given in options.items()})
    assert builder.dtype(value) == dtype
    np.testing.assert_array_equal(builder.known(value), [1, 2])


def test_ints_are_a_vector_of_int64(builder):
    assert (builder.dtype(builder.ints([])), builder.dims(builder.ints([]))) == (np.int64, (0,))
    assert builder.known(builder.ints([3, -1])).tolist() == [3, -1]


def test_an_input_is_not_known(builder, x):
    assert builder.known(x) is None


def test_a_function_of_constants_is_computed_at_once(builder, x):
    one, two = builder.constant(np.array([1, 2], np.float32)), builder.constant(np.array([3, 4], np.float32))
    folded = builder.fold(np.add, one, two, dims=[2])
    assert (builder.known(folded).tolist(), builder.operators) == ([4, 6], [])
    assert builder.dtype(builder.fold(np.add, one, two, dims=[2], dtype=np.float64)) == np.float64
    assert builder.fold(np.add, one, x, dims=[2]) is None


def test_a_function_of_an_absent_weight_is_computed_when_it_is_there(builder):
    weight = builder.new_tensor(absent_weight("w", np.dtype(np.float32), (2,)), "w")
    folded = builder.fold(np.negative, weight, dims=[2])
    assert builder.known(folded) is None
    assert list(folded.const_value.weights) == ["w"]


# -- helpers -----------------------------------------------------------------------------------------

HELPERS: dict[str, tuple[Any, Any, list[str]]] = {
    "reshape": (lambda b, x: b.reshape(x, (4, 6)), lambda a: a.reshape(4, 6), ["Reshape"]),
    "reshape to its own shape": (lambda b, x: b.reshape(x, (2, 3, 4)), lambda a: a, []),
    "reshape of a constant": (lambda b, x: b.reshape(b.constant(NUMBERS), (24,)), lambda a: a.reshape(24), []),
    "reshape to nothing": (lambda b, x: b.reshape(b.slice(x, [0], [0], [0], dims=(0, 3, 4)), (0, 12)),
                           lambda a: a[:0].reshape(0, 12), ["Slice", "Reshape"]),
    "broadcast": (lambda b, x: b.broadcast(x, (5, 2, 3, 4)), lambda a: np.broadcast_to(a, (5, 2, 3, 4)), ["Expand"]),
    "broadcast to its own shape": (lambda b, x: b.broadcast(x, (2, 3, 4)), lambda a: a, []),
    "broadcast to nothing": (lambda b, x: b.broadcast(x, (0, 2, 3, 4)), lambda a: np.zeros((0, 2, 3, 4), np.float32), []),
    "broadcast in dimensions": (lambda b, x: b.broadcast_in_dim(x, (2, 5, 3, 4, 6), (0, 2, 3)),
                                lambda a: np.broadcast_to(a[:, None, :, :, None], (2, 5, 3, 4, 6)), ["Reshape", "Expand"]),
    "cast": (lambda b, x: b.cast(x, np.int32), lambda a: a.astype(np.int32), ["Cast"]),
    "cast to its own type": (lambda b, x: b.cast(x, np.float32), lambda a: a, []),
    "transpose": (lambda b, x: b.transpose(x, (2, 0, 1)), lambda a: a.transpose(2, 0, 1), ["Transpose"]),
    "transpose in order": (lambda b, x: b.transpose(x, (0, 1, 2)), lambda a: a, []),
    "transpose of a constant": (lambda b, x: b.transpose(b.constant(NUMBERS), (2, 0, 1)), lambda a: a.transpose(2, 0, 1), []),
    "unsqueeze": (lambda b, x: b.unsqueeze(x, (0, -1)), lambda a: a[None, ..., None], ["Unsqueeze"]),
    "unsqueeze no axes": (lambda b, x: b.unsqueeze(x, ()), lambda a: a, []),
    "unsqueeze of a constant": (lambda b, x: b.unsqueeze(b.constant(NUMBERS), (1,)), lambda a: a[:, None], []),
    "squeeze": (lambda b, x: b.squeeze(b.unsqueeze(x, (1, 4)), (1, -1)), lambda a: a, ["Unsqueeze", "Squeeze"]),
    "squeeze no axes": (lambda b, x: b.squeeze(x, ()), lambda a: a, []),
    "squeeze of a constant": (lambda b, x: b.squeeze(b.constant(NUMBERS[:1]), (0,)), lambda a: a[0], []),
    "slice": (lambda b, x: b.slice(x, [1, 0], [3, 4], [1, 2], [1, 2]), lambda a: a[:, 1:3, 0:4:2], ["Slice"]),
    "slice in steps of one": (lambda b, x: b.slice(x, [1], b.ints([2]), [1], [1]), lambda a: a[:, 1:2], ["Slice"]),
    "concat": (lambda b, x: b.concat([x, x], -1), lambda a: np.concatenate([a, a], -1), ["Concat"]),
    "concat of one": (lambda b, x: b.concat([x], 0), lambda a: a, []),
}  # fmt: skip


@pytest.mark.parametrize("name", HELPERS)
def test_helpers_compute_what_numpy_does_with_no_more_nodes_than_needed(builder, x, name):
    write, expected, operators = HELPERS[name]
    result = write(builder, x)
    assert builder.operators == operators
    np.testing.assert_array_equal(builder.run(result), expected(NUMBERS))
    assert builder.dims(result) in (None, expected(NUMBERS).shape)
    assert builder.dtype(result) == expected(NUMBERS).dtype


def test_empty_arrays_need_no_nodes(builder):
    found = builder.empty_arrays([(np.dtype(np.int32), (0, 3)), (np.dtype(np.float32), (2, 0))])
    assert [(builder.dtype(value), builder.dims(value)) for value in found] == [
        (np.int32, (0, 3)),
        (np.float32, (2, 0)),
    ]
    assert builder.empty_arrays([(np.dtype(np.int32), (0, 3)), (np.dtype(np.float32), (2,))]) is None


def test_dimensions_that_are_not_known_are_an_error(builder, x):
    x.shape = None
    with pytest.raises(RuleError, match=r"The shape of x0 is not known here; give dims=… to ctx\.op\."):
        builder.reshape(x, (24,))
    assert builder.dims(builder.with_dims(x, (2, 12))) == (2, 12)


def test_the_target_is_asked_at_the_opset_of_the_builder(builder):
    assert builder.supports("Gelu", np.float32)
    assert not builder.supports("TensorScatter", np.float32)
    assert builder.guarantees("Max", np.float32, "nan")


class SymbolicBuilder(PlainBuilder):
    """One whose dimensions are names, too: "Z" may be 0; a shape that is computed is -9."""

    old: tuple[Any, ...]

    def dims(self, value: Value) -> Any:
        return self.old if value.name == "x0" else super().dims(value)

    def is_positive(self, dim: Any) -> bool:
        return dim not in ("Z", 0)

    def shape(self, dims: Sequence[Dim]) -> Value:
        return self.ints([-9])

    def set_dims(self, value: Value, dims: Sequence[Dim]) -> None: ...


@pytest.mark.parametrize(
    ("old", "new", "shape", "allowzero"),
    [
        (("B", 3, 4), ("B", 12), [-1, 12], None),
        ((2, "B"), ("B", 2), [-1, 2], None),
        (("B", "T", 4), ("B", "T", 2, 2), [0, -1, 2, 2], None),
        (("B", "T", "C"), ("B", "T", "C", 1), [0, 0, -1, 1], None),
        (("B", "T", 4), (4, "B", "T"), [-9], None),
        (("B", "T"), ("T", "B"), [-9], None),
        (("B",), (1, "B", "T"), [-9], None),
        (("Z", 4), ("Z", 2, 2), [-9], 1),
        (("Z", "B", 4), ("Z", "B", 2, 2), [-9], 1),
        (("B", "Z", 4), ("B", "Z", 2, 2), [-9], 1),
        (("B", 0), (0, "B"), [-9], 1),
        ((2, 0, 4), (0, 8), [0, 8], 1),
        ((2, 3, 4), (3, 8), [3, 8], None),
    ],
)
def test_a_shape_is_a_constant_where_its_sizes_can_be_copied_or_inferred(old, new, shape, allowzero):
    builder = SymbolicBuilder(NUMBERS)
    builder.old = old
    node = builder.reshape(builder.graph.inputs[0], new).producer()
    assert node.inputs[1].const_value.numpy().tolist() == shape
    assert node.attributes.get_int("allowzero", None) == allowzero


def test_arrays_without_elements_of_computed_sizes_are_not_reshaped():
    builder = SymbolicBuilder(NUMBERS)
    builder.old = (2, 3, 4)
    batch: Any = "B"
    made = [
        *(builder.empty_arrays([(np.dtype(np.int32), (batch, 0))]) or ()),
        builder.broadcast(builder.graph.inputs[0], (batch, 0, 3, 4)),
    ]
    assert builder.operators == ["Expand", "Expand"]
    assert [builder.dtype(value) for value in made] == [np.int32, np.float32]
