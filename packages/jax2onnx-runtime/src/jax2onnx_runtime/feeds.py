"""The arrays that a model takes: checked against its inputs and the symbols in their shapes, or random."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import RuntimeInputError, SymbolError
from jax2onnx_graph.facts.expressions import evaluate, holds, is_expression, solutions
from jax2onnx_graph.facts.type_text import type_text
from jax2onnx_graph.labels import symbols_in
from jax2onnx_graph.metadata import read_constraints, read_symbols
from jax2onnx_graph.traversal import given_inputs

from jax2onnx_runtime.comparison import random_array
from jax2onnx_runtime.probing import index_extents
from jax2onnx_runtime.sizes import Shape, Sizes, SymbolSpace, check_shapes, find_sizes, index_ranges

__all__ = ["feeds_of", "sizes_of", "sizes_text", "symbol_space"]

# The sizes of symbols about which nothing else is known, before all others that are possible.
_USUAL = (2, 3, 4, 5, 7)


def feeds_of(
    model: ir.Model, given: Mapping[str, Array], *, sizes: Sizes | None = None, seed: int | None = None
) -> dict[str, Array]:
    """An array for each input of a model.

    Args:
      model: the model, of any producer.
      given: input → array.
      sizes: the sizes of symbols for random arrays; those that nothing determines are small.
      seed: that of random arrays for the inputs that are not given; None if all have to be given.

    Raises:
      RuntimeInputError: an array is missing, is for no input, or has another type or shape.
      SymbolError: there is no such symbol, or it cannot have this size.
    """
    inputs = {str(value.name): value for value in given_inputs(model.graph)}
    if unknown := given.keys() - inputs.keys():
        raise RuntimeInputError(f"There is no input {min(unknown)!r}; the inputs are {', '.join(inputs) or 'none'}.")
    missing = [name for name in inputs if name not in given]
    if missing and seed is None:
        raise RuntimeInputError(f"There is no array for the input {missing[0]!r}, {type_text(inputs[missing[0]])}.")
    for name, array in given.items():
        _check_type(inputs[name], array)
    space = symbol_space(model)
    shapes = dict(zip(inputs, space.inputs, strict=True))
    known = {name: shape for name, shape in shapes.items() if inputs[name].shape is not None and name in given}
    try:
        found = _sizes(space, {name: (given[name].shape, shape) for name, shape in known.items()}, sizes or {})
    except SymbolError as error:
        raise SymbolError(f"The arrays do not fit: {error}") from error
    rng = np.random.default_rng(seed)
    bounds = index_ranges(space, index_extents(model), found)
    random = {name: _random(rng, inputs[name], shapes[name], found, bounds.get(name)) for name in missing}
    return {name: given[name] if name in given else random[name] for name in inputs}


def _check_type(value: ir.Value, array: Array) -> None:
    if value.dtype is None or not isinstance(value.type, ir.TensorType):
        raise RuntimeInputError(f"The input {value.name!r} is {type_text(value)}, which no array is.")
    wanted = value.dtype.numpy()
    if array.dtype != wanted and not (wanted.kind == "O" and array.dtype.kind in "OSU"):
        raise RuntimeInputError(
            f"The input {value.name!r} has type {array.dtype}, but the model takes {wanted}: array.astype({wanted.name!r}) has that."
        )


def sizes_of(space: SymbolSpace, model: ir.Model, shapes: Mapping[str, Sequence[int]]) -> Sizes:
    """The sizes of the symbols for shapes of all inputs of a model, whose symbols are those of `space`.

    A symbol that no shape tells has none, and the dimensions with it are not checked.

    Raises:
      SymbolError: the shapes do not fit the inputs or each other, or the sizes are not allowed.
    """
    wanted = zip(given_inputs(model.graph), space.inputs, strict=True)
    given = {str(value.name): (shapes[str(value.name)], dims) for value, dims in wanted if value.shape is not None}
    known = _solved({name: pair for name, pair in given.items() if len(pair[0]) == len(pair[1])})
    told = {name: (shape, _told(shape, dims, known)) for name, (shape, dims) in given.items()}
    return check_shapes(space, told, lambda: known)


def sizes_text(model: ir.Model, feeds: Mapping[str, Array]) -> str:
    """The numbers that the symbols of a model have in a run, as messages describe it: "B = 3"; empty where it has none."""
    numbers = {
        dim.value: size
        for value in model.graph.inputs
        if value.shape is not None and value.name is not None and value.name in feeds
        for dim, size in zip(value.shape, feeds[value.name].shape, strict=True)
        if isinstance(dim, ir.SymbolicDim) and dim.value is not None and dim.value.isidentifier()
    }
    return ", ".join(f"{symbol} = {number}" for symbol, number in numbers.items())


def _told(shape: Sequence[int], dims: Shape, known: Sizes) -> Shape:
    """The dimensions that a shape should have, as far as the known symbols tell."""
    if len(shape) != len(dims):
        return dims
    return [size if symbols_in(str(dim)) - known.keys() else dim for size, dim in zip(shape, dims, strict=True)]


def symbol_space(model: ir.Model) -> SymbolSpace:
    """The symbols of a model's inputs, and what its metadata say of them."""
    shapes = [_dims(value) for value in given_inputs(model.graph)]
    names = sorted({symbol for shape in shapes for dim in shape for symbol in symbols_in(str(dim))})
    minimum = {info.name: info.minimum for info in read_symbols(model)}
    constraints = read_constraints(model)

    def check(sizes: Sizes) -> None:
        for name, size in sizes.items():
            if size < (least := minimum.get(name, 0)):
                raise SymbolError(f"{name} = {size}, but it is at least {least}.")
        for text in constraints:
            if not symbols_in(text) - sizes.keys() and not holds(text, sizes):
                raise SymbolError(f"the model was exported for {text}.")

    return SymbolSpace(
        names, lambda name: minimum.get(name, 1), check, lambda dim, sizes: evaluate(str(dim), sizes), str, shapes,
        constraints=constraints,
    )  # fmt: skip


def _dims(value: ir.Value) -> Shape:
    """The dimensions of an input; one without a label, or with a text that is no expression, is a symbol of its own."""
    labels = [dim.value if isinstance(dim, ir.SymbolicDim) else dim for dim in value.shape or ()]
    dims = [f"{value.name}_dim{axis}" if label is None else label for axis, label in enumerate(labels)]
    return tuple(d if isinstance(d, int) or is_expression(d) else "_" + re.sub(r"\W", "_", d) for d in dims)


def _sizes(space: SymbolSpace, given: Mapping[str, tuple[Sequence[int], Shape]], wanted: Sizes) -> Sizes:
    """The sizes of all symbols: those that the shapes of arrays give, those that are wanted, small ones of the others."""
    if unknown := sorted(wanted.keys() - space.names):
        raise SymbolError(f"there is no symbol {unknown[0]!r}; the symbols are {', '.join(space.names) or 'none'}.")
    known = {**wanted, **check_shapes(space, given, lambda: _solved(given))}
    for name, size in wanted.items():
        if known[name] != size:
            raise SymbolError(f"{name} is to be {size}, but an array has {known[name]}.")
    space.check(known)
    return find_sizes(space, {name: _USUAL for name in space.names if name not in known}, known)


def _solved(given: Mapping[str, tuple[Sequence[int], Shape]]) -> Sizes:
    """The sizes that symbols have: a dimension that is a symbol tells its size, then each with one unknown symbol tells that."""
    dims = [pair for shape, wanted in given.values() for pair in zip(shape, wanted, strict=True)]
    sizes = {dim: size for size, dim in reversed(dims) if isinstance(dim, str) and dim.isidentifier()}
    known = -1
    while known < len(sizes):
        known = len(sizes)
        for size, dim in dims:
            match sorted(symbols_in(str(dim)) - sizes.keys()):
                case [symbol]:
                    sizes[symbol] = _solution(str(dim), symbol, size, sizes)
    return sizes


def _solution(dim: str, symbol: str, size: int, sizes: Sizes) -> int:
    """The size of a symbol at which a dimension has a size, exactly for a linear one, else tried; 0 where none is found."""
    one, two = (evaluate(dim, {**sizes, symbol: n}) for n in (1, 2))
    linear = 1 + (size - one) // (two - one) if two != one else 0
    tried = np.array([max(linear, 0), *range(max(size, 0) + 1)], np.int64)
    return int(next(iter(solutions(f"{dim} == {size}", symbol, tried, sizes)), 0))


def _random(
    rng: np.random.Generator, value: ir.Value, shape: Shape, sizes: Sizes, bounds: tuple[float, float] | None
) -> Array:
    if value.dtype is None or value.shape is None or value.dtype == ir.DataType.STRING:
        raise RuntimeInputError(
            f"There are no random arrays for the input {value.name!r}, {type_text(value)}: give one."
        )
    return random_array(rng, value.dtype.numpy(), tuple(evaluate(str(dim), sizes) for dim in shape), bounds)
