"""`Contents`: tensors are the same where their bytes in a file are."""

from __future__ import annotations

import numpy as np
import pytest
from jax2onnx_graph import ir
from jax2onnx_graph.saving.contents import Contents

NUMBERS = np.arange(12, dtype=np.float32).reshape(3, 4)


SAME = {
    "copy": NUMBERS.copy(),
    "other shape": NUMBERS.reshape(12),
    "other layout in memory": np.asfortranarray(NUMBERS),
    "other type": NUMBERS.view(np.int32),
}
DIFFERENT = {
    "transposed": NUMBERS.T,
    "one bit": np.where(NUMBERS == 0, np.float32(-0.0), NUMBERS),
    "longer": np.append(NUMBERS, np.float32(0)),
}


@pytest.mark.parametrize("form", SAME)
def test_equal_bytes_are_one_content(form):
    contents = Contents()
    assert contents.content(ir.Tensor(NUMBERS)) == contents.content(ir.Tensor(SAME[form]))


@pytest.mark.parametrize("form", DIFFERENT)
def test_other_bytes_are_another_content(form):
    contents = Contents()
    assert contents.content(ir.Tensor(NUMBERS)) != contents.content(ir.Tensor(DIFFERENT[form]))


def test_a_layout_that_is_changed_lazily_counts():
    contents = Contents()
    lazy = ir.LazyTensor(lambda: ir.Tensor(NUMBERS.T), dtype=ir.DataType.FLOAT, shape=ir.Shape([4, 3]))
    assert contents.content(lazy) == contents.content(ir.Tensor(np.ascontiguousarray(NUMBERS.T)))


def test_a_tensor_is_read_once():
    reads = []

    def read():
        reads.append(1)
        return ir.Tensor(NUMBERS)

    tensor, contents = ir.LazyTensor(read, dtype=ir.DataType.FLOAT, shape=ir.Shape([3, 4])), Contents()
    assert contents.content(tensor) == contents.content(tensor)
    assert len(reads) == 1
