"""Times as people read them."""

from __future__ import annotations

import pytest
from jax2onnx_graph.durations import duration_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(75.0, "75 s"), (1.0, "1 s"), (0.9994, "999 ms"), (0.001, "1 ms"), (9.87654e-4, "988 µs"), (0.0, "0 µs")],
)
def test_a_time_has_three_digits(seconds, text):
    assert duration_text(seconds) == text
