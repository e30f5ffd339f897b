"""The checks of composites find those that are claimed, or computed, where something of the library was changed."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import library_of_layers as library
import pytest
from jax2onnx_core import Call, Case, Composites, Context, Registry, Rules, Value, hookimpl
from jax2onnx_core.frontend.claims import Claim
from jax2onnx_core.plugins.rules import CompositeSpec
from jax2onnx_testing._transforms import NotApplicableError
from jax2onnx_testing.claims import CompositeCase, check_changed, check_claim, check_patched, composite_cases
from jax2onnx_testing.collection import CollectedCase
from jax2onnx_testing.errors import CheckFailedError

LAYER, SLOTTED, STRICT = (f"library_of_layers:{name}" for name in ("Scaled.__call__", "Slotted.__call__", "strict"))
Model = Callable[[], Callable[[jax.Array], jax.Array]]


def _factor(layer: library.Scaled) -> float:
    return layer.factor


def _spec(claimed: str, factor: Callable[[library.Scaled], float] = _factor) -> CompositeSpec:
    """The composite of a function of the library, as a plugin declares it; `factor` is what it takes for a layer's."""
    composites = Composites()

    @composites.call(claimed, name="demo.composite")
    def composite(*args: object) -> Call:
        held = [factor(arg) for arg in args if isinstance(arg, library.Scaled)]
        return Call(args[-1], factor=held[0] if held else 1.0, claimed=claimed)

    return composites.specs[0]


class _Plugin:
    """A plugin with one composite and its rule."""

    def __init__(self, spec: CompositeSpec) -> None:
        self._spec = spec

    @hookimpl
    def jax2onnx_register(self, registry: Registry) -> None:
        composites, rules = Composites(), Rules()
        composites.specs.append(self._spec)
        rules.lower("demo.composite")(self._rule)
        registry.add(composites, rules)

    def _rule(self, ctx: Context, x: Value, *, factor: float, claimed: str) -> Value:
        if claimed == STRICT:
            return ctx.op.Cos(x)
        if claimed == SLOTTED:
            return ctx.op.Add(ctx.op.Tanh(x), ctx.constant(1, like=x))
        return ctx.op.Sin(ctx.op.Mul(ctx.op.Tanh(x), ctx.constant(factor, like=x)))


def _layer() -> Callable[[jax.Array], jax.Array]:
    layer = library.Scaled()
    return lambda x: layer(x)


MODELS: dict[str, Model] = {LAYER: _layer, SLOTTED: library.Slotted, STRICT: lambda: lambda x: library.strict(x)}


def _collected(fn: object, spec: CompositeSpec, name: str = "case", module: str = "demo.layers") -> CollectedCase:
    case = Case(name, fn, [("B", 3)], covers=(spec.name,), options={"plugins": [_Plugin(spec)]})
    return CollectedCase("jax2onnx-demo", module, case)


def _test(spec: CompositeSpec, *models: Model) -> CompositeCase:
    """A test of a composite whose cases call these, or the function that it claims."""
    found = [_collected(make(), spec) for make in models or (MODELS[spec.claimed],)]
    return CompositeCase(spec, tuple(found))


@pytest.mark.parametrize("check", [check_changed, check_patched, lambda test: check_claim(test.spec)])
def test_a_composite_that_is_right_passes(check: Callable[[CompositeCase], None]) -> None:
    check(_test(_spec(LAYER)))


@pytest.mark.parametrize(
    ("factor", "changes"),
    [
        (lambda layer: 1.5, ["an object with another scale"]),
        (lambda layer: layer.scale * 3, []),  # another property is another class, which is not claimed
        (lambda layer: layer.factor if layer.scale == 0.5 else 1.5, ["an object with another scale"]),
    ],
)
def test_a_composite_that_does_not_read_a_field_is_found(
    factor: Callable[[library.Scaled], float], changes: Sequence[str]
) -> None:
    error = pytest.raises(CheckFailedError) if changes else contextlib.nullcontext()
    with error as raised:
        check_changed(_test(_spec(LAYER, factor)))
    told = (
        [] if raised is None else [line.partition(": ")[0] for line in str(raised.value).splitlines() if "With" in line]
    )
    assert told == [f"With {change}" for change in changes]


def _claims_all(self: Claim, args: tuple[object, ...]) -> str | None:
    return None


def _claims_classes(self: Claim, args: tuple[object, ...]) -> str | None:
    own = {} if type(args[0]) is library.Scaled else vars(type(args[0]))
    return "it is changed" if {"factor", "project"} & own.keys() else None


def _declines_all(self: Claim, args: tuple[object, ...]) -> str | None:
    return "it is changed"


@pytest.mark.parametrize(
    ("change", "check", "message"),
    [
        (_claims_all, lambda test: check_claim(test.spec), "The call of a subclass that overrides factor is claimed"),
        (_claims_classes, lambda test: check_claim(test.spec), "The call of an object that replaces project is claimed"),
        (_claims_all, check_changed, "With a subclass that overrides project: Output .*\nWith an object that replaces project: Output"),
        (_claims_all, check_patched, "Output .* differs from JAX"),
        (_declines_all, lambda test: check_claim(test.spec), "The call of an object of the class is declined: it is changed"),
    ],
)  # fmt: skip
def test_calls_that_are_claimed_or_declined_wrongly_are_found(
    change: Callable[[Claim, tuple[object, ...]], str | None],
    check: Callable[[CompositeCase], None],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Claim, "change", change)
    with pytest.raises(CheckFailedError, match=message):
        check(_test(_spec(LAYER)))


@pytest.mark.parametrize(
    ("check", "test", "message"),
    [
        (check_claim, _spec(STRICT), "library_of_layers:strict is not a method"),
        (check_changed, _test(_spec(STRICT)), "library_of_layers:strict is not a method"),
        (check_claim, dataclasses.replace(_spec(LAYER), claimed="no_such_library:f"), "no_such_library is not installed"),
        (check_changed, _test(_spec(LAYER), lambda: lambda x: library.Scaled()(x)), "demo.layers::case.* holds no object of Scaled"),
        (check_changed, _test(_spec(LAYER), lambda: jnp.sin), "No case of the module of demo.layers::case calls"),
        (check_patched, _test(_spec(STRICT)), "With another library_of_layers.unit, the library itself fails: ValueError: The unit"),
    ],
)  # fmt: skip
def test_what_does_not_apply(check: Callable[[object], None], test: object, message: str) -> None:
    with pytest.raises(NotApplicableError, match=message):
        check(test)


def test_the_first_case_that_calls_the_function_is_taken() -> None:
    with pytest.raises(CheckFailedError, match="another scale"):
        check_changed(_test(_spec(LAYER, lambda layer: 1.5), lambda: jnp.sin, _layer))


def test_an_object_that_refuses_each_change_passes() -> None:
    check_changed(_test(_spec(SLOTTED)))


def test_a_library_that_fails_where_it_is_changed_is_not_compared() -> None:
    def model() -> Callable[[jax.Array], jax.Array]:
        layer = library.Scaled()

        def fn(x: jax.Array) -> jax.Array:
            if layer.scale != 0.5:
                raise ValueError("The scale has to be 0.5.")
            return layer(x)

        return fn

    check_changed(_test(_spec(LAYER, lambda layer: 1.5), model))


def test_the_cases_of_a_composite_are_those_of_its_modules_that_cover_it_first() -> None:
    spec = _spec(LAYER)
    other = dataclasses.replace(spec, name="demo.other")
    cases = [
        _collected(jnp.sin, other, "beside"),
        _collected(jnp.sin, spec, "own"),
        _collected(jnp.sin, other, "elsewhere", "demo.other"),
        dataclasses.replace(_collected(jnp.sin, spec, "foreign"), distribution="jax2onnx-foreign"),
    ]
    specs = {
        "jax2onnx-demo": [spec, dataclasses.replace(spec, claimed="jax.nn:relu"), dataclasses.replace(spec, name="no")]
    }
    [found] = composite_cases(specs, cases, "some target")
    assert (found.id, found.target) == (f"{LAYER}-demo.layers::own", "some target")
    assert [case.case.name for case in found.candidates] == ["own", "beside"]
