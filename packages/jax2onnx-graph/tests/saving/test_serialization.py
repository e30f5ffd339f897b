"""The bytes of tensors, as files have them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from jax2onnx_graph import ir
from jax2onnx_graph.saving.serialization import piece_blocks, piece_bytes


@pytest.mark.parametrize("shape", [(3, 5), (700, 130), (2, 65, 900), (64, 1), (4097,), (2, 5000), (5000, 2)])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int8, np.bool_])
def test_views_are_copied_in_order(shape: tuple[int, ...], dtype: type[np.generic]) -> None:
    array = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    for view in (array.T, array[::-1], array[..., ::2]):
        assert bytes(piece_bytes(ir.Tensor(view))) == view.tobytes()


def test_a_large_view_is_copied_in_parts() -> None:
    view = np.zeros((2048, 2048), np.float32).T
    assert len(list(piece_blocks(ir.Tensor(view)))) > 1
