"""Random inputs: ordinary numbers, or numbers mixed with NaN, infinities, signed zeros and extremes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax2onnx_core.frontend.inputs import Inputs
from jax2onnx_core.jax_types import PyTree
from jax2onnx_core.program.verification import as_traced
from jax2onnx_core.symbols.symbols import evaluate_dim
from jax2onnx_graph.arrays import Array, Dtype

__all__ = ["Distribution", "arguments", "random_array"]

_INTEGERS = {
    "special": (-8, 9),
    "rare": (-5, 6),
    "wide": (-99, 100),
    "finite": (-5, 6),
    "positive": (1, 6),
    "unit": (0, 2),
}

#: "special": a third are NaN, infinities, signed zeros and extremes; "rare": at most two numbers are; "wide": of any magnitude;
#: "finite": ordinary numbers; "positive"; "unit": between -1 and 1.
Distribution = Literal["special", "rare", "wide", "finite", "positive", "unit"]


def arguments(
    inputs: Inputs, specs: Sequence[PyTree], sizes: Mapping[str, int], values: Distribution, seed: int
) -> tuple[tuple[PyTree, ...], dict[str, PyTree]]:
    """The arguments of a call of a function, random but for inputs that were given as arrays.

    Args:
      inputs: the inputs of the function: those of an exported program, or `Built.parsed()`.
      specs: the inputs as they were given to `to_onnx`; arrays among them keep their values.
      sizes: the sizes of the symbols.
      values: the distribution of the random numbers.
      seed: the seed of the random numbers.

    Returns:
      `(args, kwargs)`.
    """
    random = np.random.default_rng(seed)
    traced = inputs.symbols.traced_values(sizes)
    leaves = [
        random_array(random, aval.dtype, tuple(evaluate_dim(d, traced) for d in aval.shape), values)
        for aval in inputs.avals
    ]
    args, kwargs = jax.tree_util.tree_unflatten(inputs.tree, as_traced(leaves, inputs.avals))
    return tuple(_given(spec, arg) for spec, arg in zip(specs, args, strict=True)), kwargs


def _given(spec: PyTree, argument: PyTree) -> PyTree:
    """The argument, with its random arrays replaced where the specification has an array."""
    if isinstance(spec, (np.ndarray, jax.Array, np.generic)):
        return jax.device_put(spec)  # `asarray` compiles a program for each shape
    if isinstance(spec, dict) and isinstance(argument, dict):
        return {key: _given(spec[key], value) for key, value in argument.items()}
    if type(spec) in (list, tuple) and type(argument) is type(spec) and len(spec) == len(argument):
        return type(spec)(_given(s, a) for s, a in zip(spec, argument, strict=True))
    return argument


def random_array(
    random: np.random.Generator, dtype: Dtype, shape: tuple[int, ...], values: Distribution
) -> Array | jax.Array:
    """A random array.

    Args:
      random: the generator.
      dtype: any dtype that JAX has; typed random keys are JAX arrays.
      shape: the shape.
      values: the distribution of the numbers.
    """
    if jnp.issubdtype(dtype, jax.dtypes.prng_key):
        key = jax.random.key(int(random.integers(2**31)), impl=jax.random.key_impl(jnp.empty(0, dtype)))
        return jax.random.split(key, max(1, math.prod(shape)))[: math.prod(shape)].reshape(shape)
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return random.random(shape) < 0.5
    if jnp.issubdtype(dtype, np.complexfloating):
        part = np.float64 if dtype == np.complex128 else np.float32
        real, imaginary = (_floats(random, np.dtype(part), shape, values) for _ in range(2))
        return np.stack([real, imaginary], -1).view(dtype).reshape(shape)
    if jnp.issubdtype(dtype, np.integer):
        return _integers(random, dtype, shape, values)
    return _floats(random, dtype, shape, values)


def _integers(random: np.random.Generator, dtype: Dtype, shape: tuple[int, ...], values: Distribution) -> Array:
    info = ml_dtypes.iinfo(dtype)
    low, high = _INTEGERS[values]
    low, high = max(low, int(info.min)), min(high, int(info.max))
    array = random.integers(low, max(high, low + 1), shape).astype(dtype)
    if values == "special":
        extremes = [int(info.min), int(info.min) + 1, int(info.max), int(info.max) - 1, int(info.max) // 2, 0, 1]
        return _mixed(random, array, np.array(extremes, object).astype(dtype), max(len(extremes), array.size // 3))
    return array


def _floats(random: np.random.Generator, dtype: Dtype, shape: tuple[int, ...], values: Distribution) -> Array:
    if values in ("positive", "unit"):
        low, high = (0.01, 3) if values == "positive" else (-1, 1)
        return random.uniform(low, high, shape).astype(dtype)
    info = ml_dtypes.finfo(dtype)
    if values == "wide":
        exponents = random.integers(info.minexp, info.maxexp, shape)
        return np.ldexp(random.uniform(-1, 1, shape), exponents).astype(dtype)
    array = (random.standard_normal(shape) * (3 if values == "special" else 1)).astype(dtype)
    if values in ("special", "rare"):
        numbers = [0.0, -0.0, 1, -1, 0.5, 2.5, float(info.max), float(info.min), float(info.smallest_normal)]
        extremes = np.array([np.nan, np.inf, -np.inf, *numbers]).astype(dtype)
        if values == "rare":
            return _mixed(random, array, random.choice(extremes, 2), 2)
        return _mixed(random, array, extremes, max(len(extremes), array.size // 3))
    return array


def _mixed(random: np.random.Generator, array: Array, extremes: Array, count: int) -> Array:
    """`count` elements replaced by extremes, as far as there are so many."""
    places = random.permutation(array.size)[:count]
    flat = array.reshape(-1)
    flat[places] = extremes[np.arange(len(places)) % len(extremes)]
    return flat.reshape(array.shape)
