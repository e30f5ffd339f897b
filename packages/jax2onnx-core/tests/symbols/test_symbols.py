"""Symbols: what users write of sizes is meant for all sizes that the symbols may have, 0 included where they say so."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import size, to_onnx
from jax2onnx_core.plugins.errors import RuntimeInputError, SymbolError
from jax2onnx_core.symbols.symbols import Symbols, evaluate_dim


def of(*sizes: int) -> list[np.ndarray]:
    return [np.ones(size, np.float32) for size in sizes]


@pytest.mark.parametrize("s", [0, 1, 2, 5])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("S", lambda s: s),
        ("max(S, 1)", lambda s: max(s, 1)),
        ("min(S, 1)", lambda s: min(s, 1)),
        ("2*S + 3", lambda s: 2 * s + 3),
        ("S^2 - S", lambda s: s * s - s),
        ("-S + 9", lambda s: 9 - s),
        ("floordiv(S + 1, 2)", lambda s: (s + 1) // 2),
        ("mod(S - 1, 3)", lambda s: (s - 1) % 3),
        ("T - max(S, 1)", lambda s: 7 - max(s, 1)),
    ],
)
def test_expressions_of_a_symbol_that_may_be_0(text, expected, s):
    symbols = Symbols(["S >= 0"])
    dim = symbols.parse(text)
    assert symbols.label(dim) == text
    assert evaluate_dim(dim, symbols.traced_values({"S": s, "T": 7})) == expected(s)


@pytest.mark.parametrize(
    ("constraint", "allowed", "refused"),
    [
        ("max(S, 1) >= T", {"S": 0, "T": 1}, {"S": 0, "T": 2}),
        ("max(S, 1) <= T", {"S": 0, "T": 1}, {"S": 2, "T": 1}),
        ("min(S, 1) != T - 1", {"S": 0, "T": 2}, {"S": 0, "T": 1}),
        ("mod(T, 2) == 0", {"S": 0, "T": 2}, {"S": 0, "T": 3}),
    ],
)
def test_constraints_on_a_symbol_that_may_be_0(constraint, allowed, refused):
    symbols = Symbols(["S >= 0", constraint])
    assert symbols.allow(allowed)
    assert not symbols.allow(refused)
    assert not symbols.allow({**allowed, "S": -1})
    program = to_onnx(lambda x, y: (x + 1, y * 2), [("S",), ("T",)], constraints=["S >= 0", constraint])
    program(*of(*allowed.values()))
    with pytest.raises(RuntimeInputError, match=r"does not hold for S = \d, T = \d|does not hold for T = 3"):
        program(*of(*refused.values()))


@pytest.mark.parametrize(
    ("inputs", "constraints"),
    [([("S",), ("S__plus_1",)], ["S >= 0"]), ([("T__plus_1",)], []), ([("T",)], ["T >= S__plus_1"])],
)
def test_no_symbol_has_a_name_of_a_traced_one(inputs, constraints):
    with pytest.raises(SymbolError, match=r"no symbol is called '\w__plus_1', as those are that stand for sizes"):
        to_onnx(lambda *xs: [x + 1 for x in xs], inputs, constraints=constraints)


def test_symbols_of_a_scope_of_the_user_may_have_any_name():
    (t,) = jax.export.symbolic_shape("T__plus_1")
    program = to_onnx(lambda x: x.sum() / x.shape[0], [jax.ShapeDtypeStruct((t,), jnp.float32)])
    assert [*program.symbols] == ["T__plus_1"]
    program.verify()


def test_a_size_from_data_is_called_like_no_symbol_of_the_users_scope():
    def positive(x):
        with size("kept"):
            return x[x > 0]

    (kept,) = jax.export.symbolic_shape("kept")
    program = to_onnx(positive, [jax.ShapeDtypeStruct((kept,), jnp.float32)])
    assert [*program.symbols] == ["kept", "kept_1"]
    program.verify()


@pytest.mark.parametrize("option", [{}, {"S": 5}])
@pytest.mark.parametrize(
    ("constraints", "left", "allowed", "refused"),
    [
        (["S <= T"], ["5 <= T"], 5, 4),
        (["T != 2*S"], ["T != 2*5"], 9, 10),
        (["S >= 0", "max(S, 3) >= T"], ["max(5, 3) >= T"], 5, 6),
        (["S <= T", "S >= 2", "T <= 9"], ["5 <= T", "S >= 2", "T <= 9"], 9, 10),
    ],
)
def test_constraints_hold_for_numbers_that_symbols_were_fixed_to(
    option: dict[str, int], constraints: Sequence[str], left: Sequence[str], allowed: int, refused: int
) -> None:
    program = to_onnx(
        lambda x, y: x.sum() + y.sum(), [("S",), ("T",)], constraints=constraints, specialize=option
    ).specialize(**{} if option else {"S": 5})
    assert program.constraints == left
    assert program(*of(5, allowed)) == 5 + allowed
    with pytest.raises(RuntimeInputError, match="does not hold for T"):
        program(*of(5, refused))
    with pytest.raises(SymbolError, match="does not hold for"):
        program.specialize(T=refused)
    assert program.specialize(T=allowed)(*of(5, allowed)) == 5 + allowed
