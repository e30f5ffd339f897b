"""`Normalised`: formulas read as normalisations, with the scales and biases around them, for layer norm and RMS norm."""

from __future__ import annotations

__all__ = ["NormalisationPass", "Normalised"]

import abc
import dataclasses
from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.build.attributes import Attribute, attribute_values
from jax2onnx_graph.facts.dtypes import is_exact_attribute
from jax2onnx_graph.facts.values import dims_of, known
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import Declined, NodePass, Phase
from jax2onnx_graph.rewrite.patterns import is_read_once, operation, other_operand, scalar

from jax2onnx_fusions._reasons import no_operator
from jax2onnx_fusions.normalisation._row_statistics import RowStatistics

_LIMIT = 1 << 20


@dataclasses.dataclass(frozen=True)
class Normalised:
    """A formula read as the normalisation of `x` [*batch, C] over the last axis.

    Attributes:
      x: the tensor that is normalised.
      scale: the factor, of shape [C] up to leading axes of size 1; None for ones.
      bias: the summand, likewise; None for none.
      attributes: the attributes of the operator: its axis, and epsilon, which is added to the mean square or the variance.
    """

    x: ir.Value
    scale: ir.Value | None
    bias: ir.Value | None
    attributes: Mapping[str, Attribute]


class NormalisationPass(NodePass[Normalised]):
    """Formulas that divide a tensor by the root of the spread of its rows, become `op_type`."""

    op_type: ClassVar[str]
    phase = Phase.FUSE

    @abc.abstractmethod
    def rows_of(self, dividend: ir.Value) -> RowStatistics | None:
        """The rows of the tensor that is normalised where this value is divided; None where it is none of the formula."""

    @abc.abstractmethod
    def is_spread(self, rows: RowStatistics, value: ir.Value | None) -> bool:
        """Whether a value is the variance, or the mean square, of rows."""

    def is_told(self, dividend: ir.Value) -> bool:
        """Whether a reason is told where a quotient of this value lacks nothing but epsilon."""
        return True

    def match(self, node: ir.Node, editor: GraphEditor) -> Normalised | Declined | None:
        if node.op_type == "Add":
            return _biased(node, self.op_type)
        if (found := self._read(node)) is not None:
            return _normalised(node, self.op_type, *found, editor)
        return _scaled(node, self.op_type) if node.op_type == "Mul" else self._nearly_read(node)

    def rewrite(self, node: ir.Node, match: Normalised, editor: GraphEditor) -> None:
        _put_normalisation(editor, node, self.op_type, match)

    def _read(self, node: ir.Node) -> tuple[ir.Value, ir.Value | None, float] | None:
        """(x, scale, epsilon) where the product or quotient `node` is the normalisation of x."""
        for operand in node.inputs if node.op_type == "Mul" else node.inputs[:1]:
            for dividend, before in _unscaled(operand):
                rows = self.rows_of(dividend)
                if rows is None:
                    continue
                scale, shifted = _scale_and_root(rows, node, rows.beside(other_operand(node, operand)))
                spread, epsilon = rows.plus_number(shifted)
                if self.is_spread(rows, spread) and (scale is None or before is None):
                    return rows.x, scale or before, epsilon
        return None

    def _nearly_read(self, quotient: ir.Node) -> Declined | None:
        """The reason why a quotient that has all of a normalisation but its epsilon is none."""
        for dividend, _ in _unscaled(quotient.inputs[0]):
            rows = self.rows_of(dividend) if self.is_told(dividend) else None
            declined = None if rows is None else self._with_other_epsilon(quotient, rows)
            if declined is not None:
                return declined
        return None

    def _with_other_epsilon(self, node: ir.Node, rows: RowStatistics) -> Declined | None:
        """The reason why a quotient is no normalisation, if its divisor is the root of the spread of rows but for its epsilon."""
        divisor = rows.beside(node.inputs[1]) if node.op_type == "Div" else None
        before, epsilon = rows.plus_number(divisor)
        if before is not None and self.is_spread(rows, rows.root(before)):
            return Declined(
                f"epsilon, {epsilon:g}, is added behind the square root, and the operator adds it under the root", node
            )
        if divisor is not None and self.is_spread(rows, rows.root(divisor)):
            return Declined("no epsilon is added under the square root", node)
        return None


def _normalised(
    node: ir.Node, op_type: str, x: ir.Value, scale: ir.Value | None, epsilon: float, editor: GraphEditor
) -> Normalised | Declined:
    """The formula that ends at `node` as the operator `op_type`, where that means the same.

    Args:
      node: the product or quotient with which the formula ends.
      op_type: "LayerNormalization" or "RMSNormalization".
      x: the tensor that is normalised, [*batch, C].
      scale: the factor, [C] up to leading axes of size 1; None for ones.
      epsilon: the number that is added to the mean square or the variance.
      editor: the graph.
    """
    if not editor.supports(op_type, x):
        return Declined(no_operator(op_type, x), node)
    if not is_exact_attribute(epsilon, x.dtype):
        return Declined(f"epsilon is {epsilon!r}, which the attribute, a float32, cannot hold", node)
    if scale is not None and not _can_be_vector(scale, x):
        return Declined("the scale is computed with leading axes", node)
    if scale is None and not isinstance((dims_of(x) or ("",))[-1], int):
        return Declined("the size of the normalised axis is not known, and so neither is that of its scale", node)
    return Normalised(x, scale, None, {"axis": -1, "epsilon": epsilon})


def _scaled(node: ir.Node, op_type: str) -> Normalised | None:
    """A `Mul` of a constant or computed scale [C] with a normalisation whose scale is 1, as one normalisation."""
    before, factor = _normalisation_before(node, op_type)
    if before is None or before.inputs[0] is None or len(before.inputs) != 2 or scalar(before.inputs[1]) != 1:
        return None
    x = before.inputs[0]
    return Normalised(x, factor, None, attribute_values(before)) if _can_be_vector(factor, x) else None


def _biased(node: ir.Node, op_type: str) -> Normalised | None:
    """An `Add` of a bias [C] to a normalisation that has none, as one normalisation."""
    before, summand = _normalisation_before(node, op_type)
    if before is None or len(before.inputs) != 2:
        return None
    x, scale = before.inputs
    if x is None:
        return None
    return Normalised(x, scale, summand, attribute_values(before)) if _can_be_vector(summand, x) else None


def _put_normalisation(editor: GraphEditor, node: ir.Node, op_type: str, found: Normalised) -> None:
    """Put the normalisation `op_type` in the place of `node`."""
    scale, dtype = found.scale, found.x.dtype
    if scale is None:
        width = (dims_of(found.x) or ())[-1]
        assert isinstance(width, int) and dtype is not None, "the formula was read only where both are known"
        scale = editor.constant(np.ones(width, dtype.numpy()))
    # A scale that another normalisation has already is a vector, or of as many axes as that normalises.
    scale = scale if found.bias is not None else _as_vector(editor, scale, found.x)
    operands = [found.x, scale, *([] if found.bias is None else [_as_vector(editor, found.bias, found.x)])]
    editor.put(node, op_type, operands, found.attributes)


def _scale_and_root(
    rows: RowStatistics, node: ir.Node, factor: ir.Value | None
) -> tuple[ir.Value | None, ir.Value | None]:
    """(scale, v) where the `factor` of `node` normalises by sqrt(v).

    That is the divisor sqrt(v) of a Div, or the factor 1 / sqrt(v) of a Mul, perhaps times a scale [C], which may have
    leading axes of size 1.
    """
    if node.op_type == "Div":
        return None, rows.root(factor)
    if (direct := rows.inverse_root(factor)) is not None:
        return None, direct
    product = operation(factor, "Mul")
    if product is not None:
        for operand in product.inputs:
            scale = other_operand(product, operand)
            if _is_vector(scale, rows.x) and (shifted := rows.inverse_root(rows.beside(operand))) is not None:
                return scale, shifted
    return None, None


def _unscaled(value: ir.Value | None) -> Iterator[tuple[ir.Value, ir.Value | None]]:
    """(x, scale) for every way to read `value` as x, or as the product, read once, of x [*batch, C] and a scale [C]."""
    if value is None:
        return
    yield value, None
    node = operation(value, "Mul") if is_read_once(value) else None
    if node is None:
        return
    for scale in node.inputs:
        x = other_operand(node, scale)
        if x is not None and _is_vector(scale, x):
            yield x, scale


def _normalisation_before(node: ir.Node, op_type: str) -> tuple[ir.Node | None, ir.Value | None]:
    """The normalisation that only the binary `node` reads, and the node's other operand; (None, None) without one."""
    for operand in node.inputs:
        producer = operation(operand, op_type)
        if producer is not None and is_read_once(operand):
            return producer, other_operand(node, operand)
    return None, None


def _can_be_vector(value: ir.Value | None, x: ir.Value) -> bool:
    """Whether `value` is a view of a tensor [C], or a constant with leading axes of size 1."""
    return _vector(value, x) is not None or (_is_vector(value, x) and known(value, _LIMIT) is not None)


def _as_vector(editor: GraphEditor, value: ir.Value, x: ir.Value) -> ir.Value:
    """`value`, which can be a vector, as a tensor [C]."""
    if (vector := _vector(value, x)) is not None:
        return vector
    array = known(value, _LIMIT)
    assert array is not None, "it can be a vector"
    return editor.derived(value, ir.Tensor(np.ascontiguousarray(array).reshape(-1)), "vector")


def _vector(value: ir.Value | None, x: ir.Value | None) -> ir.Value | None:
    """The tensor [C] of which `value` is a view with leading axes of size 1, or which it is itself."""
    while (view := operation(value, "Reshape", "Unsqueeze")) is not None and _is_vector(value, x):
        value = view.inputs[0]
    return value if value is not None and _is_vector(value, x) and len(value.shape or ()) == 1 else None


def _is_vector(value: ir.Value | None, x: ir.Value | None) -> bool:
    """Whether the shape of `value` is [C], C the last dimension of x, up to leading axes of size 1."""
    dims, width = dims_of(value), (dims_of(x) or (None,))[-1]
    if dims is None or len(dims) > len(dims_of(x) or ()):
        return False
    return dims[-1:] == (width,) and isinstance(width, int) and all(d == 1 for d in dims[:-1])
