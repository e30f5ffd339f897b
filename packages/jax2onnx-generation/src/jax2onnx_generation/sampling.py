"""`Sampling`: how the next token is chosen from logits."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Collection

import numpy as np
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import OptionError

__all__ = ["Sampling", "is_number", "is_whole", "keep_min_p", "keep_top_k", "keep_top_p", "penalised", "relative"]

# The most likely tokens that are looked at before all are sorted.
_FEW = 128
_BLOCK = 32
# So many are sorted as quickly as they are searched.
_SORTED = 2**15


@dataclasses.dataclass(frozen=True)
class Sampling:
    """Options for choosing the next token, applied in the order in which they stand here.

    Attributes:
      repetition_penalty: logits of tokens that were there before are divided by it where positive, multiplied where negative
        (Keskar et al. 2019, CTRL).
      temperature: logits are divided by it; 0 takes the most likely token, the first of several.
      top_k: only so many of the most likely tokens are kept, and those as likely as the last of them.
      top_p: the most likely tokens are kept until their probabilities together reach it (Holtzman et al. 2019).
      min_p: tokens are kept whose probability is at least this part of the largest one (Nguyen et al. 2024).
      seed: that of the random numbers; None for other ones each time.
    """

    repetition_penalty: float = 1.0
    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        penalty, temperature = self.repetition_penalty, self.temperature
        positive = is_number(penalty) and 0 < penalty < math.inf
        _check(positive, "repetition_penalty", penalty, "a number above 0; 1 changes nothing")
        has_temperature = is_number(temperature) and 0 <= temperature < math.inf
        _check(has_temperature, "temperature", temperature, "a number from 0 on; 0 is greedy")
        _check(self.top_k is None or is_whole(self.top_k, 1), "top_k", self.top_k, "a whole number from 1 on")
        has_mass = self.top_p is None or (is_number(self.top_p) and 0 < self.top_p <= 1)
        _check(has_mass, "top_p", self.top_p, "a number above 0 and up to 1")
        has_part = self.min_p is None or (is_number(self.min_p) and 0 <= self.min_p <= 1)
        _check(has_part, "min_p", self.min_p, "a number from 0 to 1")
        _check(self.seed is None or is_whole(self.seed, 0), "seed", self.seed, "a whole number from 0 on")

    def generators(self, count: int) -> list[np.random.Generator]:
        """A source of random numbers for each of several sequences; the numbers of one do not depend on how many others there are."""
        if self.seed is None:
            return [np.random.default_rng() for _ in range(count)]
        return [np.random.default_rng([self.seed, number]) for number in range(count)]

    def choose(self, logits: Array, seen: Collection[int], random: np.random.Generator) -> int:
        """The next token of a sequence.

        Args:
          logits: [V]; they are not changed.
          seen: the tokens before it, for the repetition penalty.
          random: gives the random number, where there is a temperature.
        """
        if self.repetition_penalty != 1:
            logits = penalised(logits, seen, self.repetition_penalty)
        if not self.temperature:
            return int(logits.argmax())
        tokens, weights = self.distribution(logits)
        sums = np.cumsum(weights)
        place = int(np.searchsorted(sums, random.random() * sums[-1], side="right"))
        return int(tokens[min(place, len(tokens) - 1)])

    def distribution(self, logits: Array) -> tuple[Array, Array]:
        """The tokens that may be drawn from (penalised) logits [V], and their probabilities: [N] and [N]."""
        # The largest logits are the largest after a division, too.
        tokens = np.arange(len(logits)) if self.top_k is None else keep_top_k(logits, self.top_k)
        kept = logits[tokens] if len(tokens) > _FEW else logits[tokens].astype(np.float64)
        # A temperature that the type does not hold is neither 0 nor infinite.
        limits = np.finfo(kept.dtype)
        with np.errstate(over="ignore"):
            kept = relative(kept) / kept.dtype.type(min(max(self.temperature, limits.tiny), limits.max))
        for limit, keep in ((self.top_p, keep_top_p), (self.min_p, keep_min_p)):
            if limit is not None:
                inside = keep(kept, limit)
                tokens, kept = tokens[inside], kept[inside]
        weights = np.exp(kept - kept.max())
        return tokens, weights / weights.sum(dtype=np.float64)


def relative(logits: Array) -> Array:
    """Logits [..., V] less the largest of each row; where some are infinite, these are 0, and the others minus infinity."""
    largest = logits.max(axis=-1, keepdims=True)
    with np.errstate(over="ignore", invalid="ignore"):
        shifted: Array = logits - largest
    return shifted if np.isfinite(largest).all() else np.where(logits == largest, logits.dtype.type(0), shifted)


def penalised(logits: Array, seen: Collection[int], penalty: float) -> Array:
    """Logits [V] with those of the tokens `seen` made less likely by a penalty above 1."""
    changed, tokens = logits.copy(), np.unique(np.fromiter(seen, np.int64, len(seen)))
    found = changed[tokens]
    changed[tokens] = np.where(found < 0, found * penalty, found / penalty)
    return changed


def keep_top_k(logits: Array, count: int) -> Array:
    """The indices, ascending, of the largest logits and of those that are as large as the last of them."""
    if count >= len(logits):
        return np.arange(len(logits))
    few = _with_largest(logits, count)
    found = logits[few]
    return few[found >= np.partition(found, len(found) - count)[len(found) - count]]


def keep_top_p(logits: Array, mass: float) -> Array:
    """The indices, ascending, of the most likely tokens: those before which the probabilities do not reach `mass` yet."""
    weights = np.exp(logits - logits.max())
    total, count = weights.sum(dtype=np.float64), _FEW
    while True:
        few = _with_largest(weights, count)
        order = few[np.argsort(-weights[few], kind="stable")]
        sums = np.cumsum(weights[order], dtype=np.float64)
        if sums[-1] >= mass * total or len(few) == len(weights):
            return np.sort(order[: 1 + int(np.count_nonzero(sums[:-1] < mass * total))])
        count = len(weights) if len(weights) <= _SORTED else 8 * count


def keep_min_p(logits: Array, part: float) -> Array:
    """The indices, ascending, of the tokens whose probability is at least this part of the largest one."""
    least = math.log(part) if part else -math.inf
    return np.flatnonzero(logits - logits.max() >= least)


def _with_largest(values: Array, count: int) -> Array:
    """The indices, ascending, of the `count` largest numbers, of those that are as large as one of them, and of some others.

    So many blocks of numbers have a largest one above the bound that is found, and finding it is far quicker than sorting.
    """
    blocks = values[: len(values) // _BLOCK * _BLOCK].reshape(-1, _BLOCK).max(axis=1)
    if len(blocks) <= count:
        return np.arange(len(values))
    return np.flatnonzero(values >= np.partition(blocks, len(blocks) - count)[len(blocks) - count])


def is_number(value: object) -> bool:
    """Whether an option is a real number; booleans are none."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def is_whole(number: object, least: int) -> bool:
    """Whether an option is a whole number from `least` on."""
    return isinstance(number, int) and not isinstance(number, bool) and number >= least


def _check(fits: bool, option: str, value: object, wanted: str) -> None:
    if not fits:
        raise OptionError(f"{option}={value!r}, but it is {wanted}.")
