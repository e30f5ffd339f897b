"""Options of JAX that a user may have set: they decide what is traced, and nothing about how it is lowered."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax2onnx_core import to_onnx

_OPTIONS = {
    "jax_check_static_indices": True,
    "jax_check_tracer_leaks": True,
    "jax_custom_jvp3": True,
    "jax_custom_vjp3": True,
    "jax_debug_infs": True,
    "jax_debug_key_reuse": True,
    "jax_debug_nans": True,
    "jax_default_matmul_precision": "highest",
    "jax_default_prng_impl": "rbg",
    "jax_disable_jit": True,
    "jax_enable_checks": True,
    "jax_error_checking_behavior_divide": "raise",
    "jax_error_checking_behavior_nan": "raise",
    "jax_error_checking_behavior_oob": "raise",
    "jax_explicit_x64_dtypes": "error",
    "jax_legacy_prng_key": "error",
    "jax_no_execution": True,
    "jax_numpy_dtype_promotion": "strict",
    "jax_numpy_rank_promotion": "raise",
    "jax_random_seed_offset": 3,
    "jax_remat3": True,
    "jax_scan3": True,
    "jax_softmax_custom_jvp": True,
    "jax_threefry_partitionable": False,
    "jax_transfer_guard": "disallow",
    "jax_use_simplified_jaxpr_constants": True,
}
_WEIGHT = jnp.arange(512, dtype=np.float32).reshape(2, 256)


def _several(x):
    """Functions whose lowering is written in JAX, a loop, and a constant that is evaluated to NaN."""
    total, _ = lax.scan(lambda c, row: (c + row, None), x[0], x)
    return (
        lax.expm1(x), lax.erf_inv(x), lax.igamma(x, x), lax.cumlogsumexp(x), jnp.linalg.qr(x)[1], lax.real(lax.fft(lax.complex(x, x), "FFT", (2,))),
        total, x @ _WEIGHT, lax.reduce_window(x, -np.inf, lax.max, (1, 2), (1, 1), "SAME"),
    )  # fmt: skip


@contextlib.contextmanager
def _option(name, value):
    old = getattr(jax.config, name)
    jax.config.update(name, value)
    try:
        yield
    finally:
        jax.config.update(name, old)


@pytest.fixture(scope="module")
def expected():
    program = to_onnx(_several, [(2, 2)])
    x = np.array([[0.25, 0.5], [0.75, 0.125]], np.float32)
    return program, x, program(x)


@pytest.mark.parametrize("name", _OPTIONS)
def test_lowering_does_not_depend_on_the_options_of_the_user(name, expected):
    if name not in jax.config.values:
        pytest.skip(f"this JAX has no {name}")
    plain, x, results = expected
    with _option(name, _OPTIONS[name]):
        program = to_onnx(_several, [(2, 2)])
    for got, want in zip(program(x), results, strict=True):
        np.testing.assert_array_equal(got, want)
    if name != "jax_disable_jit":
        assert set(program.model.graph.initializers) == set(plain.model.graph.initializers)


@pytest.mark.parametrize(
    "name", ["jax_debug_nans", "jax_numpy_dtype_promotion", "jax_transfer_guard", "jax_no_execution"]
)
def test_constants_are_evaluated_whatever_the_options_of_the_user(name):
    with _option(name, _OPTIONS[name]):
        program = to_onnx(lambda x: lax.add(x, lax.log(np.float32(-1))), [()])
    assert np.isnan(program(np.float32(1)))


def test_the_user_s_options_hold_in_the_user_s_function():
    with _option("jax_numpy_rank_promotion", "raise"), pytest.raises(ValueError, match="rank_promotion"):
        to_onnx(lambda x: x + jnp.ones(3), [(2, 3)])


def test_random_bits_are_those_of_the_option_that_held_where_they_were_drawn():
    def fn(x):
        key = jax.random.key(x)
        with jax.threefry_partitionable(False):
            inner = jax.random.bits(key, (3, 5))
        return inner, jax.random.bits(key, (3, 5))

    program = to_onnx(fn, [((), "int32")])
    for got, want in zip(program(np.int32(1)), jax.jit(fn)(np.int32(1)), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("first", [False, True])
def test_random_bits_of_a_known_key_are_those_of_the_option_that_held_where_they_were_drawn(first):
    def drawn(option):
        with jax.threefry_partitionable(option):
            return jax.random.bits(jax.random.key(3), (7,))

    def fn(x):
        return x + drawn(first), x + drawn(not first)

    x = np.zeros(7, np.uint32)
    for got, want in zip(to_onnx(fn, [x])(x), jax.jit(fn)(x), strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_specialization_draws_the_random_bits_of_its_program():
    with jax.threefry_partitionable(False):
        program = to_onnx(lambda x: x + jax.random.uniform(jax.random.key(0), x.shape), [("N", 5)])
    x = np.zeros((3, 5), np.float32)
    np.testing.assert_array_equal(program.specialize(N=3)(x), program(x))
