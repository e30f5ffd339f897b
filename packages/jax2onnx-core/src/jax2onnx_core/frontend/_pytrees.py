"""Paths into pytrees: as names, as places in a call, and where two structures part."""

from __future__ import annotations

import re
from collections.abc import Sequence

import jax
from jax.tree_util import keystr
from jax2onnx_graph.build.names import printable

from jax2onnx_core import _compat
from jax2onnx_core.jax_types import KeyPath, KeyPathEntry, PyTree, PyTreeDef

__all__ = ["is_too_deep", "path_name", "place", "structure_difference"]

_DEEPEST = 100
_CONTAINERS = (dict, list, tuple)
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_CLASS = re.compile(r"<class '(?:\w+\.)*(\w+)'>")


def is_too_deep(*trees: PyTree) -> bool:
    """Whether lists, tuples and dicts among some values are nested more than 100 deep, as those are that contain themselves.

    JAX must not see such a thing: it stays at Python's recursion limit afterwards.
    """
    found = [tree for tree in trees if isinstance(tree, _CONTAINERS)]
    for _ in range(_DEEPEST):
        if not found:
            return False
        nodes = {id(node): node for node in found}.values()  # one that is in many places is looked at once
        # Copied: a proxy whose class is asked for may load what it stands for, into the very dict.
        inner = [[*dict.values(node)] if isinstance(node, dict) else node for node in nodes]
        found = [child for children in inner for child in children if isinstance(child, _CONTAINERS)]
    return True


def path_name(path: Sequence[KeyPathEntry]) -> str:
    """A pytree path as a dotted name: `batch.speed`, `0.kernel`. The same for every run of a program."""
    return ".".join(_key_name(key) for key in path)


def _key_name(entry: KeyPathEntry) -> str:
    match entry:
        case jax.tree_util.DictKey(key) | jax.tree_util.FlattenedIndexKey(key):
            return _key_text(key)
        case jax.tree_util.SequenceKey():
            return str(entry.idx)
        case jax.tree_util.GetAttrKey():
            return entry.name
    return _key_text(str(entry).strip("[].'\""))


def _key_text(key: object) -> str:
    if isinstance(key, frozenset):
        return f"{{{','.join(sorted(map(_key_text, key)))}}}"
    return printable(_ADDRESS.sub("", str(key)))


def structure_difference(given: PyTreeDef, wanted: PyTreeDef) -> str:
    """The first place where two different structures of `(args, kwargs)` part, as a sentence."""
    path, is_there, should_be, _ = next(iter(_compat.tree_differences(given, wanted)))
    if _kind(is_there) != _kind(should_be):
        return f"{place(path)} is {_kind(is_there)}, but it should be {_kind(should_be)}."
    places, others = _leaf_places(given), _leaf_places(wanted)
    missing, unknown = ([p for p in a if p not in b] for a, b in ((others, places), (places, others)))
    found = [f"{what} {' and '.join(p[:3])}" for what, p in (("missing", missing), ("unknown", unknown)) if p]
    return f"{', '.join(found) or f'{place(path)} is another kind of container'}."


def _kind(thing: str) -> str:
    """JAX's word for a node of a pytree, without its size or its keys."""
    name = _CLASS.sub(r"\1", thing).split()[0]
    return {"pytree": "an array", "NoneType": "None"}.get(name, f"a {name}")


def _leaf_places(tree: PyTreeDef) -> list[str]:
    leaves = jax.tree_util.tree_unflatten(tree, range(tree.num_leaves))
    return [place(path) for path, _ in jax.tree_util.tree_flatten_with_path(leaves)[0]]


def place(path: KeyPath, positional: str = "args") -> str:
    """A leaf of `(args, kwargs)` as messages call it; `positional` is the word for the arguments without a name."""
    which, *rest = path
    return (positional, "kwargs")[which.idx] + keystr(tuple(rest))
