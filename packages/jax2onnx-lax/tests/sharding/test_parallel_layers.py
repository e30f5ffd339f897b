"""A transformer layer that is written for many devices is the graph of the same layer for one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType
from jax2onnx_core import OnnxProgram, to_onnx

P = jax.P
WIDTH, HIDDEN, TOKENS = 16, 32, 6
RNG = np.random.default_rng(0)
Parameters = dict[str, np.ndarray]
Step = Callable[[jax.Array], jax.Array]


def normal(*shape: int) -> np.ndarray:
    return (RNG.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)


WEIGHTS: Parameters = {
    **{name: normal(WIDTH, WIDTH) for name in "qkvo"},
    "up": normal(WIDTH, HIDDEN), "bias": normal(HIDDEN), "down": normal(HIDDEN, WIDTH), "scale": normal(WIDTH) + 1,
}  # fmt: skip
TENSOR = {
    **dict.fromkeys("qkv", P(None, "m")), "o": P("m"), "up": P(None, "m"), "bias": P("m"), "down": P("m"), "scale": P()
}  # fmt: skip


def mesh(count: int, *names: str) -> jax.sharding.Mesh:
    shape = (count,) * len(names)
    devices = jax.devices()[: count ** len(names)]
    return jax.make_mesh(shape, names, axis_types=(AxisType.Auto,) * len(names), devices=devices)


def same(x: jax.Array) -> jax.Array:
    return x


def norm(p: Parameters, x: jax.Array) -> jax.Array:
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * p["scale"]


def heads(x: jax.Array) -> jax.Array:
    return x.reshape(*x.shape[:-1], -1, 4)


def attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


def layer(
    p: Parameters, x: jax.Array, before: Step = same, after: Step = same, into: Step = same, out_of: Step = same
) -> jax.Array:
    """A layer; what is done to the operands and results of its blocks, and to heads and back, depends on the devices."""
    y = before(norm(p, x))
    a = out_of(attention(*(into(heads(y @ p[name])) for name in "qkv")))
    x = x + after(a.reshape(*a.shape[:-2], -1) @ p["o"])
    return x + after(jax.nn.gelu(before(norm(p, x)) @ p["up"] + p["bias"]) @ p["down"])


def data(p: Parameters, x: jax.Array) -> jax.Array:
    specs = dict.fromkeys(p, P()), P("m")
    return jax.shard_map(layer, mesh=mesh(2, "m"), in_specs=specs, out_specs=P("m"))(p, x)


def tensor(p: Parameters, x: jax.Array) -> jax.Array:
    body = lambda p, x: layer(p, x, after=lambda y: lax.psum(y, "m"))  # noqa: E731
    return jax.shard_map(body, mesh=mesh(2, "m"), in_specs=(TENSOR, P()), out_specs=P())(p, x)


def data_and_tensor(p: Parameters, x: jax.Array) -> jax.Array:
    body = lambda p, x: layer(p, x, after=lambda y: lax.psum(y, "m"))  # noqa: E731
    return jax.shard_map(body, mesh=mesh(2, "d", "m"), in_specs=(TENSOR, P("d")), out_specs=P("d"))(p, x)


def fully_sharded(p: Parameters, x: jax.Array) -> jax.Array:
    body = lambda p, x: layer({k: lax.all_gather(w, "m", tiled=True) for k, w in p.items()}, x)  # noqa: E731
    specs = dict.fromkeys(p, P("m")), P("m")
    return jax.shard_map(body, mesh=mesh(2, "m"), in_specs=specs, out_specs=P("m"), check_vma=False)(p, x)


def sequence(p: Parameters, x: jax.Array) -> jax.Array:
    """The tokens are divided between the blocks, the features in them."""
    body = lambda p, x: layer(  # noqa: E731
        p, x, before=lambda y: lax.all_gather(y, "m", axis=1, tiled=True),
        after=lambda y: lax.psum_scatter(y, "m", scatter_dimension=1, tiled=True),
    )  # fmt: skip
    specs = TENSOR, P(None, "m")
    return jax.shard_map(body, mesh=mesh(2, "m"), in_specs=specs, out_specs=P(None, "m"), check_vma=False)(p, x)


def sequence_by_heads(p: Parameters, x: jax.Array) -> jax.Array:
    """The tokens are divided but in the attention, where heads are."""
    body = lambda p, x: layer(  # noqa: E731
        p, x, into=lambda y: lax.all_to_all(y, "m", 2, 1, tiled=True), out_of=lambda y: lax.all_to_all(y, "m", 1, 2, tiled=True)
    )  # fmt: skip
    specs = dict.fromkeys(p, P()), P(None, "m")
    return jax.shard_map(body, mesh=mesh(2, "m"), in_specs=specs, out_specs=P(None, "m"))(p, x)


def operators(program: OnnxProgram) -> Counter[str]:
    return Counter(node.op_type for node in program.model.graph)


@pytest.fixture(scope="module")
def for_one_device() -> Counter[str]:
    program = to_onnx(lambda x: layer(WEIGHTS, x), [("B", TOKENS, WIDTH)])
    assert operators(program)["Attention"] == 1
    return operators(program)


@pytest.mark.sampled(0)
@pytest.mark.parametrize("fn", [data, tensor, data_and_tensor, fully_sharded, sequence, sequence_by_heads])
def test_a_transformer_layer_is_the_graph_for_one_device(
    fn: Callable[..., jax.Array], for_one_device: Counter[str]
) -> None:
    program = to_onnx(lambda x: fn(WEIGHTS, x), [("2*B", TOKENS, WIDTH)])
    program.verify()
    assert operators(program) == for_one_device


EXPERTS = normal(4, WIDTH, HIDDEN), normal(4, HIDDEN, WIDTH), normal(WIDTH, 4)


def experts(
    up: jax.typing.ArrayLike, down: jax.typing.ArrayLike, x: jax.Array, mine: Step = same, after: Step = same
) -> jax.Array:
    weights = mine(jax.nn.softmax(x @ EXPERTS[2]))
    hidden = jax.nn.gelu(jnp.einsum("btd,edf->ebtf", x, up))
    return after(jnp.einsum("ebtd,bte->btd", jnp.einsum("ebtf,efd->ebtd", hidden, down), weights))


def expert_parallel(x: jax.Array) -> jax.Array:
    def body(up: jax.Array, down: jax.Array, x: jax.Array) -> jax.Array:
        first = lax.axis_index("m") * 2
        return experts(up, down, x, lambda w: lax.dynamic_slice_in_dim(w, first, 2, -1), lambda y: lax.psum(y, "m"))

    specs = P("m"), P("m"), P()
    return jax.shard_map(body, mesh=mesh(2, "m"), in_specs=specs, out_specs=P())(*EXPERTS[:2], x)


@pytest.mark.sampled(0)
def test_experts_on_different_devices_are_the_graph_for_one_device() -> None:
    shape = [("B", TOKENS, WIDTH)]
    program = to_onnx(expert_parallel, shape)
    program.verify()
    assert operators(program) == operators(to_onnx(lambda x: experts(*EXPERTS[:2], x), shape))


def test_ring_attention() -> None:
    ring = [(i, (i + 1) % 4) for i in range(4)]

    def body(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        def step(carry: tuple[jax.Array, ...], _: None) -> tuple[tuple[jax.Array, ...], None]:
            k, v, out, top, total = carry
            scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 2
            new = jnp.maximum(top, scores.max(-1))
            weights, scale = jnp.exp(scores - new[..., None]), jnp.exp(top - new)
            out = out * scale.swapaxes(1, 2)[..., None] + jnp.einsum("bhqk,bkhd->bqhd", weights, v)
            k, v = (lax.ppermute(x, "s", ring) for x in (k, v))
            return (k, v, out, new, total * scale + weights.sum(-1)), None

        start = jnp.moveaxis(q[..., 0], 1, 2) * 0
        carry, _ = lax.scan(step, (k, v, jnp.zeros_like(q), start - jnp.inf, start), None, length=4)
        return carry[2] / carry[4].swapaxes(1, 2)[..., None]

    spec = P(None, "s")
    over = jax.shard_map(body, mesh=mesh(4, "s"), in_specs=spec, out_specs=spec)
    to_onnx(over, [("B", 8, 2, 4)] * 3).verify()


def test_stages_of_a_pipeline() -> None:
    stages = normal(4, WIDTH, WIDTH)

    def body(w: jax.Array, x: jax.Array) -> jax.Array:
        stage, last = lax.axis_index("s"), 3

        def step(carry: tuple[jax.Array, jax.Array], time: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
            state, outs = carry
            y = jnp.tanh(jnp.where(stage == 0, x[jnp.minimum(time, x.shape[0] - 1)], state) @ w[0])
            row = jnp.where(stage == last, y, 0 * y)
            written = lax.dynamic_update_index_in_dim(outs, row, jnp.maximum(time - last, 0), 0)
            moved = lax.ppermute(y, "s", [(i, (i + 1) % 4) for i in range(4)])
            return (moved, jnp.where(time >= last, written, outs)), None

        start = jnp.zeros_like(x[0]), jnp.zeros_like(x)
        (_, outs), _ = lax.scan(step, start, jnp.arange(x.shape[0] + last))
        return lax.psum(outs, "s")

    over = jax.shard_map(body, mesh=mesh(4, "s"), in_specs=(P("s"), P()), out_specs=P(), check_vma=False)
    to_onnx(lambda x: over(stages, x), [(3, "B", WIDTH)]).verify()


@pytest.mark.parametrize(("dtype", "change", "at_once"), [
    (np.float16, lambda y: y.astype(jnp.float32), False),
    (np.float16, lambda y: y * jnp.float16(0.5), False),
    (np.float16, lambda y: y / jnp.float16(4), False),
    (np.float16, lambda y: -y / 2 + y, False),
    (np.float32, lambda y: y * 0.5, True),
    (np.float32, lambda y: y / 4, True),
    (np.float32, lambda y: y.astype(jnp.bfloat16), True),
    (jnp.bfloat16, lambda y: y.astype(jnp.float32), False),
    (jnp.bfloat16, lambda y: y * jnp.bfloat16(0.5), True),
])  # fmt: skip
def test_parts_are_summed_before_where_their_sum_is_a_number_of_all_their_digits(
    dtype: type[np.generic], change: Step, at_once: bool
) -> None:
    """The parts of a product, 40,000 on each of two devices, have a sum in half precision after the change only."""

    def summed(x: jax.Array, w: jax.Array) -> jax.Array:
        body = lambda x, w: lax.psum(change(x @ w), "m")  # noqa: E731
        return jax.shard_map(body, mesh=mesh(2, "m"), in_specs=(P(None, "m"), P("m")), out_specs=P())(x, w)

    x, w = np.full((2, 4), 200, dtype), np.full((4, 3), 100, dtype)
    program = to_onnx(summed, [x, w], target="onnx")
    assert ("ReduceSum" not in operators(program)) == at_once
    np.testing.assert_array_equal(program(x, w), summed(*map(jnp.asarray, (x, w))))
