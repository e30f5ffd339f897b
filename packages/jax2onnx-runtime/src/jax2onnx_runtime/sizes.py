"""Sizes for the symbols of a model, and ranges for its inputs: those that somebody gives, and those to try."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import ml_dtypes
import numpy as np
from jax2onnx_graph.arrays import Array, Dtype
from jax2onnx_graph.errors import OptionError, SymbolError
from jax2onnx_graph.facts.dims import Dim
from jax2onnx_graph.facts.expressions import is_expression
from jax2onnx_graph.labels import symbols_in

from jax2onnx_runtime._size_search import SizeSearch

__all__ = [
    "Ranges",
    "Shape",
    "Sizes",
    "SymbolSpace",
    "check_ranges",
    "check_runs",
    "check_shapes",
    "check_sizes",
    "choose_sizes",
    "find_sizes",
    "index_ranges",
]

#: Dimensions, or their labels.
Shape = Sequence[Dim | str]
#: Symbol → its size.
Sizes = Mapping[str, int]
#: Input → the numbers to draw: from the first up to the second, which itself is not among integers.
Ranges = Mapping[str, tuple[float, float]]

_USUAL = (1, 7, 12, 2, 3, 4, 5, 6, 8, 9, 10, 11, 13, 14, 15, 16, 0)
_CRITICAL_RUNS = 2
_LARGEST = 8192
"""The largest size that is tried unless a larger one is preferred."""

_TRIES, _FEW_TRIES = 20_000, 1_000
"""Numbers of sizes that a search tries: about a second, and a few hundredths of one where a failure does no harm."""


@dataclasses.dataclass(frozen=True)
class SymbolSpace:
    """The symbols of a model, and which sizes they may have.

    Attributes:
      names: the symbols.
      minimum: the least size of a symbol.
      check: raises SymbolError for sizes, of some of the symbols, that break a minimum or a constraint.
      evaluate: the number that a dimension, or its label, is for sizes of the symbols.
      label: the text that shows a dimension.
      inputs: the shapes of the inputs in terms of the symbols.
      others: further shapes.
      constraints: the constraints that `check` knows, as comparisons of expressions.
    """

    names: Sequence[str]
    minimum: Callable[[str], int]
    check: Callable[[Sizes], None]
    evaluate: Callable[[Dim | str, Sizes], int]
    label: Callable[[Dim | str], str]
    inputs: Sequence[Shape]
    others: Sequence[Shape] = ()
    constraints: Sequence[str] = ()

    def allows(self, sizes: Sizes) -> bool:
        """Whether sizes of some of the symbols break no minimum and no constraint."""
        try:
            self.check(sizes)
        except SymbolError:
            return False
        return True

    def has_shapes(self, sizes: Sizes) -> bool:
        """Whether all dimensions of the shapes are at least 0."""
        return all(self.evaluate(dim, sizes) >= 0 for shape in (*self.inputs, *self.others) for dim in shape)

    def comparisons(self) -> list[str]:
        """Conditions on the symbols: the constraints, and that no dimension is negative."""
        labels = {self.label(dim) for shape in (*self.inputs, *self.others) for dim in shape}
        expressions = sorted(label for label in labels if not (label.isidentifier() or label.isdecimal()))
        return [*self.constraints, *(f"{label} >= 0" for label in expressions if is_expression(label))]


def find_sizes(
    space: SymbolSpace, preferred: Mapping[str, Sequence[int]], given: Sizes | None = None, *, distinct: bool = False
) -> dict[str, int]:
    """The first sizes that the symbols may have at once, `given` ones included.

    Args:
      space: what the symbols may be.
      preferred: symbol → the sizes to try first, in order; after them all up to some thousands, the smallest first. Those of the last
        symbol vary fastest.
      given: sizes of further symbols.
      distinct: whether the symbols get different sizes where that is possible.

    Raises:
      SymbolError: none were found.
    """
    found = (_found(space, preferred, given or {}, distinct=True) if distinct else None) or _found(
        space, preferred, given or {}
    )
    if found is None:
        others = dict.fromkeys(space.names, "…")
        raise SymbolError(
            f"No sizes up to {_LARGEST} of {', '.join(preferred)} were found that fit the constraints and the shapes; give some that do: "
            f"sizes=[{{{', '.join(f'{name!r}: {size}' for name, size in others.items())}}}]."
        )
    return found


def _found(
    space: SymbolSpace, preferred: Mapping[str, Sequence[int] | Array], given: Sizes, *, distinct: bool = False
) -> dict[str, int] | None:
    """See `find_sizes`; None where none were found."""

    def accepts(sizes: Sizes) -> bool:
        return space.allows(sizes) and space.has_shapes(sizes)

    domains = {name: _domain(sizes, space.minimum(name)) for name, sizes in preferred.items()}
    comparisons = space.comparisons()
    for names in dict.fromkeys([tuple(domains), tuple(reversed(domains))]):
        search = SizeSearch(comparisons, accepts, distinct=distinct, tries=_FEW_TRIES if distinct else _TRIES)
        sizes = search.first({name: domains[name] for name in names}, given)
        if sizes is not None:
            return {name: sizes[name] for name in [*given, *domains]}
    return None


def _domain(preferred: Sequence[int] | Array, minimum: int) -> Array:
    """The preferred sizes, then all others, the smallest first."""
    first = np.asarray(preferred, np.int64)
    first = first[first >= minimum]
    first = first[np.sort(np.unique(first, return_index=True)[1])]
    others = np.arange(minimum, max(_LARGEST, first.max(initial=minimum)) + 1)
    return np.concatenate([first, np.setdiff1d(others, first, assume_unique=True)])


def choose_sizes(space: SymbolSpace, critical: Mapping[str, Sequence[int]] | None = None) -> list[dict[str, int]]:
    """Sizes to run at: the smallest allowed, a prime or the next one, and a larger one, each symbol another.

    Then, twice, those of the sizes in `critical` that come first and were not chosen yet.

    Raises:
      SymbolError: no sizes were found that satisfy the constraints.
    """
    found = [find_sizes(space, dict.fromkeys(space.names, ()))]

    def add(preferred: Mapping[str, Sequence[int] | Array], *, distinct: bool = False) -> None:
        sizes = (_found(space, preferred, {}, distinct=True) if distinct else None) or _found(space, preferred, {})
        if sizes is not None and sizes not in found:
            found.append(sizes)

    for start in (1, 2):
        add({name: _from(start + i, [s[name] for s in found]) for i, name in enumerate(space.names)}, distinct=True)
    for _ in range(_CRITICAL_RUNS if critical else 0):
        untried = {name: [s for s in (critical or {}).get(name, ()) if _is_new(name, s, found)] for name in space.names}
        if any(untried.values()):
            add({name: (*sizes, *_USUAL) for name, sizes in untried.items()})
    return found


def _is_new(name: str, size: int, found: Sequence[Sizes]) -> bool:
    return all(size != sizes[name] for sizes in found)


def _from(start: int, tried: Sequence[int]) -> Array:
    """Sizes that were not tried: the usual ones rotated, then those that are clearly larger, then the smaller ones."""
    usual = _USUAL[start % len(_USUAL) :] + _USUAL[: start % len(_USUAL)]
    larger = np.arange(max(tried) * (len(tried) + 1) // 2 + 1, _LARGEST + 1)
    sizes = np.concatenate([usual, larger, np.arange(1, _LARGEST + 1)])
    return sizes[~np.isin(sizes, tried)]


def check_runs(sizes: Sequence[Sizes]) -> None:
    """Raise OptionError unless these are mappings, at least one, for the runs that somebody asks for."""
    if not isinstance(sizes, Sequence) or not sizes or not all(isinstance(one, Mapping) for one in sizes):
        raise OptionError(f"sizes needs a mapping from symbols to numbers for each run, [{{'T': 3}}], not {sizes!r}.")


def check_sizes(space: SymbolSpace, sizes: Sequence[Sizes]) -> None:
    """Check the sizes of several runs, given by somebody.

    Raises:
      OptionError: they are no sequence of mappings, or there are none.
      SymbolError: a symbol is unknown, lacks a size or cannot have it.
    """
    check_runs(sizes)
    for number, one in enumerate(sizes):
        for wrong, what in (
            (one.keys() - space.names, "no input has"),
            (set(space.names) - one.keys(), "there is none for"),
        ):
            if wrong:
                raise SymbolError(
                    f"sizes[{number}]: {what} {', '.join(sorted(map(str, wrong)))}. "
                    f"The symbols are: {', '.join(space.names) or 'none'}."
                )
        space.check(one)
        if not space.has_shapes(one):
            raise SymbolError(f"sizes[{number}]: a dimension would be negative for {_shown(one)}.")


def _shown(sizes: Sizes) -> str:
    return ", ".join(f"{name} = {size}" for name, size in sizes.items())


def check_shapes(
    space: SymbolSpace, shapes: Mapping[str, tuple[Sequence[int], Shape]], solve: Callable[[], Sizes]
) -> Sizes:
    """Check the shapes of inputs; the sizes of the symbols.

    Args:
      space: the sizes that the symbols may have.
      shapes: input → its shape, and the dimensions that it should have.
      solve: finds the sizes of the symbols, called once the ranks are right.

    Raises:
      SymbolError: a shape is not the wanted one at these sizes, or the sizes are not allowed.
    """
    for name, (shape, dims) in shapes.items():
        if len(shape) != len(dims):
            raise SymbolError(
                f"Input {name!r} has shape {tuple(shape)}, but the program was exported for {_labelled(space, dims)}."
            )
    sizes = solve()
    for name, (shape, dims) in shapes.items():
        _check_shape(space, name, shape, dims, sizes)
    space.check(sizes)
    return sizes


def _check_shape(space: SymbolSpace, name: str, shape: Sequence[int], dims: Shape, sizes: Sizes) -> None:
    for axis, (size, dim) in enumerate(zip(shape, dims, strict=True)):
        wanted = space.evaluate(dim, sizes)
        if wanted != size:
            raise SymbolError(
                f"Input {name!r} has size {size} on axis {axis}, but it should be {space.label(dim)}"
                + (f" = {wanted} where {_shown(sizes)}" if sizes and space.label(dim) != str(wanted) else "")
                + f"; the exported shape is {_labelled(space, dims)}."
            )


def _labelled(space: SymbolSpace, dims: Shape) -> str:
    return f"({', '.join(map(space.label, dims))})"


def check_ranges(dtypes: Mapping[str, Dtype], ranges: Ranges) -> None:
    """Check the ranges of inputs, given by somebody; `dtypes` are those of the inputs.

    Raises:
      OptionError: there is no such input, or the range is none.
    """
    for name, bounds in ranges.items():
        if name not in dtypes:
            raise OptionError(f"ranges: there is no input {name!r}; the inputs are {', '.join(dtypes)}.")
        if not isinstance(bounds, tuple) or len(bounds) != 2 or not bounds[0] < bounds[1]:
            raise OptionError(f"ranges: {name!r} needs a pair (low, high) with low < high, not {bounds!r}.")
        if "int" in dtypes[name].name:
            limits = ml_dtypes.iinfo(dtypes[name])
            if not limits.min <= bounds[0] <= bounds[1] - 1 <= limits.max:
                raise OptionError(f"ranges: {name!r} is {dtypes[name]}, which does not hold all of {bounds}.")


def index_ranges(
    space: SymbolSpace, extents: Mapping[str, Sequence[int | str]], sizes: Sizes
) -> dict[str, tuple[int, int]]:
    """The numbers that inputs may hold which are indices: from the first of a pair up to, but without, the second.

    Args:
      space: the sizes that the symbols may have.
      extents: input → the sizes of the axes that it indexes, numbers or labels.
      sizes: those of the symbols.
    """
    known = {
        name: [
            space.evaluate(e, sizes) if isinstance(e, str) else e
            for e in found
            if not symbols_in(str(e)) - sizes.keys()
        ]
        for name, found in extents.items()
    }
    return {name: (0, max(1, min(found))) for name, found in known.items() if found}
