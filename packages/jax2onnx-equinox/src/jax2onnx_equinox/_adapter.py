"""Equinox modules and states as functions with named weights."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import jax
from jax2onnx_core import Adapted
from jax2onnx_core.jax_types import PyTree
from jax2onnx_graph.build.names import by_paths

if TYPE_CHECKING:
    import equinox as eqx

__all__ = ["adapt", "adapt_state", "is_module"]

#: The names of attributes and indices on the way to a part of a module.
Path = tuple[str, ...]

# Weights, or their types.
_ARRAYS = (jax.Array, jax.ShapeDtypeStruct)


def is_module(value: object) -> bool:
    """Whether a value is a module that is no wrapper of a function, as `filter_jit` and bound methods are."""
    import equinox as eqx

    return isinstance(value, eqx.Module) and not _wraps(value)


def adapt(module: eqx.Module) -> Adapted:
    """Name the parts of a module, which is immutable: a trace calls the very same object."""
    module = _with_distinct_types(module)
    parts = dict(_parts(module, ()))
    weights = _arrays(parts)
    return Adapted(
        fresh=lambda values: _replaced(module, weights, values),
        weights=weights,
        modules=lambda copy: {_name(path): part for path, part in _parts(copy, ()) if callable(part)},
        owners=_owners(parts),
    )


def adapt_state(state: eqx.nn.State) -> Adapted:
    """Name the arrays of a state. A trace has a copy, because `state.set` makes the state on which it is called invalid."""
    entries, tree = jax.tree_util.tree_flatten(state, is_leaf=lambda x: x is not state)
    entries = [_with_distinct_types(entry) for entry in entries]
    _, markers = tree.node_data() or (None, ())
    names = [_marked(marker) or f"state.{i}" for i, marker in enumerate(markers)]
    parts = [part for name, entry in zip(names, entries, strict=True) for part in _parts(entry, (name,))]
    weights = _arrays(dict(parts))
    return Adapted(
        fresh=lambda values: jax.tree_util.tree_unflatten(tree, [_replaced(e, weights, values) for e in entries]),
        weights=weights,
    )


def _with_distinct_types(module: PyTree) -> PyTree:
    """The module with a new object for each `jax.ShapeDtypeStruct`, so that weights that are types only can be told apart."""
    return jax.tree.map(lambda x: x.update() if isinstance(x, jax.ShapeDtypeStruct) else x, module)


def _replaced(tree: PyTree, weights: Mapping[str, jax.Array], values: Mapping[str, jax.Array]) -> PyTree:
    """The tree with the arrays `values` in place of the weights of the same names."""
    arrays = {id(weights[name]): array for name, array in values.items()}
    return jax.tree.map(lambda x: arrays.get(id(x), x), tree) if arrays else tree


def _parts(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """The modules and arrays in a pytree, each with its path; of a wrapper of a function, the parts of the function."""
    import equinox as eqx

    if isinstance(value, eqx.Partial):
        yield from _parts(value.func, path)
        bound = {**{f"arg{i}": arg for i, arg in enumerate(value.args)}, **value.keywords}
        for name, argument in bound.items():
            yield from _parts(argument, (*path, name))
    elif _wraps(value):
        yield from _parts(value.__wrapped__, path)
    elif isinstance(value, types.MethodType):
        yield from _parts(value.__self__, path)
    else:
        if isinstance(value, (eqx.Module, *_ARRAYS)):
            yield path, value
        for keys, child in jax.tree_util.tree_flatten_with_path(value, is_leaf=lambda x: x is not value)[0]:
            if child is not value:
                yield from _parts(child, (*path, jax.tree_util.keystr(keys, simple=True)))


def _wraps(value: object) -> bool:
    """Whether a value is a wrapper as `filter_jit`, `filter_vmap` and others return, or a bound method of a module."""
    import equinox as eqx

    return isinstance(value, eqx.Module) and isinstance(vars(type(value)).get("__wrapped__"), property)


def _marked(marker: object) -> str:
    """The path with which `make_with_state` marks an entry of a state, "Net.layers[0].counter", as a dotted name."""
    return re.sub(r"\['?(.*?)'?\]", r".\1", marker).partition(".")[2] if isinstance(marker, str) else ""


def _arrays(parts: Mapping[Path, Any]) -> dict[str, jax.Array]:
    return {name: parts[path] for name, path in _paths(parts).items()}


def _paths(parts: Mapping[Path, Any]) -> dict[str, Path]:
    """The paths of arrays by their names, of which equal ones are numbered: `("a.b",)` and `("a", "b")` are one text."""
    return by_paths((_name(path), path) for path, part in parts.items() if isinstance(part, _ARRAYS))


def _name(path: Path) -> str:
    return ".".join(path)


def _owners(parts: Mapping[Path, Any]) -> dict[str, str]:
    """The innermost module above each array, with its class."""
    modules = {path: type(part).__name__ for path, part in parts.items() if not isinstance(part, _ARRAYS)}
    owners = {}
    for name, path in _paths(parts).items():
        owner = next((path[:n] for n in range(len(path), -1, -1) if path[:n] in modules), None)
        if owner is not None:
            owners[name] = f"{_name(owner)} ({modules[owner]})" if owner else modules[owner]
    return owners
