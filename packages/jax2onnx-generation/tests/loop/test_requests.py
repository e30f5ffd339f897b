"""Prompts as people give them, and options that cannot be."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from jax2onnx_generation.loop.requests import Beams, Ends, Request, ends_of, prompt_rows
from jax2onnx_generation.sampling import Sampling
from jax2onnx_graph.errors import OptionError, RuntimeInputError


@pytest.mark.parametrize(
    ("prompt", "rows"),
    [
        ([1, 2], [[1, 2]]),
        ((1, 2), [[1, 2]]),
        (np.array([1, 2]), [[1, 2]]),
        ([np.int64(1), 2], [[1, 2]]),
        ([[1, 2], [3]], [[1, 2], [3]]),
        ([np.array([1, 2]), [3]], [[1, 2], [3]]),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        ("ab", [[97, 98]]),
        (["a", "bc"], [[97], [98, 99]]),
        (["a", [5]], [[97], [5]]),
        ([], [[]]),
        ([[], [1]], [[], [1]]),
    ],
)
def test_prompts_are_rows_of_tokens(tokenizer, prompt, rows):
    assert prompt_rows(prompt, tokenizer, 256) == rows


@pytest.mark.parametrize(
    ("before", "rows"),
    [([], [[1, 97], [1, 98]]), ([[5], [6]], [[97], [98]]), ([[], [6]], [[1, 97], [98]]), ([[]], [[1, 97], [1, 98]])],
)
def test_a_token_begins_the_texts_that_follow_nothing(tokenizer, monkeypatch, before, rows):
    encode = tokenizer.encode

    def begun(text: str, *, add_special_tokens: bool = True) -> SimpleNamespace:
        return SimpleNamespace(ids=[1] * add_special_tokens + encode(text).ids)

    monkeypatch.setattr(tokenizer, "encode", begun)
    assert prompt_rows(["a", "b"], tokenizer, 256, before) == rows


@pytest.mark.parametrize(
    "prompt",
    [
        3,
        [1.5],
        [[1, [2]]],
        np.zeros((1, 1, 1), int),
        np.array(3),
        np.array("a"),
        [True],
        {"a": 1},
        [None],
        b"ab",
        bytearray(b"ab"),
    ],
)
def test_what_is_no_prompt_is_refused(prompt):
    with pytest.raises(RuntimeInputError, match="A prompt is a list of ids"):
        prompt_rows(prompt, None, None)


@pytest.mark.parametrize("token", [-1, 100])
def test_tokens_that_the_model_lacks_are_refused(token):
    with pytest.raises(
        RuntimeInputError, match=f"The prompt has the token {token}, but those of the model are from 0 to 99"
    ):
        prompt_rows([1, token], None, 100)


def test_a_text_needs_a_tokenizer():
    with pytest.raises(RuntimeInputError, match="The prompt is a text: give tokenizer="):
        prompt_rows("text", None, None)


@pytest.mark.parametrize(
    ("stop", "ends"),
    [
        ((), Ends(5)),
        (2, Ends(5, frozenset({2}))),
        ("END", Ends(5, frozenset(), ("END",))),
        ([2, "END", np.int32(3)], Ends(5, frozenset({2, 3}), ("END",))),
    ],
)
def test_sequences_end_by_tokens_and_texts(stop, ends):
    assert ends_of(5, stop) == ends


@pytest.mark.parametrize("stop", [1.5, [None], [""], True, b"END", [b"END"]])
def test_other_ends_are_refused(stop):
    with pytest.raises(OptionError, match="stop has tokens and texts"):
        ends_of(5, stop)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ends": Ends(5, texts=("END",))}, "a stop text needs a tokenizer"),
        ({"beams": Beams(2), "sampling": Sampling(temperature=1.0)}, "they have no temperature"),
        ({"beams": Beams(2), "sampling": Sampling(repetition_penalty=2.0)}, "they have no temperature"),
        (
            {"ends": Ends(2), "beams": Beams(2, 1010.0)},
            "length_penalty=1010.0, but 2 new tokens to this power are no number",
        ),
        ({"ends": Ends(2), "beams": Beams(2, -1010.0)}, "length_penalty=-1010.0, but 2 new tokens"),
        ({"chunk": True}, "prefill_chunk=True, but it is"),
        ({"chunk": 1.0}, "prefill_chunk=1.0, but it is"),
        ({"drafts": True}, "draft_tokens=True, but it is"),
        ({"chunk": 0}, "prefill_chunk=0, but it is"),
        ({"drafts": 0}, "draft_tokens=0, but it is"),
    ],
)
def test_impossible_requests_are_refused(options, message):
    given: dict[str, Any] = {"ends": Ends(5), **options}
    with pytest.raises(OptionError, match=re.escape(message)):
        Request(**given)


def test_beams_have_no_stop_texts(tokenizer):
    with pytest.raises(OptionError, match="no stop texts"):
        Request(Ends(5, texts=("END",)), tokenizer=tokenizer, beams=Beams(2))
    assert Request(Ends(5, texts=("END",)), Sampling(repetition_penalty=2.0), tokenizer, chunk=1, drafts=1).chunk == 1


@pytest.mark.parametrize("penalty", [float("nan"), float("inf"), "1", None, True])
def test_the_penalty_of_a_length_is_a_number(penalty):
    with pytest.raises(OptionError, match="length_penalty="):
        Beams(2, penalty)


def test_the_power_of_a_length_is_a_number():
    assert Request(Ends(2), beams=Beams(2, 1009.0)).beams.length_penalty == 1009
    assert Request(Ends(1), beams=Beams(2, 1e300)).beams.length_penalty == 1e300


def test_without_a_vocabulary_tokens_are_numbers_from_0_on():
    assert prompt_rows([0, 10**6], None, None) == [[0, 10**6]]
    with pytest.raises(RuntimeInputError, match="The prompt has the token -1, but tokens are numbers from 0 on"):
        prompt_rows([1, -1], None, None)


@pytest.mark.parametrize("count", [0, 1.5, True])
def test_the_number_of_new_tokens_is_whole(count):
    with pytest.raises(OptionError, match="max_new_tokens="):
        ends_of(count, ())


@pytest.mark.parametrize("width", [0, 1.5, True])
def test_the_number_of_beams_is_whole(width):
    with pytest.raises(OptionError, match="beams="):
        Beams(width)
