"""The pipeline of passes: structural ones, those of plugins, the target's."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

from onnx_ir.passes.common import RemoveUnusedFunctionsPass, RemoveUnusedNodesPass

from jax2onnx_graph._ir import ir
from jax2onnx_graph.build.names import numbered
from jax2onnx_graph.errors import ConversionError, PassError
from jax2onnx_graph.passes.schedule import ContributedPass, ScheduledPass, make_pass, schedule
from jax2onnx_graph.passes.structural.absorb_transposes import AbsorbTransposes
from jax2onnx_graph.passes.structural.attention_layout import AttentionLayout
from jax2onnx_graph.passes.structural.compute_sizes import ComputeSizes
from jax2onnx_graph.passes.structural.concat_views import ConcatViews
from jax2onnx_graph.passes.structural.eliminate_common_subexpressions import EliminateCommonSubexpressions
from jax2onnx_graph.passes.structural.expand_functions import ExpandFunctions
from jax2onnx_graph.passes.structural.fold_casts import FoldCasts
from jax2onnx_graph.passes.structural.fold_constants import FoldConstants
from jax2onnx_graph.passes.structural.fold_flags import FoldFlags
from jax2onnx_graph.passes.structural.fold_neutral import FoldNeutral
from jax2onnx_graph.passes.structural.fold_transposes import FoldTransposes
from jax2onnx_graph.passes.structural.fold_weight_sums import FoldWeightSums
from jax2onnx_graph.passes.structural.hoist_invariants import HoistInvariants
from jax2onnx_graph.passes.structural.implicit_broadcast import ImplicitBroadcast
from jax2onnx_graph.passes.structural.merge_reductions import MergeReductions
from jax2onnx_graph.passes.structural.merge_reshapes import MergeReshapes
from jax2onnx_graph.passes.structural.merge_states import MergeStates
from jax2onnx_graph.passes.structural.remove_dead_nodes import RemoveDeadNodes
from jax2onnx_graph.passes.structural.sink_selections import SinkSelections
from jax2onnx_graph.progress import steps
from jax2onnx_graph.rewrite._node_index import NodeIndex
from jax2onnx_graph.rewrite.pass_base import GraphPass, NodePass, NotFormed, Phase
from jax2onnx_graph.targets import PassFactory, Target
from jax2onnx_graph.traversal import walk

__all__ = ["ContributedPass", "Optimised", "make_names_unique", "optimise", "structural_passes"]

_OWNER = "jax2onnx-graph"
# Chains that each round shortens by one link are as long as users write them, and more than this is a circle.
_MOST_ROUNDS = 100
# The class is not typed.
_remove_unused_functions: Callable[[], ir.passes.PassBase] = RemoveUnusedFunctionsPass


@dataclasses.dataclass(frozen=True)
class Optimised:
    """The outcome of `optimise`.

    Attributes:
      notes: a sentence about each pass of a plugin that could not be made, and was left out.
      not_formed: the formulas that passes left as they are, each once.
    """

    notes: Sequence[str]
    not_formed: Sequence[NotFormed]


def structural_passes() -> list[ContributedPass]:
    """The passes of this distribution, each once; those of a phase run in this order where they name no other.

    (`onnx_ir`'s IdentityEliminationPass is not used: it can make one value two outputs of a body.)
    """
    passes = [
        RemoveDeadNodes,
        MergeReshapes,
        FoldConstants,
        FoldCasts,
        ImplicitBroadcast,
        EliminateCommonSubexpressions,
        FoldNeutral,
        FoldWeightSums,
        FoldFlags,
        FoldTransposes,
        AttentionLayout,
        AbsorbTransposes,
        SinkSelections,
        ConcatViews,
        MergeReductions,
        MergeStates,
        HoistInvariants,
        ComputeSizes,
    ]
    return [ContributedPass(one, (), _OWNER) for one in passes]


def optimise(
    model: ir.Model, target: Target, passes: Sequence[ContributedPass] | None = None, *, further: Sequence[PassFactory] = ()
) -> Optimised:  # fmt: skip
    """Run passes phase by phase, then the target's own; names are unique afterwards.

    The passes of `Phase.SIMPLIFY` run until none of them changes anything; then those of each other phase, each once, and after
    those that name no other, and again after those that name these, the first ones again if there was a change. Operators
    that the target lacks are then written by others.

    Args:
      model: the model, modified in place.
      target: the target that the model is made for.
      passes: the passes, those of this distribution unless given.
      further: the classes of passes that run after those of the target.

    Raises:
      PassError: a pass failed, one of the target's could not be made, passes name each other in a circle, one names another that is
        not there or runs in a later phase, or the simplifying ones do not come to an end; the error names passes and owners.
    """
    notes: list[str] = []
    phases = schedule(structural_passes() if passes is None else passes, target, notes)
    pipeline = _Pipeline(model, list(itertools.chain(*phases[Phase.SIMPLIFY])))
    for step in steps("optimise", list(_stages(pipeline, phases, target, further))):
        step()
    make_names_unique(model)
    return Optimised(notes, list(dict.fromkeys(itertools.chain(*pipeline.not_formed.values()))))


def _stages(
    pipeline: _Pipeline,
    phases: Mapping[Phase, Sequence[Sequence[ScheduledPass]]],
    target: Target,
    further: Sequence[PassFactory],
) -> Iterator[Callable[[], object]]:
    """The work on a model, in order."""
    yield pipeline.simplify
    for phase in (Phase.FUSE, Phase.LAY_OUT, Phase.FINISH):
        for generation in phases[phase]:
            for one in generation:
                yield functools.partial(pipeline.run, one)
            yield pipeline.simplify
    owner = f"target {target.name}"
    last = [ScheduledPass(_remove_unused_functions(), "onnx-ir"), ScheduledPass(ExpandFunctions(target), _OWNER)]
    last += [ScheduledPass(make_pass(factory, target, owner), owner) for factory in (*target.passes(), *further)]
    for one in [*last, ScheduledPass(RemoveUnusedNodesPass(), "onnx-ir")]:
        yield functools.partial(pipeline.run, one)


class _Pipeline:
    """A model on its way through the passes.

    Attributes:
      not_formed: the formulas that each pass left alone when it ran last.
    """

    def __init__(self, model: ir.Model, simplifying: Sequence[ScheduledPass]) -> None:
        self._model, self._simplifying = model, simplifying
        self._changes = 0
        self._index: NodeIndex | None = None
        self._seen = [-1] * len(simplifying)  # the number of changes before the last run of each
        self.not_formed: dict[ScheduledPass, Sequence[NotFormed]] = {}

    def simplify(self) -> None:
        """Run the simplifying passes, each until nothing has changed since it ran last."""
        for _ in range(_MOST_ROUNDS):
            changing = list(filter(None, itertools.starmap(self._run_again, enumerate(self._simplifying))))
            if not changing:
                return
        names = ", ".join(f"{one.name} of {one.owner}" for one in changing)
        raise PassError(
            f"The graph passes {names} still change the model after {_MOST_ROUNDS} rounds: one undoes what another does, or says that it "
            "modified what it left as it was."
        )

    def _run_again(self, index: int, one: ScheduledPass) -> ScheduledPass | None:
        """Run a simplifying pass if there was a change since its last run; the pass if it changed something."""
        before = self._changes
        if self._seen[index] == before:
            return None
        self._seen[index] = before
        return one if self.run(one) else None

    def run(self, one: ScheduledPass) -> bool:
        """Run a pass; whether it changed something."""
        if not self._concerns(one.graph_pass):
            self.not_formed.pop(one, None)
            return False
        if isinstance(one.graph_pass, GraphPass):
            one.graph_pass.index = self._index
        try:
            modified = one.graph_pass(self._model).modified
        except ConversionError:  # what the pass says of the model, not a failure of its own
            raise
        except Exception as error:
            raise PassError(
                f"The graph pass {one.name} of {one.owner} failed: {type(error).__name__}: {error}"
            ) from error
        self._changes += modified
        if modified:
            self._index = None
        if isinstance(one.graph_pass, GraphPass):
            one.graph_pass.index = None
            self.not_formed[one] = one.graph_pass.not_formed()
        return modified

    def _concerns(self, graph_pass: ir.passes.PassBase) -> bool:
        """Whether the model has one of the operators that a pass looks at."""
        if not isinstance(graph_pass, NodePass) or graph_pass.operators is None:
            return True
        if self._index is None:
            self._index = NodeIndex(self._model)
        return not graph_pass.operators.isdisjoint(self._index.operators)


def make_names_unique(model: ir.Model) -> None:
    """Give each value of a graph and its subgraphs a name of its own, as ONNX requires; passes name them within one graph."""
    graphs: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    for graph in graphs:
        _make_names_unique(graph)


def _make_names_unique(graph: ir.Graph | ir.Function) -> None:
    """See `make_names_unique`."""
    kept = {*graph.inputs, *graph.outputs}
    taken = {v.name for v in kept}
    if isinstance(graph, ir.Graph):
        taken.update(graph.initializers)
    for node in walk(graph):
        bodies = [a.as_graph() for a in node.attributes.values() if a.type == ir.AttributeType.GRAPH]
        inner = [value for body in bodies for value in (*body.inputs, *body.initializers.values())]
        for value in dict.fromkeys([*node.outputs, *inner]):
            if value in kept or value.name == "":
                continue
            if value.name in taken:
                value.name = next(name for name in numbered(value.name or "value") if name not in taken)
            taken.add(value.name)
