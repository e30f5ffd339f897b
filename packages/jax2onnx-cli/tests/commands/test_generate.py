"""The command that writes: prompts, options, and what is refused."""

from __future__ import annotations

import pytest

DECODER = """
import jax


def decode(tokens, total):
    sums = total[:, None] + tokens.cumsum(axis=1)
    return jax.nn.one_hot(sums % 10, 10), sums[:, -1]
"""


@pytest.fixture
def decoder(directory, jax2onnx):
    """The file of a decoder whose next token is the last digit of the sum of all tokens."""
    (directory / "counting.py").write_text(DECODER)
    specs = ("-i", "tokens: i32[B, T]", "-i", "total: i32[B]", "--states", "total=1", "-q")
    assert jax2onnx("export", "counting.py:decode", *specs).code == 0
    return "decode.onnx"


def test_tokens_are_written_after_tokens(jax2onnx, decoder):
    found = jax2onnx("generate", decoder, "--ids", "1,2,3", "--count", "4")
    assert found.out.splitlines()[0] == "6, 2, 4, 8"


def test_several_prompts_are_written_after(jax2onnx, decoder):
    found = jax2onnx("generate", decoder, "--ids", "1,2", "--ids", "5", "--count", "2")
    assert found.out.splitlines()[:2] == ["3, 6", "5, 0"]


def test_a_token_ends_the_sequence(jax2onnx, decoder):
    found = jax2onnx("generate", decoder, "--ids", "1,2,3", "--stop", "4")
    assert "ended by a stop token" in found.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "Give --prompt TEXT, or --ids N,…"),
        (("--ids", "1", "--prompt", "a"), "Give --prompt TEXT, or --ids N,…"),
        (("--ids", "one"), "tokens are whole numbers with commas"),
        (("--ids", "1", "--role", "tokens"), "write a role and a name, such as tokens=x"),
        (("--ids", "1", "--role", "mask=x", "--role", "mask="), "--role says two things of mask: x and None"),
        (("--ids", "1", "--role", "mask=x"), "roles: mask = 'x', but the inputs that are no states are tokens"),
        (("--ids", "77"), "The prompt has the token 77, but those of the model are from 0 to 9"),
        (("--prompt", "text"), "The prompt is a text: give --tokenizer tokenizer.json"),
        (("--ids", "1", "--limits", "C=3"), "limits: no axis of a state that it can be about is 'C'"),
    ],
)
def test_what_cannot_be_is_refused(jax2onnx, decoder, options, message):
    found = jax2onnx("generate", decoder, *options)
    assert (found.code, message in found.err) == (2, True), found.err
