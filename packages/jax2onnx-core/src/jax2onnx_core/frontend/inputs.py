"""Input specifications: what users write for the inputs, made into avals of one symbolic scope."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

import jax
import numpy as np
from jax.tree_util import keystr
from jax2onnx_graph.arrays import Dtype

from jax2onnx_core import _compat
from jax2onnx_core.jax_types import Function, KeyPath, KeyPathEntry, PyTree, PyTreeDef
from jax2onnx_core.jaxprs import Dim, is_static
from jax2onnx_core.plugins.errors import InputError
from jax2onnx_core.symbols.solve import DimSolution
from jax2onnx_core.symbols.symbols import Symbols

__all__ = ["Inputs", "parse_inputs", "path_name"]


#: A shape as users write it: numbers, names or expressions, dimensions of JAX's, None for a dynamic one.
Shape = tuple[int | str | Dim | None, ...]


@dataclasses.dataclass(frozen=True)
class Inputs:
    """The flat inputs of an export.

    `names[i]`, `avals[i]` (a `ShapeDtypeStruct`, dimensions of `symbols.scope`) for each leaf of the
    pytree `tree`, which describes `(args, kwargs)`.
    """

    names: list[str]
    avals: list[jax.ShapeDtypeStruct]
    tree: PyTreeDef
    symbols: Symbols

    @functools.cached_property
    def solution(self) -> DimSolution:
        """How the values of the symbols follow from the shapes of the inputs; SymbolError where they do not."""
        return DimSolution(self.names, self.avals, self.tree, self.symbols)


@dataclasses.dataclass(frozen=True)
class _Spec:
    shape: Shape
    dtype: Dtype
    weak_type: bool = False


def parse_inputs(
    fn: Function, specs: Sequence[PyTree], kwargs: Mapping[str, PyTree], constraints: Sequence[str]
) -> Inputs:
    """Read `to_onnx`'s `inputs`, `kwargs` and `constraints`.

    A leaf is a shape `("B", 28, None)` (of JAX's default float dtype), `(shape, dtype)`, anything
    with `shape` and `dtype`, or a Python scalar; dicts, lists, other tuples and registered pytrees nest.
    """
    if isinstance(specs, (str, bytes, Mapping)) or not isinstance(specs, Sequence):
        raise InputError(
            f"inputs must be a list with one entry per positional argument, not {specs!r}. "
            "For one input of shape (B, 4) write [('B', 4)]."
        )
    normalised = (tuple(_normalise(s, f"inputs[{i}]") for i, s in enumerate(specs)),
                  {k: _normalise(s, f"kwargs[{k!r}]") for k, s in kwargs.items()})  # fmt: skip
    leaves, tree = jax.tree_util.tree_flatten_with_path(normalised, is_leaf=lambda x: isinstance(x, _Spec))
    parameters = _check_signature(fn, len(specs), kwargs)
    names = _unique([_leaf_name(path, parameters) for path, _ in leaves])
    symbols = Symbols(constraints, _given_scope(spec for _, spec in leaves))
    avals = [_aval(spec, name, symbols) for name, (_, spec) in zip(names, leaves, strict=True)]
    symbols.check_known()
    return Inputs(names, avals, tree, symbols)


def _is_shape(spec: object) -> TypeGuard[Shape]:
    # A named tuple, empty ones among them, is a node of a pytree.
    return type(spec) is tuple and all(
        d is None or (isinstance(d, (int, str, np.integer)) and not isinstance(d, bool)) or _compat.is_symbolic_dim(d)
        for d in spec
    )


def _is_dtype(value: object) -> bool:
    if not isinstance(value, (str, type, np.dtype)) and not _compat.is_extended_dtype(value):
        return False
    try:
        _as_dtype(value)
    except TypeError:
        return False
    return True


def _as_dtype(value: Any) -> Dtype:
    if _compat.is_extended_dtype(value):
        return value
    return jax.numpy.dtype(value)


def _normalise(spec: PyTree, where: str) -> PyTree:
    if _is_shape(spec):
        return _Spec(_check_shape(spec, where), _compat.default_float())
    if isinstance(spec, tuple) and len(spec) == 2 and _is_shape(spec[0]) and not _is_shape(spec[1]):
        if not _is_dtype(spec[1]) and not isinstance(spec[1], (Mapping, list, tuple)):
            raise InputError(f"{where}: {spec[1]!r} is not a dtype; write for instance ((3, 4), 'int32').")
        if _is_dtype(spec[1]):
            return _Spec(_check_shape(spec[0], where), _as_dtype(spec[1]))
    if isinstance(spec, (np.ndarray, np.generic)):
        return _Spec(_check_shape(tuple(spec.shape), where), spec.dtype)
    if isinstance(spec, (jax.ShapeDtypeStruct, jax.Array)):
        aval = jax.typeof(spec) if isinstance(spec, jax.Array) else spec
        return _Spec(_check_shape(tuple(aval.shape), where), aval.dtype, aval.weak_type)
    if isinstance(spec, (bool, int, float, complex)):
        return _Spec((), np.asarray(spec).dtype, weak_type=True)
    if isinstance(spec, (str, bytes)):
        raise InputError(f"{where}: {spec!r} is not a shape; a shape is a tuple such as ('B', 4).")
    return _normalise_tree(spec, where)


def _normalise_tree(spec: PyTree, where: str) -> PyTree:
    # One level at a time, so that tuples which are shapes are seen before JAX takes them apart.
    leaves, tree = jax.tree_util.tree_flatten_with_path(spec, is_leaf=lambda x: x is not spec)
    if len(leaves) == 1 and leaves[0][1] is spec:
        raise InputError(
            f"{where}: {spec!r} is neither a shape, an array, nor a pytree of them. Write a shape such as "
            "('B', 4), a pair (shape, dtype), a jax.ShapeDtypeStruct, or an example array."
        )
    return jax.tree_util.tree_unflatten(tree, [_normalise(leaf, where + keystr(path)) for path, leaf in leaves])


def _check_shape(shape: Shape, where: str) -> Shape:
    for d in shape:
        if isinstance(d, (int, np.integer)) and d < 0:
            raise InputError(f"{where}: the shape {shape} has the negative dimension {d}; name it to make it dynamic.")
    return shape


def _given_scope(specs: Iterator[_Spec]) -> jax.export.SymbolicScope | None:
    scopes = {
        id(s): s for spec in specs for d in spec.shape if _compat.is_symbolic_dim(d) for s in [_compat.scope_of(d)]
    }
    if len(scopes) > 1:
        raise InputError(
            "The inputs carry symbolic dimensions of several scopes; create them with one jax.export.symbolic_shape "
            "call or pass scope= to the others."
        )
    return next(iter(scopes.values()), None)


def _aval(spec: _Spec, name: str, symbols: Symbols) -> jax.ShapeDtypeStruct:
    shape = tuple(_dimension(d, f"{name}_dim{axis}".replace(".", "_"), symbols) for axis, d in enumerate(spec.shape))
    dtype = spec.dtype if _compat.is_extended_dtype(spec.dtype) else _compat.canonical_dtype(spec.dtype)
    return jax.ShapeDtypeStruct(shape, dtype, weak_type=spec.weak_type)


def _dimension(d: int | str | Dim | None, anonymous: str, symbols: Symbols) -> Dim:
    if d is None:
        return symbols.parse(anonymous)
    if isinstance(d, str):
        return symbols.parse(d)
    return int(d) if is_static(d) else d


def _check_signature(fn: Function, count: int, kwargs: Mapping[str, PyTree]) -> list[str]:
    """Names for the positional arguments; an error if the function cannot take them."""
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # some builtins and C functions have no signature
        return [f"arg{i}" for i in range(count)]
    try:
        bound = signature.bind(*range(count), **dict.fromkeys(kwargs))
    except TypeError as error:
        raise InputError(
            f"The function {_name_of(fn)}{signature} cannot be called with {count} positional inputs"
            f"{' and keywords ' + ', '.join(kwargs) if kwargs else ''}: {error}."
        ) from None
    names: list[str] = []
    for parameter, value in bound.arguments.items():
        if signature.parameters[parameter].kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{parameter}_{i}" for i in range(len(value))]
        elif parameter not in kwargs and len(names) < count:
            names.append(parameter)
    return names


def _name_of(fn: Function) -> str:
    return fn.__qualname__ if inspect.isroutine(fn) or inspect.isclass(fn) else type(fn).__name__


def _leaf_name(path: KeyPath, parameters: list[str]) -> str:
    which, key, *rest = path
    head = parameters[key.idx] if which.idx == 0 else key.key
    return ".".join([head, *filter(None, [path_name(rest)])])


def path_name(path: Sequence[KeyPathEntry]) -> str:
    """A pytree path as a dotted name: `batch.speed`, `0.kernel`."""
    return ".".join(_key_name(key) for key in path)


def _key_name(key: KeyPathEntry) -> str:
    match key:
        case jax.tree_util.DictKey():
            return str(key.key)
        case jax.tree_util.SequenceKey():
            return str(key.idx)
        case jax.tree_util.GetAttrKey():
            return key.name
        case jax.tree_util.FlattenedIndexKey():
            return str(key.key)
    return str(key).strip("[].'\"")


def _unique(names: list[str]) -> list[str]:
    seen: dict[str, int] = {}
    result = []
    for name in names:
        count = seen.get(name, 0)
        seen[name] = count + 1
        result.append(name if not count else f"{name}_{count}")
    return result
