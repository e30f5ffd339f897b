"""Texts that come token by token, and what ends them, with a tokenizer of bytes."""

from __future__ import annotations

import pytest
from jax2onnx_generation.texts.streams import StopTexts, TextStream


@pytest.mark.parametrize("text", ["plain", "Grüße", "日本語", "👩‍👩‍👧 family", "e\u0301", ""])
def test_the_pieces_of_a_text_are_the_text(tokenizer, text):
    stream = TextStream(tokenizer, list(b"before"))
    pieces = [stream.add(byte) for byte in text.encode()]
    assert "".join(pieces) + stream.rest() == text


def test_a_character_comes_when_its_bytes_are_whole(tokenizer):
    stream = TextStream(tokenizer)
    assert [stream.add(byte) for byte in "aé".encode()] == ["a", "", "é"]


def test_bytes_that_are_no_character_come_at_the_end(tokenizer):
    stream = TextStream(tokenizer)
    assert (stream.add(0xC3), stream.rest()) == ("", "\ufffd")


def test_the_space_before_a_word_belongs_to_its_piece(words):
    stream = TextStream(words, [0])
    assert [stream.add(1), stream.add(2)] == [" one", " two"]


def test_a_stop_text_may_come_in_pieces():
    ends = StopTexts(["END"])
    assert [ends.add(piece) for piece in ("one E", "N", "D two")] == ["one ", "", ""]
    assert ends.found


def test_what_only_resembles_a_stop_text_is_given_later():
    ends = StopTexts(["END"])
    assert [ends.add(piece) for piece in ("E", "E", "x")] == ["", "E", "Ex"]
    assert not ends.found


def test_the_first_of_several_stop_texts_ends():
    ends = StopTexts(["later", "now"])
    assert ends.add("go now, not later") == "go "


def test_what_was_held_back_is_the_rest():
    ends = StopTexts(["END"])
    ends.add("x EN")
    assert ends.rest() == "EN"


@pytest.mark.parametrize("cut", range(len("hé😀x€y".encode()) + 1))
def test_a_character_that_begins_before_the_first_token_is_given_whole(tokenizer, cut):
    whole = "hé😀x€y".encode()
    before, new = list(whole[:cut]), list(whole[cut:])
    stream = TextStream(tokenizer, before)
    given = "".join(stream.add(token) for token in new) + stream.rest()
    known = whole[:cut].decode(errors="ignore")
    assert given == whole.decode()[len(known) :]
