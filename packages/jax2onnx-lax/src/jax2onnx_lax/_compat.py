"""The names of JAX that are private or depend on its version, for this package."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
from jax import lax
from jax._src import core as _core
from jax._src import source_info_util as _source_info
from jax._src.core import ShapedArray, max_dim, min_dim
from jax._src.interpreters import ad as _ad
from jax._src.interpreters import batching as _batching
from jax._src.lax import special as _special
from jax._src.lax.lax import _ragged_dot_general_impl as ragged_dot_general
from jax._src.numpy.indexing import rewriting_take
from jax._src.numpy.setops import _unique_sorted_mask as sorted_rows
from jax._src.ops.scatter import _scatter_update as scatter_update
from jax._src.random import core as _random
from jax._src.random import philox2x32 as _philox2x32
from jax._src.random import philox4x32 as _philox4x32
from jax._src.random import prng as _prng
from jax._src.random import threefry4x32 as _threefry4x32
from jax._src.state import discharge as _discharge
from jax2onnx_core import Dim
from jax2onnx_core.jax_types import Equation, Jaxpr, Primitive, PyTree
from jax2onnx_core.jaxprs import Dims, bind_primitive

# What is traced here is traced for the line of the user behind it.
_source_info.register_exclusion(os.path.dirname(__file__))

__all__ = [
    "DIGAMMA_AT_ZERO",
    "ShapedArray",
    "batched",
    "bessel_i0e",
    "betainc",
    "call",
    "closed_call",
    "igamma",
    "igamma_grad_a",
    "igammac",
    "inconclusive_dimension_error",
    "interpreted_kernel",
    "is_differentiated",
    "is_threefry",
    "lax_function",
    "max_dim",
    "min_dim",
    "permutes_in_mesh_order",
    "philox2x32",
    "philox4x32",
    "ragged_dot_general",
    "random_bits",
    "random_fold_in",
    "random_gamma",
    "random_seed",
    "random_split",
    "register_resizing",
    "rewriting_take",
    "scatter_update",
    "sorted_rows",
    "sparse_definition",
    "threefry4x32",
    "traced_body",
    "traced_for",
]


def is_differentiated(x: object) -> bool:
    """Whether a value is one by which a derivative is being computed."""
    return isinstance(x, _ad.JVPTracer | _ad.LinearizeTracer)


inconclusive_dimension_error = _core.InconclusiveDimensionOperation

ArrayFn = Callable[..., jax.Array]
ArraysFn = Callable[..., Sequence[jax.Array]]

run_state: ArraysFn = _discharge._run_state_impl

# JAX's own iterations for the incomplete gamma and beta functions: operands are broadcast, and half
# precision is computed in float32, as its lowering does.
igamma: ArrayFn = _special._up_and_broadcast(_special.igamma_impl)
igammac: ArrayFn = _special._up_and_broadcast(_special.igammac_impl)
igamma_grad_a: ArrayFn = _special._up_and_broadcast(_special.igamma_grad_a_impl)
betainc: ArrayFn = _special._up_and_broadcast(_special.regularized_incomplete_beta_impl)
bessel_i0e: ArrayFn = _special.bessel_i0e_impl

# JAX's counter-based hashes: key words and counter words → as many words as the counter has.
philox2x32: ArraysFn = _philox2x32._philox2x32_lowering
philox4x32: ArraysFn = _philox4x32._philox4x32_lowering
threefry4x32: ArraysFn = _threefry4x32._threefry4x32_lowering


def _generator(dtype: Any) -> Any:
    """The implementation behind a dtype of typed keys."""
    return dtype._impl


def is_threefry(dtype: object) -> bool:
    """Whether the typed keys of a dtype are those of JAX's default generator, whose bits under `vmap` are those of each key."""
    return bool(_generator(dtype).tag == "fry")


def random_seed(dtype: object, seeds: jax.Array) -> jax.Array:
    """The uint32 words of keys made from integer seeds; `dtype` is that of the typed keys."""
    return _prng.random_seed_impl_base(seeds, impl=_generator(dtype))


def random_split(dtype: object, words: jax.Array, key_rank: int, shape: Sequence[Dim]) -> jax.Array:
    """The words of new keys that keys are split into.

    Args:
      dtype: the dtype of typed keys.
      words: the uint32 words of the keys, [*keys, words].
      key_rank: the number of axes `keys`.
      shape: the shape of the new keys of each key.

    Returns:
      [*keys, *shape, words].
    """
    return _prng.random_split_impl_base(_generator(dtype), words, key_rank, shape=shape)


def random_fold_in(dtype: object, words: jax.Array, data: jax.Array, key_shape: Sequence[Dim]) -> jax.Array:
    """The words of keys into which integers are folded.

    Args:
      dtype: the dtype of typed keys.
      words: the uint32 words of the keys, [*keys, words].
      data: the integers, one for each key.
      key_shape: the dimensions `keys`.
    """
    return _prng.random_fold_in_impl_base(_generator(dtype), words, data, key_shape)


def random_bits(dtype: object, words: jax.Array, key_rank: int, bit_width: int, shape: Sequence[Dim]) -> jax.Array:
    """Random unsigned integers.

    Args:
      dtype: the dtype of typed keys.
      words: the uint32 words of the keys, [*keys, words].
      key_rank: the number of axes `keys`.
      bit_width: the number of bits of an integer: 8, 16, 32 or 64.
      shape: the shape of the integers of each key.

    Returns:
      [*keys, *shape].
    """
    return _prng.random_bits_impl_base(_generator(dtype), words, key_rank, bit_width=bit_width, shape=shape)


def random_gamma(dtype: object, words: jax.Array, alpha: jax.Array, log_space: bool) -> jax.Array:
    """Gamma variates.

    Args:
      dtype: the dtype of typed keys.
      words: the uint32 words of the keys.
      alpha: the parameter of the distribution, one for each key.
      log_space: whether the logarithms of the variates are returned.
    """
    keys = _prng.random_wrap(words, impl=_generator(dtype))
    return _random._gamma_impl(keys, alpha, log_space=log_space, use_vmap=True)


def sparse_definition(name: str) -> ArraysFn:
    """JAX's own computation of a primitive of `jax.experimental.sparse`, a package that is imported here only."""
    family = name.partition("_")[0] if "_" in name else "api"
    definition: ArraysFn = vars(importlib.import_module(f"jax.experimental.sparse.{family}"))[f"_{name}_impl"]
    return definition


def interpreted_kernel(*operands: jax.Array, **params: object) -> Sequence[jax.Array]:
    """Run a kernel of Pallas by its interpreter, block after block; its package is imported here only."""
    interpreter = importlib.import_module("jax._src.pallas.hlo_interpreter")
    results: Sequence[jax.Array] = interpreter.pallas_call_hlo_interpret(*operands, **params)
    return results


def run_state_of(body: Callable[..., None], init: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    """Run `body(refs)` on mutable references that begin as `init`; their last values."""
    return _discharge.run_state(body)(init)


def closed_call(fun: ArrayFn, *operands: jax.Array) -> jax.Array:
    """`fun`, which has one result, as one equation with a jaxpr, as JAX makes them of staged functions."""
    jaxpr = jax.make_jaxpr(fun)(*operands)
    if _AFTER_0_11:
        return _core.closed_call_p.bind(*operands, call_jaxpr=jaxpr)[0]
    return _core.closed_call_p.bind(*operands, **_core.closed_call_p.get_bind_params({"call_jaxpr": jaxpr}))[0]


def call(fun: ArrayFn, *operands: jax.Array) -> jax.Array:
    """The same with the primitive `call`, which JAX 0.11 dropped for `closed_call`."""
    if _AFTER_0_11:
        return closed_call(fun, *operands)
    jaxpr = jax.make_jaxpr(fun)(*operands).jaxpr
    return _core.call_p.bind(*operands, **_core.call_p.get_bind_params({"call_jaxpr": jaxpr}))[0]


_AFTER_0_11 = jax.__version_info__ >= (0, 11)

DIGAMMA_AT_ZERO = float("-inf") if _AFTER_0_11 else float("nan")
"""JAX 0.10 counts zero among the poles that give NaN."""


def lax_function(name: str, otherwise: ArrayFn) -> ArrayFn:
    """`jax.lax.<name>`, or `otherwise` where this version of JAX lacks it."""
    found: ArrayFn = vars(lax).get(name, otherwise)
    return found


@contextlib.contextmanager
def traced_for(eqn: Equation) -> Iterator[None]:
    """Give equations that are traced in the block the line, the names and the options of one equation."""
    names = _source_info.current_name_stack() + eqn.source_info.name_stack
    with _source_info.user_context(eqn.source_info.traceback, name_stack=names), eqn.ctx.manager:
        yield


def traced_body(eqn: Equation, axes: Sequence[tuple[str, int]]) -> Jaxpr:
    """The closed jaxpr of one equation, in which the axes of a mesh have names and sizes."""
    operands = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars]

    def body(*xs: jax.Array) -> list[jax.Array]:
        return bind_primitive(eqn.primitive, eqn.params, *xs)

    return jax.make_jaxpr(body, axis_env=list(axes))(*operands)


def batched(jaxpr: Jaxpr, axis: str, size: int, operands: Sequence[bool]) -> tuple[Jaxpr, Sequence[bool]]:
    """A closed jaxpr under `jax.vmap` along a named axis, which leads in arrays.

    Args:
      jaxpr: the jaxpr.
      axis: the name of the axis.
      size: its size.
      operands: which of the operands have it.

    Returns:
      The jaxpr, and which of the results have the axis.
    """
    return _batching.batch_jaxpr(jaxpr, _batching.AxisData(axis, size, None, None), list(operands), False)


def permutes_in_mesh_order() -> bool:
    """Whether `ppermute` counts devices in the order of the mesh where its axes are named in another one, as earlier versions of JAX did."""
    return "jax_raise_on_ppermute_sort_diff" not in jax.config.values


def register_resizing(primitive: Primitive) -> None:
    """Make a linear primitive that gives its operand the shape of its parameter `shape`, which has as many elements."""

    def batcher(operands: Sequence[jax.Array], axes: Sequence[int], *, shape: Dims, **params: object) -> PyTree:
        (x,), (axis,) = operands, axes
        moved = jax.numpy.moveaxis(x, axis, 0)
        return primitive.bind(moved, shape=(moved.shape[0], *shape), **params), 0

    def transpose(cotangent: jax.Array, operand: PyTree, *, shape: Dims, **params: object) -> list[jax.Array]:
        return [primitive.bind(cotangent, shape=operand.aval.shape, **params)]

    primitive.def_impl(lambda x, *, shape, **_: x.reshape(tuple(map(int, shape))))
    primitive.def_abstract_eval(lambda x, *, shape, **_: x.update(shape=shape))
    _ad.deflinear2(primitive, transpose)
    _batching.primitive_batchers[primitive] = batcher
