"""Layers and other named operations in the body of a `shard_map`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax
from jax2onnx_core.jax_types import Equation
from jax2onnx_core.jaxprs import bind_primitive

from jax2onnx_lax.sharding.interpreter import Interpreter, ShardedValue, ShardRule, axis_names
from jax2onnx_lax.sharding.sharded_arrays import Layout, ShardedArray

__all__ = ["COMPOSITES"]


def composite(run: Interpreter, eqn: Equation, *operands: ShardedValue) -> Sequence[ShardedValue] | None:
    """Apply the operation to whole arrays where its decomposition allows it, else to each device or by the decomposition."""
    values = [run.devices.filled(x.sharded) for x in operands]
    if axis_names(eqn):
        return run.run(eqn.params["jaxpr"], operands[eqn.params["count"] :])
    if not any(x.layout.stacked for x in values) and (results := _on_whole_arrays(run, eqn, values)) is not None:
        return results
    if all(not names for x in values for names in x.layout.tiled):
        return None
    return run.run(eqn.params["jaxpr"], operands[eqn.params["count"] :])


def _on_whole_arrays(run: Interpreter, eqn: Equation, values: Sequence[ShardedArray]) -> list[ShardedValue] | None:
    """The operation on whole arrays; None where its decomposition needs to know of devices, or its batch may not be larger."""
    params, count = eqn.params, eqn.params["count"]
    if not _may_be_larger(params, values[:count]):
        return None
    trial, layouts, unreduced = run.within({}), list[Layout](), list[ShardedValue]()

    def traced(*arrays: jax.Array) -> list[jax.Array]:
        held = [ShardedArray(a, x.shape, x.layout) for a, x in zip(arrays, values[count:], strict=True)]
        found = trial.run(params["jaxpr"], held)
        unreduced.extend(x for x in found if not isinstance(x, ShardedArray))
        results = [trial.devices.filled(x.sharded) for x in found]
        layouts.extend(x.layout for x in results)
        return [x.array for x in results]

    arrays = [x.array for x in values]
    jaxpr = jax.make_jaxpr(traced)(*arrays[count:])
    if unreduced or not trial.is_crisp or any(layout.stacked for layout in layouts):
        return None
    results = bind_primitive(eqn.primitive, {**params, "jaxpr": jaxpr}, *arrays)
    return [ShardedArray(x, v.aval.shape, layout) for x, v, layout in zip(results, eqn.outvars, layouts, strict=True)]


def _may_be_larger(params: Mapping[str, object], values: Sequence[ShardedArray]) -> bool:
    """Whether the operation takes further examples in those of its operands that are divided."""
    keep, tree = params["keep"], params["tree"]
    owners = [i for i, operand in enumerate(tree.children()) for _ in range(operand.num_leaves)]  # type: ignore[attr-defined]
    divided = {owner for owner, x in zip(owners, values, strict=True) if x.axes}
    return bool(keep) and (not isinstance(keep, tuple) or divided <= set(keep))


COMPOSITES: Mapping[str, ShardRule] = {"jax2onnx_composite": composite}
"""The rules of this module: primitive → rule."""
