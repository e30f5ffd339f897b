"""The order of passes: random ones within what the passes declare, and the pipeline run twice, on the models of functions.

A pass names by `after` those that have to run before it. In every order that keeps to this, and however often the passes run, a model has
the same values: what needs more of an order declares it. A second run in the usual order changes next to nothing, and never adds a node:
`ImplicitBroadcast` takes away what stands in front of an Expand that it removed in the first run, and `FoldConstants` folds casts of
constants that the target's legalisation made.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence

import jax
import numpy as np
from jax2onnx_core import OnnxProgram, hookimpl, to_onnx
from jax2onnx_core.jax_types import Function, PyTree
from jax2onnx_core.plugins.registry import Registry
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.passes import default_passes, optimise
from jax2onnx_graph.passes.structural.remove_dead_nodes import RemoveDeadNodes
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.targets import PassFactory, Target, standard_target
from jax2onnx_runtime.comparison import tolerance
from jax2onnx_runtime.sizes import choose_sizes
from jax2onnx_testing.values import arguments

__all__ = ["ModelBeforePasses", "differences", "random_order"]


class ModelBeforePasses:
    """The model of a function as it is lowered, before the passes; what `to_onnx` takes, this takes too.

    Attributes:
      program: the program as it is exported.
      inputs: the inputs as they were given.
      x64: whether 64-bit types are on.
    """

    def __init__(self, function: Function, inputs: Sequence[PyTree], **options: object) -> None:
        self._kept: list[ir.Model] = []
        self.inputs, self.x64 = inputs, bool(options.get("x64"))
        export: Callable[..., OnnxProgram] = to_onnx
        self.program = export(function, inputs, plugins=[_Plugin(self._kept)], **options)

    def optimised(self, passes: Sequence[PassFactory] | None = None, *, times: int = 1) -> ir.Model:
        """A copy of the model after passes.

        Args:
          passes: the passes in order, the default ones unless given; those of the target follow.
          times: how often all of them run.
        """
        model = self._kept[0].clone()
        model.meta.update(self._kept[0].meta)
        for _ in range(times):
            optimise(model, self.program.target, passes=passes)
        return model


class _Plugin:
    """Contributes the pass that keeps the model, in front of all others but the removal of dead nodes."""

    def __init__(self, kept: list[ir.Model]) -> None:
        self._kept = kept

    @hookimpl
    def jax2onnx_register(self, registry: Registry) -> None:
        """Contribute the pass."""
        registry.graph_pass(lambda target: _Keep(target, self._kept), after=[RemoveDeadNodes])


class _Keep(GraphPass):
    """Keeps a copy of the model and leaves it as it is."""

    def __init__(self, target: Target, kept: list[ir.Model]) -> None:
        super().__init__(target)
        self._kept = kept

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        copy = model.clone()
        copy.meta.update(model.meta)
        self._kept.append(copy)
        return ir.passes.PassResult(model, False)

    def rewrite_graph(self, editor: object) -> None:
        """Nothing."""


def differences(before: ModelBeforePasses, seeds: Iterable[int]) -> list[str]:
    """The random orders in which the passes make a model of other values, on ordinary numbers, or do so when they run twice.

    Args:
      before: the model before the passes.
      seeds: those of the orders.

    Returns:
      For each order that does, a sentence with the passes in that order.
    """
    program = before.program
    sizes = choose_sizes(program.inputs.space(program.traced.out_avals))[0]
    with jax.enable_x64(before.x64):
        args, kwargs = arguments(program.inputs, before.inputs, sizes, "unit", 0)
        feeds = program.feeds(*args, **kwargs)
    usual, found = program.loaded(feeds), list[str]()
    orders: dict[str, ir.Model] = {}
    for seed in seeds:
        order = random_order(seed)
        names = ", ".join(type(factory(standard_target)).__name__ for factory in order)
        orders[f"The order of seed {seed} makes other values: {names}."] = before.optimised(order)
    orders["A second run of the passes makes other values."] = before.optimised(times=2)
    for text, model in orders.items():
        if not all(map(_are_close, program.runtime.load(model)(feeds), usual)):
            found.append(text)
    return found


def _are_close(got: Array, want: Array) -> bool:
    """Whether two results are equal but for rounding."""
    if tolerance(want.dtype) == 0:
        return bool(np.array_equal(got, want))
    wide = want.astype(np.float64)
    scale = float(np.abs(wide[np.isfinite(wide)]).max(initial=1))
    near = tolerance(want.dtype) * scale
    return bool(np.allclose(got.astype(np.float64), wide, rtol=tolerance(want.dtype), atol=near, equal_nan=True))


def random_order(seed: int) -> list[PassFactory]:
    """The default passes in a random order in which each comes after those that it names, the same for the same seed."""
    chance = random.Random(seed)
    remaining = [(factory, factory(standard_target)) for factory in default_passes()]
    order: list[PassFactory] = []
    ran: set[type] = set()
    while remaining:
        ready = [one for one in remaining if not isinstance(one[1], GraphPass) or {*one[1].after} <= ran]
        chosen = chance.choice(ready)
        remaining.remove(chosen)
        order.append(chosen[0])
        ran.add(type(chosen[1]))
    return order
