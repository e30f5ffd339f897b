"""What errors about symbolic dimensions advise, by what JAX or Python says and by where the symbols come from."""

from __future__ import annotations

import pytest
from jax2onnx_core.symbols._inconclusive_dims import undecided
from jax2onnx_core.symbols.symbols import Symbols


def advice(message: str, dims: tuple[str, ...], sizes: tuple[str, ...] = (), constraints: tuple[str, ...] = ()) -> str:
    """The text of the error about a program with dimensions of the inputs and sizes from data."""
    symbols = Symbols(constraints)
    for dim in dims:
        symbols.parse(dim)
    for size in sizes:
        symbols.new_size(size, f"nonzero at line {size}")
    return str(undecided(ValueError(message), symbols, "model.py:7"))


@pytest.mark.parametrize(
    ("compared", "constraint"),
    [
        ("'T' > '3'", "T >= 4"), ("'T' >= '3'", "T >= 3"), ("'T' < '3'", "T >= 3"), ("'T' <= '3'", "T <= 3"), ("'T' <= '1'", "T >= 2"),
        ("'T' > '1'", "T >= 2"), ("'T' < '2'", "T >= 2"), ("'2*T' > '7'", "T >= 4"), ("'2*T' >= '7'", "T >= 4"), ("'T' > 'S'", "T >= S + 1"),
        ("'T' < 'S'", "T <= S - 1"), ("'T' <= 'S'", "T <= S"), ("'T' >= 'S'", "T >= S"),
    ],
)  # fmt: skip
def test_a_comparison_is_decided_by_a_constraint(compared, constraint):
    text = advice(f"Symbolic dimension comparison {compared} is inconclusive.\nMore of JAX.", ("T", "S"))
    assert f"constraints=({constraint!r},), or a number for the symbol, specialize={{" in text
    assert "More of JAX" not in text


@pytest.mark.parametrize(
    ("message", "named"),
    [("axis size (= T) is larger than 1 and larger or equal than the padding length (= 3)", "constraints=('T >= 4',)"),
     ("comparison 'Z' <= '0' is inconclusive", "constraints=('Z >= 1',)"), ("it is 'S', in mode 'reflect'", "{'S': …}"),
     ("it is S", "{'S': …}"), ("it is something", "{'S': …}"), ("'T' is no number", "{'T': …}"), ("'T' is not as S is", "{'T': …}")],
)  # fmt: skip
def test_the_symbols_of_the_text_are_named(message, named):
    assert named in advice(message, ("T", "S", "Z"), constraints=("Z >= 0",))


@pytest.mark.parametrize(
    ("message", "dims", "sizes", "says"),
    [
        ("no number", (), ("K",), "a size that depends on data: no number, at model.py:7. It is the size of nonzero at line K"),
        ("no number", (), ("K", "L"), "It is the size of nonzero at line K"),
        ("comparison 'K__plus_1 - 1' < '3' is inconclusive", ("T",), ("L", "K"), "comparison 'K' < '3' is inconclusive, at model.py:7. It is the size of nonzero at line K"),
        ("comparison 'T' < 'K__plus_1 - 1' is inconclusive", ("T",), ("K",), "It is the size of nonzero at line K"),
        ("K is no number", ("T",), ("L", "K"), "It is the size of nonzero at line K"),
        ("no number", ("T",), ("K",), "specialize={'T': …}. Or it is the size of nonzero at line K"),
        ("'T' is no number", ("T", "S"), ("K",), "specialize={'T': …}."),
        ("no number", ("T",), (), "specialize={'T': …}."),
        ("a real number is wanted", ("T",), (), "Or let the model compute with it"),
    ],
)  # fmt: skip
def test_where_a_size_comes_from(message, dims, sizes, says):
    text = advice(message, dims, sizes)
    assert says in text
    assert ("nonzero" in text) is ("nonzero" in says)
    assert ("let the model" in text) is ("let the model" in says)


@pytest.mark.parametrize(("message", "names"), [("'K__plus_1 - 1' < '3'", set()), ("'T' < 'K__plus_1 - 1'", {"T"})])
def test_only_symbols_of_inputs_can_be_given_as_numbers(message, names):
    symbols = Symbols()
    symbols.parse("T")
    symbols.new_size("K", "nonzero")
    assert undecided(ValueError(f"comparison {message} is inconclusive"), symbols, "model.py:7").symbols == names
