"""`Operation`: what is to be lowered."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from jax2onnx_graph.build.builder import Value

from jax2onnx_core.jax_types import Aval, Jaxpr, Params, Primitive

__all__ = ["Operation"]


@dataclasses.dataclass(frozen=True)
class Operation:
    """An equation, or the named call that a composite equation stands for.

    `body` is the jaxpr that a named call was traced to, and its operands.
    """

    name: str
    params: Params
    avals_in: Sequence[Aval]
    avals_out: Sequence[Aval]
    primitive: Primitive
    body: tuple[Jaxpr, Sequence[Value]] | None = None
