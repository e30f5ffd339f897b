"""`Registry`: everything the plugins contributed, and who contributed it."""

from __future__ import annotations

import contextlib
import copy
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jax2onnx_graph.passes import ContributedPass, structural_passes
from jax2onnx_graph.targets import PassFactory, Target, find_target, standard_target
from jax2onnx_runtime.runtimes import Runtime, find_runtime, reference_runtime
from onnx_ir.passes import PassBase

from jax2onnx_core.jax_types import Function
from jax2onnx_core.plugins.adapted import Adapted, Adapter
from jax2onnx_core.plugins.errors import PluginError
from jax2onnx_core.plugins.rules import Composites, CompositeSpec, Decomposition, JaxFn, Rule, Rules, Unsupported

__all__ = ["Registry"]


_NAME = re.compile(r"[^:\s]+:[^:\s]+")


class Registry:
    """Filled by the plugins' `jax2onnx_register(registry)` hooks; dispatch is a dict lookup.

    A second claim on a primitive, composite or runtime is refused with both owners' names, unless the
    second `Rules` were declared with `overrides=True`. Nor may two `Rules` of one distribution have rules, or
    decompositions, for one primitive, since the order of its modules would decide; but for rules of which those of the
    one are for physical tensors and those of the other are not.
    """

    def __init__(self) -> None:
        self.rules: dict[str, list[Rule]] = {}
        self.decompositions: dict[str, Decomposition] = {}
        self.complex_rules: dict[str, JaxFn] = {}
        self.componentwise: set[str] = set()
        self.numpy_evaluators: dict[str, Function] = {}
        self.unsupported: dict[str, Unsupported] = {}
        self.composites: list[CompositeSpec] = []
        self.adapters: list[Adapter] = []
        self.passes: list[ContributedPass] = structural_passes()
        self.targets: dict[str, Target] = {standard_target.name: standard_target}
        self.runtimes: dict[str, Runtime] = dict.fromkeys(reference_runtime.targets, reference_runtime)  # by target
        self.suppliers: dict[str, str] = {}  # module of a library → the distribution that knows its models
        self.owners: dict[str, str] = {}
        self.makers: dict[Function, str] = {}  # function of a rule or decomposition → who contributed it
        self._owner = "inline"

    @contextlib.contextmanager
    def owned_by(self, owner: str) -> Iterator[Registry]:
        """Inside, contributions are recorded under this name (used by discovery)."""
        outer, self._owner = self._owner, owner
        try:
            yield self
        finally:
            self._owner = outer

    def copy(self) -> Registry:
        """An independent registry with the same contents, to be extended by inline plugins."""
        new = copy.copy(self)
        for name, contents in vars(self).items():
            setattr(new, name, copy.copy(contents))
        new.rules = {name: list(rules) for name, rules in self.rules.items()}
        return new

    def add(self, *declared: Rules | Composites) -> None:
        """Add the rules and composites of a plugin."""
        for one in declared:
            if isinstance(one, Rules):
                self._add_rules(one)
            elif isinstance(one, Composites):
                self._add_composites(one)
            else:
                raise PluginError(f"{self._owner}: registry.add takes Rules and Composites, not {type(one).__name__}.")

    def _add_rules(self, rules: Rules) -> None:
        for name in sorted(rules.names()):
            self._claim(f"primitive {name}", override=rules.overrides)
        if rules.overrides:
            for name in rules.decompositions:
                self.rules.pop(name, None)
            for name in rules.names():
                self.decompositions.pop(name, None)
                self.unsupported.pop(name, None)
        else:
            rivals = {n for n in self.rules.keys() & rules.rules.keys() if _compete(self.rules[n], rules.rules[n])}
            self._check_declared_once("rules", rivals)
            self._check_declared_once("decompositions", self.decompositions.keys() & rules.decompositions.keys())
        for name, candidates in rules.rules.items():
            self.rules.setdefault(name, []).extend(candidates)
        self.decompositions.update(rules.decompositions)
        self.complex_rules.update(rules.complex_rules)
        self.componentwise |= rules.componentwise_names
        self.numpy_evaluators.update(rules.numpy_evaluators)
        self.unsupported.update(rules.unsupported_names)
        lowering = (rule.fn for candidates in rules.rules.values() for rule in candidates)
        translated = (decomposition.fn for decomposition in rules.decompositions.values())
        self.makers.update(dict.fromkeys((*lowering, *translated, *rules.complex_rules.values()), self._owner))

    def owner(self, primitive: str, fn: Function | None) -> str:
        """Distribution of the function that lowers a primitive; without a function, of the plugin that knows the primitive."""
        known = None if fn is None else self.makers.get(fn)
        return known or self.owners.get(f"primitive {primitive}", "an unknown plugin")

    def _check_declared_once(self, kind: str, twice: set[str]) -> None:
        if twice:
            raise PluginError(
                f"{self._owner} declares {kind} for {', '.join(sorted(twice))} in two of its Rules, so that their order "
                "would decide. Declare them in one, the one to be tried first last."
            )

    def _add_composites(self, composites: Composites) -> None:
        for spec in composites.specs:
            self._check_name(spec.claimed)
            self._claim(f"composite of {spec.claimed}", override=False)
            self.composites.append(spec)

    def _check_name(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise PluginError(f"{self._owner}: the name {name!r} is not of the form 'module:qualified.name'.")

    def _claim(self, what: str, *, override: bool) -> None:
        holder = self.owners.setdefault(what, self._owner)
        if holder != self._owner and not override:
            raise PluginError(
                f"Both {holder} and {self._owner} claim the {what}. Uninstall one of them, or let the second "
                "declare Rules(overrides=True) if it means to replace the first."
            )
        self.owners[what] = self._owner

    def adapter(
        self, claimed: str, adapt: Callable[[Any], Adapted], *, claims: Callable[[Any], bool] | None = None
    ) -> None:
        """Let model objects be taken apart by `adapt`.

        Args:
          claimed: the class of the objects, "module:Class"; its module is not imported.
          adapt: takes an object apart.
          claims: tells the objects instead, where these are no instances of one class: a pair of a module and its
            variables, a partial of `module.apply`. It is asked only where the module of `claimed` has been imported.

        Raises:
          PluginError: another distribution claims the class.
        """
        self._check_name(claimed)
        self._claim(f"adapter {claimed}", override=False)
        self.adapters.append(Adapter(claimed, adapt, self._owner, claims))

    def graph_pass(self, factory: PassFactory, *, after: Sequence[type[PassBase]] = ()) -> None:
        """Run a pass in every export.

        Its class says in which `Phase` it runs, and by `after` behind which passes. A class without a phase, such as one of `onnx_ir`,
        runs as soon as the passes `after` have run, but when the simplifying ones have come to an end; without `after` it
        runs in the last phase.

        Args:
          factory: `factory(target)` makes the pass; a class derived from `NodePass` or `GraphPass` is one.
          after: passes that have to run before it, of whichever distribution, beside those that its class names. Plugins may
            register in any order.

        Raises:
          PluginError: `after` is no sequence of classes of passes.
        """
        if isinstance(after, str) or not all(isinstance(one, type) and issubclass(one, PassBase) for one in after):
            raise PluginError(
                f"{self._owner}: registry.graph_pass(..., after=[…]) takes classes of passes, not {after!r}; import the pass and "
                "write after=[ThePass]."
            )
        self.passes.append(ContributedPass(factory, tuple(after), self._owner))

    def target(self, target: Target) -> None:
        """Add a target that users can name in `to_onnx(..., target=…)`."""
        if not isinstance(target, Target):
            raise PluginError(f"{self._owner}: registry.target takes a Target, not {type(target).__name__}.")
        self._claim(f"target {target.name}", override=False)
        self.targets[target.name] = target

    def runtime(self, runtime: Runtime) -> None:
        """Add what runs the models that are made for `runtime.targets`."""
        if not isinstance(runtime, Runtime):
            raise PluginError(f"{self._owner}: registry.runtime takes a Runtime, not {type(runtime).__name__}.")
        for target in sorted(runtime.targets):
            self._claim(f"runtime of the target {target}", override=False)
            self.runtimes[target] = runtime

    def runtime_of(self, name: str | None) -> tuple[Target, Runtime]:
        """The target called `name`, for None the default one, and what runs its models, installed or not.

        Raises:
          OptionError: there is no such target.
        """
        target = find_target(self.targets, name)
        return target, find_runtime(self.runtimes, target)

    def operations(self) -> Iterator[str]:
        """Every primitive and composite name that something is declared for, sorted."""
        names = {*self.rules, *self.decompositions, *self.complex_rules, *self.componentwise, *self.unsupported}
        return iter(sorted(names | {spec.name for spec in self.composites}))


def _compete(first: Sequence[Rule], second: Sequence[Rule]) -> bool:
    """Whether rules of both would be candidates for the same operands."""
    return not {rule.physical for rule in first}.isdisjoint({rule.physical for rule in second})
