"""Cases of `calls`."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap
from jax.custom_derivatives import linear_call
from jax.experimental.custom_partitioning import custom_partitioning
from jax.experimental.scheduling_groups import xla_metadata_call
from jax2onnx_core import Case, construct

from jax2onnx_lax._case_helpers import at_most
from jax2onnx_lax._compat import call, closed_call, run_state_of

__all__ = ["cases"]


@jax.custom_vjp  # type: ignore[untyped-decorator]
def _twice(x: jax.Array) -> jax.Array:
    return 2 * x


_twice.defvjp(lambda x: (2 * x, None), lambda _, cotangent: (3 * cotangent,))


@jax.custom_jvp  # type: ignore[untyped-decorator]
def _thrice(x: jax.Array) -> jax.Array:
    return 3 * x


_thrice.defjvp(lambda primals, tangents: (3 * primals[0], 4 * tangents[0]))


@custom_vmap  # type: ignore[untyped-decorator]
def _negated(x: jax.Array) -> jax.Array:
    return -x


@_negated.def_vmap  # type: ignore[untyped-decorator]
def _negated_rule(size: int, batched: list[bool], x: jax.Array) -> tuple[jax.Array, bool]:
    return -2 * x / 2, batched[0]


@functools.partial(jax.custom_vjp)
def _cubed(x: jax.Array) -> jax.Array:
    return x**3


_cubed.defvjp(lambda x: (x**3, x), lambda x, cotangent: (3 * x * x * cotangent,), optimize_remat=True)


def _partitioned() -> Callable[[jax.Array], jax.Array]:
    fn = custom_partitioning(lambda x: 2 * x)
    fn.def_partition(partition=None, sharding_rule="i j -> i j")
    return fn


def _linear(x: jax.Array) -> jax.Array:
    return linear_call(lambda scale, v: scale * v, lambda scale, v: scale * v, x, x)


def _remat(x: jax.Array) -> jax.Array:
    return jax.checkpoint(lambda v: jnp.sin(jnp.sin(v)))(x)


def _composite(x: jax.Array) -> jax.Array:
    return lax.composite(functools.partial(lambda x, *, factor: x * factor), name="mylib.scale")(x, factor=3.0)


def _accumulate(x: jax.Array) -> tuple[jax.Array, ...]:
    def body(refs: tuple[jax.Ref, jax.Ref]) -> None:
        refs[0][...] = refs[0][...] + x
        refs[1][...] = refs[0][...] * 2

    return run_state_of(body, (x, jnp.zeros_like(x)))


cases = [
    Case("jit", lambda x: jax.jit(jnp.sin)(x), [("N", 3)], covers=("jit",), expect="Sin"),
    Case("jit_of_jit", jax.jit(lambda x: jax.jit(jnp.sin)(x) + 1), [("N", 3)], covers=("jit",), expect="Sin -> Add"),
    Case("checkpoint", _remat, [("N", 3)], covers=("remat2",), expect="Sin -> Sin"),
    Case("checkpoint_grad", jax.grad(lambda x: _remat(x).sum()), [("N", 3)], covers=("remat2",),
         expect=["Sin -> Cos -> Mul", "Cos -> Mul"]),
    Case("custom_vjp", _twice, [("N", 3)], covers=("custom_vjp_call",), expect="Mul"),
    Case("custom_vjp_grad", jax.grad(lambda x: _twice(x).sum()), [("N", 3)], covers=("custom_vjp_call",),
         expect="Shape -> Concat -> Expand -> Mul"),
    Case("custom_vjp_vmapped", jax.vmap(_twice), [("N", 3)], covers=("custom_vjp_call",), expect="Mul"),
    Case("custom_jvp", _thrice, [("N", 3)], covers=("custom_jvp_call",), expect="Mul"),
    Case("custom_jvp_jvp", lambda x: jax.jvp(_thrice, (x,), (x,)), [("N", 3)], covers=("custom_jvp_call",),
         expect=["Mul", "Mul"]),
    Case("custom_vmap", _negated, [("N", 3)], covers=("custom_vmap_call",), expect="Neg"),
    Case("custom_vmap_vmapped", jax.vmap(_negated), [("N", 3)], covers=("custom_vmap_call",), expect="Mul -> Div"),
    Case("linear_call", _linear, [("N", 3)], covers=("linear_call",), expect="Mul"),
    Case("composite", _composite, [("N", 3)], covers=("composite",), expect="Mul"),
    Case("custom_vjp_optimized", jax.grad(lambda x: _cubed(x).sum()), [(2, 3)], covers=("remat_opt",),
         expect="Mul -> Mul"),
    Case("custom_partitioning", construct(_partitioned), [(2, 3)], covers=("custom_partitioning",), expect="Mul"),
    Case("closed_call", lambda x: closed_call(jnp.sin, x), [(2, 3)], covers=("closed_call", "eval_jaxpr"),
         expect="Sin"),
    Case("call", lambda x: call(jnp.sin, x), [("N", 3)], covers=("call",), expect="Sin"),
    Case("call_grad", jax.grad(lambda x: call(jnp.sin, x).sum()), [("N", 3)], covers=("call",), expect="Cos"),
    Case("metadata_call", construct(xla_metadata_call, jnp.sin, colour="red"), [(2, 3)], covers=("xla_metadata_call",),
         expect="Sin"),
    Case("platform_dependent", lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos), [("N", 3)],
         covers=("platform_index",), expect="Sin",
         doc="The branch of the CPU is exported, on whatever platform the export runs."),
    Case("platform_default", lambda x: lax.platform_dependent(x, tpu=jnp.sin, default=jnp.cos), [("N", 3)],
         covers=("platform_index",), expect="Cos"),
    Case("run_state", _accumulate, [(2, 3)], covers=("run_state",), expect="Add -> Mul"),
    Case("ldexp", lambda x: jnp.ldexp(x, 3), [("N", 3)], covers=("call_hi_primitive",), expect=at_most(160)),
    Case("searchsorted", lambda x, y: jnp.searchsorted(jnp.sort(x), y), [(4,), ("N",)], covers=("call_hi_primitive",),
         expect=at_most(30, If=0, Loop=1)),
    Case("frexp_grad", jax.grad(lambda x: jnp.frexp(x)[0].sum()), [("N",)], covers=("call_hi_primitive",),
         expect=at_most(280)),
]  # fmt: skip
