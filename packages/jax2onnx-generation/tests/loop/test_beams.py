"""Beam search over a table of logits, which stands for a decoder: what it finds among all continuations."""

from __future__ import annotations

import itertools
import types
from typing import Any

import numpy as np
import pytest
from jax2onnx_generation.loop.beams import search
from jax2onnx_generation.loop.requests import Beams, Ends
from jax2onnx_generation.loop.results import Stop
from jax2onnx_graph.errors import ContextFullError, OptionError, RuntimeInputError

TABLE = np.random.default_rng(5).normal(size=(4, 4)).astype(np.float32) * 2
PROBABILITIES = np.log(np.exp(TABLE.astype(np.float64)) / np.exp(TABLE.astype(np.float64)).sum(-1, keepdims=True))


class Table:
    """A decoder whose next token depends on the last one alone; `places` tokens fit."""

    def __init__(self, table: Any = TABLE, places: int = 99, batch: int | str = "B") -> None:
        self.forms = types.SimpleNamespace(tokens=types.SimpleNamespace(batch=batch))
        self._table, self._places, self.rows = table, places, [list[int]()]

    def align(self, prompts: Any) -> Any:
        return prompts

    def select(self, rows: Any) -> None:
        self.rows = [list(self.rows[row]) for row in rows]

    def feed(self, tokens: Any) -> Any:
        for row, new in zip(self.rows, tokens, strict=True):
            row.extend(new)
            if len(row) > self._places:
                raise ContextFullError("full")
        return self._table[[row[-1] for row in self.rows]]


def found(width: int, count: int = 3, *, decoder: Any = None, stop: Any = (), penalty: float = 1.0) -> Any:
    table: Any = decoder or Table()
    return search(table, [1], Ends(count, frozenset(stop)), Beams(width, penalty))


def logarithm(ids: Any) -> float:
    return sum(PROBABILITIES[last, token] for last, token in itertools.pairwise([1, *ids]))


def continuations(stop: Any) -> Any:
    """All continuations of three tokens, or up to a stop token."""
    for ids in itertools.product(range(4), repeat=3):
        end = next((i for i, token in enumerate(ids) if token in stop), 2)
        yield list(ids[: end + 1])


@pytest.mark.parametrize("penalty", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("stop", [(), (2,), (0, 3)])
def test_a_wide_search_finds_the_best_of_all_continuations(penalty, stop):
    best = max(continuations(stop), key=lambda ids: logarithm(ids) / len(ids) ** penalty)
    beam = found(64, stop=stop, penalty=penalty)
    assert beam.ids == best
    assert beam.logarithm == pytest.approx(logarithm(best), rel=1e-6)
    assert beam.score == pytest.approx(logarithm(best) / len(best) ** penalty, rel=1e-6)
    assert beam.stop == (Stop.TOKEN if best[-1] in stop else Stop.LENGTH)


def test_one_beam_takes_the_likeliest_token_each_time():
    ids, last = [], 1
    for _ in range(3):
        last = int(TABLE[last].argmax())
        ids.append(last)
    assert found(1).ids == ids


def test_logits_of_any_size_are_probabilities():
    assert found(4, decoder=Table(TABLE + 3000)).logarithm == pytest.approx(found(4).logarithm, rel=1e-3)


def test_of_equally_likely_tokens_the_first_is_taken():
    assert found(1, decoder=Table(np.zeros((4, 4), np.float32))).ids == [0, 0, 0]


def test_a_stop_token_ends_a_beam_only_where_it_is_among_the_likeliest():
    table = np.log(np.array([[0.6, 0.4, 1e-9, 1e-9]] * 4, np.float32))
    assert found(1, 4, decoder=Table(table), stop=[1], penalty=0.0).ids == [0, 0, 0, 0]


def test_as_many_beams_go_on_however_many_stop_tokens_are_likelier():
    """The best continuation begins with the second token that does not end, behind three that do."""
    first, uniform, sure = [0.2, 0.18, 0.17, 0.3, 0.1, 0.05], [1 / 6] * 6, [1e-9] * 5 + [1.0]
    table = np.log(np.array([uniform, first, uniform, uniform, sure, uniform], np.float32))
    assert found(2, 2, decoder=Table(table), stop=(0, 1, 2), penalty=3.0).ids == [4, 5]


@pytest.mark.parametrize("width", [1, 2, 5])
def test_where_all_tokens_are_stop_tokens_the_likeliest_is_all(width):
    beam = found(width, 3, stop=(0, 1, 2, 3))
    assert (beam.ids, beam.stop) == ([int(TABLE[1].argmax())], Stop.TOKEN)


@pytest.mark.parametrize("row", [1, 2])
def test_logits_that_are_no_numbers_are_an_error(row):
    table = np.where(np.arange(4)[:, None] == row, np.float32(np.nan), np.float32(0)) + np.array(
        [0, 0, 9, 0], np.float32
    )
    with pytest.raises(RuntimeInputError, match=f"returned NaN for sequence 0 after {row - 1} new tokens"):
        found(1, decoder=Table(table))


def test_the_token_of_an_infinite_logit_is_the_only_one():
    table = TABLE.copy()
    table[1, 3] = table[3, 0] = np.inf
    with np.errstate(invalid="raise"):
        assert found(2, count=2, decoder=Table(table)).ids == [3, 0]


def test_logits_of_minus_infinity_are_no_tokens():
    table = np.where(np.eye(4) > 0, -np.inf, TABLE).astype(np.float32)
    with np.errstate(invalid="raise"):
        ids = found(2, decoder=Table(table)).ids
    assert all(one != other for one, other in itertools.pairwise([1, *ids]))


def test_a_full_context_ends_all_beams():
    beam = found(2, 5, decoder=Table(places=3))
    assert len(beam.ids) == 3
    assert beam.stop == Stop.CONTEXT


def test_a_fixed_number_of_sequences_is_an_error():
    with pytest.raises(OptionError, match="takes 2 sequences at once"):
        found(2, decoder=Table(batch=2))
