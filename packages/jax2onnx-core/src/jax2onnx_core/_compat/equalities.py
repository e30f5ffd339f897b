"""The comparisons of symbolic dimensions that JAX cannot decide, recorded while a function is traced."""

from __future__ import annotations

import contextlib
import sys
import threading
import types
from collections.abc import Callable, Iterator

from jax._src.export import shape_poly as _shape_poly
from jax2onnx_graph.build.names import user_line
from jax2onnx_graph.facts.dims import Dim

from jax2onnx_core._compat.dims import bounds, inconclusive_dimension_error
from jax2onnx_core._compat.sources import is_user_file

__all__ = ["undecided_equalities"]


class _Equality:
    """`==` of symbolic dimensions while traces are made.

    JAX's own says False where it does not know. Then a further proof is asked, and what stays undecided is recorded.
    """

    def __init__(self) -> None:
        self._original = _shape_poly._DimExpr.__eq__
        self._lock, self._windows = threading.Lock(), 0
        self._thread = threading.local()

    @contextlib.contextmanager
    def recorded(self, proved: Callable[[Dim, Dim], bool]) -> Iterator[dict[tuple[Dim, Dim], str]]:
        """Inside, a mapping is filled with the pairs that code of this thread outside of JAX compares, → "file:line (function)".

        Args:
          proved: whether two dimensions that JAX cannot tell to be equal are.
        """
        outer = vars(self._thread).get("found"), vars(self._thread).get("proved")
        self._thread.found = found = dict[tuple["Dim", "Dim"], str]()
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

    @property
    def _equal(self) -> Callable[[Dim, Dim], bool]:
        def equal(dim: Dim, other: Dim) -> bool:
            answer = self._original(dim, other) or self._is_proved(dim, other)
            found = vars(self._thread).get("found")
            if answer is False and found is not None:
                frame = sys._getframe(1)
                if frame.f_code is _shape_poly._DimExpr.__ne__.__code__ and frame.f_back is not None:
                    frame = frame.f_back
                if _is_asked_by_user(frame):
                    self._thread.found = None  # what follows compares dimensions, too
                    if _may_be_zero(dim, other):
                        place = (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
                        found.setdefault((dim, other), user_line([place]) or "")
                    self._thread.found = found
            return answer

        return equal

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
