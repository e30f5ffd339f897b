"""Profiles of shapes: the least, the usual and the largest shape of each input, for runtimes that build engines for them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jax2onnx_graph.errors import SymbolError
from jax2onnx_graph.facts.dims import Dim, is_static
from jax2onnx_graph.labels import symbols_in
from jax2onnx_graph.metadata import SymbolInfo

from jax2onnx_runtime.sizes import SymbolSpace

__all__ = ["ShapeProfile", "SymbolRange", "shape_profile"]

Shape = tuple[int, ...]
#: `(least, usual, largest)`, or one number for all three.
SymbolRange = int | tuple[int, int, int]
_PARTS = ("min", "opt", "max")
# So many sizes of the symbols of an axis are tried; of more, the least and the largest of each.
_TRIED = 10_000


@dataclass(frozen=True)
class ShapeProfile:
    """The least, the usual and the largest shape of each input with a symbolic dimension."""

    shapes: Mapping[str, tuple[Shape, Shape, Shape]]

    def trtexec(self) -> str:
        """The profile as flags of `trtexec`: `--minShapes=x:1x3 --optShapes=x:1x3 --maxShapes=x:6x3`."""
        return " ".join(f"--{part}Shapes={self._text(i)}" for i, part in enumerate(_PARTS) if self.shapes)

    def provider_options(self) -> dict[str, str]:
        """The profile as options of an execution provider: `{"trt_profile_min_shapes": "x:1x3", …}`."""
        return {f"trt_profile_{part}_shapes": self._text(i) for i, part in enumerate(_PARTS) if self.shapes}

    def _text(self, part: int) -> str:
        return ",".join(f"{name}:{'x'.join(map(str, shapes[part]))}" for name, shapes in self.shapes.items())


def shape_profile(
    space: SymbolSpace,
    names: Sequence[str],
    symbols: Mapping[str, SymbolInfo],
    sizes: Mapping[str, SymbolRange],
) -> ShapeProfile:
    """The profile of the inputs of a model.

    Args:
      space: the sizes that the symbols may have, and the shapes of the inputs.
      names: those of the inputs, in order.
      symbols: the symbols by name.
      sizes: symbol → its least, usual and largest size.

    Raises:
      SymbolError: a symbol is unknown, has no sizes or cannot have them, or an input is fixed to another size.
    """
    given = {symbol: _range(symbol, value) for symbol, value in sizes.items()}
    for symbol, (least, _, largest) in given.items():
        _check_known(symbol, least, largest, names, space, symbols)
    free = {symbol: given[symbol] for symbol in space.names if symbol in given}
    if missing := [symbol for symbol in space.names if symbol not in given]:
        (symbol, *_) = missing
        name, axis, label = symbols[symbol].origins[0]
        raise SymbolError(
            f"The profile says nothing of {', '.join(missing)}, which input {name!r} has on axis {axis} ({label}): give "
            f"{symbol}=(least, usual, largest)."
        )
    for part, chosen in zip(_PARTS, ({s: v[i] for s, v in free.items()} for i in range(3)), strict=True):
        _check(space, part, chosen)
    shapes: dict[str, tuple[Shape, Shape, Shape]] = {}
    for name, dims in zip(names, space.inputs, strict=True):
        if not all(map(is_static, dims)):
            ranges = [_extent(space, name, axis, dim, free) for axis, dim in enumerate(dims)]
            shapes[name] = tuple(r[0] for r in ranges), tuple(r[1] for r in ranges), tuple(r[2] for r in ranges)
    return ShapeProfile(shapes)


def _range(symbol: str, value: object) -> tuple[int, int, int]:
    three = (value, value, value) if isinstance(value, int) else value
    if isinstance(three, (tuple, list)) and len(three) == 3:
        least, usual, largest = three
        if all(isinstance(n, int) and not isinstance(n, bool) for n in three) and least <= usual <= largest:
            return least, usual, largest
    raise SymbolError(
        f"{symbol}={value!r}: a profile needs (least, usual, largest), three whole numbers in this order."
    )


def _check_known(
    symbol: str, least: int, largest: int, names: Sequence[str], space: SymbolSpace, symbols: Mapping[str, SymbolInfo]
) -> None:
    """Raise for a symbol that no input has, or that is fixed to a number other than those of the profile."""
    if symbol not in symbols:
        shapes = ", ".join(
            f"{name} ({', '.join(map(space.label, dims))})" for name, dims in zip(names, space.inputs, strict=True)
        )
        raise SymbolError(f"The profile gives sizes for {symbol}, but no input has that symbol: {shapes}.")
    fixed = symbols[symbol].value
    if fixed is not None and (least, largest) != (fixed, fixed):
        name, axis, label = symbols[symbol].origins[0]
        raise SymbolError(
            f"Input {name!r} is static on axis {axis}, where {label} was fixed by {symbol} = {fixed}: the profile cannot have "
            f"{least} to {largest} there. Make it of the model in which {symbol} is symbolic."
        )


def _check(space: SymbolSpace, part: str, sizes: Mapping[str, int]) -> None:
    try:
        space.check(sizes)
    except SymbolError as error:
        raise SymbolError(f"The {part} shapes of the profile are not possible: {error}") from error


def _extent(
    space: SymbolSpace, name: str, axis: int, dim: Dim | str, free: Mapping[str, tuple[int, int, int]]
) -> tuple[int, int, int]:  # fmt: skip
    """The least, the usual and the largest size of an axis."""
    if is_static(dim):
        return int(dim), int(dim), int(dim)
    own = {symbol: values for symbol, values in free.items() if symbol in symbols_in(space.label(dim))}
    usual = {symbol: values[1] for symbol, values in free.items()}
    # Between its ends an expression may be larger or smaller, as `mod(T, 4)`.
    ranges: list[Sequence[int]] = [range(least, largest + 1) for least, _, largest in own.values()]
    if math.prod(map(len, ranges)) > _TRIED:
        ranges = [(r[0], r[-1]) for r in ranges]
    tried = [dict(zip(own, chosen, strict=True)) for chosen in itertools.product(*ranges)]
    found = [space.evaluate(dim, {**usual, **sizes}) for sizes in tried]
    if min(found) < 0:
        where = ", ".join(f"{s} = {n}" for s, n in tried[found.index(min(found))].items())
        raise SymbolError(
            f"Input {name!r} would have the size {min(found)} on axis {axis}, {space.label(dim)}, where {where}."
        )
    return min(found), space.evaluate(dim, usual), max(found)
