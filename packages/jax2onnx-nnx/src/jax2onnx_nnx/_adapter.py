"""`nnx.Module` as a function with named weights, and `nnx.State` as named weights."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import jax
from jax2onnx_core import Adapted, AdaptedStates, AdaptedTraining, errors
from jax2onnx_core.jax_types import PyTree
from jax2onnx_graph.build.names import by_paths

if TYPE_CHECKING:
    from flax import nnx

    State = nnx.State[Any, Any]

__all__ = ["adapt", "adapt_state"]

#: The attributes and indices on the way to a variable.
Path = tuple[Any, ...]


def adapt(module: nnx.Module) -> Adapted:
    """Take the module apart, so that it can be rebuilt around the same arrays inside a trace.

    Whatever a call changes (statistics, caches, counts of random streams) is changed in the copy alone.
    """
    from flax import nnx

    graph, state = nnx.split(module)
    leaves = _leaves(state)
    names = _names(leaves)
    arrays = {path: _array(leaf) for path, leaf in leaves.items()}
    kept = {path for path, leaf in leaves.items() if not isinstance(leaf, (nnx.RngState, nnx.Intermediate))}

    def holding(values: Mapping[str, jax.Array]) -> nnx.Module:
        return nnx.merge(graph, _replaced(state, values) if values else state, copy=True)

    def written(copy: nnx.Module) -> dict[str, jax.Array]:
        after = {names[path]: _array(part) for path, part in _parts(copy) if path in kept}
        return {name: array for name, array in after.items() if array is not weights[name]}

    def states(wanted: object) -> AdaptedStates | None:
        is_wanted = _predicate(wanted)
        chosen = [path for path, leaf in leaves.items() if is_wanted(path, leaf)]

        def read(copy: nnx.Module) -> dict[str, jax.Array]:
            after = _leaves(nnx.state(copy))
            return {names[path]: _array(after[path]) for path in chosen}

        return AdaptedStates({names[path]: arrays[path] for path in chosen}, holding, read)

    weights = {names[path]: array for path, array in arrays.items()}
    return Adapted(
        fresh=holding,
        weights=weights,
        written=written,
        modules=lambda copy: {_name(path): part for path, part in _parts(copy) if isinstance(part, nnx.Module)},
        owners=_Owners(module, {name: path for path, name in names.items()}),
        callable_like=module,
        states=states,
        training=lambda wanted: _training(module, nnx.Param if wanted is None else wanted),
    )


def _training(module: nnx.Module, trained: object) -> AdaptedTraining:
    """The variables that the filter `trained` means, as `nnx.Optimizer` gives them to an optimizer, and the others."""
    from flax import nnx

    is_trained = _predicate(trained)
    graph, whole_state = nnx.split(module)
    parameters, variables = nnx.split_state(whole_state, is_trained, lambda path, leaf: not is_trained(path, leaf))
    kept = _leaves(variables)

    def fresh(*arrays: PyTree) -> nnx.Module:
        return nnx.merge(graph, *map(_holding, (parameters, variables), arrays), copy=True)

    def read(copy: nnx.Module) -> PyTree:
        after = _leaves(nnx.state(copy))
        return nnx.as_pure(nnx.from_flat_state({path: after[path] for path in kept}))

    def evaluating(copy: nnx.Module) -> nnx.Module:
        copy.eval()  # type: ignore[no-untyped-call]  # Flax does not annotate it
        return copy

    def whole(*arrays: PyTree) -> State:
        return nnx.merge_state(*map(_holding, (parameters, variables), arrays))

    return AdaptedTraining(nnx.as_pure(parameters), nnx.as_pure(variables), fresh, read, evaluating, whole)


def _holding(state: State, arrays: PyTree) -> State:
    """A state with the arrays of another one, which is like it without its variables."""
    return jax.tree.unflatten(jax.tree.structure(state), jax.tree.leaves(arrays))


def adapt_state(state: State) -> Adapted:
    """Name the arrays of a state that a function merges with the graph of its module."""
    leaves = _leaves(state)
    names = _names(leaves)
    return Adapted(
        fresh=lambda values: _replaced(state, values) if values else state,
        weights={names[path]: _array(leaf) for path, leaf in leaves.items()},
    )


def _replaced(state: State, values: Mapping[str, jax.Array]) -> State:
    """A state with the arrays `values`, by their names, in place of its own."""
    from flax import nnx

    leaves = _leaves(state)
    names = _names(leaves)

    def held(path: Path, leaf: Any) -> Any:
        array = values.get(names[path])
        if array is None:
            return leaf
        return leaf.replace(array) if isinstance(leaf, nnx.Variable) else array

    return nnx.from_flat_state({path: held(path, leaf) for path, leaf in leaves.items()})


def _predicate(wanted: object) -> Callable[[Path, object], bool]:
    """NNX's predicate for a filter: a class of variables, the name of one ("cache"), a function of path and value, …"""
    from flax import nnx

    if isinstance(wanted, str):
        with contextlib.suppress(ValueError):  # no class has this name: it is a tag
            wanted = nnx.variable_type_from_name(wanted)
    try:
        found: Callable[[Path, object], bool] = nnx.filterlib.to_predicate(wanted)  # type: ignore[arg-type]  # it refuses what is no filter
    except (TypeError, ValueError) as error:  # Flax's own message fails for some values
        raise errors.OptionError(f"states={wanted!r:.80} is no filter of NNX; give one such as nnx.Cache.") from error
    return found


def _leaves(state: State) -> dict[Path, Any]:
    """The leaves of a state: variables, and arrays that are attributes without a variable around them."""
    from flax import nnx

    return dict(nnx.to_flat_state(state))


_PLAIN = (bool, int, float, complex, str, type(None), types.FunctionType, type)


def _parts(module: nnx.Module) -> Iterator[tuple[Path, Any]]:
    """The modules, variables and other attributes in a module, itself first, each once; with the paths that Flax gives them.

    `nnx.iter_graph` takes ten times as long, as it asks of each number and text what kind of node it is.
    """
    from flax import nnx

    pending: list[tuple[Path, Any]] = [((), module)]
    visited: set[int] = set()
    while pending:
        path, part = pending.pop()
        if id(part) in visited:
            continue
        visited.add(id(part))
        if isinstance(part, nnx.Pytree):
            held = [(_key(name), value) for name, value in vars(part).items() if not _is_plain(name, value)]
            held.sort(key=lambda item: (isinstance(item[0], str), item[0]), reverse=True)
            pending += [((*path, key), value) for key, value in held]
        elif not isinstance(part, nnx.Variable):
            inside = [(key, value) for key, value in nnx.iter_graph(part) if value is not part]
            pending += [((*path, *key), value) for key, value in reversed(inside)]
        yield path, part


def _is_plain(name: str, value: object) -> bool:
    """Whether an attribute holds no module and no array: a number, a shape, or what Flax notes about a module."""
    if name.startswith("_pytree__") or isinstance(value, _PLAIN):
        return True
    return type(value) is tuple and all(isinstance(element, _PLAIN) for element in value)


def _key(attribute: str) -> str | int:
    """The part of a path that stands for an attribute: a number for an element of a list."""
    return int(attribute) if attribute.isdigit() else attribute


def _array(leaf: nnx.Variable[jax.Array] | jax.Array) -> jax.Array:
    from flax import nnx

    return leaf.get_value() if isinstance(leaf, nnx.Variable) else leaf


def _name(path: Path) -> str:
    return ".".join(map(str, path))


def _names(paths: Iterable[Path]) -> dict[Path, str]:
    """The names of variables by their paths, of which equal ones are numbered: `("a.b",)` and `("a", "b")` are one text."""
    return {path: name for name, path in by_paths((_name(path), path) for path in paths).items()}


class _Owners(Mapping[str, str]):
    """The innermost module at or above each path, with its class: found when a message needs one, as the walk takes long."""

    def __init__(self, module: nnx.Module, paths: Mapping[str, Path]) -> None:
        self._module, self._paths = module, paths

    @functools.cached_property
    def _modules(self) -> dict[Path, nnx.Module]:
        from flax import nnx

        return {path: part for path, part in _parts(self._module) if isinstance(part, nnx.Module)}

    def __getitem__(self, name: str) -> str:
        path = self._paths[name]
        owner = next(path[:n] for n in range(len(path), -1, -1) if path[:n] in self._modules)
        return f"{_name(owner)} ({type(self._modules[owner]).__name__})" if owner else type(self._module).__name__

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)
