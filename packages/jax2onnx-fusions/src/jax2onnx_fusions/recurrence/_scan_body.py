"""`ScanBody`: the body of a Scan as formulas of its states and of the rows that it is given."""

from __future__ import annotations

__all__ = ["ScanBody", "ScannedTensor"]

import dataclasses
from collections.abc import Iterator

from jax2onnx_graph import ir
from jax2onnx_graph.facts.values import constant_tensor, dims_of, same_dim

from jax2onnx_fusions._reasons import UnreadableError
from jax2onnx_fusions.recurrence._affine import Affine, Batch, Leaf
from jax2onnx_fusions.recurrence._formulas import Formula
from jax2onnx_fusions.recurrence._symbolic import SymbolicEvaluator

_VIEWS = ("Transpose", "Reshape", "Squeeze", "Unsqueeze", "Identity")
_OF_ONE_OPERAND = (*_VIEWS, "Expand", "Split", "Slice", "Gather", "Neg")
_OF_TWO_OPERANDS = ("Add", "Sub", "Mul", "MatMul", "Gemm")


@dataclasses.dataclass(frozen=True)
class ScannedTensor:
    """A tensor of which each step is given one row: `perm` transposes it to [T, I] or [T, B, I]."""

    value: ir.Value
    perm: tuple[int, ...]

    @property
    def key(self) -> tuple[ir.Value, int]:
        """The value, and its axis of features: together they name the leaf that stands for a row."""
        return self.value, self.perm[-1]

    @property
    def is_in_order(self) -> bool:
        """Whether there is nothing to transpose."""
        return self.perm == tuple(sorted(self.perm))


class ScanBody:
    """The body of a Scan whose scan axes are all the first, with states [H] or [B, H].

    Attributes:
      before: the states at the start of a step.
      after: the states at its end.
      collected: the results that the Scan collects.
      inputs: the tensors of which the leaves other than the states are rows.
      batch: the batch axes that each axis of a state runs over.
      width: H.

    Raises:
      UnreadableError: the body is more than arithmetic, or its states are of other shapes; the message says why.
    """

    def __init__(self, scan: ir.Node) -> None:
        graph = scan.attributes["body"].as_graph()
        count = len(scan.inputs) - scan.attributes["num_scan_inputs"].as_int()
        states, rows = graph.inputs[:count], graph.inputs[count:]
        self._dims = (dims_of(states[0]) if states else None) or ()
        width = self._dims[-1] if self._dims else None
        if len(self._dims) > 2 or not isinstance(width, int) or any(dims_of(s) != self._dims for s in states):
            raise UnreadableError("the states are not vectors of one size")
        self.width = width
        self.batch: Batch = (*(("batch",) if size != 1 else () for size in self._dims[:-1]), ())
        self.before = [Leaf(state, width) for state in states]
        self.inputs: dict[tuple[ir.Value, int], ScannedTensor] = {}
        self._leaves: dict[tuple[ir.Value, int], Leaf] = {}
        given = {state: self.row(index) for index, state in enumerate(states)}
        evaluator = SymbolicEvaluator(given, {"batch": self._dims[0]})
        for row, whole in zip(rows, scan.inputs[count:], strict=True):
            if row.uses() and whole is not None:
                evaluator.given[row] = self._scanned(whole)
        results = [evaluator.formula(result) for result in graph.outputs]
        self.after, self.collected = results[:count], results[count:]

    def row(self, index: int) -> Formula:
        """A state at the start of a step, as a formula."""
        return self._row(self.before[index])

    def _row(self, leaf: Leaf) -> Formula:
        return Formula.from_affine(Affine.row(leaf, self.batch, len(self.batch) - 1))

    def _scanned(self, whole: ir.Value) -> Formula:
        """The row of `whole` that a step is given, as a formula; where a product was taken out of the loop, of its operand.

        An operand that need not be transposed is preferred, then the one from which the others are made.
        """
        found: tuple[Formula, ScannedTensor] | None = None
        for value in _multiplied(whole):
            for axis in range(len(dims_of(value) or ())):
                try:
                    found = self._row_of_product(whole, value, axis)
                except UnreadableError:
                    continue
                if found[1].is_in_order:
                    break
            if found is not None and found[1].is_in_order:
                break
        formula, tensor = found or self._row_itself(whole)
        if self.inputs.setdefault(tensor.key, tensor) != tensor:
            raise UnreadableError("a sequence is read along different axes")
        return formula

    def _row_itself(self, whole: ir.Value) -> tuple[Formula, ScannedTensor]:
        rank = len(dims_of(whole) or ())
        tensor = self._checked(ScannedTensor(whole, tuple(range(rank))))
        return self._row(self._leaf(whole, rank - 1)), tensor

    def _row_of_product(self, whole: ir.Value, value: ir.Value, axis: int) -> tuple[Formula, ScannedTensor]:
        """The row of `whole` as a formula of `value`, whose features are along `axis`."""
        dims = dims_of(value) or ()
        batch = tuple((str(i),) if i != axis and size != 1 else () for i, size in enumerate(dims))
        row = Formula.from_affine(Affine.row(self._leaf(value, axis), batch, axis))
        found = SymbolicEvaluator({value: row}, {str(i): size for i, size in enumerate(dims)}).formula(whole)
        over = [names for names in found.frame.batch if names]
        if not found.frame.batch[0] or any(len(names) > 1 for names in over):
            raise UnreadableError("batch axes are merged")
        axes = [int(names[0]) for names in over]
        ones = [i for i in range(len(dims)) if i not in axes and i != axis]
        tensor = self._checked(ScannedTensor(value, (*axes, *ones, axis)))
        renamed = tuple(("batch",) if names else () for names in found.frame.batch[1:])
        return found.arranged(lambda array: array[0], renamed), tensor

    def _checked(self, tensor: ScannedTensor) -> ScannedTensor:
        """`tensor`, if it has the batch of the states."""
        dims = [(dims_of(tensor.value) or ())[axis] for axis in tensor.perm]
        if len(dims) != len(self._dims) + 1 or not all(map(same_dim, dims[1:-1], self._dims)):
            raise UnreadableError("a scanned input is not a sequence of vectors with the batch of the states")
        return tensor

    def _leaf(self, value: ir.Value, axis: int) -> Leaf:
        """The leaf that stands for the rows of `value`, whose features are along `axis`."""
        dims = dims_of(value)
        width = dims[axis] if dims else None
        if not isinstance(width, int):
            raise UnreadableError("the number of features of a scanned input is not known")
        return self._leaves.setdefault((value, axis), Leaf((value, axis), width))


def _multiplied(whole: ir.Value) -> Iterator[ir.Value]:
    """The value that is multiplied by a constant matrix on the way to `whole`, then the tensors that it is a view of.

    Where products are concatenated, it is one that all of them are of.
    """
    value, is_multiplied = whole, False
    while True:
        if is_multiplied:
            yield value
        node = value.producer()
        if node is not None and node.op_type == "Concat" and not is_multiplied:
            yield from _multiplied_by_all(node)
            return
        passed = _VIEWS if is_multiplied else (*_OF_ONE_OPERAND, *_OF_TWO_OPERANDS)
        if node is None or node.domain or node.op_type not in passed:
            return
        single = node.op_type in _OF_ONE_OPERAND
        operands = [v for v in node.inputs[: 1 if single else 2] if constant_tensor(v) is None]
        if len(operands) != 1 or operands[0] is None:
            return
        is_multiplied |= node.op_type in ("MatMul", "Gemm")
        value = operands[0]


def _multiplied_by_all(concat: ir.Node) -> Iterator[ir.Value]:
    """The values that each operand of a Concat is a product of."""
    first, *others = [list(_multiplied(value)) if value is not None else [] for value in concat.inputs]
    return (value for value in first if all(value in other for other in others))
