"""Cases under transformations: rules that are wrong there are found, and so is what an export leaves behind."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import Case, Context, Registry, Rules, Value, hookimpl
from jax2onnx_testing import _transforms
from jax2onnx_testing._transforms import (
    TRANSFORMS,
    NotApplicableError,
    Transformed,
    check_transformed,
    composite_names,
    transformations,
)
from jax2onnx_testing.collection import CollectedCase
from jax2onnx_testing.errors import CheckFailedError


class _Sine:
    """A plugin whose rule for sin is the cosine for operands of a rank."""

    def __init__(self, rank: int | None) -> None:
        self._rank = rank

    @hookimpl
    def jax2onnx_register(self, registry: Registry) -> None:
        rules = Rules(overrides=True)
        rules.lower("sin")(self._rule)
        registry.add(rules)

    def _rule(self, ctx: Context, x: Value, **_: object) -> Value:
        is_wrong = len(ctx.avals_in[0].shape) == self._rank
        return ctx.op.Cos(x) if is_wrong else ctx.op.Sin(x)


def _test(fn: Callable[..., object], transform: str, rank: int | None = None, **options: object) -> Transformed:
    case = Case("case", fn, [("B", 3)], options={"plugins": [_Sine(rank)], **options})
    return Transformed(CollectedCase("jax2onnx-demo", "demo.layers", case), transform)


@jax.custom_batching.custom_vmap
def _gelu_by_row(x: jax.Array) -> jax.Array:
    return jax.nn.gelu(x)


@_gelu_by_row.def_vmap
def _mapped_gelu(axis_size: int, in_batched: list[bool], x: jax.Array) -> tuple[jax.Array, bool]:
    return x * 0.5 * (1 + jnp.tanh(jnp.sqrt(2 / jnp.pi) * (x + 0.044715 * x**3))), True


def _function(x: jax.Array) -> jax.Array:
    return jnp.sin(x) * jnp.sin(x)


@pytest.mark.parametrize("transform", [*TRANSFORMS, "exception", "threads"])
def test_what_is_right_passes(transform: str) -> None:
    check_transformed(_test(_function, transform))


@pytest.mark.parametrize(
    ("transform", "rank"),
    [("vmap", 3), ("vmap_vmap", 4), ("grad", 2), ("jvp", 2), ("scan", 3), ("cond", 2), ("jitted", 2)],
)
def test_a_rule_that_is_wrong_where_it_is_transformed_is_found(transform: str, rank: int) -> None:
    with pytest.raises(CheckFailedError, match=f"under {transform} differs"):
        check_transformed(_test(_function, transform, rank))
    check_transformed(_test(_function, transform, rank=7))


@pytest.mark.parametrize(
    ("fn", "transform", "message"),
    [
        (lambda x: jax.lax.while_loop(lambda c: c.sum() < 3, lambda c: c + 1, x), "grad", "JAX itself cannot: ValueError: Reverse-mode"),
        (lambda x: x > 0, "grad", "The function has no float output"),
        (lambda x: np.asarray(x), "vmap", "JAX itself cannot: TracerArrayConversionError"),
    ],
)  # fmt: skip
def test_what_jax_cannot_transform_is_left_out(fn: Callable[..., object], transform: str, message: str) -> None:
    with pytest.raises(NotApplicableError, match=message):
        check_transformed(_test(fn, transform))


@pytest.mark.parametrize("transform", ["grad", "jvp"])
def test_a_function_of_integers_has_no_derivative(transform: str) -> None:
    case = Case("case", lambda x: x + 1.0, [(("B", 3), "int32")])
    with pytest.raises(NotApplicableError, match="The function has no float input"):
        check_transformed(Transformed(CollectedCase("jax2onnx-demo", "demo.layers", case), transform))


def test_an_operation_that_does_not_stay_whole_under_vmap_is_found() -> None:
    def tested(fn: Callable[..., object], name: str) -> Transformed:
        case = Case("case", fn, [("B", 3)], covers=(name,))
        return Transformed(CollectedCase("jax2onnx-lax", "demo.layers", case), "vmap")

    check_transformed(tested(jax.nn.gelu, "jax.nn.gelu"))
    with pytest.raises(CheckFailedError, match=r"Under vmap jax\.nn\.gelu is lowered in another way: \[\] instead of"):
        check_transformed(tested(_gelu_by_row, "jax.nn.gelu"))


def test_a_case_with_keyword_inputs_is_left_out() -> None:
    case = Case("case", lambda *, x: x, options={"kwargs": {"x": (3,)}})
    with pytest.raises(NotApplicableError, match="The case has keyword inputs"):
        check_transformed(Transformed(CollectedCase("jax2onnx-demo", "demo.layers", case), "vmap"))


def test_an_exception_that_is_swallowed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_transforms, "to_onnx", lambda *_: None)
    with pytest.raises(CheckFailedError, match="An exception in the user's function was swallowed"):
        check_transformed(_test(_function, "exception"))


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        ("vmap", "After the export, a function of the user's framework is still replaced"),
        ("exception", "After a failed export, a function"),
        ("threads", "After exports in threads, a function"),
    ],
)
def test_a_function_that_stays_replaced_is_found(transform: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = itertools.count()
    monkeypatch.setattr(_transforms, "patched_targets", lambda: {"lib:f": next(codes)})
    with pytest.raises(CheckFailedError, match=message):
        check_transformed(_test(_function, transform))


def test_exports_in_threads_that_differ_are_found() -> None:
    numbers = itertools.count(1)
    with pytest.raises(CheckFailedError, match="An export in a thread is not the one that a single thread makes"):
        check_transformed(_test(lambda x: x * next(numbers), "threads"))


def test_each_case_that_covers_a_composite_is_transformed_in_each_way() -> None:
    one, two, *_ = sorted(composite_names())
    covers = [(one,), (one,), (), ("sin",), (two,)]
    cases = [CollectedCase("d", "demo", Case(f"c{i}", jnp.sin, [(3,)], covers=names)) for i, names in enumerate(covers)]
    names = [*TRANSFORMS, "exception", "threads"]
    made = [*transformations(cases, target="some")]
    assert [test.id for test in made] == [f"demo::c{i}[{name}]" for i in (0, 1, 4) for name in names]
    assert {test.target for test in made} == {"some"}
    assert [test.id for test in transformations(cases, quick=True)] == ["demo::c0[vmap]", f"demo::c4[{names[4]}]"]
