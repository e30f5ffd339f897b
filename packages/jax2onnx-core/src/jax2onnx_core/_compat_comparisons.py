"""Comparisons of symbolic dimensions while functions are traced: what JAX leaves open is decided here, or recorded."""

from __future__ import annotations

import contextlib
import dataclasses
import dis
import sys
import threading
import types
from collections.abc import Callable, Iterator

import jax
from jax._src.export import shape_poly as _shape_poly
from jax2onnx_graph.build.names import user_line
from jax2onnx_graph.facts.dims import Dim

from jax2onnx_core._compat import is_user_file
from jax2onnx_core._compat_dims import (
    LESS_ONE,
    bounds,
    dim_expression,
    inconclusive_dimension_error,
    is_symbolic_dim,
    substitute,
    symbol,
    symbols_of,
)

__all__ = ["Undecided", "simplified_comparisons", "size_comparisons", "undecided_equalities"]


# Functions, of JAX or in place of these, whose result is wrong where a size is the one that they ask for and take for another.
_ANSWERS_BY_SIZE = (
    "_cofactor_solve",
    "_unique",
    "cov",
    "digitize",
    "setdiff1d",
    "_single_axes",
    "_spectral_helper",
    "_triage_segments",
)

# Functions of JAX that ask whether a size is at least another one → the answer by which they compute what is right for all sizes.
_ANSWERS_ALIKE = {"_pinv_jvp": True, "csd": False}

# JAX's rules that want an axis to have as many elements as are taken from it.
_TAKES_ELEMENTS = ("_gather_shape_rule", "_dynamic_slice_shape_rule")


class _Comparisons:
    """JAX's comparisons of sizes, of which some are decided that JAX leaves open because a size may be 0.

    1. A polynomial without negative coefficients of sizes that are at least 0 is at least 0.
    2. Single elements may be taken from an axis that may be empty: where it is, JAX itself takes none.
    3. Of two formulas for the same result, one is for all sizes.
    4. Where a trace knows how to write the difference of two dimensions simpler, its bounds decide.
    """

    def __init__(self) -> None:
        self._original = _shape_poly._geq_decision
        self._lock, self._windows = threading.Lock(), 0
        self._thread = threading.local()

    @contextlib.contextmanager
    def of_sizes(self, has_sizes: Callable[[], bool]) -> Iterator[None]:
        """Inside, these are decided; for all sizes of this thread where it `has_sizes` from data."""
        outer = vars(self._thread).get("has_sizes")
        self._thread.has_sizes = has_sizes
        self._enter(1)
        try:
            yield
        finally:
            self._enter(-1)
            self._thread.has_sizes = outer

    @contextlib.contextmanager
    def simplified(self, form: Callable[[Dim], Dim]) -> Iterator[None]:
        """Inside, this thread compares dimensions by `form` of their difference, an equal expression, where JAX cannot tell."""
        outer, self._thread.form = vars(self._thread).get("form"), form
        self._enter(1)
        try:
            yield
        finally:
            self._enter(-1)
            self._thread.form = outer

    def _by_form(self, difference: Dim) -> bool | None:
        """Whether a dimension is at least 0, if its simpler form tells."""
        form = vars(self._thread).get("form")
        if form is None:
            return None
        self._thread.form = None  # simplifying compares dimensions, too
        try:
            least, largest = bounds(form(difference))
        finally:
            self._thread.form = form
        return True if least >= 0 else False if largest < 0 else None

    def _has_sizes(self) -> bool:
        found = vars(self._thread).get("has_sizes")
        return found is not None and found()

    def _enter(self, change: int) -> None:
        with self._lock:
            self._windows += change
            _shape_poly._geq_decision = self._decided if self._windows else self._original

    def _decided(self, left: Dim, right: Dim, text: Callable[[], str]) -> bool:
        try:
            return bool(self._original(left, right, text))
        except inconclusive_dimension_error:
            frame = _asker(sys._getframe(1))
            difference, asked = left - right, frame.f_code.co_name
            if asked in _ANSWERS_ALIKE and not _is_asked_by_user(frame):
                return _ANSWERS_ALIKE[asked]
            if (answer := self._by_form(difference)) is not None:
                return answer
            if not (self._has_sizes() or any(name.endswith(LESS_ONE) for name in symbols_of(difference))):
                raise
            if _is_never_negative(difference) or (
                asked in _TAKES_ELEMENTS and right == 1 and (_is_never_negative(left) or bounds(left)[0] >= 0)
            ):
                return True
            raise


def _is_never_negative(dim: Dim) -> bool:
    """Whether a dimension is a sum of products of sizes that are at least 0; a symbol less its least number is one."""
    if not is_symbolic_dim(dim):
        return bool(dim >= 0)
    if any(abs(coefficient) >= 2**31 for coefficient, _ in dim_expression(dim)):  # JAX computes with int32
        return False
    if not _is_polynomial(dim):  # JAX would simplify operations as if the rest of a symbol were at least 1
        return False
    scope, least = jax.export.SymbolicScope(), {}
    for name in symbols_of(dim):
        low = bounds(symbol(name, dim))[0]
        least[name] = _shape_poly._DimExpr._from_var(name, scope) + (int(low) if low > 0 else 0)
    rest = substitute(dim, least)
    return bool(rest >= 0) if not is_symbolic_dim(rest) else all(factor >= 0 for factor, _ in dim_expression(rest))


def _is_polynomial(dim: Dim) -> bool:
    return all(isinstance(factor, str) for _, factors in dim_expression(dim) for factor, _ in factors)


_comparisons = _Comparisons()

size_comparisons, simplified_comparisons = _comparisons.of_sizes, _comparisons.simplified


@dataclasses.dataclass(frozen=True)
class Undecided:
    """Questions about symbolic dimensions that JAX took for false, without knowing, and whose answer matters: of code outside of JAX mostly.

    Attributes:
      equal: the pairs that were compared → "file:line (function)".
      lookups: the dimensions that were looked up in a dict or a set, whose keys nobody sees → the same.
    """

    equal: dict[tuple[Dim, Dim], str] = dataclasses.field(default_factory=dict)
    lookups: dict[Dim, str] = dataclasses.field(default_factory=dict)


#: The comparisons that JAX answers by its own equality, or refuses.
_ORDER = ("__ne__", "__lt__", "__le__", "__gt__", "__ge__")

#: The functions through which a question about a dimension goes before it is answered.
_BETWEEN = {*_ORDER, "deferred", "is_true"}


def _is_array(value: object) -> bool:
    return type(value) is not int and isinstance(value, jax.Array)


def _deferring(method: Callable[[Dim, Dim], bool]) -> Callable[[Dim, Dim], bool]:
    """The comparison of a dimension, which leaves one with an array to the array."""

    def deferred(dim: Dim, other: Dim) -> bool:
        return NotImplemented if _is_array(other) else method(dim, other)

    return deferred


def _asker(frame: types.FrameType) -> types.FrameType:
    """The frame of the code that asks a question about a dimension, of which `frame` is one on the way."""
    while frame.f_code.co_name in _BETWEEN and frame.f_back is not None:
        frame = frame.f_back
    return frame


class _Equality:
    """`==`, `hash` and `bool` of symbolic dimensions while traces are made, and comparisons of dimensions with arrays.

    JAX's own equality says False where it does not know. Then a further proof is asked, and what stays undecided is recorded.
    A dimension is true where it is not 0. Beside an array it is one.
    """

    def __init__(self) -> None:
        self._original = _shape_poly._DimExpr.__eq__
        self._original_hash = _shape_poly._DimExpr.__hash__
        self._others = {name: vars(_shape_poly._DimExpr)[name] for name in _ORDER}
        self._beside_arrays = {name: _deferring(method) for name, method in self._others.items()}
        self._lock, self._windows = threading.Lock(), 0
        self._thread = threading.local()

    @contextlib.contextmanager
    def recorded(self, proved: Callable[[Dim, Dim], bool]) -> Iterator[Undecided]:
        """Inside, the questions are recorded that code of this thread asks.

        Args:
          proved: whether two dimensions that JAX cannot tell to be equal are.
        """
        outer = vars(self._thread).get("found"), vars(self._thread).get("proved")
        self._thread.found = found = Undecided()
        self._thread.proved = proved
        self._enter(1)
        try:
            yield found
        finally:
            self._enter(-1)
            self._thread.found, self._thread.proved = outer

    def _enter(self, change: int) -> None:
        with self._lock:
            self._windows += change
            _shape_poly._DimExpr.__eq__ = self._equal if self._windows else self._original
            _shape_poly._DimExpr.__hash__ = self._hashed if self._windows else self._original_hash
            for name, method in (self._beside_arrays if self._windows else self._others).items():
                setattr(_shape_poly._DimExpr, name, method)
            if self._windows:
                _shape_poly._DimExpr.__bool__ = self._is_true
            elif "__bool__" in vars(_shape_poly._DimExpr):
                del _shape_poly._DimExpr.__bool__

    @property
    def _equal(self) -> Callable[[Dim, Dim], bool]:
        def equal(dim: Dim, other: Dim) -> bool:
            if _is_array(other):
                return NotImplemented
            answer = self._original(dim, other) or self._is_proved(dim, other)
            found = vars(self._thread).get("found")
            if answer is False and found is not None:
                frame = _asker(sys._getframe(1))
                if _is_asked_by_user(frame) or frame.f_code.co_name in _ANSWERS_BY_SIZE:
                    self._thread.found = None  # what follows compares dimensions, too
                    if _may_be_zero(dim, other):
                        found.equal.setdefault((dim, other), _place(frame))
                    self._thread.found = found
            return answer

        return equal

    @property
    def _is_true(self) -> Callable[[Dim], bool]:
        def is_true(dim: Dim) -> bool:
            return dim != 0

        return is_true

    @property
    def _hashed(self) -> Callable[[Dim], int]:
        def hashed(dim: Dim) -> int:
            found = vars(self._thread).get("found")
            if found is not None:
                frame = sys._getframe(1)
                if not str(frame.f_globals.get("__name__", "")).startswith("jax") and _looks_up(frame):
                    self._thread.found = None  # the mapping hashes the dimension, too
                    found.lookups.setdefault(dim, _place(frame))
                    self._thread.found = found
            return self._original_hash(dim)

        return hashed

    def _is_proved(self, dim: Dim, other: Dim) -> bool:
        proved = vars(self._thread).get("proved")
        expression = _shape_poly._DimExpr
        is_of_one_scope = isinstance(dim, expression) and (
            isinstance(other, int) or (isinstance(other, expression) and dim.scope is other.scope)
        )
        if proved is None or not is_of_one_scope:
            return False
        self._thread.proved = None  # the proof compares dimensions, too
        try:
            return bool(proved(dim, other))
        finally:
            self._thread.proved = proved


def _place(frame: types.FrameType) -> str:
    """The line of the first frame that is not JAX's, "file:line (function)"."""
    while not is_user_file(frame.f_code.co_filename) and frame.f_back is not None:
        frame = frame.f_back
    return user_line([(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)]) or ""


_LOOKUPS = [method.__name__ for method in (dict.get, dict.setdefault, dict.pop)]


def _looks_up(frame: types.FrameType) -> bool:
    """Whether code of no installed library asks whether a dict or a set has a key, with an answer for the case that it has not."""
    if "-packages" in frame.f_code.co_filename or not _is_asked_by_user(frame):
        return False
    instructions = list(dis.get_instructions(frame.f_code))
    current = next((one for one in instructions if one.offset == frame.f_lasti), None)
    if current is None or current.opname == "CONTAINS_OP":
        return current is not None
    same_line = (one for one in instructions if one.positions is not None and one.positions.lineno == frame.f_lineno)
    return "CALL" in current.opname and any(one.argval in _LOOKUPS for one in same_line)


def _is_asked_by_user(frame: types.FrameType) -> bool:
    """Whether a comparison is made by code that is neither JAX's nor of this project's packages, which know what they ask."""
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return is_user_file(frame.f_code.co_filename) and not package.startswith("jax2onnx_")


def _may_be_zero(dim: Dim, other: Dim) -> bool:
    """Whether two dimensions are equal for some sizes of their symbols."""
    try:
        least, largest = bounds(dim - other)
    except (TypeError, ValueError, inconclusive_dimension_error):  # of other scopes, or no dimension
        return False
    return least <= 0 <= largest


_equality = _Equality()

undecided_equalities = _equality.recorded
