"""Elements of a result that depend on certain elements of the inputs, whatever the others are."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core.jax_types import Equation, Function
from jax2onnx_core.jaxprs import bind_primitive
from jax2onnx_graph.arrays import Array
from jax2onnx_testing.values import random_array

from fuzzing.execution import Arrays
from fuzzing.perturbation import ELEMENTWISE, Interpreter, Values
from fuzzing.programs import Program, compiled

__all__ = ["depending"]

_DRAWS = 4
_OTHERS = 2
_HALF = {"float16": "float32", "bfloat16": "float32"}

_MIXED = ELEMENTWISE | {
    "max", "min", "neg", "abs", "sign", "floor", "ceil", "round", "stop_gradient", "copy", "reduce_precision", "clamp", "nextafter",
}  # fmt: skip
_SUMMED = {"reduce_max", "reduce_min", "reduce_prod"}
_CUMULATED = {"cummax": lax.cumsum_p, "cummin": lax.cumsum_p, "cumprod": lax.cumsum_p, "cumlogsumexp": lax.cumsum_p}
_WINDOWS = {"reduce_window", "reduce_window_max", "reduce_window_min"}
_PRODUCTS = {"dot_general", "conv_general_dilated", "ragged_dot"}


def depending(program: Program, name: str, arguments: Arrays, places: Mapping[str, Array]) -> Array:
    """For each element of a variable whether it depends on one of the elements at `places`, in whatever way it is computed.

    Sums take the place of all functions of single elements, of selections and maxima, so that a result changes with each element that it
    is computed from: one that a mask hides, or that is multiplied by zero, counts.

    Args:
      program: the program that computes the variable.
      name: the variable.
      arguments: the inputs of the program, whose integers and truth values are one of the choices.
      places: for each input by name whether each of its elements is one of them.
    """
    wide = program.with_dtypes(_HALF) or program
    function = compiled(wide.source([name]), f"program {program.seed}")
    run = jax.jit(lambda *inputs: _mixed(function, inputs))
    kinds = {v.name: v.aval.dtype for v in wide.inputs}
    found = np.zeros(run(*(jnp.asarray(arguments[key], kind) for key, kind in kinds.items())).shape, bool)
    for draw in range(_DRAWS if any(mask.any() for mask in places.values()) else 0):
        random = np.random.default_rng([program.seed, draw])
        # Integers are counts and positions: the given ones first, then small ones, then larger ones.
        numbers = {key: _drawn(random, arguments[key], kind, draw) for key, kind in kinds.items()}
        first = np.asarray(run(*numbers.values()))
        for other in range(_OTHERS):
            others = {key: _drawn(random, arguments[key], kind, draw + other + 1) for key, kind in kinds.items()}
            second = np.asarray(run(*(np.where(places[key], others[key], numbers[key]) for key in kinds)))
            found |= first != second
    return found


def _drawn(random: np.random.Generator, value: Array, dtype: np.dtype, draw: int) -> Array:
    """Random numbers between -1 and 1, or natural numbers, the larger the later they are drawn: the given ones in the first draw."""
    if jnp.issubdtype(dtype, jnp.inexact) or (dtype == np.bool_ and draw):
        return np.asarray(random_array(random, dtype, value.shape, "unit"))
    if draw == 0 or not jnp.issubdtype(dtype, jnp.integer):
        return value
    return random.integers(0, min(8**draw, np.iinfo(dtype).max), value.shape).astype(dtype)


def _mixed(function: Function, inputs: Sequence[jax.Array]) -> jax.Array:
    """The result of a function of which sums take the place."""
    closed = jax.make_jaxpr(function)(*inputs)
    return _Mixture(jnp.float32(0), signs=False, precision=0.0).run(closed.jaxpr, closed.consts, inputs)[0]


class _Mixture(Interpreter):
    """Evaluates jaxprs with sums in the place of functions of single elements, and with constants of ordinary size."""

    def constant(self, value: jax.Array) -> jax.Array:
        """The value of a constant: a number that hides logits would swallow what is added to it."""
        if not jnp.issubdtype(jnp.result_type(value), jnp.floating):
            return value
        return jnp.clip(jnp.nan_to_num(value), -2, 2)

    def result(self, equation: Equation, operands: Values) -> Values:
        """The results of an equation that holds no jaxprs."""
        name, params, out = equation.primitive.name, equation.params, equation.outvars[0].aval
        if not jnp.issubdtype(out.dtype, jnp.inexact):
            return list(bind_primitive(equation.primitive, params, *operands))
        if name in _MIXED or name == "select_n":
            return [_sum([x for x in operands if jnp.issubdtype(x.dtype, jnp.inexact)], out)]
        if name in _SUMMED:
            return [jnp.sum(operands[0], axis=params["axes"])]
        if name in _CUMULATED:
            return list(bind_primitive(_CUMULATED[name], params, *operands))
        if name in _WINDOWS:
            windows = [
                params[key]
                for key in ("window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation")
            ]
            return [lax.reduce_window(operands[0], np.zeros((), out.dtype), lax.add, *windows)]
        if name in _PRODUCTS:
            operands = [x + np.asarray(2, x.dtype) if jnp.issubdtype(x.dtype, jnp.inexact) else x for x in operands]
        return list(bind_primitive(equation.primitive, params, *operands))


def _sum(terms: Values, out: jax.core.ShapedArray) -> jax.Array:
    """The sum of arrays, each with a weight of its own, with the shape and dtype of a result."""
    weighted = [(x * np.asarray(0.75**i, x.dtype)).astype(out.dtype) for i, x in enumerate(terms)]
    return jnp.broadcast_to(functools.reduce(jnp.add, weighted), out.shape)
