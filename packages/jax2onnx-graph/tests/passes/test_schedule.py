"""The order of passes: phases, what passes name, whose they are."""

from __future__ import annotations

import pytest
from jax2onnx_graph.errors import PassError
from jax2onnx_graph.passes import ContributedPass, structural_passes
from jax2onnx_graph.passes.schedule import schedule
from jax2onnx_graph.passes.structural.fold_constants import FoldConstants
from jax2onnx_graph.passes.structural.fold_transposes import FoldTransposes
from jax2onnx_graph.rewrite.pass_base import GraphPass, Phase
from jax2onnx_graph.targets import standard_target
from onnx_ir.passes.common import RemoveUnusedNodesPass


class Idle(GraphPass):
    def rewrite_graph(self, editor):
        pass


class Fuses(Idle):
    phase = Phase.FUSE


class FusesToo(Idle):
    phase = Phase.FUSE


class FusesLater(Idle):
    phase = Phase.FUSE
    after = (Fuses,)


class Finishes(Idle):
    phase = Phase.FINISH


def contributed(*classes, after=(), owner="mylib"):
    return [ContributedPass(one, tuple(after), owner) for one in classes]


def order(passes, notes=None):
    """The names of the passes by phase, in generations."""
    phases = schedule(passes, standard_target, [] if notes is None else notes)
    return {phase: [[one.name for one in generation] for generation in phases[phase]] for phase in Phase}


def test_a_pass_runs_in_its_phase_whenever_it_was_contributed():
    found = order(contributed(Finishes, Fuses, FoldConstants))
    assert found == {
        Phase.SIMPLIFY: [["FoldConstants"]],
        Phase.FUSE: [["Fuses"]],
        Phase.LAY_OUT: [],
        Phase.FINISH: [["Finishes"]],
    }


def test_a_pass_may_name_one_that_is_contributed_later():
    assert order(contributed(FusesLater, Fuses))[Phase.FUSE] == [["Fuses"], ["FusesLater"]]


def test_passes_that_do_not_name_each_other_run_as_they_were_contributed():
    assert order(contributed(FusesToo, Fuses))[Phase.FUSE] == [["FusesToo", "Fuses"]]
    assert order(contributed(Fuses, FusesToo))[Phase.FUSE] == [["Fuses", "FusesToo"]]


def test_a_pass_is_contributed_after_others_beside_those_that_its_class_names():
    passes = [*contributed(FusesLater, after=[FusesToo]), *contributed(Fuses, FusesToo)]
    assert order(passes)[Phase.FUSE] == [["Fuses", "FusesToo"], ["FusesLater"]]


@pytest.mark.parametrize(
    ("after", "phase"),
    [((), Phase.FINISH), ((FoldConstants,), Phase.FUSE), ((FoldConstants, FoldTransposes), Phase.LAY_OUT)],
)
@pytest.mark.parametrize("one", [Idle, lambda _: RemoveUnusedNodesPass()])
def test_a_pass_without_a_phase_runs_right_behind_those_that_it_names_and_else_last(one, after, phase):
    name = "Idle" if one is Idle else "RemoveUnusedNodesPass"
    found = order([*structural_passes(), *contributed(one, after=after)])
    assert [where for where in Phase if any(name in generation for generation in found[where])] == [phase]


def test_a_circle_is_refused_with_owners():
    class First(Idle): ...

    class Second(Idle):
        after = (First,)

    passes = [*contributed(First, after=[Second], owner="one"), *contributed(Second, owner="other")]
    with pytest.raises(
        PassError,
        match=r"Graph passes have to run after each other in a circle: (First of one → Second of other → First of one|"
        r"Second of other → First of one → Second of other)\.",
    ):
        order(passes)


def test_a_pass_that_is_not_contributed_is_refused_with_owners():
    with pytest.raises(
        PassError,
        match=r"The graph pass Idle of mylib has to run after FoldTransposes of jax2onnx-graph, which no installed plugin contributes\.",
    ):
        order(contributed(Idle, after=[FoldTransposes]))


def test_a_pass_of_a_later_phase_is_refused_with_owners():
    class Early(Idle):
        phase = Phase.FUSE
        after = (Finishes,)

    with pytest.raises(
        PassError,
        match=r"The graph pass Early of mylib of Phase\.FUSE has to run after Finishes of mylib, which is of the later Phase\.FINISH: give one",
    ):
        order(contributed(Early, Finishes))


def test_what_needs_a_pass_that_cannot_be_made_is_left_out_too():
    class Broken(Idle):
        def __init__(self, target):
            raise ValueError("no")

    class Needs(Idle):
        phase = Phase.FUSE
        after = (Broken,)

    notes: list[str] = []
    assert order(contributed(Needs, Broken, Fuses), notes)[Phase.FUSE] == [["Fuses"]]
    assert notes == [
        "A graph pass of mylib could not be made (ValueError: no). The model was made without it.",
        "The model was made without Needs of mylib too, which has to run after it.",
    ]
