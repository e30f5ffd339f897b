"""Recurrent operators as ONNX text."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

Text = Callable[..., str]

WIDTH, HIDDEN = 2, 3
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_NUMBERS = f"""one = Constant<value = int64[1] {{1}}>() nought = Constant<value = int64[1] {{0}}>()
    end = Constant<value = int64[1] {{-1}}>() far = Constant<value = int64[1] {{{-(2**63)}}}>()
    first = Constant<value = int64 {{0}}>() last = Constant<value = int64 {{-1}}>()"""
_LAYER = re.compile(r"(LSTM|GRU|RNN) (\w+) (forward|reverse)(?: of (\w+))?(, , \w+, \w+)?;")
_REVERSAL = re.compile(r"(\w+) = Reverse\((\w+)(?:, (\w+))?\)")


@pytest.fixture(scope="session")
def recurrent() -> Text:
    """`recurrent(body)`: the body with constants, layers and reversals written out.

    `LSTM a forward of x, , h0, c0;` is an operator with results `ya`, `ha`; those without the axis of directions are `a` and
    `ah`. It is of `x` unless told otherwise. `u = Reverse(x, axis)` is a Slice, along the constant `axis` or the first.
    """

    def run(body: str) -> str:
        return f"{_NUMBERS} {_REVERSAL.sub(_reversal, _LAYER.sub(_layer, body))}"

    return run


def _constant(name: str, *shape: int) -> str:
    numbers = np.random.default_rng(len(name) + ord(name[-1])).normal(0, 0.4, np.prod(shape))
    return (
        f"{name} = Constant<value = float[{','.join(map(str, shape))}] {{{', '.join(f'{n:.3f}' for n in numbers)}}}>()"
    )


def _layer(found: re.Match[str]) -> str:
    operator, name, direction, x, states = found.groups(default="")
    rows = _GATES[operator] * HIDDEN
    weights = [_constant(f"w{name}", 1, rows, WIDTH), _constant(f"r{name}", 1, rows, HIDDEN)]
    attributes = f'hidden_size = {HIDDEN}, direction = "{direction}"'
    return f"""{" ".join(weights)} {_constant(f"b{name}", 1, 2 * rows)}
        y{name}, h{name} = {operator}<{attributes}>({x or "x"}, w{name}, r{name}, b{name}{states})
        {name} = Squeeze(y{name}, one) {name}h = Squeeze(h{name}, nought)"""


def _reversal(found: re.Match[str]) -> str:
    result, value, axis = found.groups(default="nought")
    return f"{result} = Slice({value}, end, far, {axis}, end)"
