"""Reversed sequences are read from the other end; two directions become one operator."""

from __future__ import annotations

import numpy as np
import onnx_ir
import pytest
from jax2onnx_graph.passes.fusion.recurrence.fold_reversals import FoldReversals
from jax2onnx_graph.passes.fusion.recurrence.join_directions import JoinDirections

WIDTH, HIDDEN = 2, 3
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
X, H0 = "float[T,B,2] x", "float[1,B,3] h0, float[1,B,3] h1"
FAR = -(2**63)
NUMBERS = f"""one = Constant<value = int64[1] {{1}}>() nought = Constant<value = int64[1] {{0}}>()
    end = Constant<value = int64[1] {{-1}}>() far = Constant<value = int64[1] {{{FAR}}}>()
    first = Constant<value = int64 {{0}}>() last = Constant<value = int64 {{-1}}>()"""


def _constant(name: str, *shape: int) -> str:
    numbers = np.random.default_rng(len(name) + ord(name[-1])).normal(0, 0.4, np.prod(shape))
    return (
        f"{name} = Constant<value = float[{','.join(map(str, shape))}] {{{', '.join(f'{n:.3f}' for n in numbers)}}}>()"
    )


def _layer(name: str, direction: str, x: str = "x", *, operator: str = "LSTM", more: str = "") -> str:
    """An operator with results `y{name}`, `h{name}`; those without the axis of directions are `{name}` and `{name}h`."""
    rows = GATES[operator] * HIDDEN
    weights = [_constant(f"w{name}", 1, rows, WIDTH), _constant(f"r{name}", 1, rows, HIDDEN)]
    attributes = f'hidden_size = {HIDDEN}, direction = "{direction}"'
    return f"""{" ".join(weights)} {_constant(f"b{name}", 1, 2 * rows)}
        y{name}, h{name} = {operator}<{attributes}>({x}, w{name}, r{name}, b{name}{more})
        {name} = Squeeze(y{name}, one) {name}h = Squeeze(h{name}, nought)"""


def _reversed(result: str, value: str, axis: str = "nought") -> str:
    return f"{result} = Slice({value}, end, far, {axis}, end)"


@pytest.fixture
def join(fused):
    def run(body: str, y: str = "float[T,B,6] y", x: str = X) -> list[str]:
        return fused(onnx_ir.passes.PassManager([FoldReversals(), JoinDirections()]), f"{NUMBERS} {body}", x, y)

    return run


BOTH = f"{_layer('a', 'forward')} {_layer('b', 'reverse')}"
SINGLE = "float[T,B,3] y"


# -- rule 1: an operator that reads a reversed sequence ----------------------------------------------


def test_a_sequence_that_is_reversed_before_and_after(join):
    body = f"{_reversed('back', 'x')} {_layer('a', 'forward', 'back')} {_reversed('u', 'a')} y = Identity(u)"
    assert join(body, SINGLE) == ["LSTM", "Squeeze", "Identity"]


def test_a_reversed_sequence_with_views_between(join):
    body = f"""{_reversed("back", "x", "one")} t = Transpose<perm = [1, 0, 2]>(back) {_layer("a", "forward", "t")}
        u = Transpose<perm = [1, 0, 2]>(a) {_reversed("v", "u", "one")} y = Identity(v)"""
    assert join(body, "float[B,T,3] y", "float[B,T,2] x") == ["Transpose", "LSTM", "Squeeze", "Transpose", "Identity"]


def test_a_reversed_sequence_whose_results_stay_reversed(join):
    body = f"{_reversed('back', 'x')} {_layer('a', 'forward', 'back')} y = Identity(a)"
    assert join(body, SINGLE) == ["Slice", "LSTM", "Squeeze", "Identity"]


def test_a_reversed_sequence_of_which_the_last_state_is_read(join):
    body = f"{_reversed('back', 'x')} {_layer('a', 'reverse', 'back')} y = Identity(ah)"
    assert join(body, "float[B,3] y") == ["LSTM", "Squeeze", "Identity"]


# -- rule 2: reversals that undo each other ----------------------------------------------------------


def test_a_reversal_of_a_reversal(join):
    body = f"""{_layer("a", "reverse")} {_reversed("back", "a")} t = Transpose<perm = [1, 0, 2]>(back)
        {_reversed("u", "t", "one")} y = Identity(u)"""
    assert join(body, "float[B,T,3] y") == ["LSTM", "Squeeze", "Transpose", "Identity"]


def test_a_step_of_a_reversed_sequence(join):
    body = f"{_layer('a', 'reverse')} {_reversed('back', 'a')} y = Gather(back, first)"
    assert join(body, "float[B,3] y") == ["LSTM", "Squeeze", "Gather"]


def test_a_reversal_of_another_axis_stays(join):
    body = f"{_layer('a', 'reverse')} {_reversed('back', 'a')} {_reversed('y', 'back', 'one')}"
    assert join(body, SINGLE) == ["LSTM", "Squeeze", "Slice", "Slice"]


# -- rule 3: the step that is computed last ----------------------------------------------------------


@pytest.mark.parametrize(("direction", "index"), [("forward", "last"), ("reverse", "first")])
def test_the_last_step_is_the_last_state(join, direction, index):
    assert join(f"{_layer('a', direction)} y = Gather(a, {index})", "float[B,3] y") == ["LSTM", "Squeeze"]


def test_the_last_step_of_a_transposed_result(join):
    body = f"{_layer('a', 'forward')} t = Transpose<perm = [1, 0, 2]>(a) y = Gather<axis = 1>(t, last)"
    assert join(body, "float[B,3] y") == ["LSTM", "Squeeze"]


@pytest.mark.parametrize(("direction", "index"), [("forward", "first"), ("reverse", "last")])
def test_the_first_step_is_not(join, direction, index):
    assert "Gather" in join(f"{_layer('a', direction)} y = Gather(a, {index})", "float[B,3] y")


# -- rule 4: two directions --------------------------------------------------------------------------


@pytest.mark.parametrize("operator", GATES)
def test_results_of_all_steps(join, operator):
    layers = [_layer("a", "forward", operator=operator), _layer("b", "reverse", operator=operator)]
    assert join(f"{' '.join(layers)} y = Concat<axis = 2>(a, b)") == [operator, "Transpose", "Reshape"]


def test_the_direction_that_comes_first_does_not_matter(join):
    body = f"{_layer('b', 'reverse')} {_layer('a', 'forward')} y = Concat<axis = -1>(a, b)"
    assert join(body) == ["LSTM", "Transpose", "Reshape"]


@pytest.mark.parametrize("place", ["before", "after"])
def test_the_batch_may_be_the_first_axis(join, place):
    body = {
        "before": """ta = Transpose<perm = [1, 0, 2]>(a) tb = Transpose<perm = [1, 0, 2]>(b)
            y = Concat<axis = 2>(ta, tb)""",
        "after": "both = Concat<axis = 2>(a, b) y = Transpose<perm = [1, 0, 2]>(both)",
    }[place]
    assert join(f"{BOTH} {body}", "float[B,T,6] y") == ["LSTM", "Transpose", "Reshape"]


def test_sequences_that_are_transposed_apart(join):
    body = f"""s = Transpose<perm = [1, 0, 2]>(x) t = Transpose<perm = [1, 0, 2]>(x) {_layer("a", "forward", "s")}
        {_layer("b", "reverse", "t")} y = Concat<axis = 2>(a, b)"""
    assert join(body, x="float[B,T,2] x") == ["Transpose", "LSTM", "Transpose", "Reshape"]


def test_last_states(join):
    assert join(f"{BOTH} y = Concat<axis = 1>(ah, bh)", "float[B,6] y") == ["LSTM", "Transpose", "Reshape"]


def test_last_states_along_the_axis_of_directions(join):
    body = f"{BOTH} ua = Unsqueeze(ah, nought) ub = Unsqueeze(bh, nought) y = Concat<axis = 0>(ua, ub)"
    assert join(body, "float[2,B,3] y") == ["LSTM"]


def test_what_is_read_apart(join):
    body = f"{BOTH} y = Concat<axis = 2>(a, b) z = Tanh(a) u = Identity(bh)"
    operators = join(body, "float[T,B,6] y, float[T,B,3] z, float[B,3] u")
    assert sorted(operators) == sorted(
        ["LSTM", "Transpose", "Reshape"] + 2 * ["Split", "Squeeze"] + ["Tanh", "Identity"]
    )


def test_first_states(join):
    layers = [_layer("a", "forward", more=", , h0, c0"), _layer("b", "reverse", more=", , h1, c0")]
    operators = join(f"{' '.join(layers)} y = Concat<axis = 2>(a, b)", x=f"{X}, {H0}, float[1,B,3] c0")
    assert operators == ["Concat", "Concat", "LSTM", "Transpose", "Reshape"]


def test_a_first_state_that_is_computed_between(join):
    layers = [_layer("a", "forward", more=", , h0, h0"), "t = Tanh(ha)", _layer("b", "reverse", more=", , t, h0")]
    operators = join(f"{' '.join(layers)} y = Concat<axis = 2>(a, b)", x=f"{X}, {H0}")
    assert operators.count("LSTM") == 2


def test_first_states_of_one_direction_only(join):
    layers = [_layer("a", "forward", more=", , h0, h1"), _layer("b", "reverse")]
    assert join(f"{' '.join(layers)} y = Concat<axis = 2>(a, b)", x=f"{X}, {H0}").count("LSTM") == 2


@pytest.mark.parametrize(
    "body",
    [
        f"{BOTH} y = Concat<axis = 2>(b, a)",
        f"{_layer('a', 'forward')} {_layer('b', 'forward')} y = Concat<axis = 2>(a, b)",
        f"{_layer('a', 'forward')} z = Tanh(x) {_layer('b', 'reverse', 'z')} y = Concat<axis = 2>(a, b)",
        f"{_layer('a', 'forward')} {_layer('b', 'reverse', operator='GRU')} y = Concat<axis = 2>(a, b)",
    ],
    ids=["backwards first", "one direction twice", "two sequences", "two operators"],
)
def test_what_stays_apart(join, body):
    assert "Concat" in join(body)


def test_a_sum_stays(join):
    assert join(f"{BOTH} y = Add(a, b)", SINGLE).count("LSTM") == 2
