"""Generated tests of declining: rules decline after they have emitted, and nothing of them is left."""

from __future__ import annotations

import collections
import dataclasses
import zlib
from collections.abc import Callable, Sequence

from jax2onnx_core import Context, OnnxProgram, Registry, Value, hookimpl
from jax2onnx_core.plugins.rules import Rule
from jax2onnx_graph.traversal import walk
from jax2onnx_runtime.sizes import choose_sizes

from jax2onnx_testing.checks import check_program, check_values, run_program
from jax2onnx_testing.errors import CheckFailedError
from jax2onnx_testing.reference import Reference
from jax2onnx_testing.targets import explain_failures, explain_refusals
from jax2onnx_testing.values import arguments
from jax2onnx_testing.variants import Variant, build

__all__ = ["DecliningRules", "check_declining"]


def check_declining(variant: Variant) -> None:
    """Check that a case keeps its model if every rule runs once and declines before it is used, and its values if no rule is left.

    Raises:
      CheckFailedError: the model consists of other nodes, or computes something else than JAX.
      KnownLimitationError: the variant's target refuses the case, or is known to get it wrong.
    """
    with explain_refusals(variant.target):
        _check(variant)


def _check(variant: Variant) -> None:
    built = build(variant)
    plugins = built.options.get("plugins", ())

    def export(*more: DecliningRules) -> OnnxProgram:
        return dataclasses.replace(built, options={**built.options, "plugins": [*plugins, *more]}).export()

    plain, again = _parts(export()), _parts(export(DecliningRules()))
    if plain != again:
        raise CheckFailedError(f"A rule that declined left {again - plain}, and took away {plain - again}.")
    program, case = export(DecliningRules(instead=True)), variant.found.case
    sizes = choose_sizes(program.inputs.space(program.traced.out_avals))[0]
    args, kwargs = arguments(program.inputs, built.inputs, sizes, case.values, zlib.crc32(variant.id.encode()))
    with explain_failures(variant.target, program, variant.found.id):
        got = run_program(program, args, kwargs, variant.target)
        check_values(program, Reference(built.fn)(args, kwargs), variant, sizes, got)
        check_program(program, built.options.get("output_names"))


def _parts(program: OnnxProgram) -> collections.Counter[tuple[object, ...]]:
    """The operators, functions, constants and lowered operations of a program, without their names."""
    model = program.model
    nodes = [node for graph in (model.graph, *model.functions.values()) for node in walk(graph)]
    found: list[tuple[object, ...]] = [("node", node.domain, node.op_type) for node in nodes]
    found += [("function", domain) for domain, _, _ in model.functions]
    found += [("constant", value.dtype, str(value.shape)) for value in model.graph.initializers.values()]
    found += [("lowered", *way) for way in program.log.ways.elements()]
    return collections.Counter(found)


class DecliningRules:
    """A plugin by which every rule first runs once and declines after it has emitted nodes.

    What a rule lowers while it runs in vain does not run in vain itself: bodies in bodies would be lowered twice as
    often at each depth.

    Args:
      instead: whether the first use of each rule is left to the next rule or the decomposition, for operations that
        have one; otherwise every use of a rule comes after one that declines.
    """

    def __init__(self, *, instead: bool = False) -> None:
        self._instead = instead
        self._is_in_vain = False

    @hookimpl
    def jax2onnx_register(self, registry: Registry) -> None:
        """Put a rule that declines before each rule, or in its place."""
        composites = {spec.name for spec in registry.composites}
        for name, rules in registry.rules.items():
            if not self._instead:
                rules[:] = [one for rule in rules for one in (rule, dataclasses.replace(rule, fn=self._in_vain(rule)))]
            elif name in composites or name in registry.decompositions:
                rules[:] = [dataclasses.replace(rule, fn=self._in_vain_at_first(rule)) for rule in rules]

    def _in_vain(self, rule: Rule) -> Callable[..., Value]:
        def declining(ctx: Context, *operands: object, **params: object) -> Value:
            if not self._is_in_vain:
                self._is_in_vain = True
                try:
                    rule.fn(ctx, *operands, **params)
                finally:
                    self._is_in_vain = False
            ctx.decline("a test of declining")

        return declining

    def _in_vain_at_first(self, rule: Rule) -> Callable[..., Value | Sequence[Value]]:
        declining = self._in_vain(rule)
        used: list[bool] = []

        def declining_at_first(ctx: Context, *operands: object, **params: object) -> Value | Sequence[Value]:
            if used:
                return rule.fn(ctx, *operands, **params)
            used.append(True)
            return declining(ctx, *operands, **params)

        return declining_at_first
