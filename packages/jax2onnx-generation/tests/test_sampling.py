"""The choice of the next token, against formulas that are written as the papers have them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from jax2onnx_generation.sampling import Sampling, keep_min_p, keep_top_k, keep_top_p, penalised, relative
from jax2onnx_graph.errors import OptionError

SIZES = [1, 2, 7, 100, 3000]


def logits_of(size: int, seed: int = 0) -> np.ndarray:
    return (3 * np.random.default_rng([size, seed]).standard_normal(size)).astype(np.float32)


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits.astype(np.float64) - logits.max())
    return weights / weights.sum()


@pytest.mark.parametrize("size", [8, 1000])
@pytest.mark.parametrize(
    ("options", "large", "drawn"),
    [
        ({"temperature": 1.0}, {3: np.inf}, {3}),
        ({"temperature": 1.0, "top_p": 0.9}, {2: np.inf, 5: np.inf, 7: -np.inf}, {2, 5}),
        ({"temperature": 2.0, "min_p": 0.1}, {1: np.inf}, {1}),
        ({"temperature": 1e-60}, {4: 5.0}, {4}),
        ({"temperature": 1.0}, {6: 3e38, 7: -3e38}, {6}),
    ],
    ids=["infinite", "two infinite", "infinite beside the likeliest", "nearly greedy", "the largest floats"],
)
def test_extreme_logits_and_temperatures_draw_the_likeliest(size, options, large, drawn):
    logits = np.zeros(size, np.float32)
    logits[list(large)] = list(large.values())
    sampling, random = Sampling(**options), np.random.default_rng(0)
    with np.errstate(all="raise", under="ignore"):
        assert {sampling.choose(logits, [], random) for _ in range(20)} == drawn


@pytest.mark.parametrize("size", [8, 1000])
def test_a_temperature_that_the_type_does_not_hold_draws_all_tokens_alike(size):
    logits = logits_of(size)
    logits[::3] = -np.inf
    with np.errstate(all="raise", under="ignore"):
        tokens, weights = Sampling(temperature=1e60).distribution(logits)
    wanted = np.where(np.isinf(logits[tokens]), 0, 1 / np.isfinite(logits).sum())
    np.testing.assert_allclose(weights, wanted, rtol=1e-6)


def test_relative_logits_of_rows_with_infinite_ones():
    found = relative(np.array([[1.0, np.inf, np.inf], [1, 3, -np.inf], [-np.inf, -np.inf, -np.inf]]))
    np.testing.assert_array_equal(found, [[-np.inf, 0, 0], [-2, 0, -np.inf], [0, 0, 0]])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", [1, 2, 5, 100, 5000])
def test_top_k_keeps_the_largest(size, count):
    logits = logits_of(size)
    np.testing.assert_array_equal(keep_top_k(logits, count), np.sort(np.argsort(-logits, kind="stable")[:count]))


def test_top_k_keeps_what_is_as_likely_as_the_last():
    np.testing.assert_array_equal(keep_top_k(np.array([1.0, 3, 1, 0]), 2), [0, 1, 2])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mass", [1e-6, 0.3, 0.9, 0.999, 1.0])
def test_top_p_keeps_the_smallest_set_that_reaches_the_mass(size, mass):
    logits = logits_of(size).astype(np.float64)
    weights, kept, total = softmax(logits), [], 0.0
    for token in np.argsort(-logits, kind="stable"):
        if total < mass:
            kept.append(token)
        total += weights[token]
    np.testing.assert_array_equal(keep_top_p(logits, mass), np.sort(kept))


def test_top_p_looks_at_all_tokens_where_the_most_likely_do_not_reach_the_mass():
    assert len(keep_top_p(np.zeros(4096), 0.5)) == 2048


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 1.0])
def test_min_p_keeps_what_is_likely_beside_the_likeliest(size, part):
    logits = logits_of(size).astype(np.float64)
    weights = softmax(logits)
    np.testing.assert_array_equal(keep_min_p(logits, part), np.flatnonzero(weights >= part * weights.max()))


def test_the_repetition_penalty_makes_tokens_less_likely_once():
    found = penalised(np.array([2.0, -2.0, 4.0, -4.0]), [2, 3, 3, 2], 2.0)
    np.testing.assert_array_equal(found, [2, -2, 2, -8])


def test_the_penalty_leaves_the_logits_of_the_caller():
    logits = logits_of(7)
    before = logits.copy()
    Sampling(repetition_penalty=2.0).choose(logits, [0, 1], np.random.default_rng(0))
    np.testing.assert_array_equal(logits, before)


def test_greedy_takes_the_first_of_the_largest():
    assert Sampling().choose(np.array([0.0, 5, 5, 1]), [], np.random.default_rng(0)) == 1


@pytest.mark.parametrize(
    "options", [{"top_k": 1}, {"top_p": 1e-9}, {"min_p": 1.0}, {"temperature": 1e-30}], ids=lambda o: next(iter(o))
)
def test_a_single_candidate_is_drawn(options):
    logits = logits_of(50)
    found = Sampling(**{"temperature": 1.0, **options}).choose(logits, [], np.random.default_rng(0))
    assert found == logits.argmax()


def test_tokens_are_drawn_as_often_as_they_are_likely():
    logits, sampling, random = logits_of(6), Sampling(temperature=1.5, top_k=4), np.random.default_rng(0)
    wanted = np.where(logits >= np.sort(logits)[2], softmax(logits / 1.5), 0)
    drawn = np.bincount([sampling.choose(logits, [], random) for _ in range(20_000)], minlength=6)
    np.testing.assert_allclose(drawn / 20_000, wanted / wanted.sum(), atol=0.012)


def test_filters_are_applied_to_what_the_one_before_kept():
    logits = logits_of(200).astype(np.float64)
    tokens, weights = Sampling(temperature=0.7, top_k=20, top_p=0.8, min_p=0.1).distribution(logits)
    kept = np.argsort(-logits)[:20]
    before = np.cumsum(softmax(logits[kept] / 0.7)) - softmax(logits[kept] / 0.7)
    kept = kept[before < 0.8]
    kept = np.sort(kept[softmax(logits[kept] / 0.7) >= 0.1 * softmax(logits[kept] / 0.7).max()])
    np.testing.assert_array_equal(tokens, kept)
    np.testing.assert_allclose(weights, softmax(logits[kept] / 0.7))


def test_a_seed_gives_the_same_numbers_however_many_sequences_there_are():
    one, three = Sampling(seed=7).generators(1), Sampling(seed=7).generators(3)
    assert one[0].random() == three[0].random()
    assert three[1].random() != three[2].random()


def test_without_a_seed_the_numbers_are_others_each_time():
    assert Sampling().generators(1)[0].random() != Sampling().generators(1)[0].random()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("repetition_penalty", 0), ("temperature", -1), ("temperature", float("nan")), ("temperature", True), ("top_p", True), ("top_k", 0), ("top_k", 1.5),
        ("top_p", 0), ("top_p", 1.1), ("min_p", -0.1), ("seed", -1), ("repetition_penalty", float("inf")), ("repetition_penalty", "1"),
        ("temperature", float("inf")), ("temperature", None), ("top_k", True), ("top_k", "1"), ("top_p", "0.5"), ("min_p", 1.1), ("min_p", "0"),
        ("seed", True), ("seed", 0.0),
    ],
)  # fmt: skip
def test_impossible_options_are_refused(option, value):
    with pytest.raises(OptionError, match=re.escape(f"{option}={value!r}, but it is")):
        Sampling(**{option: value})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("repetition_penalty", 1e-9), ("temperature", 0), ("temperature", np.float32(0.5)), ("top_k", 1), ("top_p", 1), ("top_p", 1e-9),
        ("min_p", 0), ("min_p", 1), ("seed", 0),
    ],
)  # fmt: skip
def test_options_at_their_limits_are_taken(option, value):
    assert getattr(Sampling(**{option: value}), option) == value


# -- known answers: the logits processors of transformers 5.23 on these logits -------------------

LOGITS = np.array([1.5, -0.3, 2.2, 0.1, 2.1, -4.0, 0.9, 1.4, -1.2, 0.0, 3.0, 2.9], np.float32)
SEEN = [10, 1, 1, 6]


@pytest.mark.parametrize(
    ("keep", "limit", "kept"),
    [
        (keep_top_k, 4, [2, 4, 10, 11]),
        (keep_top_p, 0.6, [2, 10, 11]),
        (keep_top_p, 0.95, [0, 2, 4, 6, 7, 10, 11]),
        (keep_min_p, 0.2, [0, 2, 4, 7, 10, 11]),
    ],
)
def test_the_kept_tokens_are_those_of_transformers(keep, limit, kept):
    assert keep(LOGITS, limit).tolist() == kept


def test_the_probabilities_are_those_of_transformers():
    sampling = Sampling(repetition_penalty=1.3, temperature=0.7, top_k=6, top_p=0.8, min_p=0.3)
    tokens, weights = sampling.distribution(penalised(LOGITS, SEEN, 1.3))
    assert tokens.tolist() == [2, 4, 10, 11]
    np.testing.assert_allclose(weights, [0.17386855, 0.15072277, 0.20278484, 0.47262383], rtol=1e-6)


def test_the_probabilities_of_few_tokens_are_computed_in_double_precision():
    _, weights = Sampling(temperature=0.7).distribution(logits_of(9))
    np.testing.assert_allclose(weights, softmax(logits_of(9).astype(np.float64) / 0.7), rtol=1e-13)
