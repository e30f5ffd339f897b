"""Lines of the user that print while a function runs, which no model does."""

from __future__ import annotations

from collections.abc import Iterator

from jax2onnx_core import _compat
from jax2onnx_core.jax_types import Jaxpr
from jax2onnx_core.jaxprs import open_jaxpr

__all__ = ["printing_lines"]


def printing_lines(jaxpr: Jaxpr) -> list[str]:
    """The lines of `jax.debug.print` and `jax.debug.callback` in a jaxpr, each once."""
    return list(dict.fromkeys(_lines(jaxpr)))


def _lines(jaxpr: Jaxpr) -> Iterator[str]:
    inner, _ = open_jaxpr(jaxpr)
    if not _compat.prints(inner.effects):  # as in nearly all functions
        return
    for eqn in inner.eqns:
        if bodies := _compat.inner_jaxprs(eqn):
            for body in bodies:
                yield from _lines(body)
        elif _compat.prints(eqn.effects):
            yield _compat.user_frame(eqn.source_info) or _compat.NO_LINE
