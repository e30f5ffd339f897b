"""Orbax checkpoints as sources of weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import WeightsError
from jax2onnx_graph.weights._sources import ArrayLike, WeightSource
from jax2onnx_graph.weights.absent import WeightType

__all__ = ["OrbaxCheckpoint", "is_checkpoint"]

#: The keys and indices on the way to a leaf.
Keys = tuple[str | int, ...]

_METADATA = "_METADATA"
_ITEM = "default"


def is_checkpoint(path: Path) -> bool:
    """Whether a directory holds a pytree saved by Orbax, or a step of its manager that does."""
    return any((folder / _METADATA).exists() for folder in (path, path / _ITEM))


class OrbaxCheckpoint(WeightSource):
    """The arrays of a pytree that Orbax saved, one of which is restored at a time; their names are paths, joined by dots."""

    def __init__(self, path: Path) -> None:
        try:
            import orbax.checkpoint
        except ImportError as error:
            raise WeightsError("Reading Orbax checkpoints needs the library: pip install orbax-checkpoint.") from error
        self._path = (path if (path / _METADATA).exists() else path / _ITEM).resolve()
        self._orbax = orbax.checkpoint
        self._checkpointer = orbax.checkpoint.PyTreeCheckpointer()
        try:
            self._tree = self._checkpointer.metadata(self._path).item_metadata.tree
        except Exception as error:
            raise WeightsError(f"Cannot read {self._path} as an Orbax checkpoint: {error}") from error
        self._leaves = {".".join(map(str, keys)): (keys, leaf) for keys, leaf in _leaves(self._tree, ())}

    def type_of(self, name: str) -> WeightType:
        leaf = self._leaves[name][1]
        return WeightType(np.dtype(leaf.dtype), tuple(leaf.shape))

    def __getitem__(self, name: str) -> Array:
        keys, _ = self._leaves[name]
        arguments = self._orbax.RestoreArgs(restore_type=np.ndarray)
        request = self._orbax.args.PyTreeRestore(
            item=_only(self._tree, keys, 0), restore_args=_only(self._tree, keys, arguments)
        )
        try:
            found = self._checkpointer.restore(self._path, args=request)
        except Exception as error:
            raise WeightsError(f"Cannot read {name} from {self._path}: {error}") from error
        for key in keys:
            found = found[key]
        return np.asarray(found)

    def __iter__(self) -> Iterator[str]:
        return iter(self._leaves)

    def __len__(self) -> int:
        return len(self._leaves)


def _leaves(tree: object, path: Keys) -> Iterator[tuple[Keys, ArrayLike]]:
    """The leaves of dicts and lists with the keys on the way to them."""
    for key, child in _children(tree):
        if _children(child):
            yield from _leaves(child, (*path, key))
        elif isinstance(child, ArrayLike):
            yield (*path, key), child


def _children(tree: object) -> list[tuple[str | int, object]]:
    if isinstance(tree, Mapping):
        return list(tree.items())
    return list(enumerate(tree)) if isinstance(tree, list | tuple) else []


def _only(tree: object, keys: Keys | None, value: object) -> object:
    """The tree with `value` at the end of the path `keys`, and the library's placeholder at all other leaves."""
    below = {key: _only(child, keys[1:] if keys and keys[0] == key else None, value) for key, child in _children(tree)}
    if isinstance(tree, Mapping):
        return below
    if isinstance(tree, list | tuple):
        return list(below.values())
    return value if keys == () else ...
