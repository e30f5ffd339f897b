"""`Findings`: what rules found of operations, once for all that are equal."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar, cast

from jax2onnx_graph.fingerprints import ByIdentity, fingerprint

from jax2onnx_core import _compat
from jax2onnx_core._fingerprint import jaxpr_fingerprint
from jax2onnx_core.jax_types import Jaxpr
from jax2onnx_core.jaxprs import is_jaxpr, open_jaxpr
from jax2onnx_core.plugins.errors import Declined

__all__ = ["Findings"]

_Found = TypeVar("_Found")


class Findings:
    """The results of analyses in one model."""

    def __init__(self) -> None:
        self._found: dict[Hashable, object] = {}
        self._numbers: dict[Hashable, int] = {}

    def once(self, find: Callable[[], _Found], name: str, given: object) -> _Found:
        """The result of `find`, or why it declines, from the first call with this name and equal values `given`."""
        key = name, fingerprint(given, self._number), _compat.trace_context()
        if key not in self._found:
            try:
                self._found[key] = find()
            except Declined as declined:
                self._found[key] = declined
        found = self._found[key]
        if isinstance(found, Declined):
            raise type(found)(str(found))
        return cast("_Found", found)

    def _number(self, value: object) -> int | None:
        """The number of a jaxpr, which those share that compute the same at the same lines; None for another value."""
        if not is_jaxpr(value):
            return None
        key = ByIdentity(value)
        if key not in self._numbers:
            meaning = jaxpr_fingerprint(value), _places(value)
            self._numbers[key] = self._numbers.setdefault(meaning, len(self._numbers))
        return self._numbers[key]


def _places(jaxpr: Jaxpr) -> Hashable:
    """Where the equations of a jaxpr come from, after which nodes are named."""
    return tuple(
        (
            _compat.user_frame(eqn.source_info),
            _compat.name_stack(eqn.source_info),
            *map(_places, _compat.inner_jaxprs(eqn)),
        )
        for eqn in open_jaxpr(jaxpr)[0].eqns
    )
