"""`convert_element_type` between all pairs of dtypes, on any values: the law is JAX's own result.

XLA's CPU backend treats subnormal numbers as zero when it computes in float32 or float64, ONNX Runtime does
not; the tests do not feed them.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import lax
from jax2onnx_core import to_onnx
from jax2onnx_testing.reference import WHOLE_COMPILER_OPTIONS

pytestmark = pytest.mark.sampled(24)

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_FLOATS = ("float16", "bfloat16", "float32", "float64")
_FLOAT8 = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
_DTYPES = ("bool", *_INTEGERS, *_FLOATS, *_FLOAT8)
_SIZE = 16


def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(vars(ml_dtypes)[name]) if name in vars(ml_dtypes) else np.dtype(name)


@functools.cache
def _programs(source: str, target: str) -> tuple[Any, Any]:
    """JAX's conversion of 16 elements, compiled, and the exported one."""

    def convert(x: Any) -> Any:
        return lax.convert_element_type(x, _dtype(target))

    with jax.enable_x64(True):
        exported = to_onnx(convert, [jax.ShapeDtypeStruct((_SIZE,), _dtype(source))])
    return jax.jit(convert, compiler_options=WHOLE_COMPILER_OPTIONS), exported


def _numbers(name: str) -> st.SearchStrategy[list[Any]]:
    """16 values of a dtype: any integer, or floats of all magnitudes with what is near every boundary."""
    if name == "bool":
        element: st.SearchStrategy[Any] = st.booleans()
    elif name in _INTEGERS:
        info = np.iinfo(name)
        element = st.integers(int(info.min), int(info.max))
    else:
        near = st.tuples(st.integers(-10, 64), st.integers(-3, 3)).map(lambda t: 2.0 ** t[0] + t[1])
        element = st.one_of(st.floats(), st.floats(-300, 300), near, near.map(lambda v: -v))
    return st.lists(element, min_size=_SIZE, max_size=_SIZE)


def _without_subnormals(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    smallest = 2.0**-126
    wide = array.astype(np.float64)
    return np.where(np.abs(wide) < smallest, np.zeros_like(array), array)


def _same(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> bool:
    """Bit for bit, but for the payload of NaN."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    unsigned = np.dtype(f"u{want.dtype.itemsize}")
    equal = got.view(unsigned) == want.view(unsigned)
    if want.dtype.name in _FLOATS + _FLOAT8:
        equal |= np.isnan(got) & np.isnan(want)
    return bool(equal.all())


@pytest.mark.parametrize("target", _DTYPES)
@pytest.mark.parametrize("source", _DTYPES)
def test_conversion_equals_jax(source: str, target: str) -> None:
    if source == target:
        pytest.skip("A conversion to the same dtype is the identity.")
    reference, exported = _programs(source, target)

    @given(_numbers(source))
    def check(values: list[Any]) -> None:
        with np.errstate(all="ignore"):
            array = np.array(values, np.float64 if "float" in source else None).astype(_dtype(source))
        if source in _FLOATS:
            array = _without_subnormals(array)
        with jax.enable_x64(True):
            want = np.asarray(reference(array))
            got = np.asarray(exported(array))
        if target in ("float32", "float64", "bfloat16"):
            want, got = _without_subnormals(want), _without_subnormals(got)
        assert _same(got, want), f"{array} became {got} instead of {want}"

    check()


def test_float64_is_rounded_once_to_float16():
    """By way of float32, numbers near the middle between two of float16 would come to lie in it."""
    middles = np.arange(1.0, 65536.0, 97.0) + 1 / 3
    middles = (
        middles.astype(np.float16).astype(np.float64) + np.nextafter(middles.astype(np.float16), np.float16(np.inf))
    ) / 2
    x = np.concatenate(
        [
            middles * (1 + 2.0**-40),
            middles * (1 - 2.0**-40),
            -middles * (1 + 2.0**-40),
            [np.nan, np.inf, -np.inf, 1e300, 65519.9999999, -0.0],
        ]
    )
    with jax.enable_x64(True):
        program = to_onnx(lambda x: x.astype(np.float16), [jax.ShapeDtypeStruct(x.shape, np.float64)])
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(program(x), x.astype(np.float16))


@pytest.mark.parametrize("target", [None, "web"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("exponent_and_mantissa_bits", [(4, 3), (5, 2), (5, 7), (5, 10), (6, 9), (8, 7), (8, 23)])
def test_precision_is_reduced_in_the_widest_type_of_the_target(target, dtype, exponent_and_mantissa_bits):
    def reduced(x):
        return lax.reduce_precision(x, *exponent_and_mantissa_bits)

    random = np.random.default_rng(0)
    x = random.standard_normal(4000) * 2.0 ** random.integers(-14, 13, 4000)
    x = np.concatenate([x, [0.0, -0.0, np.inf, -np.inf, np.nan, 3e-5, -6e-8]]).astype(dtype)
    np.testing.assert_array_equal(to_onnx(reduced, [x], target=target)(x), jax.jit(reduced)(x))


HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
HALVES = HALVES[np.abs(HALVES) < 9000]
STEPS = {
    "int32": lambda x: (x * 3).astype("int32"),
    "uint8": lambda x: (jnp.abs(x) * 0.01).astype("uint8"),
    "bool": lambda x: (x * jnp.asarray(1e-3, x.dtype)).astype(bool),
    "floor": lambda x: jnp.floor(x * 3),
    "ceil": lambda x: jnp.ceil(x * 0.1),
    "round": lambda x: jnp.round(x * 0.1),
    "remainder": lambda x: (x * 3) % 1,
    "floor of float32": lambda x: jnp.floor((x * 3).astype(jnp.float32)),
    "index": lambda x: jnp.arange(50)[(jnp.abs(x) * 3).astype("int32") % 50],
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_in_half_precision_read_rounded_numbers(name):
    program = to_onnx(STEPS[name], [(("N",), np.float16)])
    np.testing.assert_array_equal(program(HALVES), jax.jit(STEPS[name])(HALVES))
