"""The pipeline: what runs how often, and what is said of passes that go wrong."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import PassError
from jax2onnx_graph.passes import ContributedPass, optimise, structural_passes
from jax2onnx_graph.rewrite.pass_base import Declined, GraphPass, NodePass, Phase
from jax2onnx_graph.targets import standard_target

TEXT = """<ir_version: 10, opset_import: ["" : 23]> g (float[N] x) => (float[N] y) { a = Abs(x) y = Neg(a) }"""
PASSES = [one.factory(standard_target) for one in structural_passes()]


@pytest.mark.parametrize("one", PASSES, ids=lambda one: type(one).__name__)
def test_the_docstring_of_a_pass_numbers_its_rules(one):
    assert "1. " in (type(one).__doc__ or "")


def test_each_structural_pass_stands_once_and_has_a_phase():
    assert len({type(one) for one in PASSES}) == len(PASSES)
    assert all(isinstance(one, GraphPass) and one.phase is not None for one in PASSES)


@pytest.fixture
def ran():
    """The names of the passes that ran."""
    return []


def recording(ran, name, phase, changes=0, after=()):
    """A pass which records that it runs, and says that it changed the model as often as `changes` tells."""
    left = [changes]

    def rewrite_graph(self, editor):
        ran.append(name)
        editor.modified = left[0] > 0
        left[0] -= 1

    return type(name, (GraphPass,), {"phase": phase, "after": after, "rewrite_graph": rewrite_graph})


def run(*classes):
    model = ir.from_onnx_text(TEXT)
    return optimise(model, standard_target, [ContributedPass(one, (), "mylib") for one in classes])


def test_simplifying_passes_run_until_none_has_seen_a_change(ran):
    run(recording(ran, "A", Phase.SIMPLIFY), recording(ran, "B", Phase.SIMPLIFY, changes=1))
    assert ran == ["A", "B", "A", "B"]


def test_a_pass_of_another_phase_runs_once_and_simplifying_ones_again_behind_it_only_if_it_changed_something(ran):
    run(
        recording(ran, "S", Phase.SIMPLIFY),
        recording(ran, "Fuse", Phase.FUSE, changes=1),
        recording(ran, "Finish", Phase.FINISH),
    )
    assert ran == ["S", "Fuse", "S", "Finish"]


def test_simplifying_passes_run_between_a_pass_and_one_that_names_it(ran):
    first = recording(ran, "First", Phase.FUSE, changes=1)
    run(recording(ran, "S", Phase.SIMPLIFY), first, recording(ran, "Second", Phase.FUSE, after=(first,)))
    assert ran == ["S", "First", "S", "Second"]


def test_simplifying_passes_that_never_end_are_named(ran):
    with pytest.raises(
        PassError, match="The graph passes Restless of mylib still change the model after 100 rounds: one undoes"
    ):
        run(recording(ran, "S", Phase.SIMPLIFY), recording(ran, "Restless", Phase.SIMPLIFY, changes=1000))


def test_a_pass_that_fails_is_named_with_its_owner():
    class Fails(GraphPass):
        def rewrite_graph(self, editor):
            raise ZeroDivisionError("by nothing")

    with pytest.raises(PassError, match="The graph pass Fails of mylib failed: ZeroDivisionError: by nothing"):
        run(Fails)


class Asks(NodePass[ir.Node]):
    """1. Nothing is rewritten, and one node is declined while another reads it."""

    operators = frozenset({"Abs"})
    phase = Phase.SIMPLIFY
    reason = "it is an Abs"

    def match(self, node, editor):
        return Declined(self.reason, node)

    def rewrite(self, node, match, editor):
        raise AssertionError


class AsksOfOther(Asks):
    operators = frozenset({"Cos"})

    def match(self, node, editor):
        raise AssertionError


class Removes(NodePass[ir.Value]):
    """1. `Abs(x)` is x."""

    operators = frozenset({"Abs"})
    phase = Phase.FUSE

    def match(self, node, editor):
        return node.inputs[0]

    def rewrite(self, node, match, editor):
        editor.replace(node, match)


def test_what_a_pass_left_alone_is_told_once():
    assert [str(one) for one in run(Asks).not_formed] == ["Asks was not formed at unnamed: it is an Abs"]


def test_what_a_simplifying_pass_left_alone_is_not_told_where_another_pass_rewrote_it():
    assert run(Asks, Removes).not_formed == []


def test_a_pass_is_not_asked_where_there_is_none_of_its_operators():
    run(AsksOfOther)
