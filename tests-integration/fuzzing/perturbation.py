"""Sensitivity of a function to rounding, by evaluation with every rounded result changed by a few units of the last place.

This is Monte Carlo arithmetic (Stott Parker, 1997) on jaxprs. The signs of NaN and of some zeros can be changed too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jax2onnx_core.jax_types import Equation, Function, Jaxpr
from jax2onnx_core.jaxprs import bind_primitive, is_jaxpr, is_literal, open_jaxpr, scan_counts

__all__ = ["ELEMENTWISE", "Interpreter", "Values", "perturbed"]

Values = Sequence[jax.Array]

_AMOUNT = 4
ELEMENTWISE = {
    "add", "add_any", "sub", "mul", "div", "rem", "pow", "integer_pow", "square", "sqrt", "rsqrt", "cbrt", "exp", "exp2",
    "expm1", "log", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh",
    "atanh", "logistic", "erf", "erfc", "erf_inv", "lgamma", "digamma", "bessel_i0e", "bessel_i1e", "igamma", "igammac",
    "igamma_grad_a", "regularized_incomplete_beta", "random_gamma_grad", "zeta", "polygamma",
}  # fmt: skip
# They round more than once, or have zeros that no float is: their operands are perturbed too.
_ACCUMULATING = {
    "lgamma", "digamma",
    "reduce_sum", "reduce_prod", "dot_general", "ragged_dot", "conv_general_dilated", "cumsum", "cumprod", "cumlogsumexp",
    "reduce_window_sum", "reduce_window", "reduce", "scatter-add", "scatter_add", "scatter-mul", "scatter_mul", "fft",
    "select_and_scatter_add", "cholesky", "triangular_solve", "lu", "qr", "geqrf", "householder_product", "eigh", "svd", "eig",
    "tridiagonal_solve",
}  # fmt: skip
# They choose one of their operands; which one of two zeros, or with which sign, is open in ONNX.
_CHOOSING = {
    "max",
    "min",
    "clamp",
    "select_n",
    "reduce_max",
    "reduce_min",
    "cummax",
    "cummin",
    "reduce_window_max",
    "reduce_window_min",
}
_CALLS = {
    "jit",
    "pjit",
    "closed_call",
    "custom_jvp_call",
    "custom_vjp_call",
    "remat",
    "remat2",
    "checkpoint",
    "custom_lin",
}


def perturbed(function: Function, *, signs: bool = False, precision: float = 0.0) -> Callable[..., list[jax.Array]]:
    """A function of `(seed, *arguments)` that computes `function(*arguments)`, as a flat list, with perturbed intermediate results.

    With `signs`, every NaN, and every zero that was chosen from several numbers, has a random sign. What is rounded is changed by a few
    times the `precision`, if that is more than the unit of the last place of its type, and anew for each operation that reads it.
    """

    def run(seed: jax.Array, *arguments: jax.Array) -> list[jax.Array]:
        closed = jax.make_jaxpr(function)(*arguments)
        interpreter = Interpreter(seed, signs, precision)
        return list(interpreter.run(closed.jaxpr, closed.consts, [interpreter.signed(x) for x in arguments]))

    return run


class Interpreter:
    """Evaluates a jaxpr, with all jaxprs in it, and changes what is rounded.

    Args:
      seed: that of the changes.
      signs: whether NaN and zeros change their signs, too.
      precision: the least unit of the last place.
    """

    def __init__(self, seed: jax.Array, signs: bool, precision: float) -> None:
        self._seed, self._signs, self._precision, self._numbers = seed, signs, precision, itertools.count(1)

    def run(self, jaxpr: Jaxpr, consts: Values, arguments: Values) -> Values:
        """The results of a jaxpr."""
        known = [*map(self.constant, consts), *arguments]
        values = dict(zip([*jaxpr.constvars, *jaxpr.invars], known, strict=True))
        for equation in jaxpr.eqns:
            operands = [self.constant(v.val) if is_literal(v) else values[v] for v in equation.invars]
            results = [
                self.signed(x, zeros=equation.primitive.name in _CHOOSING) for x in self._equation(equation, operands)
            ]
            values.update(zip(equation.outvars, results, strict=True))
        return [v.val if is_literal(v) else values[v] for v in jaxpr.outvars]

    def constant(self, value: jax.Array) -> jax.Array:
        """The value of a constant."""
        return value

    def _closed(self, jaxpr: Jaxpr) -> Callable[..., Values]:
        opened, consts = open_jaxpr(jaxpr)
        return lambda *arguments: self.run(opened, consts, arguments)

    def _equation(self, equation: Equation, operands: Values) -> Values:
        name, params = equation.primitive.name, equation.params
        if name in _CALLS:
            return self._closed(next(_jaxprs(params.values())))(*operands)
        if name == "scan":
            counts = scan_counts(params, len(operands))
            jaxpr, length, reverse = params["jaxpr"], params["length"], params["reverse"]
            return self._scan(operands, jaxpr=jaxpr, length=length, reverse=reverse, counts=counts)
        if name == "while":
            return self._while(operands, **params)
        if name == "cond":
            branches = [self._closed(branch) for branch in params["branches"]]
            return lax.switch(operands[0], branches, *operands[1:])
        return self.result(equation, operands)

    def result(self, equation: Equation, operands: Values) -> Values:
        """The results of an equation that holds no jaxprs."""
        name, params = equation.primitive.name, equation.params
        if name in _ACCUMULATING or self._precision:  # each reader may see a number that is rounded otherwise
            operands = [self._perturb(x) for x in operands]
        results = bind_primitive(equation.primitive, params, *operands)
        rounds = name in _ACCUMULATING | ELEMENTWISE or (
            name == "convert_element_type" and _narrows(operands[0], results[0])
        )
        return [self._perturb(x) for x in results] if rounds else results

    def _scan(self, operands: Values, *, jaxpr: Jaxpr, length: int, reverse: bool, counts: tuple[int, int]) -> Values:
        num_consts, num_carry = counts
        consts, carry = operands[:num_consts], list(operands[num_consts:][:num_carry])
        body = self._closed(jaxpr)

        def step(carry: list[jax.Array], xs: list[jax.Array]) -> tuple[list[jax.Array], list[jax.Array]]:
            results = list(body(*consts, *carry, *xs))
            return results[:num_carry], results[num_carry:]

        carry, ys = lax.scan(step, carry, list(operands[num_consts + num_carry :]), length=length, reverse=reverse)
        return [*carry, *ys]

    def _while(
        self, operands: Values, *, cond_jaxpr: Jaxpr, body_jaxpr: Jaxpr, cond_nconsts: int, body_nconsts: int
    ) -> Values:
        condition, body = self._closed(cond_jaxpr), self._closed(body_jaxpr)
        cond_consts, consts = operands[:cond_nconsts], operands[cond_nconsts:][:body_nconsts]

        def goes_on(carry: list[jax.Array]) -> jax.Array:
            return jnp.any(condition(*cond_consts, *carry)[0])

        def step(carry: list[jax.Array]) -> list[jax.Array]:
            # A condition with axes is that of a loop under vmap: each element has an end of its own.
            [goes] = condition(*cond_consts, *carry)
            pairs = zip(body(*consts, *carry), carry, strict=True)
            return [jnp.where(lax.expand_dims(goes, range(goes.ndim, new.ndim)), new, old) for new, old in pairs]

        return lax.while_loop(goes_on, step, list(operands[cond_nconsts + body_nconsts :]))

    def signed(self, value: jax.Array, *, zeros: bool = False) -> jax.Array:
        """The value with other signs of NaN, and perhaps of zeros, where signs are to be changed."""
        if not self._signs or not jnp.issubdtype(value.dtype, jnp.floating):
            return value
        free = jnp.isnan(value) | (value == 0) if zeros else jnp.isnan(value)
        # All of them are positive first, then all are negative.
        bound = jnp.where(self._seed == 0, 1, jnp.where(self._seed == 1, -1, 0))
        positive = jnp.abs(value)
        return jnp.where(free, jnp.where(self._noise(value) > bound, -positive, positive), value)

    def _perturb(self, value: jax.Array) -> jax.Array:
        value = jnp.asarray(value)
        if not jnp.issubdtype(value.dtype, jnp.inexact):
            return value
        unit = max(float(jnp.finfo(value.dtype).eps), self._precision)
        change = value * (_AMOUNT * self._noise(value) * unit).astype(value.dtype)
        return jnp.where(jnp.isfinite(value), value + change, value)

    def _noise(self, value: jax.Array) -> jax.Array:
        """An array of the shape of `value` of numbers from -1 to 1: any that look random and are cheap to compile."""
        places = jnp.arange(value.size, dtype=jnp.float32).reshape(value.shape)
        return jnp.sin(places * 12.9898 + self._seed * 78.233 + next(self._numbers) * 37.719)


def _jaxprs(params: Iterable[object]) -> Iterator[Jaxpr]:
    return (value for value in params if is_jaxpr(value))


def _narrows(operand: jax.Array, result: jax.Array) -> bool:
    """Whether a conversion can round."""
    if not jnp.issubdtype(result.dtype, jnp.inexact) or operand.dtype == jnp.bool_:
        return False
    if jnp.issubdtype(operand.dtype, jnp.integer):
        return jnp.iinfo(operand.dtype).bits > jnp.finfo(result.dtype).nmant
    return jnp.finfo(operand.dtype).nmant > jnp.finfo(result.dtype).nmant
