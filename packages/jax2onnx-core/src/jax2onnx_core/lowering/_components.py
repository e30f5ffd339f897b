"""`Components`: physical tensors taken apart into their components, and put together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from jax2onnx_graph.build.builder import Value
from jax2onnx_graph.facts.dims import Dims

from jax2onnx_core.lowering._scope import Scope, ScopeBuilder

__all__ = ["Components"]


class Components:
    """A cache of physical tensors and their components, so that neighbouring operations on components need not join
    and split in between.
    """

    def __init__(self) -> None:
        self._split: dict[Value, tuple[Scope, tuple[Value, ...]]] = {}
        self._joined: dict[tuple[Value, ...], Value] = {}

    def split(self, builder: ScopeBuilder, value: Value, dims: Dims, count: int) -> tuple[Value, ...]:
        """The `count` components, each of the dimensions `dims`, of a physical tensor, each computed once."""
        known = builder.known(value)
        if known is not None:
            columns = known.reshape(*known.shape[: len(dims)], count)
            return tuple(builder.new_constant(np.asarray(columns[..., i])) for i in range(count))
        scope, found = self._split.get(value, (None, ()))
        if scope is None or not builder.scope.is_inside(scope):
            flat = _reshaped(builder, value, (*dims, count))
            found = tuple(
                builder.op.Gather(flat, builder.constant(i, np.int64), axis=-1, dims=dims) for i in range(count)
            )
            self._split[value] = builder.scope, found
            self._joined[found] = value
        return found

    def join(self, builder: ScopeBuilder, components: Sequence[Value], dims: Dims, physical: Dims) -> Value:
        """One tensor of the dimensions `physical` from these components, broadcast to `dims`.

        It is the tensor itself if they are just its components.
        """
        known = self._joined.get(tuple(components))
        if known is not None:
            return known
        rank = len(dims)
        whole = tuple(builder.broadcast(c, dims) for c in components)
        columns = [builder.unsqueeze(c, [rank]) for c in whole]
        flat = builder.op.Concat(*columns, axis=rank, dims=(*dims, len(columns)))
        joined = _reshaped(builder, flat, physical)
        self._split[joined] = builder.scope, whole
        return joined

    def forget(self, gone: Iterable[Value]) -> None:
        """Remember nothing of values that a declined rule had made."""
        dead = set(gone)
        if dead:
            self._split = {v: kept for v, kept in self._split.items() if v not in dead and dead.isdisjoint(kept[1])}
            self._joined = {c: v for c, v in self._joined.items() if v not in dead and dead.isdisjoint(c)}


def _reshaped(builder: ScopeBuilder, x: Value, dims: Dims) -> Value:
    """`x` in another rank: the words of some generators' keys have several axes."""
    return x if len(builder.known_dims(x)) == len(dims) else builder.reshape(x, dims)
