"""Advice about sizes that layers halve."""

from __future__ import annotations

import jax.numpy as jnp
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_core.symbols._multiples import multiples_that_agree

MESSAGE = "add got incompatible shapes for broadcasting: (B, {}, 8), (B, {}, 8)."


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("- floordiv(- H, 2)", "floordiv(H - 1, 2) + 1", {"H": "2*H"}),
        (
            "- floordiv(floordiv(floordiv(- H, 2), 2), 2)",
            "floordiv(- floordiv(floordiv(- H, 2), 2) - 1, 2) + 1",
            {"H": "8*H"},
        ),
        ("floordiv(H, 2)", "floordiv(W, 2)", {}),
        ("H", "W", {}),
    ],
)
def test_multiples_with_which_shapes_agree(left, right, expected):
    assert multiples_that_agree(MESSAGE.format(left, right)) == expected


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("1, - floordiv(- H, 2), 8", "floordiv(H - 1, 2) + 1, 1", {"H": "2*H"}),
        ("- floordiv(- H, 2)", "8, floordiv(H - 1, 2) + 1", {"H": "2*H"}),
        ("- floordiv(- H, 2), floordiv(W, 2)", "floordiv(H - 1, 2) + 1, floordiv(W, 2)", {"H": "2*H"}),
        ("- floordiv(- H, 2), - floordiv(- W, 4)", "floordiv(H + 1, 2), floordiv(W, 4)", {"H": "4*H", "W": "4*W"}),
        ("floordiv(H, 128)", "- floordiv(- H, 128)", {"H": "128*H"}),
        ("floordiv(H, 256)", "- floordiv(- H, 256)", {}),
        ("floordiv(H, 3)", "- floordiv(- H, 3)", {}),
        ("floordiv(H, 2)", "3", {}),
        ("3, floordiv(H, 2)", "4, - floordiv(- H, 2)", {}),
    ],
)
def test_shapes_with_other_differences(left, right, expected):
    message = f"add got incompatible shapes for broadcasting: ({left}), ({right})."
    assert multiples_that_agree(message) == expected


def test_other_messages_have_no_advice():
    assert multiples_that_agree("floordiv is not what it seems") == {}


def padded_and_cut(x):
    up = jnp.pad(x, ((0, x.shape[0] % 2), (0, 0)))[::2]
    down = x[: 2 * (x.shape[0] // 2) : 2]
    return up + down


def test_the_error_of_an_export_has_the_advice():
    with pytest.raises(TypeError, match="incompatible shapes") as caught:
        to_onnx(padded_and_cut, [("H", 3)])
    assert any("'2*H'" in note for note in caught.value.__notes__)


def test_the_advice_is_right():
    assert to_onnx(padded_and_cut, [("2*H", 3)]).model is not None
