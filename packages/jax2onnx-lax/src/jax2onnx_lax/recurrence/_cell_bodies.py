"""`CellBody`: the steps of a scan as formulas of their states and of the rows that they are given."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

import numpy as np
from jax2onnx_core import Context, Dim, Value
from jax2onnx_core.jax_types import Atom, Equation, Var
from jax2onnx_core.jaxprs import Dims, is_static
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.facts.values import constant_tensor
from jax2onnx_graph.weights.absent import AbsentTensor

from jax2onnx_lax._called import called_equations, called_jaxpr
from jax2onnx_lax.integers._domain import is_one
from jax2onnx_lax.recurrence._affine import Affine, Batch, Leaf, common_frame
from jax2onnx_lax.recurrence._equations import (
    READ_PRIMITIVES,
    VIEWS,
    FormulaReader,
    Reading,
    constant_formula,
    found,
)
from jax2onnx_lax.recurrence._errors import UnsuitableError
from jax2onnx_lax.recurrence._formulas import Formula
from jax2onnx_lax.recurrence._steps import Steps

__all__ = ["CellBody", "Model", "ScannedTensor"]

#: More equations than lie between a product that is taken out of a loop and its operand.
_FAR = 32


@dataclasses.dataclass(frozen=True)
class Model:
    """The values of the model outside the scan; absent weights are others of their type, unless their `arrays` are given."""

    ctx: Context
    arrays: Mapping[Value, Array]

    def known(self, value: Value) -> Array | None:
        """The array of a constant; None for other values."""
        if value in self.arrays:
            return self.arrays[value]
        tensor = constant_tensor(value)
        if not isinstance(tensor, AbsentTensor):
            return self.ctx.known(value)
        return np.random.default_rng(0).normal(size=tensor.shape.numpy()).astype(self.ctx.dtype(value))


@dataclasses.dataclass(frozen=True)
class ScannedTensor:
    """A tensor of which each step is given one row: `perm` transposes it to [T, …, I], with the batch of the states.

    Attributes:
      source: a value of the model; or a variable of the steps, which is computed for all of them first.
      perm: the permutation.
      width: I.
    """

    source: Value | Var
    perm: tuple[int, ...]
    width: int

    @property
    def key(self) -> Hashable:
        """The source, and its axis of features: together they name the leaf that stands for a row."""
        return self.source, self.perm[-1]


class CellBody:
    """The steps of a scan with states [H] or [batch…, H].

    Attributes:
      before: the states at the start of a step.
      after: the states at its end.
      inputs: the tensors of which the leaves other than the states are rows.
      batch: the batch axes that each axis of a state runs over.
      width, dtype: H, and the element type.

    Raises:
      UnsuitableError: the states are of other shapes, or more than arithmetic is done with them; the message says why.
    """

    def __init__(self, model: Model, steps: Steps, consts: Sequence[Value], xs: Sequence[Value]) -> None:
        avals = [v.aval for v in steps.carry]
        self._dims, self.dtype = tuple(avals[0].shape), avals[0].dtype
        if not self._dims or not is_static(self._dims[-1]) or any(tuple(aval.shape) != self._dims for aval in avals):
            raise UnsuitableError("the states are not vectors of one size")
        self._model, self._steps = model, steps
        *sizes, width = self._dims
        self.width = _width(width)
        names = [str(axis) for axis in range(len(sizes))]
        self.batch: Batch = (*(() if is_one(size) else (name,) for name, size in zip(names, sizes, strict=True)), ())
        self.before = [Leaf(state, self.width) for state in steps.carry]
        self.inputs: dict[Hashable, ScannedTensor] = {}
        self._leaves: dict[Hashable, Leaf] = {}
        self._reader = self._formula_reader(dict(zip(names, sizes, strict=True)))
        self._read: dict[Var, Reading] = {v: self._outside(model.ctx.weight(x)) for v, x in steps.constants.items()}
        self._read.update((v, self._outside(value)) for v, value in zip(steps.consts, consts, strict=True))
        self._read.update((v, self.row(index)) for index, v in enumerate(steps.carry))
        self._read.update((v, self._scanned(v, value)) for v, value in zip(steps.rows, xs, strict=True))
        self._follow()
        self.after = [self._with_own_axes(found(self.reading(v))) for v in steps.new_carry]

    def _formula_reader(self, sizes: Mapping[str, Dim]) -> FormulaReader:
        return FormulaReader(sizes, lambda array: self._outside(self._model.ctx.weight(array)))

    def row(self, index: int) -> Formula:
        """A state at the start of a step, as a formula."""
        return self._row(self.before[index])

    def _row(self, leaf: Leaf) -> Formula:
        return Formula.from_affine(Affine.row(leaf, self.batch, len(self.batch) - 1))

    def _with_own_axes(self, formula: Formula) -> Formula:
        """A state after a step, whose axes are those of the states before it, not the same ones exchanged."""
        return formula.broadcast(*common_frame(formula.frame, self.row(0).frame))

    def reading(self, atom: Atom) -> Reading:
        """The formula of a variable of the steps, or why there is none."""
        return self._reader.read(self._read, atom)

    # -- constants ------------------------------------------------------------------------------

    def _constant(self, value: Value) -> Formula:
        array = self._model.known(value)
        if array is None:
            raise UnsuitableError("its step depends on a tensor from outside that is not constant")
        return constant_formula(array, frozenset([value]))

    def _outside(self, value: Value) -> Reading:
        try:
            return self._constant(value)
        except UnsuitableError as reason:
            return reason

    # -- equations ------------------------------------------------------------------------------

    def _follow(self) -> None:
        for eqn in self._steps.equations:
            results = self._reader.results(eqn, [self.reading(v) for v in eqn.invars])
            for var, result in zip(eqn.outvars, results, strict=True):
                self._read[var] = result if var in self._steps.on_carry else self._without_states(var, result)

    def _without_states(self, var: Var, result: Reading) -> Reading:
        """The formula of a variable that does not depend on the states; a row of its own where it is no affine function of rows."""
        resolved = result if isinstance(result, Formula) and result.leaves <= set(self.inputs) else None
        if resolved is not None and resolved.affine is not None:
            return resolved
        reason = str(result) if isinstance(result, UnsuitableError) else ""
        try:
            leaf = self._leaf(var, range(len(self._dims) + 1), (1, *var.aval.shape), var, reason)
        except UnsuitableError:
            return result
        if resolved is None:
            return self._row(leaf)
        self._reader.rows.setdefault(resolved, leaf)
        return resolved

    # -- rows of tensors ------------------------------------------------------------------------

    def _leaf(self, source: Value | Var, perm: Sequence[int], dims: Dims, row: Var, reason: str = "") -> Leaf:
        """The leaf that stands for the row of a tensor of these dimensions, which has the batch of the states."""
        is_of_rank = len(dims) == len(perm) == len(self._dims) + 1
        if not is_of_rank or not all(
            _equal(dims[axis], size) for axis, size in zip(perm[1:-1], self._dims, strict=False)
        ):
            raise UnsuitableError("a scanned input is not a sequence of vectors with the batch of the states")
        if row.aval.dtype != self.dtype:
            raise UnsuitableError("a scanned input has another element type than the states")
        tensor = ScannedTensor(source, tuple(perm), _width(dims[perm[-1]]))
        if self.inputs.setdefault(tensor.key, tensor) != tensor:
            raise UnsuitableError("a sequence is read along different axes")
        return self._leaves.setdefault(tensor.key, Leaf(tensor.key, tensor.width, reason))

    def _scanned(self, row: Var, whole: Value) -> Reading:
        """The row of `whole` that a step is given, as a formula; where a product was taken out of the loop, of its operand.

        An operand that need not be transposed is preferred, then the one from which the others are made.
        """
        try:
            best = self._product_of(whole)
            if best is None:
                dims = self._model.ctx.known_dims(whole)
                return self._row(self._leaf(whole, range(len(dims)), dims, row))
            formula, value, perm = best
            self._leaf(value, perm, self._model.ctx.known_dims(value), row)
        except UnsuitableError as reason:
            return reason
        return formula

    def _product_of(self, whole: Value) -> tuple[Formula, Value, tuple[int, ...]] | None:
        """The row of `whole` as a formula of a tensor that it is a product of, and the permutation of that."""
        best: tuple[Formula, Value, tuple[int, ...]] | None = None
        for value in _multiplied(self._model, whole):
            for axis in range(len(self._model.ctx.known_dims(value))):
                try:
                    formula, perm = self._product(whole, value, axis)
                except UnsuitableError:
                    continue
                best = formula, value, perm
                if perm == tuple(sorted(perm)):
                    return best
        return best

    def _product(self, whole: Value, value: Value, axis: int) -> tuple[Formula, tuple[int, ...]]:
        """The row of `whole` as a formula of `value`, whose features are along `axis`, and the permutation of that."""
        dims = self._model.ctx.known_dims(value)
        names = [str(i) for i in range(len(dims))]
        batch = tuple((name,) if i != axis and not is_one(dims[i]) else () for i, name in enumerate(names))
        leaf = self._leaves.setdefault((value, axis), Leaf((value, axis), _width(dims[axis])))
        row = Formula.from_affine(Affine.row(leaf, batch, axis))
        reader = self._formula_reader(dict(zip(names, dims, strict=True)))
        formula = _Outside(self._model, reader, {value: row}, self._constant).formula(whole)
        over = [names for names in formula.frame.batch if names]
        if not formula.frame.batch[0] or any(len(names) > 1 for names in over):
            raise UnsuitableError("batch axes are merged")
        axes = [int(names[0]) for names in over]
        ones = [i for i in range(len(dims)) if i not in axes and i != axis]
        own = iter(names for names in self.batch if names)
        renamed = tuple(next(own, ()) if names else () for names in formula.frame.batch[1:])
        return formula.arranged(lambda array: array[0], renamed), (*axes, *ones, axis)


def _width(size: Dim) -> int:
    if not is_static(size):
        raise UnsuitableError("the number of features of a scanned input is not known")
    return int(size)


class _Outside:
    """Formulas of values of the model, by the equations that they were made by."""

    def __init__(
        self, model: Model, reader: FormulaReader, given: Mapping[Value, Formula], constant: Callable[[Value], Formula]
    ) -> None:
        self._model, self._reader, self._given, self._constant = model, reader, dict(given), constant

    def formula(self, value: Value, depth: int = 0) -> Formula:
        """The formula of a value."""
        if value not in self._given:
            made = self._model.ctx.definition(value)
            if made is None or made.equation is None or self._model.known(value) is not None:
                return self._constant(value)
            if depth > _FAR:
                raise UnsuitableError("a product lies far from its operand")
            operands = [self.formula(operand, depth + 1) for operand in made.operands]
            self._given[value] = found(self._reader.results(made.equation, operands)[made.result])
        return self._given[value]


def _multiplied(model: Model, whole: Value) -> Iterator[Value]:
    """The value that is multiplied by a constant matrix on the way to `whole`, then the tensors that it is a view of.

    Where products are concatenated, it is one that all of them are of.
    """
    value, is_multiplied = whole, False
    while True:
        if is_multiplied:
            yield value
        made = model.ctx.definition(value)
        if made is None or made.equation is None:
            return
        name = made.equation.primitive.name
        if name in ("concatenate", "stack") and not is_multiplied:
            first, *others = [list(_multiplied(model, operand)) for operand in made.operands]
            yield from (operand for operand in first if all(operand in other for other in others))
            return
        if name not in (VIEWS if is_multiplied else READ_PRIMITIVES) and called_jaxpr(made.equation) is None:
            return
        operands = [operand for operand in made.operands if model.known(operand) is None]
        if len(operands) != 1:
            return
        is_multiplied |= _multiplies(made.equation)
        value = operands[0]


def _multiplies(eqn: Equation) -> bool:
    return eqn.primitive.name == "dot_general" or any(map(_multiplies, called_equations(eqn)))


def _equal(a: Dim, b: Dim) -> bool:
    return a is b or bool(a == b)
