"""Dimensions that are equal although they are written differently, and models that need that."""

from __future__ import annotations

import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.core import max_dim, min_dim
from jax2onnx_core import _compat_dims, to_onnx
from jax2onnx_core.jaxprs import Dim, is_static
from jax2onnx_core.plugins.errors import ConversionError
from jax2onnx_core.symbols._quotients import are_equal, normal_form
from jax2onnx_core.symbols.symbols import Symbols

SYMBOLS = Symbols([])
H, W = SYMBOLS.parse("H"), SYMBOLS.parse("W")
NUMBERS = st.integers(-9, 9)
OF_FOURS = Symbols(["mod(H, 4) == 0"])


def _expressions() -> st.SearchStrategy[Dim]:
    def grown(inner: st.SearchStrategy[Dim]) -> st.SearchStrategy[Dim]:
        return st.one_of(
            st.builds(operator.add, inner, inner),
            st.builds(operator.mul, inner, NUMBERS),
            st.builds(operator.floordiv, inner, st.integers(-3, 6).filter(bool)),
            st.builds(operator.mod, inner, st.integers(-3, 6).filter(bool)),
            st.builds(max_dim, inner, inner),
            st.builds(min_dim, inner, inner),
        )

    return st.recursive(st.one_of(st.sampled_from([H, W]), NUMBERS), grown, max_leaves=6)


@given(_expressions(), st.integers(1, 60), st.integers(1, 60))
@settings(max_examples=150)
def test_the_normal_form_has_the_same_values(dim, height, width):
    form = normal_form(dim)
    values = [d if is_static(d) else _compat_dims.substitute(d, {"H": height, "W": width}) for d in (dim, form)]
    assert values[0] == values[1], f"{dim} became {form}"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("-floordiv(-H, 2)", "floordiv(H - 1, 2) + 1"),
        ("-floordiv(floordiv(-H, 2), 2)", "floordiv(H + 3, 4)"),
        ("floordiv(floordiv(H - 1, 2), 2) + 1", "-floordiv(floordiv(-H, 2), 2)"),
        ("floordiv(3*H + 7, 3)", "H + 2"),
        ("H - mod(H, 4)", "4*floordiv(H, 4)"),
        ("max(W, 4)", "W + 4 - min(4, W)"),
        ("min(H, 4)", "min(H - 4, 0) + 4"),
        ("mod(H, -4)", "4*floordiv(-H, 4) + H"),
        ("floordiv(H + mod(-H, 4), -4)", "floordiv(-H, 4)"),
        ("min(H, mod(H, 4))", "mod(H, 4)"),
        ("max(0, H - mod(H, 4))", "4*floordiv(H, 4)"),
        ("floordiv(H + 1, 2) + floordiv(H, 2)", "H"),
        ("floordiv(H - 1, 2) + floordiv(H - 2, 2) + 2", "H"),
        ("floordiv(H + W + 2, 3) + floordiv(H + W + 1, 3) + floordiv(H + W, 3)", "H + W"),
        ("floordiv(W, 2)*floordiv(W, 2)", "floordiv(W + 2, 2)*floordiv(W, 2) - floordiv(W, 2)"),
    ],
)
def test_equal_dimensions(one, other):
    assert are_equal(SYMBOLS.parse(one), SYMBOLS.parse(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("floordiv(H, 2)", "floordiv(H + 1, 2)"),
        ("2*floordiv(H, 2)", "H"),
        ("floordiv(H, 2)", "3"),
        ("floordiv(H, -2)", "-floordiv(H, 2)"),
        ("floordiv(H + 2, 2) + floordiv(H, 2)", "H"),
        ("floordiv(H + 2, 3) + floordiv(H, 3)", "H"),
        ("floordiv(H + 1, 2) + floordiv(W, 2)", "H"),
        ("floordiv(H, 2)", "floordiv(H + 2, 2)"),
        ("floordiv(H + 2, 2)", "floordiv(H, 2)"),
        ("floordiv(floordiv(H, 2) + H, 3)", "floordiv(3*H, 6)"),
        ("floordiv(2*floordiv(H, 2) + 1, 4)", "floordiv(H, 4)"),
        ("floordiv(floordiv(H, 2)*floordiv(H, 2), 2)", "floordiv(H*H, 8)"),
        ("max(H, 4)", "min(H, 4)"),
        ("min(H, W)", "W"),
    ],
)
def test_dimensions_that_differ_for_some_sizes(one, other):
    assert not are_equal(SYMBOLS.parse(one), SYMBOLS.parse(other))


@pytest.mark.parametrize(
    ("one", "other", "is_equal"),
    [
        ("floordiv(H, 2)", "2*floordiv(H, 4)", True),
        ("floordiv(H, -2)", "-floordiv(H, 2)", True),
        ("floordiv(H + 3, 4)", "floordiv(H, 4)", True),
        ("min(H, 4)", "4", True),
        ("floordiv(H, 2) + 1", "floordiv(H + 1, 2)", False),
        ("floordiv(H + 1, 2)", "floordiv(H, 2) + 1", False),
        ("floordiv(H, 8)", "floordiv(H + 7, 8)", False),
        ("floordiv(W, 2)", "floordiv(W + 1, 2)", False),
        ("floordiv(H + W, 2)", "floordiv(H, 2) + floordiv(W + 1, 2)", False),
        ("min(H, 5)", "5", False),
    ],
)
def test_dimensions_where_one_is_a_multiple_of_4(one, other, is_equal):
    assert are_equal(OF_FOURS.parse(one), OF_FOURS.parse(other)) == is_equal


def _conv(x: jax.Array, kernel: np.ndarray, stride: int) -> jax.Array:
    return jax.lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


WIDE, NARROW = np.full((3, 3, 2, 2), 0.1, np.float32), np.ones((1, 1, 2, 2), np.float32)


def residual(x: jax.Array) -> jax.Array:
    for _ in range(2):
        x = _conv(_conv(x, WIDE, 2), WIDE, 1) + _conv(x, NARROW, 2)
    return x


def doubled(x: jax.Array) -> jax.Array:
    half = _conv(_conv(x, WIDE, 2), WIDE, 2)
    return x + jnp.repeat(jnp.repeat(half, 4, 1), 4, 2)


def test_a_residual_network_of_symbolic_height_and_width():
    program = to_onnx(residual, [(1, "H", "W", 2)])
    for height, width in ((8, 8), (9, 7), (1, 13)):
        x = np.random.default_rng(0).standard_normal((1, height, width, 2)).astype(np.float32)
        np.testing.assert_allclose(program(x), residual(jnp.asarray(x)), rtol=1e-5, atol=1e-5)


def test_sizes_that_agree_for_multiples():
    program = to_onnx(doubled, [(1, "H", "W", 2)], constraints=["mod(H, 4) == 0", "mod(W, 8) == 0"])
    x = np.random.default_rng(0).standard_normal((1, 12, 8, 2)).astype(np.float32)
    np.testing.assert_allclose(program(x), doubled(jnp.asarray(x)), rtol=1e-5, atol=1e-5)


def test_sizes_that_agree_for_multiples_only():
    with pytest.raises((ConversionError, TypeError)) as raised:
        to_onnx(doubled, [(1, "H", "W", 2)], constraints=["mod(H, 4) == 0"])
    assert "W" in str(raised.value)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: jnp.concatenate([x[1::2], x[::2]]) * x,
        lambda x: jnp.concatenate([x[1:], x[:1]])[::2] @ x[::2],
        lambda x: jax.scipy.fft.dct(x),
    ],
    ids=["parts", "slices", "dct"],
)
def test_parts_of_an_array_of_any_size_are_the_whole_of_it(fn):
    to_onnx(fn, [("N",)]).verify()


def _blocks(x, count):
    """The elements in blocks of `count`, zeros behind the last ones."""
    return jnp.pad(x, (0, -x.shape[0] % count)).reshape(-1, count)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: _blocks(x, 4),
        lambda x: _blocks(x, 4)[:, ::-1].reshape(-1)[: x.shape[0]],
        lambda x: jnp.pad(x, ((4 - x.shape[0] % 4) % 4, 0)).reshape(2, -1, 2),
        lambda x: _blocks(x, 4).sum(1) + x[: (x.shape[0] + 3) // 4],
        lambda x: jnp.concatenate([x, jnp.zeros(-x.shape[0] % 3)]).reshape(3, -1),
        lambda x: x[x.shape[0] % 4 :].reshape(-1, 4),
        lambda x: x[: x.shape[0] - x.shape[0] % 4].reshape(-1, 4),
    ],
    ids=["blocks", "and back", "in front", "beside others", "concatenated", "the last ones", "the first ones"],
)
@pytest.mark.parametrize("size", [1, 4, 7, 9])
def test_arrays_of_any_size_in_blocks(fn, size):
    x = np.arange(1.0, size + 1, dtype=np.float32)
    np.testing.assert_array_equal(to_onnx(fn, [("N",)])(x), fn(x))
