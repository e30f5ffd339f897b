"""The order of passes: random ones within what the passes declare, and the pipeline run twice, on the models of functions.

A pass names its phase, and by `after` those that have to run before it; of others, that runs first which was contributed first. In every order,
and however often the passes run, a model has the same values: what needs more of an order declares it. A second run in the usual order changes next to nothing, and never adds a node:
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
from jax2onnx_graph.passes import ContributedPass, optimise
from jax2onnx_graph.rewrite.pass_base import GraphPass, Phase
from jax2onnx_graph.targets import Target, standard_target
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
      passes: the passes of the export, in the order in which they were contributed.
    """

    def __init__(self, function: Function, inputs: Sequence[PyTree], **options: object) -> None:
        plugin = _Plugin()
        self._kept, self.passes = plugin.kept, plugin.passes
        self.inputs, self.x64 = inputs, bool(options.get("x64"))
        export: Callable[..., OnnxProgram] = to_onnx
        self.program = export(function, inputs, plugins=[plugin], **options)

    def optimised(self, passes: Sequence[ContributedPass] | None = None, *, times: int = 1) -> ir.Model:
        """A copy of the model after passes.

        Args:
          passes: the passes, those of the export unless given; those of the target follow.
          times: how often all of them run.
        """
        model = self._kept[0].clone()
        model.meta.update(self._kept[0].meta)
        for _ in range(times):
            optimise(model, self.program.target, self.passes if passes is None else passes)
        return model


class _Plugin:
    """Contributes the pass that keeps the model, in front of all others.

    Attributes:
      kept: the model, once it is exported.
      passes: the others.
    """

    def __init__(self) -> None:
        self.kept: list[ir.Model] = []
        self.passes: list[ContributedPass] = []

    @hookimpl
    def jax2onnx_register(self, registry: Registry) -> None:
        """Contribute the pass."""
        self.passes[:] = registry.passes
        registry.passes.insert(0, ContributedPass(lambda target: _Keep(target, self.kept), (), "jax2onnx-testing"))


class _Keep(GraphPass):
    """Keeps a copy of the first model that it is given, and leaves it as it is."""

    phase = Phase.SIMPLIFY

    def __init__(self, target: Target, kept: list[ir.Model]) -> None:
        super().__init__(target)
        self._kept = kept

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        if not self._kept:
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
        order = random_order(before.passes, seed)
        names = ", ".join(type(one.factory(standard_target)).__name__ for one in order)
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


def random_order(passes: Sequence[ContributedPass], seed: int) -> list[ContributedPass]:
    """The passes as if they had been contributed in a random order, the same for the same seed."""
    return random.Random(seed).sample(passes, len(passes))
