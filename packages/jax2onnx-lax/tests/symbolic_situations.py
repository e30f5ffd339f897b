"""A table of what people write on shapes that are not known: each row one function and the dimensions it is exported for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

__all__ = ["SITUATIONS", "Situation"]


@dataclasses.dataclass(frozen=True)
class Situation:
    """`fn` on inputs of these specifications; `sizes` where the smallest, a prime and a larger one do not do."""

    name: str
    fn: Callable[..., Any]
    inputs: Sequence[Any]
    constraints: Sequence[str] = ()
    sizes: Sequence[dict[str, int]] | None = None


def _on(*inputs: Any, constraints: Sequence[str] = (), **functions: Callable[..., Any]) -> list[Situation]:
    """Situations that share their inputs."""
    return [Situation(name, fn, inputs, constraints) for name, fn in functions.items()]


def _int(*dims: Any) -> tuple[Any, str]:
    return dims, "int32"


_CREATION = _on(
    ("N", 3), ("M",),
    iota=lambda x, y: lax.iota(np.int32, x.shape[0]),
    iota_of_an_expression=lambda x, y: lax.iota(np.float32, 2 * x.shape[0] + y.shape[0]),
    broadcasted_iota=lambda x, y: lax.broadcasted_iota(np.int32, (x.shape[0], 2, y.shape[0]), 2),
    arange=lambda x, y: jnp.arange(x.shape[0]) + x[:, 0],
    arange_with_bounds=lambda x, y: jnp.arange(x.shape[0], x.shape[0] + y.shape[0]),
    arange_with_a_step=lambda x, y: jnp.arange(0, 3 * x.shape[0], 2),
    arange_backwards=lambda x, y: jnp.arange(x.shape[0], 0, -1),
    arange_of_floats=lambda x, y: jnp.arange(x.shape[0], dtype=jnp.float32) / x.shape[0],
    linspace=lambda x, y: jnp.linspace(0.0, 1.0, x.shape[0] + 1)[1:] + x[:, 0],
    linspace_without_its_end=lambda x, y: jnp.linspace(x[0, 0], 2.0, x.shape[0] + 1, endpoint=False),
    eye=lambda x, y: jnp.eye(x.shape[0]) @ x,
    eye_wide=lambda x, y: jnp.eye(x.shape[0], y.shape[0], k=1),
    full=lambda x, y: jnp.full((x.shape[0], y.shape[0]), 7.0),
    full_of_a_value=lambda x, y: jnp.full((y.shape[0], 2), x[0, :2]),
    zeros_and_ones=lambda x, y: (jnp.zeros((x.shape[0] + 1,)), jnp.ones_like(x)),
    one_hot=lambda x, y: jax.nn.one_hot(jnp.arange(3), x.shape[0]),
    tri=lambda x, y: jnp.tri(x.shape[0], y.shape[0]),
    tril_and_triu=lambda x, y: (jnp.tril(x), jnp.triu(x, 1)),
    causal_mask=lambda x, y: jnp.tril(jnp.ones((x.shape[0], x.shape[0]), bool)),
    meshgrid=lambda x, y: jnp.meshgrid(jnp.arange(x.shape[0]), y, indexing="ij"),
    a_dimension_as_a_number=lambda x, y: x / x.shape[0] + jnp.sqrt(1.5 * jnp.asarray(y.shape[0])),
    the_size_of_an_array=lambda x, y: x.sum() / x.size,
    a_shape_as_an_array=lambda x, y: jnp.array([x.shape[0], y.shape[0]]),
    random_normal=lambda x, y: x + jax.random.normal(jax.random.key(0), x.shape),
    random_uniform=lambda x, y: jax.random.uniform(jax.random.key(1), (x.shape[0], y.shape[0])),
    random_bits=lambda x, y: jax.random.bits(jax.random.key(1), (x.shape[0],)),
    random_integers=lambda x, y: jax.random.randint(jax.random.key(1), (x.shape[0],), 0, 9),
    random_bernoulli=lambda x, y: jax.random.bernoulli(jax.random.key(1), 0.4, x.shape),
    random_categorical=lambda x, y: jax.random.categorical(jax.random.key(1), x),
)  # fmt: skip

_SHAPES = _on(
    ("B", "T", 6), ("T",),
    flatten=lambda x, y: x.reshape(-1),
    flatten_rows=lambda x, y: x.reshape(x.shape[0] * x.shape[1], 6),
    flatten_all_but_the_first=lambda x, y: x.reshape(x.shape[0], -1),
    reshape_with_several_symbols=lambda x, y: x.reshape(x.shape[1], x.shape[0], 3, 2),
    split_heads=lambda x, y: x.reshape(x.shape[0], x.shape[1], 2, 3).transpose(0, 2, 1, 3),
    ravel_and_back=lambda x, y: jnp.sin(x.reshape(-1)).reshape(x.shape),
    reshape_to_an_expression=lambda x, y: x.reshape(2 * x.shape[0], 3 * x.shape[1]),
    transpose=lambda x, y: x.transpose(2, 1, 0),
    swap_and_move=lambda x, y: (x.swapaxes(0, 1), jnp.moveaxis(x, 2, 0)),
    expand_and_squeeze=lambda x, y: jnp.squeeze(x[:, None, :, None], axis=1),
    broadcast_to=lambda x, y: jnp.broadcast_to(y, (x.shape[0], x.shape[1])),
    broadcast_rows=lambda x, y: x + y[None, :, None],
    concatenate=lambda x, y: jnp.concatenate([x, x[:, :, :2]], axis=2),
    concatenate_along_a_symbol=lambda x, y: jnp.concatenate([x, x, jnp.zeros((x.shape[0], 1, 6))], axis=1),
    stack=lambda x, y: jnp.stack([x, 2 * x], axis=1),
    split=lambda x, y: jnp.split(x, 3, axis=2),
    split_at_an_index=lambda x, y: jnp.split(jnp.concatenate([x, x], 1), [x.shape[1]], axis=1),
    repeat=lambda x, y: jnp.repeat(x, 3, axis=1),
    repeat_by_a_symbol=lambda x, y: jnp.repeat(y, x.shape[0]),
    tile=lambda x, y: jnp.tile(x, (1, 2, 3)),
    tile_by_a_symbol=lambda x, y: jnp.tile(y, (x.shape[0], 2)),
    roll=lambda x, y: jnp.roll(x, 2, axis=1),
    roll_backwards=lambda x, y: jnp.roll(x, -1, axis=0),
    flip=lambda x, y: jnp.flip(x, axis=1),
    rot90=lambda x, y: jnp.rot90(x, axes=(1, 2)),
    pad=lambda x, y: jnp.pad(x, ((0, 0), (2, 1), (0, 0))),
    pad_by_an_expression=lambda x, y: jnp.pad(x, ((0, 0), (x.shape[0], 2 * x.shape[1]), (0, 0))),
    pad_to_a_multiple=lambda x, y: jnp.pad(x, ((0, 0), (0, -x.shape[1] % 4), (0, 0))),
    pad_inside=lambda x, y: lax.pad(y, 0.0, [(1, x.shape[0], 2)]),
    pad_away=lambda x, y: lax.pad(jnp.concatenate([y, y]), 0.0, [(-1, 0, 0)]),
    pad_with_edges=lambda x, y: jnp.pad(y, (2, 1), mode="edge"),
    outer=lambda x, y: jnp.outer(y, y),
    kron=lambda x, y: jnp.kron(y, jnp.arange(3.0)),
    diag=lambda x, y: jnp.diag(y),
    diagonal=lambda x, y: jnp.diagonal(jnp.outer(y, y)),
)  # fmt: skip

_SLICES = _on(
    ("B", "N"), constraints=["N >= 3"],
    the_second_half=lambda x: x[:, -(x.shape[1] // 2):],
    the_first_half=lambda x: x[:, : x.shape[1] // 2],
    all_but_the_last=lambda x: x[:, :-1],
    the_last=lambda x: x[:, -1],
    the_last_kept=lambda x: x[:, -1:],
    every_second=lambda x: x[:, ::2],
    every_second_from_one=lambda x: x[:, 1::2],
    reversed_rows=lambda x: x[:, ::-1],
    every_second_backwards=lambda x: x[:, ::-2],
    backwards_from_an_expression=lambda x: x[:, x.shape[1] - 2 :: -1],
    the_middle=lambda x: x[:, 1:-1],
    by_expressions=lambda x: x[:, x.shape[1] // 3 : 2 * x.shape[1] // 3],
    at_a_symbolic_index=lambda x: lax.dynamic_index_in_dim(x, x.shape[1] // 2, 1),
    differences=lambda x: jnp.diff(x, axis=1),
    dynamic_slice=lambda x: lax.dynamic_slice(x, (0, 1), (x.shape[0], 2)),
    dynamic_slice_of_symbolic_size=lambda x: lax.dynamic_slice_in_dim(x, x[0, 0].astype(int), x.shape[1] - 1, 1),
    dynamic_update_slice=lambda x: lax.dynamic_update_slice(x, -x[:, :2], (0, x[0, 0].astype(int))),
    set_at=lambda x: x.at[:, 1].set(0.0),
    set_a_range=lambda x: x.at[:, 1:-1].set(2.0),
    add_at_the_last=lambda x: x.at[:, -1].add(1.0),
    multiply_every_second=lambda x: x.at[:, ::2].multiply(2.0),
)  # fmt: skip

_INDEXING = _on(
    ("N", "D"), _int("K"), constraints=["N >= 5"],
    take=lambda x, i: jnp.take(x, i, axis=0),
    gather_rows=lambda x, i: x[i],
    gather_elements=lambda x, i: x[i, 0],
    gather_with_computed_indices=lambda x, i: x[x.shape[0] - 1 - i],
    gather_out_of_bounds=lambda x, i: jnp.take(x, i + x.shape[0] - 2, axis=0, mode="fill"),
    gather_backwards=lambda x, i: x[-i],
    take_along_axis=lambda x, i: jnp.take_along_axis(x, jnp.argsort(x, axis=0), axis=0),
    scatter_set=lambda x, i: x.at[i].set(1.5),
    scatter_add=lambda x, i: x.at[i].add(1.5),
    scatter_rows=lambda x, i: jnp.zeros_like(x).at[i].add(jnp.ones((i.shape[0], x.shape[1]))),
    scatter_max=lambda x, i: x.at[i].max(0.5),
    segment_sum=lambda x, i: jax.ops.segment_sum(jnp.ones(i.shape[0]), i, num_segments=x.shape[0]),
    bincount=lambda x, i: jnp.bincount(i, length=x.shape[0]),
    one_hot_product=lambda x, i: jax.nn.one_hot(i, x.shape[0]) @ x,
    where=lambda x, i: jnp.where(x > 0, x, x.shape[1]),
    clip_to_a_size=lambda x, i: jnp.clip(i + 1, 0, x.shape[1] - 1),
    searchsorted=lambda x, i: jnp.searchsorted(jnp.arange(4.0), x[:, 0]),
    nonzero_of_fixed_size=lambda x, i: jnp.nonzero(x[:, 0] > 0, size=4, fill_value=-1),
    argwhere_of_symbolic_size=lambda x, i: jnp.where(x[:, 0] > 0, size=x.shape[0], fill_value=0),
)  # fmt: skip

_REDUCTIONS = _on(
    ("B", "N"),
    sums=lambda x: (x.sum(), x.sum(0), x.sum(1, keepdims=True)),
    mean=lambda x: x.mean(1),
    mean_of_all=lambda x: x.mean(),
    variance=lambda x: (x.var(1), x.std(0)),
    median=lambda x: jnp.median(x, axis=1),
    quantile=lambda x: jnp.quantile(x, 0.3, axis=1),
    extremes=lambda x: (x.max(1), x.min(0), jnp.ptp(x)),
    products=lambda x: x.prod(1),
    any_and_all=lambda x: ((x > 0).any(1), (x > 0).all(0)),
    argmax=lambda x: (x.argmax(1), x.argmin(0), x.argmax()),
    sort=lambda x: jnp.sort(x, axis=1),
    sort_descending=lambda x: jnp.sort(x, axis=0, descending=True),
    argsort=lambda x: jnp.argsort(x, axis=1),
    sort_by_keys=lambda x: lax.sort((x, -x), dimension=1, num_keys=1),
    top_1=lambda x: lax.top_k(x, 1),
    top_of_symbolic_size=lambda x: lax.top_k(x, x.shape[1]),
    cumsum=lambda x: jnp.cumsum(x, axis=1),
    cumulative_others=lambda x: (lax.cummax(x, 1), lax.cumprod(x, 0), lax.cumlogsumexp(x, 1)),
    cumsum_backwards=lambda x: lax.cumsum(x, 1, reverse=True),
    softmax=lambda x: (jax.nn.softmax(x), jax.nn.log_softmax(x, axis=0)),
    logsumexp=lambda x: jax.nn.logsumexp(x, axis=1),
    norm=lambda x: jnp.linalg.norm(x, axis=1),
    layer_norm=lambda x: (x - x.mean(1, keepdims=True)) * lax.rsqrt(x.var(1, keepdims=True) + 1e-5),
    average=lambda x: jnp.average(x, axis=1, weights=jnp.abs(x[0]) + 1),
    standardize=lambda x: jax.nn.standardize(x),
    associative_scan=lambda x: jnp.cumsum(lax.associative_scan(jnp.add, x[:, :1], axis=1), axis=0),
    unique_of_fixed_size=lambda x: jnp.unique(jnp.floor(x), size=6, fill_value=0),
    histogram=lambda x: jnp.histogram(x, bins=4, range=(-2.0, 2.0))[0],
)  # fmt: skip

_PRODUCTS = [
    *_on(
        ("B", "N", "D"), ("B", "M", "D"),
        einsum=lambda x, y: jnp.einsum("bnd,bmd->bnm", x, y),
        einsum_to_one=lambda x, y: jnp.einsum("bnd,bmd->b", x, y),
        einsum_outer=lambda x, y: jnp.einsum("bnd,bmd->nmb", x, y),
        matmul=lambda x, y: x @ y.swapaxes(1, 2),
        dot_general=lambda x, y: lax.dot_general(x, y, (([2], [2]), ([0], [0]))),
        tensordot=lambda x, y: jnp.tensordot(x, y, axes=([0, 2], [0, 2])),
        vdot=lambda x, y: jnp.vdot(x, x),
        attention=lambda q, k: jax.nn.softmax(q @ k.swapaxes(1, 2) / jnp.sqrt(q.shape[-1])) @ k,
        distances=lambda x, y: jnp.sqrt(((x[:, :, None] - y[:, None]) ** 2).sum(-1)),
        mapped=lambda x, y: jax.vmap(lambda a, b: a @ b.T)(x, y),
        mapped_twice=lambda x, y: jax.vmap(jax.vmap(lambda a: a / (1 + jnp.linalg.norm(a))))(x),
        mapped_over_one=lambda x, y: jax.vmap(lambda a: a.sum() * y, in_axes=1)(x),
        gradient=lambda x, y: jax.grad(lambda a: jnp.tanh(a @ y.swapaxes(1, 2)).mean())(x),
        jacobian_product=lambda x, y: jax.jvp(lambda a: jax.nn.softmax(a, axis=1), (x,), (x,)),
        gradient_of_a_gather=lambda x, y: jax.grad(lambda a: a[:, ::2].sum() + jnp.sin(a[:, -1]).sum())(x),
        conditional=lambda x, y: lax.cond(x.sum() > 0, lambda: x * 2, lambda: x - jnp.arange(x.shape[1])[:, None]),
    ),
    *_on(
        ("B", "T", 2, 4),
        causal_attention=lambda x: jax.nn.dot_product_attention(x, x, x, is_causal=True),
        masked_attention=lambda x: jax.nn.dot_product_attention(
            x, x, x, mask=jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))[None, None]),
        biased_attention=lambda x: jax.nn.dot_product_attention(
            x, x, x, bias=-jnp.abs(jnp.arange(x.shape[1])[:, None] - jnp.arange(x.shape[1])).astype(x.dtype)[None, None]),
    ),
]  # fmt: skip

_LOOPS = _on(
    ("T", "D"),
    scan=lambda x: lax.scan(lambda c, row: (c + row, c * row), jnp.zeros(x.shape[1]), x),
    scan_backwards=lambda x: lax.scan(lambda c, row: (c + row, c), jnp.zeros(x.shape[1]), x, reverse=True),
    scan_of_symbolic_length=lambda x: lax.scan(lambda c, i: (c * 0.5, c.sum() + i), x, jnp.arange(x.shape[0])),
    scan_that_makes_arrays=lambda x: lax.scan(lambda c, r: (c + jnp.arange(x.shape[1]), r), jnp.zeros(x.shape[1]), x),
    fori_loop_of_symbolic_length=lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i], jnp.zeros(x.shape[1])),
    fori_loop=lambda x: lax.fori_loop(0, 3, lambda i, c: c * 0.5 + i, x),
    while_with_symbolic_shapes=lambda x: lax.while_loop(lambda c: jnp.abs(c).sum() > 1, lambda c: c * 0.5, x),
    while_to_a_size=lambda x: lax.while_loop(lambda c: c[0] < x.shape[0], lambda c: (c[0] + 1, c[1] + c[0]), (0, x)),
    cond_over_shapes=lambda x: lax.cond(x[0, 0] > 0, jnp.sin, lambda v: v / v.shape[0], x),
    switch=lambda x: lax.switch(x[0, 0].astype(int), [jnp.sin, jnp.cos, lambda v: v * v.shape[1]], x),
    map_over_rows=lambda x: lax.map(lambda row: row / (1 + jnp.abs(row).max()), x),
    nested_scans=lambda x: lax.scan(
        lambda c, row: (c + lax.scan(lambda d, e: (d + e, d), 0.0, row)[0], row.sum()), 0.0, x),
    gradient_of_a_scan=lambda x: jax.grad(lambda a: lax.scan(lambda c, r: (jnp.tanh(c + r), c), a[0], a)[0].sum())(x),
    checkpointed=lambda x: jax.checkpoint(lambda a: jnp.sin(a) * a.shape[0])(x),
    jitted=lambda x: jax.jit(lambda a: jnp.concatenate([a, a]))(x),
)  # fmt: skip

_CONV = ("NHWC", "HWIO", "NHWC")
_KERNEL = np.random.default_rng(0).standard_normal((3, 3, 2, 4)).astype(np.float32)


def _conv(strides: int, padding: Any, **options: Any) -> Callable[..., Any]:
    return lambda x: lax.conv_general_dilated(
        x, _KERNEL, (strides, strides), padding, dimension_numbers=_CONV, **options
    )


def _pool(padding: str, strides: int) -> Callable[..., Any]:
    window, steps = (1, 2, 2, 1), (1, strides, strides, 1)
    return lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, window, steps, padding),
                      lax.reduce_window(x, 0.0, lax.add, window, steps, padding))  # fmt: skip


_IMAGES = _on(
    ("B", "H", "W", 2), constraints=["H >= 5", "W >= 5"],
    conv_same=_conv(1, "SAME"),
    conv_valid=_conv(1, "VALID"),
    conv_same_strided=_conv(2, "SAME"),
    conv_valid_strided=_conv(2, "VALID"),
    conv_dilated=_conv(1, "VALID", rhs_dilation=(2, 2)),
    conv_same_dilated=_conv(1, "SAME", rhs_dilation=(2, 2)),
    conv_with_own_padding=_conv(1, [(2, 1), (0, 3)]),
    conv_upsampling=_conv(1, [(2, 2), (2, 2)], lhs_dilation=(2, 2)),
    conv_transpose=lambda x: lax.conv_transpose(x, _KERNEL, (2, 2), "SAME", dimension_numbers=_CONV),
    conv_transpose_valid=lambda x: lax.conv_transpose(x, _KERNEL, (2, 2), "VALID", dimension_numbers=_CONV),
    conv_gradient=lambda x: jax.grad(lambda a: (_conv(1, "SAME")(a) ** 2).sum())(x),
    pool_valid=_pool("VALID", 2),
    pool_same=_pool("SAME", 2),
    pool_overlapping=_pool("SAME", 1),
    pool_gradient=lambda x: jax.grad(lambda a: (_pool("VALID", 2)(a)[0] ** 2).sum())(x),
    global_pool=lambda x: x.mean((1, 2)),
    resize_twice=lambda x: jax.image.resize(x, (x.shape[0], 2 * x.shape[1], 2 * x.shape[2], 2), "nearest"),
    resize_linearly=lambda x: jax.image.resize(x, (x.shape[0], 2 * x.shape[1], 2 * x.shape[2], 2), "bilinear"),
    resize_to_a_number=lambda x: jax.image.resize(x, (x.shape[0], 8, 8, 2), "bilinear"),
    patches=lambda x: lax.conv_general_dilated_patches(x, (2, 2), (1, 1), "VALID", dimension_numbers=_CONV),
    space_to_depth=lambda x: x[:, : x.shape[1] // 2 * 2].reshape(x.shape[0], x.shape[1] // 2, 2, x.shape[2], 2),
)  # fmt: skip


def _definite(x: jax.Array) -> jax.Array:
    return x @ x.T + 2 * jnp.eye(x.shape[0])


_LINEAR_ALGEBRA = _on(
    ("N", "N"),
    cholesky=lambda x: jnp.linalg.cholesky(_definite(x)),
    solve=lambda x: jnp.linalg.solve(_definite(x), x),
    triangular_solve=lambda x: jax.scipy.linalg.solve_triangular(jnp.tril(x) + 4 * jnp.eye(x.shape[0]), x, lower=True),
    determinant=lambda x: jnp.linalg.slogdet(_definite(x)),
    inverse=lambda x: jnp.linalg.inv(_definite(x)),
    qr=lambda x: jnp.abs(jnp.linalg.qr(x, mode="r")),
    matrix_power=lambda x: jnp.linalg.matrix_power(x, 3),
    trace=lambda x: jnp.trace(x),
)  # fmt: skip

_EXPRESSIONS = [
    Situation("odd_size", lambda x: x[::2] * 2, [("2*T + 1", 3)]),
    Situation("an_affine_size", lambda x, y: (x.sum() + y, x[: y.shape[0]]), [("S + 274*T",), ("T",)]),
    Situation("a_mask_over_cache_and_new", lambda m, c: jnp.where(m, 0.0, -1.0).sum(1) + c.shape[0],
              [(("T", "S + T"), bool), ("S", 2)], ["S >= 0"]),
    Situation("floordiv_size", lambda x, y: x.sum() + y, [("floordiv(H, 2)",), ("H",)], ["H >= 2"]),
    Situation("mod_size", lambda x, y: x.sum() + y, [("mod(H, 3) + 1",), ("H",)]),
    Situation("max_and_min", lambda x, y, z: (x * 2, y + z.sum()), [("max(A, 3)",), ("min(B, A)",), ("A", "B")]),
    Situation("at_least_two", lambda x: x[1:] - x[:-1], [("T", 3)], ["T >= 2"]),
    Situation("a_multiple", lambda x: x.reshape(x.shape[0] // 4, 4, 3).sum(1), [("T", 3)], ["mod(T, 4) == 0"]),
    Situation("one_twice_the_other", lambda a, b: a.reshape(b.shape[0], 2) + b[:, None], [("A",), ("B",)], ["A == 2*B"]),
    Situation("minimum_zero", lambda p, x: jnp.concatenate([p, x]), [("S", 2), ("T", 2)], ["S >= 0"]),
    Situation("reductions_of_nothing", lambda p: (p.sum(0), p.prod(1), jnp.cumsum(p, 0), (p > 0).any()), [("S", 2)], ["S >= 0"]),
    Situation("indexing_of_nothing", lambda p: (jnp.sort(p, 0), lax.rev(p, [0]), p.reshape(-1), p[1:]), [("S", 2)], ["S >= 0"]),
    Situation("products_of_nothing", lambda p, q: (p @ q, q @ p, jnp.einsum("sd,dt->ts", p, q)), [("S", 3), (3, "S")], ["S >= 0"]),
    Situation("loops_of_nothing", lambda p: lax.scan(lambda c, r: (c + r, c), jnp.zeros(2), p), [("S", 2)], ["S >= 0"]),
    Situation("attention_without_a_cache",
              lambda q, k: jax.nn.softmax(q @ jnp.concatenate([k, q]).T) @ jnp.concatenate([k, q]),
              [("T", 4), ("S", 4)], ["S >= 0"]),
    Situation("anonymous", lambda x, y: (x * 2, y.sum(0)), [(None, 3), (None, None)]),
    Situation("pytrees", lambda b: {"sum": b["a"] + b["rest"][0].sum(), "t": b["rest"][1].T},
              [{"a": ("B",), "rest": [("B", 2), ("T", "B")]}]),
    Situation("structs_of_texts", lambda b: b["x"] @ b["w"],
              [{"x": jax.ShapeDtypeStruct(("B", 4), np.float32), "w": jax.ShapeDtypeStruct((4, "2*K"), np.float32)}]),
]  # fmt: skip

SITUATIONS = [
    *_CREATION, *_SHAPES, *_SLICES, *_INDEXING, *_REDUCTIONS, *_PRODUCTS, *_LOOPS, *_IMAGES, *_LINEAR_ALGEBRA,
    *_EXPRESSIONS,
]  # fmt: skip
