"""The order of passes: by phases, and within a phase by the passes that each names as `after`."""

from __future__ import annotations

import dataclasses
import importlib.metadata
from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from jax2onnx_graph._ir import ir
from jax2onnx_graph.errors import PassError
from jax2onnx_graph.rewrite.pass_base import GraphPass, Phase
from jax2onnx_graph.targets import PassFactory, Target

__all__ = ["ContributedPass", "ScheduledPass", "make_pass", "schedule"]

_PassClass = type[ir.passes.PassBase]


@dataclasses.dataclass(frozen=True)
class ContributedPass:
    """A pass and who contributes it.

    Attributes:
      factory: makes the pass for a target.
      after: the passes that have to run before it, beside those that its class names.
      owner: the distribution.
    """

    factory: PassFactory
    after: tuple[_PassClass, ...]
    owner: str


@dataclasses.dataclass(frozen=True, eq=False)
class ScheduledPass:
    """A pass that was made for a target.

    Attributes:
      graph_pass: the pass.
      owner: the distribution, or target, that it is of.
      after: the passes that have to run before it.
    """

    graph_pass: ir.passes.PassBase
    owner: str
    after: Sequence[_PassClass] = ()

    @property
    def name(self) -> str:
        """The name of its class."""
        return type(self.graph_pass).__name__


def make_pass(factory: PassFactory, target: Target, owner: str) -> ir.passes.PassBase:
    """The pass that a factory makes for a target. Raises PassError, which names its owner, where it makes none."""
    try:
        made = factory(target)
    except (Exception, SystemExit) as error:
        raise PassError(f"A graph pass of {owner} could not be made ({type(error).__name__}: {error}).") from error
    if not isinstance(made, ir.passes.PassBase):
        raise PassError(f"A graph pass of {owner} could not be made: it is {made!r}, not a GraphPass.")
    return made


def schedule(
    passes: Iterable[ContributedPass], target: Target, notes: list[str]
) -> Mapping[Phase, Sequence[Sequence[ScheduledPass]]]:
    """The passes of each phase in generations: each pass comes after those that it names, and as early as it can.

    Within a generation they are in the order in which they were given.

    Args:
      passes: the passes.
      target: the target that they are made for.
      notes: gets a sentence about each pass that cannot be made, and is left out.

    Raises:
      PassError: passes name each other in a circle, or one names another that is not there, or runs in a later phase.
    """
    made = _made(passes, target, notes)
    by_class: dict[_PassClass, list[ScheduledPass]] = {}
    for one in made:
        by_class.setdefault(type(one.graph_pass), []).append(one)
    needed = {one: [before for name in one.after for before in _named(one, name, by_class)] for one in made}
    phases: dict[ScheduledPass, Phase] = {}
    for one in _sorted(needed):
        phases[one] = _phase(one, [phases[before] for before in needed[one]])
        for before in needed[one]:
            if phases[before] > phases[one]:
                raise PassError(
                    f"The graph pass {_title(one)} of Phase.{phases[one].name} has to run after {_title(before)}, which is of the later "
                    f"Phase.{phases[before].name}: give one of them another phase."
                )
    return {phase: _generations([one for one in made if phases[one] is phase], needed) for phase in Phase}


def _made(passes: Iterable[ContributedPass], target: Target, notes: list[str]) -> list[ScheduledPass]:
    """The passes that can be made, in the order in which they were given."""
    found: list[ScheduledPass] = []
    missing: set[_PassClass] = set()
    for one in passes:
        try:
            made = make_pass(one.factory, target, one.owner)
        except PassError as error:
            notes.append(f"{error} The model was made without it.")
            missing |= {one.factory} if isinstance(one.factory, type) else set()
            continue
        own = made.after if isinstance(made, GraphPass) else ()
        found.append(ScheduledPass(made, one.owner, tuple(dict.fromkeys((*own, *one.after)))))
    while late := [one for one in found if missing.intersection(one.after)]:
        missing |= {type(one.graph_pass) for one in late}
        found = [one for one in found if one not in late]
        notes += [f"The model was made without {_title(one)} too, which has to run after it." for one in late]
    return found


def _named(
    one: ScheduledPass, name: _PassClass, by_class: Mapping[_PassClass, Sequence[ScheduledPass]]
) -> Sequence[ScheduledPass]:
    """The passes of a class that a pass names."""
    if name not in by_class:
        raise PassError(
            f"The graph pass {_title(one)} has to run after {name.__name__} of {_distribution(name)}, which no installed plugin "
            "contributes."
        )
    return by_class[name]


def _sorted(needed: Mapping[ScheduledPass, Sequence[ScheduledPass]]) -> Sequence[ScheduledPass]:
    """The passes, each after those that it needs."""
    try:
        return list(TopologicalSorter(needed).static_order())
    except CycleError as error:
        circle = " → ".join(map(_title, error.args[1]))
        raise PassError(f"Graph passes have to run after each other in a circle: {circle}.") from error


def _generations(
    passes: Sequence[ScheduledPass], needed: Mapping[ScheduledPass, Sequence[ScheduledPass]]
) -> Sequence[Sequence[ScheduledPass]]:
    """Passes of one phase, of which each generation needs only earlier ones."""
    place = {one: index for index, one in enumerate(passes)}
    sorter = TopologicalSorter({one: [before for before in needed[one] if before in place] for one in passes})
    sorter.prepare()
    generations: list[Sequence[ScheduledPass]] = []
    while sorter.is_active():
        generations.append(sorted(sorter.get_ready(), key=place.__getitem__))
        sorter.done(*generations[-1])
    return generations


def _phase(one: ScheduledPass, before: Sequence[Phase]) -> Phase:
    """The phase of a pass, where those that it needs run in the phases `before`."""
    own = one.graph_pass.phase if isinstance(one.graph_pass, GraphPass) else None
    if own is not None:
        return own
    return max([Phase.FUSE, *before]) if before else Phase.FINISH


def _title(one: ScheduledPass) -> str:
    return f"{one.name} of {one.owner}"


def _distribution(one: _PassClass) -> str:
    """The distribution that has the class of a pass; where the environment does not know, as of an editable one, what it is called by custom."""
    package = one.__module__.partition(".")[0]
    return importlib.metadata.packages_distributions().get(package, [package.replace("_", "-")])[0]
