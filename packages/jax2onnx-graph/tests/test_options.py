"""Values of options, and Python numbers as arrays: what is taken, and what is refused by its name."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from jax2onnx_graph.arrays import number_array
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.options import check_count, check_flag, check_list, check_mapping, check_tolerance


@pytest.mark.parametrize(
    ("check", "taken", "refused"),
    [
        (lambda value: check_flag("option", value), [True, False, None], [0, 1, "yes", []]),
        (lambda value: check_mapping("option", value, "names"), [{}, {"a": 1}, None], [[], "a", 0]),
        (lambda value: check_list("option", value, "names"), [[], (), "text", None], [{}, 0, {1}]),
        (lambda value: check_count("option", value), [0, 1, None], [-1, True, 1.0, "1"]),
        (lambda value: check_count("option", value, least=2), [2, 3, None], [1, 0]),
        (
            lambda value: check_tolerance("option", value),
            [0, 0.5, np.float32(1), 7, None],
            [-1e-9, True, np.inf, np.nan, "0.1"],
        ),
    ],
    ids=["flag", "mapping", "list", "count", "count from 2", "tolerance"],
)
def test_other_values_are_refused(check, taken, refused):
    for value in taken:
        check(value)
    for value in refused:
        with pytest.raises(OptionError, match=r"^option "):
            check(value)


@pytest.mark.parametrize(
    ("number", "dtype", "expected"),
    [
        (True, np.bool_, True), (7, np.int8, 7), (-128, np.int8, -128), (127, np.int8, 127), (7, np.float32, 7.0), (1.5, np.float16, 1.5),
        (7, ml_dtypes.int4, 7), (1.5, np.complex64, 1.5 + 0j), (2j, np.complex64, 2j), (float("inf"), np.float16, float("inf")),
        (1.1, ml_dtypes.bfloat16, 1.1015625), (2**64 - 1, np.uint64, 2**64 - 1), (10**30, np.float64, 1e30), (448.0, ml_dtypes.float8_e4m3fn, 448.0),
    ],
)  # fmt: skip
def test_a_number_becomes_an_array_of_no_axes(number, dtype, expected):
    array = number_array(number, np.dtype(dtype))
    assert array.shape == ()
    assert array.dtype == dtype
    assert array.item() == expected


@pytest.mark.parametrize(
    ("number", "dtype", "message"),
    [
        (1, np.bool_, "1 is a int, which bool does not hold"), (True, np.int8, "True is a bool"), (True, np.float32, "True is a bool"),
        (1.0, np.int32, "1.0 is a float, which int32 does not hold"), (1j, np.float32, "1j is a complex"),
        (128, np.int8, "128 does not fit int8, which holds -128 to 127"), (-129, np.int8, "does not fit int8"), (-1, np.uint8, "holds 0 to 255"),
        (1e39, np.float32, "would become infinite"), (-(10**400), np.float32, "would become infinite"), (1e39j, np.complex64, "become infinite"),
        (500.0, ml_dtypes.float8_e4m3fn, "would become NaN"), (8, ml_dtypes.int4, "holds -8 to 7"),
    ],
)  # fmt: skip
def test_a_number_that_a_type_does_not_have_is_refused(number, dtype, message):
    with pytest.raises(ValueError, match=message):
        number_array(number, np.dtype(dtype))
