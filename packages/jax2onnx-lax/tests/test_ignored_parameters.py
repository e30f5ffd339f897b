"""No rule of this package ignores a parameter of its primitive without a reason."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterator

import jax
import pytest
from ignored_parameters import IGNORED, reason_for
from jax2onnx_core.frontend._adapters import adapt_callable
from jax2onnx_core.frontend._tracing import trace
from jax2onnx_core.frontend.inputs import parse_inputs
from jax2onnx_core.jax_types import Jaxpr
from jax2onnx_core.jaxprs import is_jaxpr, open_jaxpr
from jax2onnx_core.plugins.discovery import installed_plugins
from jax2onnx_testing.collection import CollectedCase, find_cases
from jax2onnx_testing.variants import Variant, build

REGISTRY = installed_plugins().registry


@pytest.fixture(scope="module")
def parameters() -> dict[str, set[str]]:
    """Primitive → the names of the parameters that its equations have in the cases of this package."""
    found: dict[str, set[str]] = defaultdict(set)
    primitives = {*REGISTRY.rules, *REGISTRY.decompositions}
    traced: set[str] = set()
    for case in (found_case for found_case in find_cases(["lax"]) if isinstance(found_case, CollectedCase)):
        # One case is enough for what it covers: the equations of a primitive all have the same parameters.
        covers = set(case.case.covers)
        if covers - traced or covers & primitives - found.keys():
            _collect(_traced(case), found)
            traced |= covers
    return found


def _traced(case: CollectedCase) -> Jaxpr:
    built = build(Variant(case, "f32", symbolic=False))
    with jax.enable_x64(False):
        inputs = parse_inputs(built.fn, built.inputs, built.options.get("kwargs") or {}, ())
        return trace(adapt_callable(built.fn, REGISTRY.adapters), inputs, REGISTRY).jaxpr


def _collect(jaxpr: Jaxpr, found: dict[str, set[str]]) -> None:
    for equation in open_jaxpr(jaxpr)[0].eqns:
        found[equation.primitive.name] |= set(equation.params)
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple | list) else [value]:
                if is_jaxpr(inner):
                    _collect(inner, found)


def _functions(primitive: str) -> Iterator[Callable[..., object]]:
    """The functions of this package that lower or evaluate a primitive."""
    functions = [rule.fn for rule in REGISTRY.rules.get(primitive, [])]
    if primitive in REGISTRY.decompositions:
        functions.append(REGISTRY.decompositions[primitive].fn)
    functions += [
        table[primitive] for table in (REGISTRY.complex_rules, REGISTRY.numpy_evaluators) if primitive in table
    ]
    return (fn for fn in functions if fn.__module__.startswith("jax2onnx_lax"))


def _ignored(function: Callable[..., object], names: set[str]) -> set[str]:
    """The parameters that end in a `**_` of the function."""
    signature = inspect.signature(function).parameters.values()
    if not any(p.kind is p.VAR_KEYWORD and p.name.startswith("_") for p in signature):
        return set()
    return names - {p.name for p in signature if p.kind is not p.VAR_KEYWORD}


def test_every_ignored_parameter_has_a_reason(parameters):
    without = {
        (primitive, parameter, function.__module__)
        for primitive, names in parameters.items()
        for function in _functions(primitive)
        for parameter in _ignored(function, names)
        if reason_for(primitive, parameter) is None
    }
    assert not without, "name them in the rule's signature, or give a reason in tests/ignored_parameters.py"


def test_a_parameter_that_is_named_is_not_ignored():
    def rule(ctx, x, *, axis, **_): ...

    assert _ignored(rule, {"axis", "precision"}) == {"precision"}


def test_parameters_that_are_passed_on_are_not_ignored():
    def rule(ctx, x, **params): ...

    assert _ignored(rule, {"axis"}) == set()


def test_every_primitive_of_the_table_has_a_rule():
    named = {primitive for entry in IGNORED for primitive in entry.primitives}
    assert {p for p in named if not list(_functions(p))} == set()
