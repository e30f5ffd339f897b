"""The composite primitive: one equation that carries a name, static parameters and its own meaning."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jax2onnx_core import _compat
from jax2onnx_core._fingerprint import params_fingerprint
from jax2onnx_core.jax_types import Jaxpr, Primitive, PyTree, PyTreeDef
from jax2onnx_core.jaxprs import Dim, StaticParams
from jax2onnx_core.plugins.rules import Call, KeepUnderVmap

__all__ = ["TracedOriginal", "bind_composite", "is_composite"]

composite_p = Primitive("jax2onnx_composite")


def is_composite(primitive: Primitive) -> bool:
    """Whether a primitive is that of composites."""
    return primitive is composite_p


def bind_composite(
    name: str,
    call: Call,
    original: Callable[[], PyTree],
    *,
    keep_under_vmap: KeepUnderVmap = False,
    traced: dict[Hashable, TracedOriginal] | None = None,
) -> PyTree:
    """Trace `original()` and bind it as the operation `name` with the operands and params of `call`.

    The equation's operands are those of the call followed by everything that the original closed
    over, so the decomposition is always at hand and no operand has to be matched with an argument.

    Args:
      name: the name of the operation.
      call: its operands and static parameters.
      original: computes what the operation means.
      keep_under_vmap: whether the operation stays whole under `jax.vmap`; see `Composites.call`.
      traced: a dict that lives as long as the activation window: an original that used just the call's operands, and all
        of them, is traced once for all calls of equal types, numbers and params, which mean the same.

    Returns:
      The result that `original()` has.
    """
    leaves, tree = jax.tree_util.tree_flatten(call.operands)
    operands = [x if isinstance(x, jax.Array) else jnp.asarray(x) for x in leaves]
    key = None if traced is None else _key(name, call, leaves, operands, tree)
    meaning = None if key is None or traced is None else traced.get(key)
    if meaning is None:
        jaxpr, consts, out_tree = _compat.trace_thunk(original)
        meaning = TracedOriginal(jaxpr, out_tree, _places(consts, operands))
        if key is not None and traced is not None and meaning.places is not None and _uses_all(leaves, consts):
            traced[key] = meaning
    else:
        consts = [operands[i] for i in meaning.places or ()]
    results = composite_p.bind(
        *operands,
        *consts,
        name=name,
        jaxpr=meaning.jaxpr,
        count=len(operands),
        tree=tree,
        static=StaticParams(call.params),
        keep=keep_under_vmap,
    )
    return jax.tree_util.tree_unflatten(meaning.tree, results)


@dataclasses.dataclass(frozen=True)
class TracedOriginal:
    """A traced original: its jaxpr, the tree of its result, and which operand of the call is each of the
    things that it closed over (None if one is not an operand).
    """

    jaxpr: Jaxpr
    tree: PyTreeDef
    places: list[int] | None


def _key(
    name: str, call: Call, leaves: Sequence[ArrayLike], operands: Sequence[jax.Array], tree: PyTreeDef
) -> Hashable | None:
    """A key that is equal for calls of equal meaning; None where the params may change, as objects that are not hashable do.

    A leaf that is no array of JAX's, such as a Python number, stands as a literal in what is traced.
    """
    try:
        hash(tuple(call.params.values()))
    except TypeError:
        return None
    same = {id(x): i for i, x in reversed(list(enumerate(operands)))}
    return (
        name,
        tree,
        tuple(jax.typeof(x) for x in operands),
        tuple(same[id(x)] for x in operands),
        params_fingerprint(call.params),
        params_fingerprint({"literals": [None if isinstance(x, jax.Array) else x for x in leaves]}),
        _compat.trace_context(),
    )


def _uses_all(leaves: Sequence[ArrayLike], consts: Sequence[jax.Array]) -> bool:
    """Whether an original closed over each array of a call; one that did not may do without a default that another is given."""
    used = {id(c) for c in consts}
    return all(id(x) in used for x in leaves if isinstance(x, jax.Array))


def _places(consts: Sequence[jax.Array], operands: Sequence[jax.Array]) -> list[int] | None:
    index = {id(x): i for i, x in reversed(list(enumerate(operands)))}
    places = [index.get(id(c)) for c in consts]
    return None if None in places else places  # type: ignore[return-value]


def _batch(
    size: Dim, axis_name: Hashable, operands: Sequence[jax.Array], axes: Sequence[int | None], **params: Any
) -> list[jax.Array]:
    count, jaxpr = params["count"], params["jaxpr"]

    def meaning(*args: jax.Array) -> list[jax.Array]:
        return _compat.eval_jaxpr(jaxpr, *args)

    batched = jax.vmap(meaning, tuple(axes[count:]), 0, axis_name=axis_name, axis_size=size)
    kept = _kept(params["keep"], params["tree"], axes[:count])
    if kept is None:
        return list(batched(*operands[count:]))
    front = list(operands[:count])
    for i in kept:
        length = 1 if axes[i] is None and params["keep"] == "broadcast" else size
        front[i] = jax.vmap(lambda x: x, axes[i], 0, axis_size=length)(front[i])
    traced, closed_over, _ = _compat.trace_thunk(lambda: batched(*operands[count:]))
    return list(composite_p.bind(*front, *closed_over, **{**params, "jaxpr": traced}))


def _kept(keep: KeepUnderVmap, tree: PyTreeDef, axes: Sequence[int | None]) -> list[int] | None:
    """Indices of the operands' leaves that get the batch axis; None where vmap takes the operation apart."""
    owners = [index for index, operand in enumerate(tree.children()) for _ in range(operand.num_leaves)]
    indices = keep if isinstance(keep, tuple) else owners if keep else ()
    kept = [leaf for leaf, owner in enumerate(owners) if owner in indices]
    others = [axis for leaf, axis in enumerate(axes) if leaf not in kept]
    return kept if keep and others.count(None) == len(others) else None


_compat.register_composite_rules(composite_p, _batch)
