"""Files of named arrays, of any element type."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from jax2onnx_runtime.array_files import UNREADABLE, read_arrays, restored, write_arrays

DTYPES = ["float32", "float64", "int8", "uint64", "bool", "bfloat16", "float8_e4m3fn", "int4"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)], ids=str)
def test_arrays_come_back_bit_by_bit(dtype, shape, tmp_path):
    array = np.asarray(np.arange(np.prod(shape)).reshape(shape) % 2).astype(np.dtype(dtype))
    write_arrays(tmp_path / "a.npz", {"x/y": array})
    found = restored(read_arrays(tmp_path / "a.npz")["x/y"], array.dtype)
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found.astype(np.float32), array.astype(np.float32))


def test_an_array_of_another_type_stays_as_it_was_read():
    assert restored(np.zeros(2, np.float32), np.dtype(ml_dtypes.bfloat16)).dtype == np.float32


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04"])
def test_what_is_no_such_file_raises_what_is_listed(content, tmp_path):
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(UNREADABLE):
        read_arrays(tmp_path / "a.npz")
