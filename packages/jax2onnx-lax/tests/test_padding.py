"""The arithmetic of padding agrees with what JAX itself pads by."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import export
from jax2onnx_lax.padding import canonical_padding, is_same_padding, same_padding

SIZES = st.integers(1, 9)


@given(size=SIZES, window=SIZES, stride=SIZES)
def test_same_padding_is_that_of_a_convolution(size, window, stride):
    ((low, high),) = same_padding([size], [window], [stride])
    count = (size + low + high - window) // stride + 1
    assert count == -(-size // stride)
    assert low <= high <= low + 1


def test_same_padding_of_a_symbolic_size_is_static_where_the_stride_is_one():
    (size,) = export.symbolic_shape("n")
    assert same_padding([size], [4], [1]) == ((1, 2),)
    assert not isinstance(same_padding([size], [3], [2])[0][1], int)


def test_pairs_are_recognised_as_same_padding_for_every_size():
    (size,) = export.symbolic_shape("n")
    assert is_same_padding(same_padding([size], [3], [2]), [size], [3], [2])
    assert not is_same_padding([(1, 1)], [size], [3], [2])


@pytest.mark.parametrize(
    ("padding", "canonical"),
    [("SAME", "SAME"), (2, ((2, 2), (2, 2))), ((1, 2), ((1, 1), (2, 2))), ([(1, 2), [0, 3]], ((1, 2), (0, 3)))],
)
def test_a_framework_s_padding_becomes_pairs(padding, canonical):
    assert canonical_padding(padding, 2) == canonical


def test_padding_for_another_number_of_axes_is_refused():
    with pytest.raises(ValueError, match="for 3 axes, not 2"):
        canonical_padding([1, 2, 3], 2)
