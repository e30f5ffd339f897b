"""One sequence that is being written: what ends it, and the text that is certain."""

from __future__ import annotations

import numpy as np
import pytest
from jax2onnx_generation.loop.requests import Ends, Request
from jax2onnx_generation.loop.results import Generation, Stop, Written
from jax2onnx_generation.loop.sequences import WrittenSequence
from jax2onnx_generation.sampling import Sampling
from jax2onnx_graph.errors import RuntimeInputError


def sequence(request: Request, prompt: str = "ab") -> WrittenSequence:
    return WrittenSequence(2, list(prompt.encode()), request, np.random.default_rng(0))


def added(one: WrittenSequence, text: str) -> list[tuple[str, Stop | None]]:
    """The text and the end of each piece that is added."""
    found = []
    for token in text.encode():
        piece = one.add(token)
        assert (piece.sequence, piece.token) == (2, token)
        found.append((piece.text, piece.stop))
        if piece.stop is not None:
            break
    return found


@pytest.mark.parametrize(
    ("ends", "text", "pieces"),
    [
        (Ends(3), "xyz", [("x", None), ("y", None), ("z", Stop.LENGTH)]),
        (Ends(9, frozenset(b"!")), "x!y", [("x", None), ("", Stop.TOKEN)]),
        (Ends(2, frozenset(b"!")), "x!", [("x", None), ("", Stop.TOKEN)]),
        (Ends(9, texts=("yz",)), "xyzw", [("x", None), ("", None), ("", Stop.TEXT)]),
        (Ends(9, texts=("yz",)), "xyw", [("x", None), ("", None), ("yw", None)]),
        (Ends(2, texts=("yz",)), "xy", [("x", None), ("y", Stop.LENGTH)]),
        (Ends(3, texts=("yz",)), "xyz", [("x", None), ("", None), ("", Stop.TEXT)]),
        (Ends(9, frozenset(b"!"), ("yz",)), "xy!", [("x", None), ("", None), ("y", Stop.TOKEN)]),
    ],
)
def test_what_ends_a_sequence(tokenizer, ends, text, pieces):
    one = sequence(Request(ends, tokenizer=tokenizer))
    assert added(one, text) == pieces
    assert one.stop is pieces[-1][1]
    assert (one.ids, bytes(one.tokens)) == (list(text.encode())[: len(pieces)], b"ab" + text.encode()[: len(pieces)])
    assert one.left == ends.count - len(pieces)
    if one.stop is not None:
        assert one.written() == Written(one.ids, "".join(text for text, _ in pieces), one.stop)


def test_without_a_tokenizer_there_is_no_text():
    one = sequence(Request(Ends(2)))
    assert added(one, "xy") == [("", None), ("", Stop.LENGTH)]


def test_a_sequence_is_ended_from_outside(tokenizer):
    one = sequence(Request(Ends(9), tokenizer=tokenizer))
    one.add(ord("x"))
    piece = one.end(one.add(ord("y")), Stop.CONTEXT)
    assert (piece.token, piece.text, piece.stop) == (ord("y"), "y", Stop.CONTEXT)
    assert one.written() == Written([ord("x"), ord("y")], "xy", Stop.CONTEXT)


@pytest.mark.parametrize("temperature", [0, 1])
@pytest.mark.parametrize("place", [0, 2])
def test_logits_that_are_nan_are_no_choice(temperature, place):
    one = sequence(Request(Ends(3), Sampling(temperature=temperature)))
    assert one.choose(np.array([-1e9, 2.0, -1e9], np.float32)) == 1
    logits = np.array([0.0, 2.0, 1.0], np.float32)
    logits[place] = np.nan
    with pytest.raises(RuntimeInputError, match="The model returned NaN for sequence 2 after 2 tokens"):
        one.choose(logits)


def test_a_guess_counts_the_tokens_that_were_guessed_before():
    one = sequence(Request(Ends(3), Sampling(repetition_penalty=100.0)), "\0")
    logits = np.array([4.0, 3.0, 2.0, 1.0], np.float32)
    assert [one.guess(logits, further) for further in ([], [1], [1, 2])] == [1, 2, 3]
    assert (one.ids, one.tokens) == ([], [0])


def test_what_was_generated():
    written = [
        Written([1, 2, 3], "one", Stop.LENGTH),
        Written([4], "two", Stop.TOKEN, 0.5),
        Written([], "", Stop.LENGTH),
    ]
    found = Generation(written, 7, 2.0, drafted=4, accepted=3)
    assert found.ids == [[1, 2, 3], [4], []]
    assert (found.texts, found.text) == (["one", "two", ""], "one")
    assert found.stops == [Stop.LENGTH, Stop.TOKEN, Stop.LENGTH]
    assert (found.tokens_per_second, found.accept_rate) == (2.0, 0.75)
    assert (
        repr(found) == "Generation(3 sequences, 4 tokens, 2 a second, ended by the number of new tokens, a stop token)"
    )
    assert Generation([], 0, 0.0).accept_rate == Generation([], 0, 0.0).tokens_per_second == 0
