"""Collectives over eight virtual devices mean in a file what the devices compute together."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType
from jax2onnx_core import to_onnx

P = jax.P
RING = [(i, (i + 1) % 8) for i in range(8)]
GROUPS = [[0, 3, 5, 6], [1, 2, 4, 7]]

#: name → body over eight devices along "x", the spec of its result.
BODIES: dict[str, tuple[Callable[[jax.Array], jax.Array], jax.P]] = {
    "psum": (lambda x: lax.psum(x, "x"), P()),
    "pmean": (lambda x: lax.pmean(x, "x"), P()),
    "pmax": (lambda x: lax.pmax(x, "x"), P()),
    "pmin": (lambda x: lax.pmin(x.min(0), "x"), P()),
    "psum_of_equal": (lambda x: lax.psum(lax.pcast(jnp.arange(3.0), "x", to="varying"), "x") + 0 * lax.pmax(x, "x"), P()),
    "all_gather": (lambda x: lax.all_gather(x, "x").sum(0), P("x")),
    "all_gather_tiled": (lambda x: lax.all_gather(x, "x", tiled=True)[::4], P("x")),
    "all_gather_columns": (lambda x: lax.all_gather(x, "x", axis=1, tiled=True), P("x")),
    "psum_scatter": (lambda x: lax.psum_scatter(jnp.tile(x, (4, 1)), "x", tiled=True), P("x")),
    "psum_scatter_untiled": (lambda x: lax.psum_scatter(jnp.tile(x, (4, 1)), "x"), P("x")),
    "all_to_all": (lambda x: lax.all_to_all(jnp.tile(x, (4, 1)), "x", 0, 0), P("x")),
    "all_to_all_tiled": (lambda x: lax.all_to_all(jnp.tile(x, (4, 1)), "x", 0, 1, tiled=True), P("x")),
    "all_to_all_same_axis": (lambda x: lax.all_to_all(jnp.tile(x, (4, 1)), "x", 0, 0, tiled=True), P("x")),
    "all_to_all_other_axes": (lambda x: lax.all_to_all(x[None] * jnp.ones((3, 8, 1, 1)), "x", 1, 2), P("x")),
    "ppermute": (lambda x: lax.ppermute(x, "x", RING), P("x")),
    "ppermute_partial": (lambda x: lax.ppermute(x, "x", [(0, 3), (5, 1)]), P("x")),
    "pshuffle": (lambda x: lax.pshuffle(x, "x", [3, 1, 0, 2, 7, 6, 5, 4]), P("x")),
    "axis_index": (lambda x: x * lax.axis_index("x") + lax.axis_size("x"), P("x")),
    "keys": (lambda x: x + jax.random.normal(jax.random.fold_in(jax.random.key(7), lax.axis_index("x")), x.shape), P("x")),
    "sort": (lambda x: jnp.sort(x, axis=1)[:, ::-1] + jnp.cumsum(x, 0), P("x")),
    "argmax": (lambda x: x + jnp.argmax(x, 1, keepdims=True) + jnp.prod(x, 0), P("x")),
    "pad": (lambda x: jnp.pad(x, ((0, 0), (1, 1)))[:, 1:-1] * x[:1], P("x")),
}  # fmt: skip


def mesh(*shape: int, kind: AxisType = AxisType.Auto) -> jax.sharding.Mesh:
    return jax.make_mesh(shape, ("x", "y")[: len(shape)], axis_types=(kind,) * len(shape))


@pytest.mark.parametrize("name", BODIES)
def test_a_collective_over_eight_devices(name: str) -> None:
    body, out = BODIES[name]
    over = jax.shard_map(body, mesh=mesh(8), in_specs=P("x"), out_specs=out, check_vma=name != "all_gather")
    to_onnx(over, [(16, 3)]).verify()


@pytest.mark.parametrize("body", [
    lambda x: lax.psum(x, ("x", "y")) * x,
    lambda x: lax.all_gather(x, ("y", "x"), tiled=True)[::8],
    lambda x: lax.all_gather(x, "x", tiled=True)[:2] + lax.all_gather(x, "y")[0],
    lambda x: x * lax.axis_index(("y", "x")),
    lambda x: lax.all_to_all(x, "y", 1, 0, tiled=True),
    lambda x: lax.pshuffle(x, ("y", "x"), [3, 1, 0, 2, 7, 6, 5, 4]),
    lambda x: lax.ppermute(x, ("x", "y"), RING) + lax.ppermute(x, "y", [(0, 1), (1, 2), (2, 3), (3, 0)]),
    lambda x: lax.psum_scatter(lax.all_gather(x, "y", tiled=True), ("x", "y"), tiled=True),
])  # fmt: skip
def test_collectives_over_two_axes(body: Callable[[jax.Array], jax.Array]) -> None:
    spec = P(("x", "y"))
    over = jax.shard_map(body, mesh=mesh(2, 4), in_specs=spec, out_specs=spec, check_vma=False)
    to_onnx(over, [(16, 4)]).verify()


@pytest.mark.parametrize("collective", [
    lambda x: lax.psum(x, "x", axis_index_groups=GROUPS),
    lambda x: lax.all_gather(x, "x", axis_index_groups=GROUPS, tiled=True),
    lambda x: lax.psum_scatter(jnp.tile(x, (2, 1)), "x", axis_index_groups=GROUPS, tiled=True),
    lambda x: lax.all_to_all(jnp.tile(x, (2, 1)), "x", 0, 1, axis_index_groups=GROUPS, tiled=True),
])  # fmt: skip
def test_collectives_in_groups(collective: Callable[[jax.Array], jax.Array]) -> None:
    over = jax.shard_map(collective, mesh=mesh(8), in_specs=P("x"), out_specs=P("x"), check_vma=False)
    to_onnx(over, [(16, 3)]).verify()


@pytest.mark.parametrize("axes", ["x", ("x", "y"), ("y", "x")])
def test_a_broadcast_is_by_its_definition(axes: str | tuple[str, ...]) -> None:
    """JAX runs it on GPUs alone."""

    def over(body: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
        spec = P(("x", "y"))
        return jax.shard_map(body, mesh=mesh(4, 2), in_specs=spec, out_specs=spec, check_vma=False)

    program = to_onnx(over(lambda x: lax.pbroadcast(x, axes, 3)), [(16, 3)])
    defined = over(lambda x: lax.psum(jnp.where(lax.axis_index(axes) == 3, x, 0), axes))
    x = np.arange(48, dtype=np.float32).reshape(16, 3)
    np.testing.assert_array_equal(program(x), jax.jit(defined)(x))


def test_a_permutation_counts_the_devices_of_bodies_in_bodies_by_the_mesh() -> None:
    def inner(x: jax.Array) -> jax.Array:
        return lax.ppermute(x, ("x", "y"), RING)

    def outer(x: jax.Array) -> jax.Array:
        return jax.shard_map(inner, in_specs=P("x"), out_specs=P("x"), axis_names={"x"}, check_vma=False)(x)

    over = jax.jit(
        jax.shard_map(outer, mesh=mesh(2, 4), in_specs=P("y"), out_specs=P("y"), axis_names={"y"}, check_vma=False)
    )
    to_onnx(over, [(16, 3)]).verify()


_DRAWS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "bits": lambda key: jax.random.bits(key, (3,)),
    "split": lambda key: jax.random.key_data(jax.random.split(key, 2)).reshape(-1),
    "loop": lambda key: lax.while_loop(
        lambda bits: bits[0] % 4 != jax.random.bits(key) % 4, lambda bits: bits + jax.random.bits(key, (3,)), jnp.arange(3, dtype=np.uint32)
    ),
}  # fmt: skip


@pytest.mark.parametrize("implementation", ["threefry2x32", "rbg", "unsafe_rbg"])
@pytest.mark.parametrize("draw", _DRAWS)
def test_each_device_draws_the_bits_of_its_own_key(draw: str, implementation: str) -> None:
    def body(words: jax.Array) -> jax.Array:
        key = jax.random.wrap_key_data(words, impl=implementation)
        return _DRAWS[draw](jax.random.fold_in(key, lax.axis_index(("y", "x"))))

    over = jax.shard_map(body, mesh=mesh(2, 2), in_specs=P(), out_specs=P(("x", "y")), check_vma=False)
    to_onnx(over, [((2 if implementation == "threefry2x32" else 4,), "uint32")]).verify()


def test_each_device_has_a_state_of_its_own_of_a_generator() -> None:
    def body(state: jax.Array) -> tuple[jax.Array, jax.Array]:
        state, bits = lax.rng_bit_generator(state, (3,), np.uint32)
        return state, bits

    over = jax.shard_map(body, mesh=mesh(4, 1), in_specs=P("x"), out_specs=P("x"), check_vma=False)
    to_onnx(over, [((16,), "uint32")]).verify()


def test_pmap_is_a_batch() -> None:
    over = jax.pmap(lambda x, y: jnp.tanh(x) / lax.psum(x.sum(), "i") + y, axis_name="i", in_axes=(0, None))
    to_onnx(over, [(8, 2, 3), (3,)]).verify()


def test_a_symbolic_batch_stays_symbolic() -> None:
    over = jax.shard_map(lambda x: x - lax.pmean(x, "x"), mesh=mesh(8), in_specs=P("x"), out_specs=P("x"))
    program = to_onnx(over, [("8*b", 3)])
    program.verify()
    assert [str(dim) for dim in program.model.graph.outputs[0].shape] == ["8*b", "3"]


def test_a_constraint_says_that_the_mesh_divides_a_size() -> None:
    over = jax.shard_map(jnp.tanh, mesh=mesh(8), in_specs=P("x"), out_specs=P("x"))
    program = to_onnx(over, [("B", 3)], constraints=("mod(B, 8) == 0",))
    program.verify()
    assert [node.op_type for node in program.model.graph] == ["Tanh"]


def test_a_size_that_the_mesh_may_not_divide_is_refused_with_the_constraint() -> None:
    over = jax.shard_map(jnp.tanh, mesh=mesh(8), in_specs=P("x"), out_specs=P("x"))
    with pytest.raises(ValueError, match="does not evenly divide B") as raised:
        to_onnx(over, [("B", 3)])
    assert any("constraints=('mod(B, 8) == 0',)" in note for note in raised.value.__notes__)


def test_an_unknown_axis_is_the_error_of_jax() -> None:
    over = jax.shard_map(lambda x: lax.psum(x, "z"), mesh=mesh(8), in_specs=P("x"), out_specs=P(), check_vma=False)
    with pytest.raises(NameError, match="z"):
        to_onnx(over, [(16, 3)])


@pytest.mark.parametrize("varying", [False, True])
def test_control_flow_of_which_all_devices_go_the_same_way(varying: bool) -> None:
    def body(x: jax.Array) -> jax.Array:
        x = lax.fori_loop(0, 3, lambda _, c: c + lax.psum(c, "x") * 0.1, x)
        x = lax.while_loop(lambda c: lax.pmax(c.max(), "x") < 100, lambda c: c * 2 + 1, jnp.abs(x))
        return lax.cond(lax.psum(x.sum(), "x") > 0, lambda x: x * 2 + lax.psum(x, "x"), lambda x: x - 1, x)

    over = jax.shard_map(body, mesh=mesh(8), in_specs=P("x"), out_specs=P("x"), check_vma=varying)
    to_onnx(over, [(16, 3)]).verify()


@pytest.mark.parametrize("varying", [False, True])
def test_control_flow_of_each_device(varying: bool) -> None:
    def body(x: jax.Array) -> jax.Array:
        x = lax.while_loop(lambda c: c.max() < 100, lambda c: c * 2 + 1, jnp.abs(x))
        return lax.cond(lax.axis_index("x") > 3, lambda x: x * 2, lambda x: x - 1, x)

    over = jax.shard_map(body, mesh=mesh(8), in_specs=P("x"), out_specs=P("x"), check_vma=varying)
    to_onnx(over, [(16, 3)]).verify()


def test_bodies_in_bodies() -> None:
    def inner(x: jax.Array) -> jax.Array:
        return x + lax.psum(x, "y") * lax.axis_index("x")

    def outer(x: jax.Array) -> jax.Array:
        return jax.shard_map(inner, in_specs=P(None, "y"), out_specs=P(None, "y"), axis_names={"y"})(x) + lax.psum(
            x, "x"
        )

    over = jax.jit(jax.shard_map(outer, mesh=mesh(2, 4), in_specs=P("x"), out_specs=P("x"), axis_names={"x"}))
    to_onnx(over, [("2*b", 8)]).verify()


def test_derivatives_and_vmap_of_a_body() -> None:
    over = jax.shard_map(
        lambda x: lax.psum((jnp.tanh(x) ** 2).sum(), "x"), mesh=mesh(8), in_specs=P("x"), out_specs=P()
    )
    to_onnx(jax.vmap(jax.grad(over)), [("N", 16, 3)]).verify()


def test_a_body_in_a_scan() -> None:
    over = jax.shard_map(lambda x: x * 0.5 + lax.pmean(x, "x"), mesh=mesh(8), in_specs=P("x"), out_specs=P("x"))
    to_onnx(lambda x: lax.scan(lambda c, _: (over(c), None), x, None, length=3)[0], [("8*b", 3)]).verify()


@pytest.mark.parametrize(
    "loop",
    [
        lambda x: lax.scan(lambda c, u: (c + lax.psum(u, "x"), c), jnp.zeros(3), x)[1],
        lambda x: lax.fori_loop(0, x.shape[0], lambda _, c: c * 0.5 + lax.pmean(c, "x"), x),
    ],
)
def test_a_loop_as_long_as_the_part_of_a_device(loop: Callable[[jax.Array], jax.Array]) -> None:
    over = jax.shard_map(loop, mesh=mesh(8), in_specs=P("x"), out_specs=P("x"), check_vma=False)
    to_onnx(over, [("8*b", 3)]).verify()


def test_an_explicit_mesh_takes_the_shardings_of_the_inputs() -> None:
    explicit = mesh(8, kind=AxisType.Explicit)
    size = jax.export.symbolic_shape("8*b")[0]
    given = jax.ShapeDtypeStruct((size, 4), jnp.float32, sharding=jax.NamedSharding(explicit, P("x")))
    over = jax.shard_map(lambda x: x + lax.psum(x, "x"), mesh=explicit, in_specs=P("x"), out_specs=P("x"))
    to_onnx(over, [given]).verify()


def test_an_explicit_mesh_without_them_is_explained() -> None:
    explicit = mesh(8, kind=AxisType.Explicit)
    over = jax.shard_map(jnp.tanh, mesh=explicit, in_specs=P("x"), out_specs=P("x"))
    with pytest.raises(ValueError, match="in_specs") as raised:
        to_onnx(over, [(16, 4)])
    assert any("sharding=" in note for note in raised.value.__notes__)
