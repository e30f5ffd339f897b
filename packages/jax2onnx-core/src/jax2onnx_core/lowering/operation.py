"""`Operation`: what is to be lowered, and `Origin`: where in the user's program it stands."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from jax2onnx_graph.build.builder import Value

from jax2onnx_core.jax_types import Aval, Jaxpr, Params, Primitive

__all__ = ["Operation", "Origin"]


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


@dataclasses.dataclass(frozen=True)
class Origin:
    """What nodes are named after, and the user's line, if the model is to tell it.

    Nodes are called `<name stack>/<operation>.<operator>`.
    """

    stack: str = ""
    operation: str = ""
    line: str | None = None

    def within(self, stack: str, operation: str, line: str | None) -> Origin:
        """The origin of an operation in a jaxpr that has this origin; `stack` is its own name stack there."""
        return Origin("/".join(part for part in (self.stack, stack) if part), operation, line or self.line)

    def node_name(self, op_type: str) -> str:
        """A name for a node, not yet unique."""
        prefix = "/".join(part for part in (self.stack, self.operation) if part)
        return f"{prefix}.{op_type}" if prefix else op_type
