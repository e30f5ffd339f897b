"""Calls, loops and conditionals in the body of a `shard_map`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jax2onnx_core import Dim, Jaxpr
from jax2onnx_core.jax_types import Equation
from jax2onnx_core.jaxprs import is_static, open_jaxpr, scan_counts

from jax2onnx_lax.sharding.interpreter import Interpreter, ShardedValue, ShardRule
from jax2onnx_lax.sharding.sharded_arrays import Layout, ShardedArray

__all__ = ["CONTROL_FLOW"]


def call(parameter: str) -> ShardRule:
    """The rule of a primitive that is nothing but the jaxpr which is its parameter."""

    def rule(run: Interpreter, eqn: Equation, *operands: ShardedValue) -> Sequence[ShardedValue] | None:
        return run.run(eqn.params[parameter], operands)

    return rule


class _Body:
    """A jaxpr that is traced on arrays, some of which have given layouts, as the body of a loop or a branch."""

    def __init__(self, run: Interpreter, jaxpr: Jaxpr) -> None:
        self._run, self._jaxpr = run, jaxpr
        self._shapes = [v.aval.shape for v in open_jaxpr(jaxpr)[0].invars]

    def __call__(self, arrays: Sequence[jax.Array], layouts: Sequence[Layout]) -> list[ShardedArray]:
        """The results on operands in these layouts."""
        operands = [ShardedArray(*parts) for parts in zip(arrays, self._shapes, layouts, strict=True)]
        return [self._run.devices.filled(x.sharded) for x in self._run.run(self._jaxpr, operands)]

    def layouts(self, arrays: Sequence[jax.Array], layouts: Sequence[Layout]) -> list[Layout]:
        """The layouts of the results."""
        found: list[Layout] = []

        def traced(*xs: jax.Array) -> None:
            found.extend(x.layout for x in self(xs, layouts))

        jax.make_jaxpr(traced)(*arrays)
        return found


def _laid(run: Interpreter, values: Sequence[ShardedValue], layouts: Sequence[Layout]) -> list[ShardedArray]:
    filled = [run.devices.filled(x.sharded) for x in values]
    return [run.devices.relaid(x, layout) for x, layout in zip(filled, layouts, strict=True)]


def _arrays(values: Sequence[ShardedArray]) -> list[jax.Array]:
    return [jnp.asarray(x.array) for x in values]


def _carried(
    run: Interpreter, init: Sequence[ShardedValue], results: Callable[[Sequence[ShardedArray]], Sequence[Layout]]
) -> list[ShardedArray]:
    """The first values of a loop in layouts that its body keeps; `results` gives those of the body for given operands."""
    carry = [run.devices.filled(x.sharded) for x in init]
    while True:
        joined = [run.devices.joined([x.layout, layout]) for x, layout in zip(carry, results(carry), strict=True)]
        if joined == [x.layout for x in carry]:
            return carry
        carry = _laid(run, carry, joined)


def scan(run: Interpreter, eqn: Equation, *operands: ShardedValue) -> Sequence[ShardedValue] | None:
    """A scan over whole arrays."""
    params = eqn.params
    constants, carries = scan_counts(params, len(operands))
    body = _Body(run, params["jaxpr"])
    consts = [run.devices.filled(x.sharded) for x in operands[:constants]]
    xs = [_first(run, x) for x in operands[constants + carries :]]
    rows = [Layout(x.layout.stacked, x.layout.tiled[1:]) for x in xs]
    sequences = [jnp.moveaxis(x.array, len(x.layout.stacked), 0) for x in xs]
    elements = [jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in sequences]
    layouts: list[Layout] = []

    def results(carry: Sequence[ShardedArray]) -> list[Layout]:
        given = [x.layout for x in (*consts, *carry)]
        layouts[:] = body.layouts([*_arrays(consts), *_arrays(carry), *elements], [*given, *rows])
        return layouts[:carries]

    carry = _carried(run, operands[constants : constants + carries], results)
    kept = [x.layout for x in carry]

    def step(values: Sequence[jax.Array], elements: Sequence[jax.Array]) -> tuple[list[jax.Array], list[jax.Array]]:
        made = body([*_arrays(consts), *values, *elements], [*(x.layout for x in consts), *kept, *rows])
        return _arrays(_laid(run, made[:carries], kept)), _arrays(made[carries:])

    # JAX takes no symbolic number of steps as an argument, but from a sequence.
    length = params["length"]
    numbers = None if is_static(length) else jnp.arange(length)
    last, ys = lax.scan(
        lambda values, elements: step(values, elements[0]), _arrays(carry), (sequences, numbers),
        length if numbers is None else None, reverse=params["reverse"], unroll=params["unroll"],
    )  # fmt: skip
    shapes = [v.aval.shape for v in eqn.outvars]
    ends = [ShardedArray(x, shape, layout) for x, shape, layout in zip(last, shapes, kept, strict=False)]
    return [*ends, *map(_collected, ys, shapes[carries:], layouts[carries:])]


def _first(run: Interpreter, x: ShardedValue) -> ShardedArray:
    """A value whose first dimension is not divided, with all of its elements."""
    filled = run.devices.filled(x.sharded)
    return run.devices.stacked(filled, frozenset(filled.layout.tiled[0]))


def _collected(array: jax.Array, shape: tuple[Dim, ...], layout: Layout) -> ShardedArray:
    """The results of the steps of a scan, stacked."""
    moved = jnp.moveaxis(array, 0, len(layout.stacked))
    return ShardedArray(moved, shape, Layout(layout.stacked, ((), *layout.tiled)))


def while_loop(run: Interpreter, eqn: Equation, *operands: ShardedValue) -> Sequence[ShardedValue] | None:
    """A loop over whole arrays, where all devices leave it together."""
    params = eqn.params
    split = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    of_condition, of_body = _Body(run, params["cond_jaxpr"]), _Body(run, params["body_jaxpr"])
    given = [run.devices.filled(x.sharded) for x in operands[: split[1]]]
    groups = given[: split[0]], given[split[0] :]

    def results(carry: Sequence[ShardedArray]) -> list[Layout]:
        values = [*groups[1], *carry]
        return of_body.layouts(_arrays(values), [x.layout for x in values])

    carry = _carried(run, operands[split[1] :], results)
    kept = [x.layout for x in carry]
    asked = [*groups[0], *carry]
    if of_condition.layouts(_arrays(asked), [x.layout for x in asked])[0].axes:
        return None

    def condition(values: Sequence[jax.Array]) -> jax.Array:
        return of_condition([*_arrays(groups[0]), *values], [*(x.layout for x in groups[0]), *kept])[0].array

    def step(values: Sequence[jax.Array]) -> list[jax.Array]:
        made = of_body([*_arrays(groups[1]), *values], [*(x.layout for x in groups[1]), *kept])
        return _arrays(_laid(run, made, kept))

    last = lax.while_loop(condition, step, _arrays(carry))
    return [ShardedArray(x, y.shape, y.layout) for x, y in zip(last, carry, strict=True)]


def cond(
    run: Interpreter, eqn: Equation, index: ShardedValue, *operands: ShardedValue
) -> Sequence[ShardedValue] | None:
    """A choice of one branch over whole arrays, where all devices choose the same."""
    if index.axes:
        return None
    branches = [_Body(run, jaxpr) for jaxpr in eqn.params["branches"]]
    values = [run.devices.filled(x.sharded) for x in operands]
    layouts = [x.layout for x in values]
    found = [branch.layouts(_arrays(values), layouts) for branch in branches]
    kept = [run.devices.joined(alike) for alike in zip(*found, strict=True)]

    def traced(branch: _Body) -> Callable[..., list[jax.Array]]:
        return lambda *arrays: _arrays(_laid(run, branch(arrays, layouts), kept))

    results = lax.switch(index.sharded.array, [traced(branch) for branch in branches], *_arrays(values))
    return [ShardedArray(x, v.aval.shape, layout) for x, v, layout in zip(results, eqn.outvars, kept, strict=True)]


CONTROL_FLOW: Mapping[str, ShardRule] = {
    **dict.fromkeys(("jit", "remat2", "checkpoint", "custom_lin"), call("jaxpr")),
    **dict.fromkeys(("closed_call", "call", "core_call", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"), call("call_jaxpr")),
    "scan": scan,
    "while": while_loop,
    "cond": cond,
}  # fmt: skip
"""The rules of this module: primitive → rule."""
