"""`Components`: physical tensors taken apart into their components, and put together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from jax2onnx_graph.build.builder import Value

from jax2onnx_core.jaxprs import Aval
from jax2onnx_core.lowering.physical import component_count, physical_type
from jax2onnx_core.lowering.scope import Scope, ScopeBuilder

__all__ = ["Components"]


class Components:
    """What is remembered of physical tensors and their components, so that neighbouring operations on components
    need not join and split in between.
    """

    def __init__(self) -> None:
        self._split: dict[Value, tuple[Scope, tuple[Value, ...]]] = {}
        self._joined: dict[tuple[Value, ...], Value] = {}

    def split(self, builder: ScopeBuilder, value: Value, aval: Aval) -> tuple[Value, ...]:
        """The components of a physical tensor, each computed once."""
        known = builder.known(value)
        if known is not None:
            return tuple(builder.new_constant(np.asarray(known[..., i])) for i in range(known.shape[-1]))
        scope, found = self._split.get(value, (None, ()))
        if scope is None or not builder.scope.is_inside(scope):
            dims = physical_type(aval)[1]
            found = tuple(
                builder.op.Gather(value, builder.constant(i, np.int64), axis=-1, dims=dims[:-1])
                for i in range(component_count(aval))
            )
            self._split[value] = builder.scope, found
            self._joined[found] = value
        return found

    def join(self, builder: ScopeBuilder, components: Sequence[Value], aval: Aval) -> Value:
        """One tensor with the components on a new last axis; the tensor itself if they are just its components."""
        whole = self._joined.get(tuple(components))
        if whole is not None:
            return whole
        dims = physical_type(aval)[1]
        columns = [builder.unsqueeze(builder.broadcast(c, dims[:-1]), [len(dims) - 1]) for c in components]
        joined = builder.op.Concat(*columns, axis=len(dims) - 1, dims=dims)
        self._split[joined] = builder.scope, tuple(components)
        return joined

    def forget(self, gone: Iterable[Value]) -> None:
        """Remember nothing of values that a declined rule had made."""
        dead = set(gone)
        if dead:
            self._split = {v: kept for v, kept in self._split.items() if v not in dead and dead.isdisjoint(kept[1])}
            self._joined = {c: v for c, v in self._joined.items() if v not in dead and dead.isdisjoint(c)}
