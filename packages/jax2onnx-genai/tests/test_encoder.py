"""What a decoder takes from an encoder, read from the types of the encoder's results."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from jax2onnx_genai._encoder import crossing
from jax2onnx_graph.errors import OptionError
from jax2onnx_runtime.bundles.links import Link

LINKS = [Link("encode", kind, "decode", f"cross_{kind}") for kind in ("key", "value")]


def encoder(features: str, result: str) -> ir.Model:
    """An encoder with keys and values of one type."""
    return ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["" : 21]>\n'
        f"g (float[{features}] x) => (float[{result}] key, float[{result}] value) {{ key = Cast<to = 1>(x) value = Cast<to = 1>(x) }}"
    )


@pytest.mark.parametrize(
    ("result", "perm", "heads", "features"),
    [
        ("B,1500,2,8", (0, 2, 1, 3), 2, 8),
        ("1,1500,2,8", (0, 2, 1, 3), 2, 8),
        ("B,2,1500,8", (0, 1, 2, 3), 2, 8),
        ("B,2,8,1500", (0, 1, 3, 2), 2, 8),
        ("B,1500,1,8", (0, 2, 1, 3), 1, 8),
        ("B,1500,2,1500", (0, 2, 1, 3), 2, 1500),
        ("B,2,1500,1500", (0, 1, 2, 3), 2, 1500),
    ],
)
def test_the_axis_of_1500_is_that_of_the_places(result, perm, heads, features):
    found = crossing(encoder("B,3000,6", result), LINKS)
    assert (found.layers, found.heads, found.features) == (1, heads, features)
    assert {name: tuple(axes) for name, axes in found.perms.items()} == dict.fromkeys(
        ("cross_key", "cross_value", "key", "value"), perm
    )
    assert found.inputs == {"cross_key": "past_key_cross_0", "cross_value": "past_value_cross_0"}
    assert found.outputs == {"key": "present_key_cross_0", "value": "present_value_cross_0"}


@pytest.mark.parametrize(
    ("result", "perm"),
    [('B,"floordiv(T, 2)",2,8', (0, 2, 1, 3)), ('B,2,"floordiv(T, 2)",8', (0, 1, 2, 3)), ('B,2,"T - 1500",1500', (0, 1, 2, 3)), ('B,1500,2,"T - 1500"', (0, 1, 3, 2))],
)  # fmt: skip
def test_an_axis_of_1500_at_3000_frames_is_that_of_the_places(result, perm):
    assert tuple(crossing(encoder("B,T,6", result), LINKS).perms["cross_key"]) == perm


@pytest.mark.parametrize(
    ("features", "result"),
    [
        ("B,T,6", 'B,"floordiv(T, 3)",2,8'),
        ("B,3000,6", "B,1501,2,8"),
        ("B,3000,6", "1500,2,8,4"),
        ("B,3000,6", "B,1500,B,8"),
        ("B,T,6", 'B,"floordiv(T, 2)","T - 1500",8'),
        ("B,T,6", 'B,1500,"T - 1500"'),
    ],
)
def test_other_places_are_refused(features, result):
    with pytest.raises(OptionError, match="of the encoder has no axis of 1500 places"):
        crossing(encoder(features, result), LINKS[: 1 if result.count(",") == 2 else 2])


@pytest.mark.parametrize("features", ["B,B,6", "B,3000,3000", "B,2999,6", "B,6,T", "3000,6"])
def test_what_may_be_the_frames(features):
    if features == "B,6,T":
        assert crossing(encoder(features, "B,1500,2,8"), LINKS).layers == 1
        return
    with pytest.raises(OptionError, match="The runtime feeds features alone"):
        crossing(encoder(features, "B,1500,2,8"), LINKS)
