"""Adversarial numbers find rules that are right for ordinary numbers only."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import jax.numpy as jnp
import pytest
from jax2onnx_core import Case, Context, Registry, Rules, Value, hookimpl
from jax2onnx_testing._transforms import NotApplicableError, composite_names
from jax2onnx_testing.adversarial import FORMS, AdversarialCase, adversarial_cases, check_adversarial
from jax2onnx_testing.collection import CollectedCase
from jax2onnx_testing.errors import CheckFailedError

#: Makes a condition in which a rule for tanh is wrong.
Wrong = Callable[[Context, Value], Value]


class _Tanh:
    """A plugin whose rule for tanh is 0.25 where a condition holds."""

    def __init__(self, wrong: Wrong) -> None:
        self._wrong = wrong

    @hookimpl
    def jax2onnx_register(self, registry: Registry) -> None:
        rules = Rules(overrides=True)
        rules.lower("tanh")(self._rule)
        registry.add(rules)

    def _rule(self, ctx: Context, x: Value, **_: object) -> Value:
        return ctx.op.Where(self._wrong(ctx, x), ctx.constant(0.25, like=x), ctx.op.Tanh(x))


def _is_between(low: float, high: float) -> Wrong:
    def wrong(ctx: Context, x: Value) -> Value:
        size = ctx.op.Abs(x)
        above, below = (ctx.constant(number, like=x) for number in (low, high))
        return ctx.op.And(ctx.op.Greater(size, above), ctx.op.Less(size, below))

    return wrong


def _case(wrong: Wrong, form: str, size: int | None = None) -> AdversarialCase:
    plugins = [_Tanh(wrong)]
    case = Case("tanh", lambda x: jnp.tanh(x * 1.0), [("B", 3)], options={"plugins": plugins})
    return AdversarialCase(CollectedCase("jax2onnx-demo", "demo.layers", case), form, size)


@pytest.mark.parametrize(
    ("wrong", "numbers"),
    [
        (_is_between(200, 300), None),
        (lambda ctx, x: ctx.op.IsNaN(x), "NaN"),
        (lambda ctx, x: ctx.op.IsInf(x), "infinities"),
        (_is_between(1e9, 1e20), "large"),
        (_is_between(1e-38, 1e-9), "small"),
        (lambda ctx, x: ctx.op.Equal(x, ctx.constant(0, like=x)), "zeros"),
        (_is_between(0, 9), "NaN"),
    ],
    ids=["right", "NaN", "infinities", "large", "small", "zeros", "ordinary"],
)
@pytest.mark.parametrize("form", ["class", "vmap", "scan", "grad"])
def test_a_rule_that_is_wrong_for_some_numbers_is_found(wrong: Wrong, numbers: str | None, form: str) -> None:
    # In a loop and in a derivative, large and small numbers are rounded as the compiler likes, and left out.
    is_found = numbers is not None and not (form in ("scan", "grad") and numbers in ("large", "small"))
    error = pytest.raises(CheckFailedError, match=f"With {numbers}, output .* in the form {form}")
    with error if is_found else contextlib.nullcontext():
        check_adversarial(_case(wrong, form))


def test_sizes_are_those_of_the_symbols() -> None:
    sizes: list[object] = []

    def noted(ctx: Context, x: Value) -> Value:
        sizes.append(ctx.avals_in[0].shape)
        return ctx.op.IsNaN(x)

    with pytest.raises(CheckFailedError, match="With NaN"):
        check_adversarial(_case(noted, "class", 1))
    assert sizes[0] == (1, 3)
    check_adversarial(_case(noted, "class", 0))


def test_a_case_that_holds_no_layer_has_no_subclass() -> None:
    with pytest.raises(NotApplicableError, match="The case holds no layer before it is called"):
        check_adversarial(_case(_is_between(200, 300), "subclass"))


def test_a_function_that_jax_refuses_at_a_size_is_left_out() -> None:
    case = Case("max", lambda x: jnp.max(x, 0), [("B", 3)])
    with pytest.raises(NotApplicableError, match="JAX itself"):
        check_adversarial(AdversarialCase(CollectedCase("jax2onnx-demo", "demo.layers", case), "class", 0))


def test_the_first_case_of_each_composite_has_all_forms() -> None:
    one, two, three, *_ = sorted(composite_names())
    cases = [
        Case("first", jnp.tanh, [("B", 3)], covers=(one,)),
        Case("second", jnp.tanh, [("B", 3)], covers=(one,)),
        Case("static", jnp.tanh, [(2, 3)], covers=(two,)),
        Case("of positive numbers", jnp.tanh, [("B", 3)], covers=(three,), values="positive"),
        Case("of none", jnp.tanh, [("B", 3)], covers=("tanh",)),
    ]
    made = [*adversarial_cases([CollectedCase("jax2onnx-linen", "demo", case) for case in cases])]
    ids = {one.id for one in made}
    pairs = {(form, size) for form, sizes in FORMS.items() for size in sizes}
    named = {f"demo::first[{form}{'' if size is None else f'-{size}'}]" for form, size in pairs}
    assert ids == named | {f"demo::static[{form}]" for form, size in pairs if size is None}
