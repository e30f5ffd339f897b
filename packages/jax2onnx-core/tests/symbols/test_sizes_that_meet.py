"""Sizes that meet while a function is traced: equal at all sizes, a constraint with the user's line, or an error with it."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.core import max_dim, min_dim
from jax.errors import InconclusiveDimensionOperation
from jax2onnx_core import errors, to_onnx
from jax2onnx_core.symbols._extremes import deciding_constraints
from jax2onnx_core.symbols.symbols import Symbols


def to_matrix(x):
    return x.reshape(32, 8)


def to_pairs(x):
    return x.reshape(x.shape[0] // 2, 2, 8)


def to_five_parts(x):
    return x.reshape(x.shape[0] * 5, 8)


def to_a_long_table(x):
    return x.reshape(min_dim(x.shape[0], 6000), 8)


def in_a_loop(x):
    return jax.lax.fori_loop(0, 3, lambda _, c: c + to_matrix(x), jnp.zeros((32, 8)))


def in_jit(x):
    return jax.jit(to_matrix)(x)


FITTING: dict[str, tuple[Any, ...]] = {
    "one size": (to_matrix, [("B", 8)], "B == 32", (32, 8), (5, 8)),
    "multiples": (to_pairs, [("B", 8)], "mod(B, 2) == 0", (6, 8), (5, 8)),
    "two symbols": (to_five_parts, [("B", "T", 8)], "B*T == 5*B", (2, 5, 8), (2, 4, 8)),
    "an expression": (to_matrix, [("2*B", 8)], "B == 16", (32, 8), (4, 8)),
    "a long table": (to_a_long_table, [("B", 8)], "B == min(B, 6000)", (6000, 8), (6001, 8)),
    "a loop": (in_a_loop, [("B", 8)], "B == 32", (32, 8), (5, 8)),
    "jit": (in_jit, [("B", 8)], "B == 32", (32, 8), (5, 8)),
}


def ones(shape):
    return np.ones(shape, np.float32)


@pytest.mark.filterwarnings("ignore::jax2onnx_graph.errors.ExportWarning")
@pytest.mark.parametrize("name", FITTING)
def test_a_reshape_that_fits_at_some_sizes_is_a_constraint(name):
    fn, inputs, constraint, fits, does_not = FITTING[name]
    program = to_onnx(fn, inputs)
    assert program.constraints == [constraint]
    assert program(ones(fits)).shape == fn(ones(fits)).shape
    with pytest.raises(errors.RuntimeInputError, match="does not hold for"):
        program(ones(does_not))
    program.verify()


@pytest.mark.parametrize("fn", [to_matrix, in_a_loop, in_jit])
def test_it_is_warned_of_with_the_line(fn):
    with pytest.warns(errors.ExportWarning, match=r"at .*test_sizes_that_meet\.py:\d+ \(.*only if B == 32"):
        to_onnx(fn, [("B", 8)])


@pytest.mark.parametrize(("fn", "constraint"), [(to_matrix, "B == 32"), (to_pairs, "mod(B, 2) == 0")])
def test_a_constraint_of_the_user_says_that_it_is_meant(fn, constraint):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = to_onnx(fn, [("B", 8)], constraints=[constraint])
    assert program.constraints == [constraint]
    program.verify()


@pytest.mark.filterwarnings("ignore::jax2onnx_graph.errors.ExportWarning")
def test_an_empty_size_is_shown_as_the_user_wrote_it():
    program = to_onnx(to_matrix, [("S", 8)], constraints=["S >= 0"])
    assert program.constraints == ["S == 32"]
    program.verify()


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.reshape(x.shape[0] * x.shape[1] * 2).reshape(x.shape[0], x.shape[1] * 2),
        lambda x: x.reshape(x.shape[0], x.shape[1] * 2, 1).swapaxes(1, 2),
    ],
)
def test_views_of_views_of_an_empty_size(fn):
    program = to_onnx(fn, [("S", "T", 2)], constraints=["S >= 0"])
    assert {program(ones((size, 3, 2))).shape for size in (0, 2)} == {fn(ones((size, 3, 2))).shape for size in (0, 2)}


@pytest.mark.parametrize(
    ("constraints", "sizes"),
    [
        (["S == 2*T"], [(2, 1), (6, 3)]),
        (["S == 2*T", "S >= 0"], [(2, 1), (6, 3)]),
        (["S == 2*T", "T >= 0"], [(0, 0), (2, 1), (6, 3)]),
        (["2*S == T", "S >= 0", "T >= 0"], [(0, 0), (1, 2), (3, 6)]),
        (["S == T - 1", "S >= 0"], [(0, 1), (3, 4)]),
        (["S == 2*T + 1", "S >= 0", "T >= 0"], [(1, 0), (5, 2)]),
    ],
)
def test_equal_sizes_that_may_be_0(constraints, sizes):
    program = to_onnx(lambda x, y: jnp.concatenate([x, y]) * 2, [("S", 2), ("T", 2)], constraints=constraints)
    for s, t in sizes:
        np.testing.assert_array_equal(program(ones((s, 2)), ones((t, 2))), np.full((s + t, 2), 2.0))
    with pytest.raises(errors.RuntimeInputError, match=r"The arguments do not fit: .*(==|should be)"):
        program(ones((7, 2)), ones((1, 2)))


@pytest.mark.filterwarnings("ignore::jax2onnx_graph.errors.ExportWarning")
def test_specializing_to_a_size_that_fits():
    program = to_onnx(to_matrix, [("B", 8)]).specialize(B=32)
    assert program(ones((32, 8))).shape == (32, 8)


@pytest.mark.filterwarnings("ignore::jax2onnx_graph.errors.ExportWarning")
def test_specializing_to_another_size_is_the_error_of_jax():
    program = to_onnx(to_matrix, [("B", 8)])
    with pytest.raises(TypeError, match=r"cannot reshape array of shape \(5, 8\)"):
        program.specialize(B=5)


def test_a_reshape_that_never_fits_is_an_error_with_the_line():
    with pytest.raises(errors.SymbolError, match=r"\(B, 8\) is reshaped to \(3, 3\) at .*py:\d+ .*8\*B is never 9"):
        to_onnx(lambda x: x.reshape(3, 3), [("B", 8)])


@pytest.mark.parametrize(
    ("shape", "new", "constraints"),
    [
        (("B", 4), lambda b: (b, 2, 3), []),
        (("B", 4), lambda b: (0,), []),
        (("B", 4), lambda b: (2,), []),
        (("B",), lambda b: (4,), ["B <= 3"]),
        (("B",), lambda b: (4,), ["B >= 5"]),
        (("B", 4), lambda b: (b, 5), []),
    ],
)
def test_reshapes_that_never_fit(shape, new, constraints):
    with pytest.raises(errors.SymbolError, match=r"is reshaped to .* but no sizes have as many elements in both"):
        to_onnx(lambda x: x.reshape(new(x.shape[0])), [shape], constraints=constraints)


ALWAYS: dict[str, tuple[Any, ...]] = {
    "flat": (lambda x: x.reshape(-1), [("B", "T", 8)], []),
    "split": (lambda x: x.reshape(x.shape[0], x.shape[1], 2, 4), [("B", "T", 8)], []),
    "rounded up": (lambda x: x.reshape(-(-x.shape[0] // 2), 2, 8), [("2*H", 8)], []),
    "known multiples": (lambda x: x.reshape(x.shape[0] // 4, 4, 8), [("B", 8)], ["mod(B, 4) == 0"]),
    "two parts": (lambda x: jnp.concatenate([x[:4], x[4:]]).reshape(x.shape[0], 8), [("B", 8)], []),
    "a minimum": (lambda x: jnp.stack([x[:4]] * 2).reshape(-1, 2, 8), [("B", 8)], []),
}


@pytest.mark.parametrize("name", ALWAYS)
def test_a_reshape_that_always_fits_is_no_question(name):
    fn, inputs, constraints = ALWAYS[name]
    assert to_onnx(fn, inputs, constraints=constraints).constraints == constraints


TABLE = jnp.arange(64.0 * 8).reshape(64, 8)


def cut(x):
    return x + TABLE[: x.shape[0]]


def placed(x):
    return jnp.zeros((10, 8)).at[: x.shape[0]].set(x)


@pytest.mark.parametrize(
    ("text", "constraints"),
    [
        ("min(64, T)", ["T <= 64"]),
        ("min(T, 64)", ["T <= 64"]),
        ("max(3, T)", ["T >= 3"]),
        ("min(T, S)", ["S <= T"]),
        ("min(T, 64) and max(S, 2)", ["T <= 64", "S >= 2"]),
        ("min(T, 64), min(T, 64)", ["T <= 64"]),
        ("max(min(T, 64), 3)", ["T <= 64"]),
        ("min(-1, T)", []),
        ("min(3, 4)", []),
        ("min(T, 3, 4)", []),
        ("minimum(T, 4)", []),
    ],
)
def test_constraints_that_decide_an_extreme(text, constraints):
    assert deciding_constraints(f"({text},) does not fit", Symbols([])) == constraints


CUT = {
    "a table": (cut, [("T", 8)], (), "T <= 64"),
    "a part of an array": (placed, [("T", 8)], (), "T <= 10"),
    "an empty size": (cut, [("S", 8)], ("S >= 0",), "S <= 64"),
    "an expression": (cut, [("2*T + 1", 8)], (), "2*T + 1 <= 64"),
}


def notes_of(fn, inputs, constraints=()):
    with pytest.raises((TypeError, ValueError)) as raised:
        to_onnx(fn, inputs, constraints=constraints)
    return " ".join(raised.value.__notes__)


@pytest.mark.parametrize("name", CUT)
def test_a_table_that_may_be_too_short_proposes_a_constraint_with_the_line(name):
    fn, inputs, given, constraint = CUT[name]
    notes = notes_of(fn, inputs, given)
    assert f"constraints=('{constraint}',)" in notes
    assert f"test_sizes_that_meet.py:{fn.__code__.co_firstlineno + 1} ({fn.__name__})" in notes


@pytest.mark.parametrize("name", CUT)
def test_the_proposed_constraint_makes_the_export_work(name):
    fn, inputs, given, constraint = CUT[name]
    program = to_onnx(fn, inputs, constraints=[*given, constraint])
    program.verify()


@pytest.mark.parametrize(
    "fn", [lambda x: x + jnp.ones((7, 8)), lambda x: jnp.ones((3, 7)) @ x, lambda x: jnp.broadcast_to(x, (7, 8))]
)
def test_a_symbol_that_meets_a_number_is_an_error_with_the_line(fn):
    notes = notes_of(fn, [("B", 8)])
    assert "B may have any size, so it fits no number" in notes
    assert "It is at" in notes
    assert "test_sizes_that_meet.py:" in notes


@pytest.mark.parametrize(
    "difference",
    [
        lambda t: max_dim(1 - t, 0) * -1,
        lambda t: min_dim(t, 1) - 1,
        lambda t: (t + 1) // 2 - 1,
        lambda t: (t + 1) % 2 - 1,
        lambda t: t - 1,
        lambda t: 2 * t * t,
    ],
)
def test_what_is_decided_of_a_size_that_may_be_zero_holds_at_zero(difference):
    answers: list[bool | None] = []

    def fn(x):
        try:
            answers.append(bool(difference(x.shape[0]) >= 0))
        except InconclusiveDimensionOperation:
            answers.append(None)
        return x

    to_onnx(fn, [("T",)], constraints=["T >= 0"])
    holds = {difference(size) >= 0 for size in range(8)}
    assert answers == [True if holds == {True} else None]


def halves(x, y):
    return (x[::2] + x[1::2]) * y


def blocks(x, y):
    return x.reshape(-1, 4) * y.sum()


@pytest.mark.parametrize(("fn", "error"), [(halves, TypeError), (blocks, errors.UndecidedDimensionError)])
@pytest.mark.parametrize("name", ["T", "length"])
def test_sizes_that_may_be_0_are_shown_as_they_are_written(fn, error, name):
    with pytest.raises(error) as caught:
        to_onnx(fn, [(f"2*{name}",), (name,)], constraints=[f"{name} >= 0"])
    text = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert "__plus_1" not in text
    assert fn is blocks or f"leave out what allows it, '{name} >= 0', if" in text


def test_the_size_that_a_reflection_needs_is_advised():
    with pytest.raises(errors.UndecidedDimensionError, match=r"constraints=\('T >= 3',\)"):
        to_onnx(lambda x: jnp.pad(x, 2, mode="reflect", reflect_type="odd"), [("T",)])
    to_onnx(lambda x: jnp.pad(x, 2, mode="reflect", reflect_type="odd"), [("T",)], constraints=["T >= 3"])


def test_no_word_of_a_message_is_advised_as_a_symbol():
    with pytest.raises(errors.UndecidedDimensionError, match=r"specialize={'T': …}") as caught:
        to_onnx(lambda x: jnp.pad(x, (x.shape[0], 0), mode="reflect"), [("T",)])
    assert "'reflect': …" not in str(caught.value)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: jnp.pad(x, (x.shape[0], 1), mode="wrap"), lambda x: jnp.stack([x] * x.shape[0]),
        lambda x: x[(0,) * x.shape[0]],
    ],
    ids=["wrap", "list", "tuple"],
)  # fmt: skip
def test_a_list_is_not_repeated_by_a_symbol(fn):
    with pytest.raises(
        errors.UndecidedDimensionError, match=r"A (list|tuple) cannot be repeated .*test_sizes_that_meet\.py.*{'T': …}"
    ):
        to_onnx(fn, [("T",)])


def test_a_list_that_is_repeated_by_an_array_is_no_question_about_sizes():
    with pytest.raises(TypeError, match="unsupported operand type"):
        to_onnx(lambda x: jnp.stack([x] * x[0]), [("T",)])


class _ViolationError(Exception):
    """What a library raises that checks annotations as the program runs."""


def test_an_annotation_that_no_symbol_fulfils_is_named():
    def fn(x):
        if not isinstance(x.shape[0], int):
            raise _ViolationError(
                f'parameter n="T" violates int, as <protocol "jax.{type(x.shape[0]).__name__}"> "T" is none.'
            )

    with pytest.raises(
        errors.UndecidedDimensionError, match=r"int, as a symbolic dimension \"T\" .*specialize={'T': …}"
    ):
        to_onnx(fn, [("T",)])


def test_an_error_that_python_raises_from_one_about_a_symbol_is_one():
    def fn(x):
        try:
            return x if x.shape[0] > 3 else -x
        except Exception as error:
            raise ValueError("The length does not do.") from error

    with pytest.raises(errors.UndecidedDimensionError, match=r"'T' > '3'.*constraints=\('T >= 4',\)"):
        to_onnx(fn, [("T",)])


def test_no_constraint_is_advised_that_leaves_only_the_empty_size():
    with pytest.raises(errors.UndecidedDimensionError, match=r"constraints=\('T >= 1',\)"):
        to_onnx(lambda x: x if x.shape[0] <= 0 else -x, [("T",)], constraints=["T >= 0"])
