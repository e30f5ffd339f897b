"""Sizes from data: symbols of shapes whose numbers an operation of the traced function gives."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

import jax
import numpy as np

from jax2onnx_core import _compat
from jax2onnx_core._fingerprint import params_fingerprint
from jax2onnx_core.jax_types import Equation, Jaxpr, Primitive
from jax2onnx_core.jaxprs import open_jaxpr
from jax2onnx_core.plugins.errors import ConversionError
from jax2onnx_core.symbols.symbols import DataSize, Dim, Symbols

if TYPE_CHECKING:
    from typing_extensions import TypeIs

__all__ = [
    "advice_on_sizes",
    "are_possible",
    "check_questions",
    "check_sizes",
    "exact_fraction",
    "has_size_from_data",
    "is_from_data",
    "is_number_from_data",
    "new_size",
    "once",
    "size",
    "size_of",
    "size_p",
    "solve_size",
    "tracing_sizes",
]  # fmt: skip

_Made = TypeVar("_Made")

#: So many equations are compared, one after another, to find that two arrays were computed in the same way.
_DEPTH = 8

exact_fraction = _compat.exact_fraction

#: Gives a size: that of the axis `axis` of its operand, or the number that the operand is.
size_p = Primitive("jax2onnx_size")


@dataclasses.dataclass
class _Trace:
    """The trace of a function that may have sizes from data.

    Attributes:
      symbols: the symbols of the export.
      made: called for each new size, before it is used.
      computed: how an array was computed, and what is computed from it → the result.
      kept: the arrays whose identities are in `computed`.
    """

    symbols: Symbols
    made: Callable[[], None]
    computed: dict[tuple[Hashable, str], object] = dataclasses.field(default_factory=dict)
    kept: list[jax.Array] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class _Known:
    """What the user says of the sizes from data in a part of his function."""

    name: str | None = None
    at_least: int = 0
    at_most: Dim | None = None


class _Thread(threading.local):
    """The state of one thread."""

    trace: _Trace | None = None
    known = _Known()


_thread = _Thread()


@contextlib.contextmanager
def tracing_sizes(symbols: Symbols, made: Callable[[], None]) -> Iterator[None]:
    """Inside, this thread traces a function whose shapes may have sizes from data.

    Args:
      symbols: the symbols of the export.
      made: called for each new size, before it is used.
    """
    outer, _thread.trace = _thread.trace, _Trace(symbols, made)
    symbols.forget_sizes()
    try:
        with symbols.limited():
            yield
    finally:
        _thread.trace = outer


@contextlib.contextmanager
def size(name: str | None = None, *, at_least: int = 0, at_most: Dim | None = None) -> Iterator[None]:
    """Inside, something is said of the sizes from data that an export finds; without an export nothing changes.

    >>> with size("detections", at_most=300):
    ...     kept = boxes[scores > 0.5]

    Args:
      name: what they are called in the model.
      at_least: the least size. The model is for such data only, which nothing checks.
      at_most: the largest size, likewise.
    """
    if name is not None and not name.isidentifier():
        raise ConversionError(f"A size has a name such as 'detections', not {name!r}.")
    outer = _thread.known
    most = outer.at_most if at_most is None else at_most
    _thread.known = _Known(name or outer.name, max(at_least, outer.at_least), most)
    try:
        yield
    finally:
        _thread.known = outer


def are_possible() -> bool:
    """Whether a function is traced whose shapes may have sizes from data."""
    return _thread.trace is not None


def is_from_data(value: object) -> TypeIs[jax.core.Tracer]:
    """Whether a value is an array that only a run of the model knows, in a trace that may have sizes from data."""
    return isinstance(value, jax.core.Tracer) and _thread.trace is not None


def is_number_from_data(value: object) -> TypeIs[jax.core.Tracer]:
    """Whether a value is a whole number that only a run of the model knows, in a trace that may have sizes from data."""
    return is_from_data(value) and not value.shape and bool(jax.numpy.issubdtype(value.dtype, np.integer))


def has_size_from_data(dim: Dim) -> bool:
    """Whether a dimension depends on data."""
    return bool(_current().symbols.sizes_in([dim]))


def once(x: jax.Array, what: str, make: Callable[[], _Made]) -> _Made:
    """The result of a computation on an array, made in the trace of the array, and but once for arrays that were computed in the same way.

    Args:
      x: the array.
      what: what is computed.
      make: computes it.
    """
    trace, key = _current(), (_origin(x, _DEPTH), what)
    if key not in trace.computed:
        assert isinstance(x, jax.core.Tracer), "other arrays are known"
        trace.kept.append(x)
        with _compat.in_trace_of(x):
            trace.computed[key] = make()
    return trace.computed[key]  # type: ignore[return-value]


def _origin(x: object, depth: int) -> Hashable:
    """A value that is equal for arrays that were computed in the same way from the same arrays."""
    equation = _compat.traced_equation(x) if depth else None
    if equation is not None:
        primitive, params, operands, place = equation
        return primitive, params_fingerprint(params), tuple(_origin(one, depth - 1) for one in operands), place
    return _compat.traced_source(x)


def size_of(
    number: jax.Array, operation: str, *, least: int = 0, most: Dim | None = None, is_count: bool = False
) -> Dim:  # fmt: skip
    """The dimension that a traced whole number is, 0 where it is negative; the same for the same number.

    Args:
      number: a scalar.
      operation: what gives it, as messages name it.
      least: the least number that it can be.
      most: the greatest one, if one is known.
      is_count: whether the number is known not to be negative.
    """

    def make() -> Dim:
        size = new_size(operation, _compat.largest_of(number) if most is None else most, least)
        _bind_size(size, number if is_count else jax.numpy.maximum(number, 0), None)
        return size

    return once(number, f"size from {least}", make)


def new_size(operation: str, most: Dim | None = None, least: int = 0) -> Dim:
    """A new dimension, of which `solve_size` says what it is."""
    source = f"{operation} at {_compat.current_frame() or _compat.NO_LINE}"
    known = _thread.known
    trace = _current()
    trace.made()
    most = most if known.at_most is None else known.at_most
    return trace.symbols.new_size(known.name or operation, source, max(least, known.at_least), most).dim


def solve_size(size: Dim, x: jax.Array, axis: int) -> None:
    """Say that a new dimension is the size of an axis of an array."""
    _bind_size(size, x, axis)


def _bind_size(size: Dim, x: jax.Array, axis: int | None) -> None:
    assert isinstance(x, jax.core.Tracer), "the numbers of other arrays are known"
    (found,) = _current().symbols.sizes_in([size])
    with _compat.in_trace_of(x):
        size_p.bind(x, size=size, axis=axis, source=found.source)


def _current() -> _Trace:
    assert _thread.trace is not None, "sizes from data are made while a function is traced only"
    return _thread.trace


def check_sizes(jaxpr: Jaxpr, symbols: Symbols) -> None:
    """Check that no size leaves the body of a loop in which it is made; forget the sizes of traces that were given up.

    Raises:
      ConversionError: one does.
    """
    if symbols.from_data:
        symbols.keep_sizes(_sizes_made(jaxpr))
        _check_loops(jaxpr, symbols)


def _check_loops(jaxpr: Jaxpr, symbols: Symbols) -> None:
    for eqn in open_jaxpr(jaxpr)[0].eqns:
        for inner in _compat.inner_jaxprs(eqn) if _compat.defines_sizes(eqn) else ():
            _check_loops(inner, symbols)
            made = _sizes_made(inner)
            results = open_jaxpr(inner)[0].outvars
            for index, var in enumerate(eqn.outvars):
                escaped = [s for s in symbols.sizes_in(var.aval.shape) if s.dim in made]
                if escaped and not (len(results) == len(eqn.outvars) and results[index].aval.shape == var.aval.shape):
                    raise _escaped(escaped[0], eqn)


def check_questions(questions: Mapping[tuple[Dim, ...], str], symbols: Symbols) -> None:
    """Check that nothing was taken for false that a size from data may make true.

    Args:
      questions: the dimensions that were compared, or looked up → the user's line.
      symbols: the symbols of the export.

    Raises:
      ConversionError: something was.
    """
    for dims, line in questions.items():
        for size in symbols.sizes_in(dims)[:1]:
            raise ConversionError(
                f"The function asks at {line} whether {' == '.join(map(symbols.label, dims))}, of which the size of {size.source} depends on "
                "data: only a run of the model knows. jax.lax.cond and jax.numpy.where choose by jax.numpy.asarray(size); functions of jax.numpy "
                "take empty arrays as they are, so that the question may be left out."
            )


def advice_on_sizes(error: Exception, symbols: Symbols) -> str | None:
    """The meaning of JAX's error about shapes, if sizes from data are in it."""
    text = str(error)
    found = [size for size in symbols.from_data.values() if size.traced in text]
    if not found:
        return None
    sizes = "; ".join(f"{size.name} is the size of {size.source}" for size in found)
    if "carry" in text:
        return (
            f"{sizes}. The carry of a loop has one shape in all iterations: keep an array of the largest size there with a mask or a count, and "
            "index it after the loop."
        )
    return (
        f"{sizes}. Sizes of different operations may differ. Where they are always equal, take them from one: one mask for all arrays, or "
        "x.shape[0] of one result."
    )


def _sizes_made(jaxpr: Jaxpr) -> set[Dim]:
    """The sizes that the equations of a jaxpr give, those inside of them included."""
    found: set[Dim] = set()
    for eqn in open_jaxpr(jaxpr)[0].eqns:
        if eqn.primitive is size_p:
            found.add(eqn.params["size"])
        elif _compat.defines_sizes(eqn):
            found = found.union(*map(_sizes_made, _compat.inner_jaxprs(eqn)))
    return found


def _escaped(size: DataSize, eqn: Equation) -> ConversionError:
    return ConversionError(
        f"The size of {size.source} is another one in each iteration of a {eqn.primitive.name}, and the loop returns an array that has it, of "
        "which no array can be made of all iterations. Return what does not depend on the size (a sum, the largest element), or an array of "
        "the largest size with a mask, which is indexed after the loop."
    )


def _refuse_batch(*, source: str, **_: object) -> None:
    raise ConversionError(
        f"The size of {source} is another one for each example of a jax.vmap, and no array has rows of different lengths. Let jax.lax.map or "
        "jax.lax.fori_loop go over the examples, with results that do not depend on the size, or flatten the batch, x.reshape(-1, …), and keep "
        "the number of the example beside each row."
    )


_compat.register_size_rules(size_p, _refuse_batch)
