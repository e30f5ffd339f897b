"""The pipeline of passes: structural ones, fusions, contributed ones, the target's."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

from onnx_ir.passes.common import RemoveUnusedFunctionsPass

from jax2onnx_graph._ir import ir
from jax2onnx_graph.errors import ConversionError, PassError
from jax2onnx_graph.passes.fusion.attention.attention_layout import AttentionLayout
from jax2onnx_graph.passes.fusion.attention.fuse_attention import FuseAttention
from jax2onnx_graph.passes.fusion.attention.heads_as_rows import HeadsAsRows
from jax2onnx_graph.passes.fusion.experts.join_runs import JoinRuns
from jax2onnx_graph.passes.fusion.experts.select_expert_terms import SelectExpertTerms
from jax2onnx_graph.passes.fusion.experts.select_experts import SelectExperts
from jax2onnx_graph.passes.fusion.experts.select_places import SelectPlaces
from jax2onnx_graph.passes.fusion.fold_batch_norm import FoldBatchNorm
from jax2onnx_graph.passes.fusion.fuse_gelu import FuseGelu
from jax2onnx_graph.passes.fusion.fuse_layer_norm import FuseLayerNorm
from jax2onnx_graph.passes.fusion.fuse_mod import FuseMod
from jax2onnx_graph.passes.fusion.fuse_relu import FuseRelu
from jax2onnx_graph.passes.fusion.fuse_rms_norm import FuseRmsNorm
from jax2onnx_graph.passes.fusion.fuse_rotary_embedding import FuseRotaryEmbedding
from jax2onnx_graph.passes.fusion.fuse_silu import FuseSilu
from jax2onnx_graph.passes.fusion.fuse_softmax import FuseSoftmax
from jax2onnx_graph.passes.fusion.recurrence.fold_reversals import FoldReversals
from jax2onnx_graph.passes.fusion.recurrence.fuse_recurrent import FuseRecurrent
from jax2onnx_graph.passes.fusion.recurrence.join_directions import JoinDirections
from jax2onnx_graph.passes.structural.concat_views import ConcatViews
from jax2onnx_graph.passes.structural.eliminate_common_subexpressions import EliminateCommonSubexpressions
from jax2onnx_graph.passes.structural.expand_functions import ExpandFunctions
from jax2onnx_graph.passes.structural.fold_casts import FoldCasts
from jax2onnx_graph.passes.structural.fold_constants import FoldConstants
from jax2onnx_graph.passes.structural.fold_flags import FoldFlags
from jax2onnx_graph.passes.structural.fold_neutral import FoldNeutral
from jax2onnx_graph.passes.structural.fold_transposes import FoldTransposes
from jax2onnx_graph.passes.structural.fold_weight_sums import FoldWeightSums
from jax2onnx_graph.passes.structural.fold_where import FoldWhere
from jax2onnx_graph.passes.structural.hoist_invariants import HoistInvariants
from jax2onnx_graph.passes.structural.implicit_broadcast import ImplicitBroadcast
from jax2onnx_graph.passes.structural.inline_branches import InlineBranches
from jax2onnx_graph.passes.structural.merge_reductions import MergeReductions
from jax2onnx_graph.passes.structural.merge_reshapes import MergeReshapes
from jax2onnx_graph.passes.structural.merge_stacks import MergeStacks
from jax2onnx_graph.passes.structural.merge_states import MergeStates
from jax2onnx_graph.passes.structural.order_features import OrderFeatures
from jax2onnx_graph.passes.structural.remove_dead_nodes import RemoveDeadNodes
from jax2onnx_graph.passes.structural.select_early import SelectEarly
from jax2onnx_graph.progress import steps
from jax2onnx_graph.rewrite.pass_base import GraphPass, NotFormed
from jax2onnx_graph.targets import PassFactory, Target
from jax2onnx_graph.traversal import walk

__all__ = ["ContributedPass", "Optimised", "default_passes", "make_names_unique", "optimise"]

_SELF = "jax2onnx-graph"


@dataclasses.dataclass(frozen=True)
class ContributedPass:
    """A pass that a plugin contributes: it runs once the passes `after` have run, or after all default passes."""

    factory: PassFactory
    after: tuple[type[ir.passes.PassBase], ...]
    owner: str


@dataclasses.dataclass(frozen=True)
class Optimised:
    """The outcome of `optimise`.

    Attributes:
      notes: a sentence about each contributed pass that could not be made, and was left out.
      not_formed: the formulas that passes left as they are, each once.
    """

    notes: Sequence[str]
    not_formed: Sequence[NotFormed]


def default_passes() -> list[PassFactory]:
    """Makers of the passes that every export runs, in order.

    Dead nodes go first, so that the passes see only real readers, again once formulas are operators and before selections
    move, which every reader of a value has a say in, and last, with what the passes freed.
    Broadcasts are made implicit before transposes move, since they then move through fewer operators;
    transposes that turn out to be views are merged with reshapes after that. (`onnx_ir`'s
    IdentityEliminationPass is not used: it can make one value two outputs of a body.)

    Formulas are read once equal subexpressions are one, attention among them, whatever is transposed on the way; rotations,
    cells in loops, and the factors behind convolutions once transposes have settled. What loops compute again in each iteration
    goes in front of them last, since formulas are read within one graph; it may be there already. Booleans that become numbers are read
    before attention, for its masks, and after it, which asks which queries see a key.
    """
    return [
        RemoveDeadNodes,
        MergeReshapes,
        MergeStacks,
        FoldConstants,
        InlineBranches,
        FoldCasts,
        ImplicitBroadcast,
        EliminateCommonSubexpressions,
        FoldNeutral,
        FoldWeightSums,
        FoldWhere,
        FoldFlags,
        FuseMod,
        FuseRelu,
        FuseSilu,
        FuseSoftmax,
        FuseLayerNorm,
        FuseRmsNorm,
        FuseGelu,
        RemoveDeadNodes,
        SelectExperts,
        SelectExpertTerms,
        SelectPlaces,
        JoinRuns,
        FuseAttention,
        FoldTransposes,
        FuseRotaryEmbedding,
        AttentionLayout,
        HeadsAsRows,
        FoldFlags,
        FuseRecurrent,
        FoldReversals,
        JoinDirections,
        FoldBatchNorm,
        RemoveDeadNodes,
        OrderFeatures,
        SelectEarly,
        ConcatViews,
        MergeReshapes,
        MergeReductions,
        MergeStates,
        HoistInvariants,
        EliminateCommonSubexpressions,
        RemoveDeadNodes,
        _plain(RemoveUnusedFunctionsPass),
    ]


def _plain(make: Callable[[], ir.passes.PassBase]) -> PassFactory:
    """The maker of a pass that asks nothing of the target."""
    return lambda _: make()


def optimise(
    model: ir.Model,
    target: Target,
    contributed: Sequence[ContributedPass] = (),
    passes: Sequence[PassFactory] | None = None,
) -> Optimised:
    """Run the default passes, those of plugins at their places, and the target's own; names are unique afterwards.

    Args:
      model: the model, modified in place.
      target: what it is made for.
      contributed: the passes of plugins.
      passes: makers of the passes to run in place of the default ones: these in another order, or some of them.

    Raises:
      PassError: a pass failed, one of the target's could not be made, or one has to run after a pass that has not run; the error
        names its owner.
    """
    notes: list[str] = []
    not_formed: dict[NotFormed, None] = {}
    for graph_pass, owner in steps(
        "optimise", list(_in_order(default_passes() if passes is None else passes, target, contributed, notes))
    ):
        _run(model, graph_pass, owner)
        if isinstance(graph_pass, GraphPass):
            not_formed.update(dict.fromkeys(graph_pass.not_formed()))
    make_names_unique(model)
    return Optimised(notes, list(not_formed))


def make_names_unique(model: ir.Model) -> None:
    """Give each value of a graph and its subgraphs a name of its own, as ONNX requires; passes name them within one graph."""
    graphs: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    for graph in graphs:
        _make_names_unique(graph)


def _in_order(
    passes: Sequence[PassFactory], target: Target, contributed: Iterable[ContributedPass], notes: list[str]
) -> Iterator[tuple[ir.passes.PassBase, str]]:
    remaining, ran = list(contributed), list[type[ir.passes.PassBase]]()
    for factory in passes:
        graph_pass = factory(target)
        yield _checked(graph_pass, ran, _SELF), _SELF
        ran.append(type(graph_pass))
        for one in [c for c in remaining if c.after and {*c.after} <= {*ran}]:
            remaining.remove(one)
            yield from _contributed(one, target, ran, notes)
    for one in remaining:
        _check_order(one.after, ran, f"A graph pass of {one.owner}")
        yield from _contributed(one, target, ran, notes)
    yield ExpandFunctions(target), _SELF
    for factory in target.passes():
        yield _make(factory, target, f"target {target.name}"), f"target {target.name}"
    yield ir.passes.common.RemoveUnusedNodesPass(), "onnx-ir"


def _contributed(
    contributed: ContributedPass, target: Target, ran: list[type[ir.passes.PassBase]], notes: list[str]
) -> Iterator[tuple[ir.passes.PassBase, str]]:
    try:
        made = _make(contributed.factory, target, contributed.owner)
    except PassError as error:
        notes.append(f"{error} The model was made without it.")
        return
    yield _checked(made, ran, contributed.owner), contributed.owner
    ran.append(type(made))


def _checked(graph_pass: ir.passes.PassBase, ran: Sequence[type[ir.passes.PassBase]], owner: str) -> ir.passes.PassBase:
    """The pass, once it is checked that those have run which it names as `after`. Raises PassError."""
    if isinstance(graph_pass, GraphPass):
        _check_order(graph_pass.after, ran, f"The graph pass {type(graph_pass).__name__} of {owner}")
    return graph_pass


def _check_order(after: Sequence[type[ir.passes.PassBase]], ran: Sequence[type[ir.passes.PassBase]], what: str) -> None:
    if missing := [one.__name__ for one in after if one not in ran]:
        names = ", ".join(dict.fromkeys(one.__name__ for one in ran))
        raise PassError(
            f"{what} has to run after {', '.join(missing)}, but the passes that have run before it are: {names}."
        )


def _make(factory: PassFactory, target: Target, owner: str) -> ir.passes.PassBase:
    try:
        made = factory(target)
    except (Exception, SystemExit) as error:
        raise PassError(f"A graph pass of {owner} could not be made ({type(error).__name__}: {error}).") from error
    if not isinstance(made, ir.passes.PassBase):
        raise PassError(f"A graph pass of {owner} could not be made: it is {made!r}, not a GraphPass.")
    return made


def _run(model: ir.Model, graph_pass: ir.passes.PassBase, owner: str) -> None:
    try:
        graph_pass(model)
    except ConversionError:  # what the pass says of the model, not a failure of its own
        raise
    except Exception as error:
        raise PassError(
            f"The graph pass {type(graph_pass).__name__} of {owner} failed: {type(error).__name__}: {error}"
        ) from error


def _make_names_unique(graph: ir.Graph | ir.Function) -> None:
    """See `make_names_unique`."""
    kept = {*graph.inputs, *graph.outputs}
    taken = {v.name for v in kept}
    if isinstance(graph, ir.Graph):
        taken.update(graph.initializers)
    for node in walk(graph):
        bodies = [a.as_graph() for a in node.attributes.values() if a.type == ir.AttributeType.GRAPH]
        for value in (*node.outputs, *(v for body in bodies for v in body.inputs)):
            if value in kept or value.name == "":
                continue
            if value.name in taken:
                value.name = next(n for i in itertools.count(1) if (n := f"{value.name}_{i}") not in taken)
            taken.add(value.name)
