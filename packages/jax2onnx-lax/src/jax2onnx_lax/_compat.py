"""What depends on JAX's version or on its private API, for this package."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax
from jax._src import core as _core
from jax._src import source_info_util as _source_info
from jax._src.core import max_dim, min_dim
from jax._src.export import shape_poly as _shape_poly
from jax._src.lax import special as _special
from jax._src.lax.lax import _ragged_dot_general_impl as ragged_dot_general
from jax._src.random import core as _random
from jax._src.random import philox2x32 as _philox2x32
from jax._src.random import philox4x32 as _philox4x32
from jax._src.random import prng as _prng
from jax._src.random import threefry4x32 as _threefry4x32
from jax._src.state import discharge as _discharge
from jax.extend.core import ClosedJaxpr as _ClosedJaxpr

__all__ = [
    "DIGAMMA_AT_ZERO",
    "bessel_i0e",
    "betainc",
    "bind_equation",
    "closed_call",
    "flat_function",
    "greatest",
    "igamma",
    "igamma_grad_a",
    "igammac",
    "is_drop_var",
    "is_jaxpr",
    "is_literal",
    "is_static",
    "log2",
    "max_dim",
    "min_dim",
    "one_minus_square",
    "open_jaxpr",
    "philox2x32",
    "philox4x32",
    "polynomial",
    "ragged_dot_general",
    "random_bits",
    "random_fold_in",
    "random_gamma",
    "random_seed",
    "random_split",
    "threefry4x32",
]


def open_jaxpr(jaxpr: Any, consts: Sequence[Any] = ()) -> tuple[Any, Sequence[Any]]:
    """The equations and constants of a jaxpr, whether it carries its constants itself or not."""
    if isinstance(jaxpr, _ClosedJaxpr) and not consts:
        return jaxpr.jaxpr, jaxpr.consts
    return jaxpr, consts


def flat_function(jaxpr: Any, consts: Sequence[Any] = ()) -> Callable[..., list[Any]]:
    """The jaxpr as a function of its flat operands."""
    inner, constants = open_jaxpr(jaxpr, consts)
    return lambda *operands: _core.eval_jaxpr(inner, constants, *operands)


run_state = _discharge._run_state_impl

# JAX's own iterations for the incomplete gamma and beta functions: operands are broadcast, and half
# precision is computed in float32, as its lowering does.
igamma = _special._up_and_broadcast(_special.igamma_impl)
igammac = _special._up_and_broadcast(_special.igammac_impl)
igamma_grad_a = _special._up_and_broadcast(_special.igamma_grad_a_impl)
betainc = _special._up_and_broadcast(_special.regularized_incomplete_beta_impl)
bessel_i0e = _special.bessel_i0e_impl

# JAX's counter-based hashes: key words and counter words → as many words as the counter has.
philox2x32 = _philox2x32._philox2x32_lowering
philox4x32 = _philox4x32._philox4x32_lowering
threefry4x32 = _threefry4x32._threefry4x32_lowering


# What the primitives of typed keys do on the uint32 words of the keys; `dtype` is a key dtype.
def random_seed(dtype: Any, seeds: Any) -> Any:
    return _prng.random_seed_impl_base(seeds, impl=dtype._impl)


def random_split(dtype: Any, words: Any, key_rank: int, shape: Any) -> Any:
    return _prng.random_split_impl_base(dtype._impl, words, key_rank, shape=shape)


def random_fold_in(dtype: Any, words: Any, data: Any, key_shape: Any) -> Any:
    return _prng.random_fold_in_impl_base(dtype._impl, words, data, key_shape)


def random_bits(dtype: Any, words: Any, key_rank: int, bit_width: int, shape: Any) -> Any:
    return _prng.random_bits_impl_base(dtype._impl, words, key_rank, bit_width=bit_width, shape=shape)


def random_gamma(dtype: Any, words: Any, alpha: Any, log_space: bool) -> Any:
    keys = _prng.random_wrap(words, impl=dtype._impl)
    return _random._gamma_impl(keys, alpha, log_space=log_space, use_vmap=True)


def scan_counts(params: Mapping[str, Any], operands: int) -> tuple[int, int]:
    """How many of a scan's operands are constants of its body, and how many are carried."""
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    groups = params["ft_in"].update(range(operands)).unpack()
    return len(list(groups[0])), len(list(groups[1]))


def surely_positive(dim: Any) -> bool:
    """Whether a dimension, symbolic or not, is at least 1 for every value of its symbols."""
    try:
        return bool(dim >= 1)
    except _core.InconclusiveDimensionOperation:
        return False


def is_literal(atom: Any) -> bool:
    """Whether an operand of an equation is a literal."""
    return isinstance(atom, _core.Literal)


def run_state_of(body: Callable[[Any], None], init: Any) -> Any:
    """Run `body(refs)` on mutable references that begin as `init`; their last values."""
    return _discharge.run_state(body)(init)


def closed_call(fun: Callable[..., Any], *operands: Any) -> Any:
    """`fun`, which has one result, as one equation with a jaxpr; JAX makes such equations of what it has staged."""
    jaxpr = jax.make_jaxpr(fun)(*operands)
    if _AFTER_0_11:
        return _core.closed_call_p.bind(*operands, call_jaxpr=jaxpr)[0]
    return _core.closed_call_p.bind(*operands, **_core.closed_call_p.get_bind_params({"call_jaxpr": jaxpr}))[0]


def greatest(dim: Any) -> float:
    """An upper bound of a symbolic dimension, as far as JAX can tell."""
    upper: float = _shape_poly._bounds_decision(dim, _shape_poly.BoundsPrecision.BEST)[1]
    return upper

_AFTER_0_11 = jax.__version_info__ >= (0, 11)

DIGAMMA_AT_ZERO = float("-inf") if _AFTER_0_11 else float("nan")
"""JAX 0.10 counts zero among the poles that give NaN."""


def log2(x: Any) -> Any:
    """`lax.log2`, a primitive since JAX 0.11."""
    return vars(lax)["log2"](x) if _AFTER_0_11 else lax.log(x) / float(np.log(2))


def one_minus_square(x: Any) -> Any:
    """`lax.one_minus_square`, a primitive since JAX 0.11."""
    return vars(lax)["one_minus_square"](x) if _AFTER_0_11 else (1 - x) * (1 + x)


def polynomial(x: Any, coefficients: Sequence[Any]) -> Any:
    """`lax.polynomial` (the constant term first), a primitive since JAX 0.11."""
    if _AFTER_0_11:
        return vars(lax)["polynomial"](x, coefficients)
    result = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        result = result * x + coefficient
    return result


def is_static(dim: Any) -> bool:
    """Whether a dimension is a number, not an expression of symbols."""
    return _core.is_constant_dim(dim)


def is_jaxpr(value: Any) -> bool:
    """Whether a parameter is a jaxpr, open or closed."""
    return isinstance(value, (_core.Jaxpr, _ClosedJaxpr))


def is_drop_var(var: Any) -> bool:
    """Whether a result of an equation is thrown away."""
    return isinstance(var, _core.DropVar)


def bind_equation(eqn: Any, operands: Sequence[Any]) -> list[Any]:
    """Evaluate (or trace) one equation, keeping the name stack and the source line that it has."""
    names = _source_info.current_name_stack() + eqn.source_info.name_stack
    with _source_info.user_context(eqn.source_info.traceback, name_stack=names), eqn.ctx.manager:
        result = eqn.primitive.bind(*operands, **eqn.primitive.get_bind_params(eqn.params))
    return list(result) if eqn.primitive.multiple_results else [result]
