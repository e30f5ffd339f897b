"""`Operation`: what is to be lowered."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from jax2onnx_graph.arrays import Dtype
from jax2onnx_graph.build.builder import Value

from jax2onnx_core.jax_types import Aval, Jaxpr, Params, Primitive
from jax2onnx_core.jaxprs import Dims
from jax2onnx_core.lowering.physical import physical_type

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

    @functools.cached_property
    def types_out(self) -> list[tuple[Dtype, Dims]]:
        """The physical types of the results."""
        return [physical_type(aval) for aval in self.avals_out]
