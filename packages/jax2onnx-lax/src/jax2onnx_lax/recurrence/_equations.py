"""`FormulaReader`: the results of equations as formulas of their operands, whatever arranges, splits and joins them on the way."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence

import jax
import numpy as np
from jax2onnx_core import Dim, Jaxpr, Value
from jax2onnx_core.jax_types import Atom, Equation, Var
from jax2onnx_core.jaxprs import bind_equation, is_literal, is_static, open_jaxpr
from jax2onnx_graph.arrays import Array

from jax2onnx_lax._called import called_jaxpr
from jax2onnx_lax.recurrence._affine import Affine, Batch, Leaf, Product, Term
from jax2onnx_lax.recurrence._errors import UnsuitableError
from jax2onnx_lax.recurrence._formulas import ONE, Formula

__all__ = ["READ_PRIMITIVES", "VIEWS", "Constants", "FormulaReader", "Reading", "constant_formula", "found"]

#: A formula, or why there is none.
Reading = Formula | UnsuitableError

#: The formula of an array that a jaxpr holds.
Constants = Callable[[object], Reading]

#: Equations that only arrange the elements of their operand.
VIEWS = frozenset({"transpose", "reshape", "squeeze", "expand_dims", "broadcast_in_dim", "copy", "copy_p"})

#: Equations on constants that JAX computes.
_NUMERIC = frozenset({"logistic", "tanh", "exp", "max", "integer_pow", "dot_general"})
_ACTIVATIONS = {"logistic": "Sigmoid", "tanh": "Tanh", "exp": "Exp"}


def found(reading: Reading) -> Formula:
    """The formula; UnsuitableError where there is none."""
    if isinstance(reading, UnsuitableError):
        raise reading
    return reading


def constant_formula(array: Array, sources: frozenset[Value] = frozenset()) -> Formula:
    """An array that is the same in every step, made from constants of the model."""
    return Formula.from_affine(Affine.constant(array, sources))


class FormulaReader:
    """Reads equations.

    Attributes:
      sizes: the sizes of the batch axes.
      rows: the leaves that stand for formulas with activations which a matrix multiplies.
    """

    def __init__(self, sizes: Mapping[str, Dim], constants: Constants) -> None:
        self.sizes, self._constants = sizes, constants
        self.rows: dict[Formula, Leaf] = {}
        self._products: dict[Hashable, Product] = {}

    def results(self, eqn: Equation, operands: Sequence[Reading]) -> list[Reading]:
        """The results of an equation."""
        inner = called_jaxpr(eqn)
        if inner is not None:
            return self.jaxpr(inner, operands[len(operands) - len(open_jaxpr(inner)[0].invars) :])
        try:
            return list(self._computed(eqn, [found(operand) for operand in operands]))
        except UnsuitableError as reason:
            return [reason] * len(eqn.outvars)

    def jaxpr(self, jaxpr: Jaxpr, operands: Sequence[Reading]) -> list[Reading]:
        """The results of a jaxpr."""
        inner, consts = open_jaxpr(jaxpr)
        env = dict(zip([*inner.constvars, *inner.invars], [*map(self._constants, consts), *operands], strict=True))
        for eqn in inner.eqns:
            results = self.results(eqn, [self.read(env, v) for v in eqn.invars])
            env.update(zip(eqn.outvars, results, strict=True))
        return [self.read(env, v) for v in inner.outvars]

    def read(self, env: Mapping[Var, Reading], atom: Atom) -> Reading:
        """An operand of an equation among known variables."""
        if not is_literal(atom):
            return env[atom]
        return constant_formula(np.asarray(atom.val, atom.aval.dtype))

    def _computed(self, eqn: Equation, operands: list[Formula]) -> Sequence[Formula]:
        name = eqn.primitive.name
        rule = _RULES.get(name)
        arrays = [None if x.affine is None else x.affine.array for x in operands]
        known = [array for array in arrays if array is not None]
        if len(known) == len(operands) and (rule is None or name in _NUMERIC):
            return _evaluated(eqn, operands, known)
        if rule is None:
            raise UnsuitableError(f"its step contains {name}, which is in no gate")
        return rule(self, eqn, operands)

    def row(self, formula: Formula, axis: int) -> Affine:
        """A formula as a row along `axis`; if it has activations, as the row of a leaf of its own."""
        if formula.affine is not None:
            return formula.affine
        frame = formula.frame
        if math.prod(frame.shape) != frame.shape[axis]:
            raise UnsuitableError("its step multiplies several rows at once by a matrix")
        if formula not in self.rows:
            self.rows[formula] = Leaf(formula, frame.shape[axis])
        return Affine.row(self.rows[formula], frame.batch, axis)

    def product(self, operand: Affine, matrix: Array, weights: frozenset[Value]) -> Product:
        """The product of rows with a matrix; one that is computed twice is the same."""
        key = operand.key, matrix.ctypes.data, matrix.shape, matrix.strides, matrix.dtype
        return self._products.setdefault(key, Product(operand, matrix, weights))


_Rule = Callable[[FormulaReader, Equation, list[Formula]], Sequence[Formula]]


def _evaluated(eqn: Equation, operands: Sequence[Formula], arrays: Sequence[Array]) -> list[Formula]:
    """The results of an equation whose operands are constants."""
    dims = [v.aval.shape for v in (*eqn.invars, *eqn.outvars)]
    is_symbolic = eqn.primitive.name == "dim_as_value" or not all(is_static(dim) for shape in dims for dim in shape)
    if eqn.effects or is_symbolic:
        raise UnsuitableError(f"its step contains {eqn.primitive.name}, which is in no gate")
    whole = [np.broadcast_to(array, shape) for array, shape in zip(arrays, dims, strict=False)]
    with jax.ensure_compile_time_eval():
        results = [np.asarray(y) for y in bind_equation(eqn, [jax.device_put(array) for array in whole])]
    sources = frozenset[Value]().union(*(x.frame.biases for x in operands))
    return [constant_formula(array, sources) for array in results]


def _features(formula: Formula, axis: int, size: Dim) -> Formula:
    """A formula whose `axis` is one of features, with all of its elements along it."""
    frame = formula.frame
    if frame.batch[axis] or not is_static(size):
        raise UnsuitableError("its step takes a batch apart")
    return formula.broadcast(frame.batch, (*frame.shape[:axis], int(size), *frame.shape[axis + 1 :]))


# -- arithmetic -------------------------------------------------------------------------------


def _sum(reader: FormulaReader, eqn: Equation, operands: list[Formula]) -> Sequence[Formula]:
    return [operands[0] + operands[1]]


def _difference(reader: FormulaReader, eqn: Equation, operands: list[Formula]) -> Sequence[Formula]:
    return [operands[0] + -operands[1]]


def _multiplied(reader: FormulaReader, eqn: Equation, operands: list[Formula]) -> Sequence[Formula]:
    return [operands[0] * operands[1]]


def _squared(reader: FormulaReader, eqn: Equation, operands: list[Formula]) -> Sequence[Formula]:
    if eqn.params.get("y", 2) != 2:
        raise UnsuitableError("its step contains a power, which is in no gate")
    return [operands[0] * operands[0]]


def _negated(reader: FormulaReader, eqn: Equation, operands: list[Formula]) -> Sequence[Formula]:
    return [-operands[0]]


def _quotient(reader: FormulaReader, eqn: Equation, operands: list[Formula]) -> Sequence[Formula]:
    """A quotient by a constant, or by 1 + exp(-x), which is a product with σ(x)."""
    dividend, divisor = operands
    if divisor.affine is not None and divisor.affine.array is not None:
        with np.errstate(divide="ignore", over="ignore"):
            inverse = 1 / divisor.affine.array
        if np.isfinite(inverse).all():
            return [dividend * Formula.from_affine(Affine((), inverse, divisor.affine.batch, divisor.affine.biases))]
    for atom in {atom for monomial in divisor.terms for atom, _ in monomial}:
        numbers = {monomial: affine.number() for monomial, affine in divisor.terms.items()}
        if numbers == {ONE: 1.0, frozenset([(atom, 1)]): 1.0} and atom.op_type == "Exp":
            return [dividend * Formula.activation("Sigmoid", -atom.argument)]
    raise UnsuitableError("its step contains div, which is in no gate")


def _activated(reader: FormulaReader, eqn: Equation, operands: list[Formula]) -> Sequence[Formula]:
    return [Formula.activation(_ACTIVATIONS[eqn.primitive.name], operands[0])]


def _maximum(reader: FormulaReader, eqn: Equation, operands: list[Formula]) -> Sequence[Formula]:
    """A maximum with 0."""
    others = [x for x in operands if x.affine is None or not x.affine.is_zero]
    if len(others) != 1:
        raise UnsuitableError("its step contains max, which is in no gate")
    return [Formula.activation("Relu", others[0])]


def _converted(reader: FormulaReader, eqn: Equation, operands: list[Formula]) -> Sequence[Formula]:
    (formula,), dtype = operands, eqn.outvars[0].aval.dtype
    array = None if formula.affine is None else formula.affine.array
    if array is not None:
        return [constant_formula(array.astype(dtype), formula.frame.biases)]
    if eqn.invars[0].aval.dtype != dtype:
        raise UnsuitableError("its step converts between element types")
    return operands


def _same(reader: FormulaReader, eqn: Equation, operands: list[Formula]) -> Sequence[Formula]:
    return operands


# -- arrangements -----------------------------------------------------------------------------


def _transposed(reader: FormulaReader, eqn: Equation, operands: list[Formula]) -> Sequence[Formula]:
    return [_permuted(operands[0], eqn.params["permutation"])]


def _permuted(formula: Formula, perm: Sequence[int]) -> Formula:
    batch = tuple(formula.frame.batch[axis] for axis in perm)
    return formula.arranged(lambda array: array.transpose(perm), batch)


def _placed(reader: FormulaReader, eqn: Equation, operands: list[Formula]) -> Sequence[Formula]:
    """A broadcast; axes that are repeated stay of size 1, since they broadcast."""
    formula, places = operands[0], eqn.params["broadcast_dimensions"]
    frame, rank = formula.frame, len(eqn.params["shape"])
    dims, batch = [1] * rank, [()] * rank  # type: list[int], list[tuple[str, ...]]
    for place, size, over in zip(places, frame.shape, frame.batch, strict=True):
        dims[place], batch[place] = size, over
    return [formula.arranged(lambda array: array.reshape(dims), tuple(batch))]


def _squeezed(reader: FormulaReader, eqn: Equation, operands: list[Formula]) -> Sequence[Formula]:
    axes = tuple(axis % len(operands[0].frame.shape) for axis in eqn.params["dimensions"])
    return [operands[0].arranged(lambda array: array.squeeze(axes), _without(operands[0].frame.batch, axes))]


def _expanded(reader: FormulaReader, eqn: Equation, operands: list[Formula]) -> Sequence[Formula]:
    axes, old = eqn.params["dimensions"], iter(operands[0].frame.batch)
    batch = tuple(() if axis in axes else next(old) for axis in range(len(eqn.outvars[0].aval.shape)))
    return [operands[0].arranged(lambda array: np.expand_dims(array, axes), batch)]


def _reshaped(reader: FormulaReader, eqn: Equation, operands: list[Formula]) -> Sequence[Formula]:
    formula, old, dims = operands[0], eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
    if eqn.params["dimensions"] is not None:
        raise UnsuitableError("a reshape in its step exchanges axes")
    sizes = [1 if over else size for over, size in zip(formula.frame.batch, old, strict=True)]
    formula = formula.broadcast(formula.frame.batch, tuple(int(size) for size in sizes if is_static(size)))
    frame = formula.frame
    factors = [f for over, size in zip(frame.batch, frame.shape, strict=True) for f in over or (size,) if f != 1]
    batch = _grouped(factors, dims, reader.sizes)
    if batch is None:
        raise UnsuitableError("a reshape in its step mixes batches with features")
    new = [int(size) if is_static(size) and not over else 1 for over, size in zip(batch, dims, strict=True)]
    return [formula.arranged(lambda array: array.reshape(new), batch)]


def _grouped(factors: Sequence[str | int], dims: Sequence[Dim], sizes: Mapping[str, Dim]) -> Batch | None:
    """The batch axes that each axis of a reshaped array runs over; None where the reshape mixes batch axes with features.

    The array has axes of the sizes `dims`; `factors` are those before, in row-major order: names of batch axes and sizes of
    features.
    """
    if not dims:
        return None if factors else ()
    size, rest = dims[0], None
    if is_static(size) and size == 1:
        rest = _grouped(factors, dims[1:], sizes)
        return None if rest is None else ((), *rest)
    for count in range(1, len(factors) + 1):
        head, tail = factors[:count], factors[count:]
        names = tuple(f for f in head if isinstance(f, str))
        if len(names) == count and size == math.prod(sizes[name] for name in names):
            rest = _grouped(tail, dims[1:], sizes)
        elif not names and is_static(size) and size:
            whole = math.prod(f for f in head if isinstance(f, int))
            left = [whole // size] if whole > size else []
            rest = _grouped([*left, *tail], dims[1:], sizes) if whole % size == 0 else None
        if rest is not None:
            return (names, *rest)
    return None


def _split(reader: FormulaReader, eqn: Equation, operands: list[Formula]) -> Sequence[Formula]:
    axis, sizes = eqn.params["axis"], eqn.params["sizes"]
    formula = _features(operands[0], axis, eqn.invars[0].aval.shape[axis])
    stops = np.cumsum(sizes)
    return [_taken(formula, np.arange(stop - size, stop), axis) for size, stop in zip(sizes, stops, strict=True)]


def _sliced(reader: FormulaReader, eqn: Equation, operands: list[Formula]) -> Sequence[Formula]:
    starts, stops, steps = (eqn.params[name] for name in ("start_indices", "limit_indices", "strides"))
    slices = [slice(*each) for each in zip(starts, stops, steps or [1] * len(starts), strict=True)]
    return [_part(operands[0], slices, eqn.invars[0].aval.shape)]


def _sliced_at(reader: FormulaReader, eqn: Equation, operands: list[Formula]) -> Sequence[Formula]:
    """A slice that begins at known indices, which are clamped."""
    dims, sizes = eqn.invars[0].aval.shape, eqn.params["slice_sizes"]
    slices = []
    for axis, (operand, size) in enumerate(zip(operands[1:], sizes, strict=True)):
        number = None if operand.affine is None else operand.affine.number()
        if number is None:
            raise UnsuitableError("the bounds of a slice in its step are not constant")
        whole = not is_static(dims[axis])
        start = 0 if whole else min(max(int(number), 0), dims[axis] - size)
        slices.append(slice(start, size if whole else start + size, 1))
    return [_part(operands[0], slices, dims)]


def _part(formula: Formula, slices: Sequence[slice], dims: Sequence[Dim]) -> Formula:
    for axis, (part, size) in enumerate(zip(slices, dims, strict=True)):
        if part.start == 0 and part.step == 1 and part.stop == size:
            continue
        whole = _features(formula, axis, size)
        formula = _taken(whole, np.arange(part.start, part.stop, part.step), axis)
    return formula


def _reversed(reader: FormulaReader, eqn: Equation, operands: list[Formula]) -> Sequence[Formula]:
    formula, dims = operands[0], eqn.invars[0].aval.shape
    for axis in eqn.params["dimensions"]:
        formula = _taken(_features(formula, axis, dims[axis]), np.arange(dims[axis])[::-1], axis)
    return [formula]


def _gathered(reader: FormulaReader, eqn: Equation, operands: list[Formula]) -> Sequence[Formula]:
    """A slice at known indices, or elements at known indices of one axis."""
    (formula, at), dims, numbers = operands, eqn.invars[0].aval.shape, eqn.params["dimension_numbers"]
    array = None if at.affine is None else at.affine.array
    if array is None:
        raise UnsuitableError("indices in its step are not constant")
    indices = np.broadcast_to(array, eqn.invars[1].aval.shape)
    axes, gone, sizes = numbers.start_index_map, numbers.collapsed_slice_dims, eqn.params["slice_sizes"]
    if indices.ndim == 1:
        starts = dict(zip(axes, map(int, indices), strict=True))
        part = _part(formula, [slice(start := starts.get(i, 0), start + size, 1) for i, size in enumerate(sizes)], dims)
        return [part.arranged(lambda array: array.squeeze(gone), _without(part.frame.batch, gone))]
    rank, axis = indices.ndim - 1, axes[0]
    offsets = tuple(i if i < axis else i + rank - 1 for i in range(len(dims)) if i != axis)
    is_whole = all(size == (1 if i == axis else dims[i]) for i, size in enumerate(sizes))
    if len(axes) != 1 or gone != (axis,) or not is_whole or numbers.offset_dims != offsets:
        raise UnsuitableError("its step contains gather, which is in no gate")
    return [_taken(_features(formula, axis, dims[axis]), indices[..., 0], axis)]


def _without(batch: Batch, axes: Sequence[int]) -> Batch:
    return tuple(over for axis, over in enumerate(batch) if axis not in axes)


def _taken(formula: Formula, indices: Array, axis: int) -> Formula:
    batch, size = formula.frame.batch, formula.frame.shape[axis]
    if ((indices < 0) | (indices >= size)).any():
        raise UnsuitableError("an index in its step is out of range")
    return formula.arranged(
        lambda array: np.take(array, indices, axis), (*batch[:axis], *[()] * indices.ndim, *batch[axis + 1 :])
    )


def _concatenated(reader: FormulaReader, eqn: Equation, operands: list[Formula]) -> Sequence[Formula]:
    axis = eqn.params["dimension"]
    sizes = [v.aval.shape[axis] for v in eqn.invars]
    return [_joined([_features(x, axis, size) for x, size in zip(operands, sizes, strict=True)], axis, reader)]


def _stacked(reader: FormulaReader, eqn: Equation, operands: list[Formula]) -> Sequence[Formula]:
    axis = eqn.params["axis"]
    return [_joined([_inserted(x, axis) for x in operands], axis, reader)]


def _inserted(formula: Formula, axis: int) -> Formula:
    """The formula with one more axis, of size 1."""
    batch = formula.frame.batch
    return formula.arranged(lambda array: np.expand_dims(array, axis), (*batch[:axis], (), *batch[axis:]))


def _unstacked(reader: FormulaReader, eqn: Equation, operands: list[Formula]) -> Sequence[Formula]:
    axis = eqn.params["axis"]
    formula = _features(operands[0], axis, eqn.invars[0].aval.shape[axis])
    return [_taken(formula, np.asarray(index), axis) for index in range(len(eqn.outvars))]


def _joined(operands: Sequence[Formula], axis: int, reader: FormulaReader) -> Formula:
    """The concatenation along features: the sum of its parts, each padded with zeros to the whole size."""
    stops = np.cumsum([x.frame.shape[axis] for x in operands])
    total: Formula | None = None
    for x, stop in zip(operands, stops, strict=True):
        size = x.frame.shape[axis]
        part = reader.row(x, axis)
        ends = [(0, 0)] * len(part.shape)
        ends[axis] = (int(stop) - size, int(stops[-1] - stop))
        padded = Formula.from_affine(part.arranged(functools.partial(np.pad, pad_width=ends), part.batch))
        total = padded if total is None else total + padded
    assert total is not None, "a concatenation has operands"
    return total


# -- products with matrices -------------------------------------------------------------------


def _matrix_product(reader: FormulaReader, eqn: Equation, operands: list[Formula]) -> Sequence[Formula]:
    """A product of a formula with a constant, from either side."""
    contracted, batch = eqn.params["dimension_numbers"]
    if eqn.outvars[0].aval.dtype != eqn.invars[0].aval.dtype:
        raise UnsuitableError("its step converts between element types")
    arrays = [None if x.affine is None else x.affine.array for x in operands]
    side = 0 if arrays[1] is None else 1
    matrix, formula, dims = arrays[side], operands[1 - side], eqn.invars[1 - side].aval.shape
    if matrix is None:
        raise UnsuitableError("the weights are not constant")
    if batch[0]:
        raise UnsuitableError("its step multiplies several rows at once by a matrix")
    for axis in contracted[1 - side]:
        formula = _features(formula, axis, dims[axis])
    if len(contracted[0]) == 1:  # a product of activations and a state may be a leaf of its own
        formula = Formula.from_affine(reader.row(formula, contracted[1 - side][0]))
    rest = [axis for axis in range(len(dims)) if axis not in contracted[1 - side]]
    formula = _permuted(formula, [*rest, *contracted[1 - side]])
    whole = np.moveaxis(
        np.broadcast_to(matrix, eqn.invars[side].aval.shape), contracted[side], range(len(contracted[side]))
    )
    product = _times(reader, formula, len(rest), whole, operands[side].frame.biases)
    return [product if side else _permuted(product, [*range(len(rest), len(product.frame.shape)), *range(len(rest))])]


def _times(reader: FormulaReader, formula: Formula, rank: int, matrix: Array, weights: frozenset[Value]) -> Formula:
    """`formula` [batch…, n…] of `rank` batch axes times a constant [n…, m…], which was made from `weights`."""
    batch, shape = formula.frame.batch[:rank], formula.frame.shape
    free, count = matrix.shape[len(shape) - rank :], math.prod(shape[rank:])
    if any(size > 1 for size in shape[:rank]):
        raise UnsuitableError("its step multiplies several rows at once by a matrix")
    flat = reader.row(formula.arranged(lambda array: array.reshape(-1), ((),)), 0)
    product = reader.product(flat, matrix.reshape(count, -1), weights)
    places = np.arange(product.matrix.shape[1]).reshape(*[1] * rank, *free)
    terms = (Term(product, places, np.ones(places.shape, np.float32)),) if flat.terms else ()
    bias = flat.bias @ product.matrix if flat.bias.any() else np.zeros(places.size, product.matrix.dtype)
    return Formula.from_affine(Affine(terms, bias.reshape(places.shape), (*batch, *[()] * len(free)), flat.biases))


_RULES: Mapping[str, _Rule] = {
    "add": _sum, "add_any": _sum, "sub": _difference, "mul": _multiplied, "neg": _negated, "div": _quotient, "square": _squared,
    "integer_pow": _squared, "logistic": _activated, "tanh": _activated, "exp": _activated, "max": _maximum,
    "convert_element_type": _converted, "copy": _same, "copy_p": _same, "optimization_barrier": _same,
    "transpose": _transposed, "broadcast_in_dim": _placed, "squeeze": _squeezed, "expand_dims": _expanded, "reshape": _reshaped,
    "split": _split, "slice": _sliced, "dynamic_slice": _sliced_at, "rev": _reversed, "gather": _gathered, "concatenate": _concatenated, "stack": _stacked,
    "unstack": _unstacked,
    "dot_general": _matrix_product,
}  # fmt: skip

#: The primitives of equations that can be read.
READ_PRIMITIVES = frozenset(_RULES)
