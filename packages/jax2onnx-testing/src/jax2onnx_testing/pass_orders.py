"""The order of passes: random ones within what the passes declare, and the pipeline run twice, on the models of functions.

A pass names by `after` those that have to run before it. In every order that keeps to this, and however often the passes run, a model has
the same values: what needs more of an order declares it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from jax2onnx_core import OnnxProgram, hookimpl, to_onnx
from jax2onnx_core.jax_types import Function, PyTree
from jax2onnx_core.plugins.registry import Registry
from jax2onnx_graph import ir
from jax2onnx_graph.passes import default_passes, optimise
from jax2onnx_graph.passes.structural.remove_dead_nodes import RemoveDeadNodes
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.targets import PassFactory, Target, standard_target

__all__ = ["ModelBeforePasses", "random_order"]


class ModelBeforePasses:
    """The model of a function as it is lowered, before the passes; what `to_onnx` takes, this takes too.

    Attributes:
      program: the program as it is exported.
    """

    def __init__(self, function: Function, inputs: Sequence[PyTree], **options: object) -> None:
        self._kept: list[ir.Model] = []
        self.program: OnnxProgram = to_onnx(function, inputs, plugins=[_Plugin(self._kept)], **options)

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


def random_order(seed: int) -> list[PassFactory]:
    """The default passes in a random order in which each comes after those that it names, the same for the same seed."""
    chance = random.Random(seed)  # noqa: S311 - nothing secret
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
