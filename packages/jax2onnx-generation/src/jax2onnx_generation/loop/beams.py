"""Beam search: several continuations at once, of which the likeliest is taken."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import ContextFullError, OptionError

from jax2onnx_generation.decoders.decoder import Decoder
from jax2onnx_generation.loop.requests import Beams, Ends
from jax2onnx_generation.loop.results import Stop
from jax2onnx_generation.loop.sequences import nan_error
from jax2onnx_generation.sampling import relative

__all__ = ["Beam", "search"]


@dataclasses.dataclass(frozen=True)
class Beam:
    """A continuation: its tokens, the logarithm of its probability, why it ended, and its score."""

    ids: list[int]
    logarithm: float
    stop: Stop = Stop.LENGTH
    score: float = 0.0

    def ended(self, stop: Stop, penalty: float) -> Beam:
        """The continuation with its score."""
        return dataclasses.replace(self, stop=stop, score=self.logarithm / len(self.ids) ** penalty)


def search(decoder: Decoder, prompt: Sequence[int], ends: Ends, beams: Beams) -> Beam:
    """The continuation of a prompt with the highest score.

    So many continuations as the search is wide go on. Of their likeliest successors, those with a stop token among the first `width`
    end, and the first `width` of the others go on. It is over when as many have ended and none of those that go on has a higher score.

    Args:
      decoder: the decoder, whose number of rows is free.
      prompt: the tokens of the prompt.
      ends: what ends a continuation.
      beams: the width and the penalty.

    Raises:
      OptionError: the model takes a fixed number of sequences.
      RuntimeInputError: the model returned NaN.
    """
    if isinstance(decoder.forms.tokens.batch, int):
        raise OptionError(
            f"The model takes {decoder.forms.tokens.batch} sequences at once, but beams are further ones. Export it with a symbol for "
            "their number, ('B', 'T')."
        )
    logits = decoder.feed(decoder.align([prompt]))
    live, finished, stop = [Beam([], 0.0)], list[Beam](), Stop.LENGTH
    for _ in range(ends.count):
        live, rows, ended = _successors(live, logits, ends, beams)
        finished = sorted([*finished, *ended], key=lambda beam: -beam.score)[: beams.width]
        if _is_over(live, finished, beams) or len(live[0].ids) == ends.count:
            break
        decoder.select(rows)
        try:
            logits = decoder.feed([[beam.ids[-1]] for beam in live])
        except ContextFullError:
            stop = Stop.CONTEXT
            break
    if not _is_over(live, finished, beams):
        finished += [beam.ended(stop, beams.length_penalty) for beam in live]
    return max(finished, key=lambda beam: beam.score)


def _is_over(live: Sequence[Beam], finished: Sequence[Beam], beams: Beams) -> bool:
    if not live:  # there are no tokens but stop tokens
        return True
    best = max(beam.logarithm for beam in live) / len(live[0].ids) ** beams.length_penalty
    return len(finished) >= beams.width and finished[-1].score >= best


def _successors(
    live: Sequence[Beam], logits: Array, ends: Ends, beams: Beams
) -> tuple[list[Beam], list[int], list[Beam]]:
    """The continuations that go on, the rows that they come from, and those that have ended."""
    if np.isnan(logits).any():
        raise nan_error(0, f"{len(live[0].ids)} new")
    scores = np.array([[beam.logarithm] for beam in live]) + _log_softmax(logits)
    size, flat = scores.shape[1], scores.reshape(-1)
    # Each continuation has one successor for each stop token: of so many, `width` are others.
    count = min((1 + max(len(ends.tokens), 1)) * beams.width, flat.size)
    best = np.sort(np.argpartition(-flat, count - 1)[:count])
    goes_on, rows, ended = list[Beam](), list[int](), list[Beam]()
    for rank, place in enumerate(best[np.argsort(-flat[best], kind="stable")]):
        row, token = divmod(int(place), size)
        beam = Beam([*live[row].ids, token], float(flat[place]))
        if token in ends.tokens:
            if rank < beams.width:
                ended.append(beam.ended(Stop.TOKEN, beams.length_penalty))
        elif len(goes_on) < beams.width:
            goes_on.append(beam)
            rows.append(row)
    return goes_on, rows, ended


def _log_softmax(logits: Array) -> Array:
    shifted = relative(logits.astype(np.float64))
    result: Array = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result
