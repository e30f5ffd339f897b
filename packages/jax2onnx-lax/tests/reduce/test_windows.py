"""Windows over every axis of an operand: where there is something to do, what they cover, how many there are."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax2onnx_lax.reduce._windows import Windows

#: Windows over two axes, of which one field is another one.
CHANGES: dict[str, dict[str, Any]] = {
    "none": {},
    "a size": {"window_dimensions": (1, 3)},
    "the size of an axis": {"window_dimensions": (1, 6)},
    "a stride": {"window_strides": (2, 1)},
    "padding in front": {"padding": [(0, 0), (2, 0)]},
    "padding behind": {"padding": [(0, 1), (0, 0)]},
    "less than all": {"padding": [(0, 0), (-1, 0)], "window_dimensions": (1, 5)},
    "gaps in one axis": {"base_dilation": (1, 2)},
    "gaps in both axes": {"base_dilation": (2, 2)},
    "gaps in a window": {"window_dilation": (1, 2), "window_dimensions": (1, 3)},
    "all": {"window_dimensions": (2, 3), "window_strides": (2, 1), "padding": [(1, 0), (0, 2)], "base_dilation": (1, 3),
            "window_dilation": (1, 2)},
    "more than there is": {"window_dimensions": (9, 1)},
}  # fmt: skip
PLAIN: dict[str, Any] = {"window_dimensions": (1, 1), "window_strides": (1, 1), "padding": [(0, 0), (0, 0)]}
#: What each of them does: the axes with anything to do, whether something else than elements is covered, whether all are at once.
FOUND = {
    "none": ([], False, False),
    "a size": ([1], False, False),
    "the size of an axis": ([1], False, True),
    "a stride": ([0], False, False),
    "padding in front": ([1], True, False),
    "padding behind": ([0], True, False),
    "less than all": ([1], True, False),
    "gaps in one axis": ([1], True, False),
    "gaps in both axes": ([0, 1], True, False),
    "gaps in a window": ([1], False, False),
    "all": ([0, 1], True, False),
    "more than there is": ([0], False, False),
}
X = np.arange(1, 25, dtype=np.float32).reshape(4, 6)


def _windows(name: str) -> Windows:
    return Windows.from_params(**{**PLAIN, **CHANGES[name]})


@pytest.mark.parametrize("name", CHANGES)
def test_what_windows_do(name: str) -> None:
    windows = _windows(name)
    assert (windows.active, windows.has_gaps, windows.covers(X.shape)) == FOUND[name]


@pytest.mark.parametrize("name", CHANGES)
def test_the_number_of_windows_is_that_of_jax(name: str) -> None:
    reduced = lax.reduce_window(X, 0.0, lax.add, **{**PLAIN, **CHANGES[name]})
    assert _windows(name).counts(X.shape) == reduced.shape


@pytest.mark.parametrize("name", CHANGES)
def test_an_operand_is_padded_as_windows_see_it(name: str) -> None:
    windows = _windows(name)
    padded = windows.pad(jnp.asarray(X), np.float32(-1))
    assert padded.shape == windows.padded(X.shape)
    plain = {
        name: given for name, given in {**PLAIN, **CHANGES[name]}.items() if name not in ("padding", "base_dilation")
    }
    expected = lax.reduce_window(X, -1.0, lax.max, **{**PLAIN, **CHANGES[name]})
    np.testing.assert_array_equal(
        lax.reduce_window(padded, -1.0, lax.max, **{**plain, "padding": PLAIN["padding"]}), expected
    )


def test_a_size_that_is_a_symbol() -> None:
    (n,) = jax.export.symbolic_shape("n")
    windows = Windows.from_params(**{**PLAIN, "window_dimensions": (1, n)})
    assert windows.covers((4, n))
    assert not windows.covers((n, 4))
    assert windows.counts((4, n)) == (4, 1)
