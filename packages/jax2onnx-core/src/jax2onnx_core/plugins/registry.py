"""`Registry`: everything the plugins contributed, and who contributed it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from jax2onnx_graph.targets import Target, standard_target

from jax2onnx_core.plugins.adapted import Adapted, Adapter
from jax2onnx_core.plugins.errors import OptionError, PluginError
from jax2onnx_core.plugins.rules import Composites, CompositeSpec, Decomposition, Rule, Rules, Unsupported

if TYPE_CHECKING:
    import onnx_ir as ir

__all__ = ["GraphPass", "Registry"]


@dataclasses.dataclass(frozen=True)
class GraphPass:
    """A pass contributed by a plugin: it runs after the pass called `after`, or last."""

    factory: Callable[[], ir.passes.PassBase]
    after: str | None
    owner: str


class Registry:
    """Filled by the plugins' `jax2onnx_register(registry)` hooks; dispatch is a dict lookup.

    A second claim on a primitive, composite target or runtime is refused with both owners' names, unless the
    second `Rules` were declared with `overrides=True`.
    """

    def __init__(self) -> None:
        self.rules: dict[str, list[Rule]] = {}
        self.decompositions: dict[str, Decomposition] = {}
        self.complex_rules: dict[str, Decomposition] = {}
        self.componentwise: set[str] = set()
        self.folds: dict[str, Callable[..., Any]] = {}
        self.unsupported: dict[str, Unsupported] = {}
        self.composites: list[CompositeSpec] = []
        self.adapters: list[Adapter] = []
        self.passes: list[GraphPass] = []
        self.targets: dict[str, Target] = {standard_target.name: standard_target}
        self.owners: dict[str, str] = {}
        self._owner = "inline"

    def owned_by(self, owner: str) -> Registry:
        """Set the name under which the following contributions are recorded (called by discovery)."""
        self._owner = owner
        return self

    def copy(self) -> Registry:
        """An independent registry with the same contents, to be extended by inline plugins."""
        new = Registry()
        for field in ("decompositions", "complex_rules", "folds", "unsupported", "targets", "owners"):
            getattr(new, field).update(getattr(self, field))
        new.rules = {name: list(rules) for name, rules in self.rules.items()}
        new.componentwise |= self.componentwise
        new.composites += self.composites
        new.adapters += self.adapters
        new.passes += self.passes
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
            for name in rules.names():
                self.decompositions.pop(name, None)
                self.unsupported.pop(name, None)
        for name, candidates in rules.rules.items():
            self.rules.setdefault(name, []).extend(candidates)
        self.decompositions.update(rules.decompositions)
        self.complex_rules.update(rules.complex_rules)
        self.componentwise |= rules.componentwise_names
        self.folds.update(rules.folds)
        self.unsupported.update(rules.unsupported_names)

    def _add_composites(self, composites: Composites) -> None:
        for spec in composites.specs:
            self._claim(f"composite target {spec.target}", override=False)
            self.composites.append(spec)

    def _claim(self, what: str, *, override: bool) -> None:
        holder = self.owners.setdefault(what, self._owner)
        if holder != self._owner and not override:
            raise PluginError(
                f"Both {holder} and {self._owner} claim the {what}. Uninstall one of them, or let the second "
                "declare Rules(overrides=True) if it means to replace the first."
            )
        self.owners[what] = self._owner

    def adapter(self, target: str, adapt: Callable[[Any], Adapted]) -> None:
        """Instances of the class `target` ("module:Class") are models that `adapt` takes apart."""
        self._claim(f"adapter {target}", override=False)
        self.adapters.append(Adapter(target, adapt))

    def graph_pass(self, factory: Callable[[], ir.passes.PassBase], *, after: str | None = None) -> None:
        """Run the pass that `factory()` makes, after the pass of class name `after` (or after all of core's)."""
        self.passes.append(GraphPass(factory, after, self._owner))

    def target(self, target: Target) -> None:
        """Add a runtime that users can name in `to_onnx(..., target=…)`."""
        self._claim(f"target {target.name}", override=False)
        self.targets[target.name] = target

    def find_target(self, name: str | None) -> Target:
        """The target called `name`; for None the installed default, else plain ONNX."""
        if name is None:
            return next((t for t in self.targets.values() if t.default), standard_target)
        try:
            return self.targets[name]
        except KeyError:
            raise OptionError(
                f"target={name!r} is not installed; there are: {', '.join(sorted(self.targets))}."
            ) from None

    def operations(self) -> Iterator[str]:
        """Every primitive and composite name that something is declared for, sorted."""
        names = {*self.rules, *self.decompositions, *self.complex_rules, *self.componentwise, *self.unsupported}
        return iter(sorted(names | {spec.name for spec in self.composites}))
