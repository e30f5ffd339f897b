"""The law of axes on random equations: each row of a result depends on this row of the operands, and layouts keep their meaning."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType
from jax2onnx_core import to_onnx
from jax2onnx_core.jax_types import Equation
from jax2onnx_core.jaxprs import bind_primitive, is_static
from jax2onnx_graph.facts.axis_maps import Axes, AxisMaps, Iteration, IterationAxis
from jax2onnx_lax.sharding._primitive_axes import ELEMENTWISE, PRIMITIVES, primitive_axes
from jax2onnx_lax.sharding.interpreter import Interpreter
from jax2onnx_lax.sharding.propagation import PROPAGATION
from jax2onnx_lax.sharding.sharded_arrays import Layout, ShardedArray

Array = np.ndarray


@dataclasses.dataclass
class Draw:
    """Random operands and parameters.

    Attributes:
      rng: what they are drawn with.
      dtype: the dtype of numbers.
    """

    rng: np.random.Generator
    dtype: type[np.generic] = np.float32

    def shape(self, least: int = 0) -> list[int]:
        return [int(n) for n in self.rng.choice([1, 2, 3, 4], self.rng.integers(least, 4))]

    def numbers(self, shape: Sequence[int]) -> Array:
        if self.dtype == np.bool_:
            return self.rng.random(shape) < 0.5
        if self.dtype == np.complex64:
            return (self.rng.integers(-8, 8, shape) + 1j * self.rng.integers(-8, 8, shape)).astype(np.complex64)
        return (self.rng.integers(1, 8, shape) / (8 if self.dtype == np.float32 else 1)).astype(self.dtype)

    def axis(self, shape: Sequence[int]) -> int:
        return int(self.rng.integers(len(shape)))

    def some(self, shape: Sequence[int]) -> tuple[int, ...]:
        return tuple(int(d) for d in np.flatnonzero(self.rng.random(len(shape)) < 0.5))

    def part(self, shape: Sequence[int]) -> list[int]:
        return [n if self.rng.random() < 0.6 else int(self.rng.integers(1, n + 1)) for n in shape]

    def starts(self, shape: Sequence[int]) -> list[Array]:
        return [np.asarray(self.rng.integers(-1, n + 1), np.int32) for n in shape]


#: A function with its operands, which is one equation of the primitive that it is named after.
Drawn = tuple[Callable[..., object], list[Array]]

_INTEGER = {
    "and",
    "or",
    "not",
    "xor",
    "clz",
    "population_count",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
}
_COMPLEX = {"conj", "imag", "real"}
_BINARY = {
    "add", "add_any", "and", "atan2", "complex", "div", "eq", "ge", "gt", "igamma", "igammac", "le", "lt", "max", "min", "mul", "ne",
    "nextafter", "or", "pow", "rem", "shift_left", "shift_right_arithmetic", "shift_right_logical", "sub", "xor",
}  # fmt: skip
_CALLS: Mapping[str, Callable[..., jax.Array]] = {
    "and": lax.bitwise_and, "or": lax.bitwise_or, "xor": lax.bitwise_xor, "not": lax.bitwise_not,
    "add_any": lambda x, y: jax.linear_transpose(lambda z: (z, z), x)((x, y))[0],
    "copy": jnp.copy, "convert_element_type": lambda x: lax.convert_element_type(x, jnp.float16),
    "integer_pow": lambda x: lax.integer_pow(x, 3), "reduce_precision": lambda x: lax.reduce_precision(x, 5, 3),
    "regularized_incomplete_beta": lax.betainc, "round": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
}  # fmt: skip


def elementwise(name: str, draw: Draw) -> Drawn:
    draw = dataclasses.replace(
        draw, dtype=np.int32 if name in _INTEGER else np.complex64 if name in _COMPLEX else np.float32
    )
    shape = draw.shape()
    if name == "clamp":
        bounds = [draw.numbers(shape if draw.rng.random() < 0.5 else ()) for _ in range(2)]
        return lax.clamp, [bounds[0], draw.numbers(shape), bounds[1]]
    if name == "select_n":
        which = draw.rng.random(shape if draw.rng.random() < 0.5 else ()) < 0.5
        return lax.select_n, [which, draw.numbers(shape), draw.numbers(shape)]
    count = 3 if name == "regularized_incomplete_beta" else 2 if name in _BINARY else 1
    return _CALLS.get(name) or getattr(lax, name), [draw.numbers(shape) for _ in range(count)]


def bitcast(draw: Draw) -> Drawn:
    new = [np.int32, np.int8, np.uint32][draw.rng.integers(3)]
    if draw.rng.random() < 0.5:
        parts = dataclasses.replace(draw, dtype=np.int16).numbers([*draw.shape(), 2])
        return lambda x: lax.bitcast_convert_type(x, jnp.int32), [parts]
    return lambda x: lax.bitcast_convert_type(x, new), [draw.numbers(draw.shape())]


def broadcast_in_dim(draw: Draw) -> Drawn:
    shape = draw.shape()
    places = draw.some(shape)
    own = [shape[d] if draw.rng.random() < 0.7 else 1 for d in places]
    return lambda x: lax.broadcast_in_dim_p.bind(x, shape=tuple(shape), broadcast_dimensions=places, sharding=None), [
        draw.numbers(own)
    ]


def iota(draw: Draw) -> Drawn:
    shape = draw.shape(1)
    along = draw.axis(shape)
    return lambda: lax.broadcasted_iota(np.int32, shape, along), []


def transpose(draw: Draw) -> Drawn:
    shape = draw.shape(2)
    order = [*range(1, len(shape)), 0] if draw.rng.random() < 0.5 else [*range(len(shape))][::-1]
    return lambda x: lax.transpose(x, order), [draw.numbers(shape)]


def squeeze(draw: Draw) -> Drawn:
    shape = [1, *draw.shape()]
    axes = [d for d in draw.some(shape) if shape[d] == 1]
    return lambda x: lax.squeeze_p.bind(x, dimensions=tuple(axes or [0])), [draw.numbers(shape)]


def reshape(draw: Draw) -> Drawn:
    shape = draw.shape(1)
    factors = [p for n in shape for p in ([2, 2] if n == 4 else [n])]
    cuts = sorted(draw.rng.integers(0, len(factors) + 1, draw.rng.integers(0, 4)))
    sizes = tuple(math.prod(map(int, part)) for part in np.split(np.array(factors), cuts))
    return lambda x: lax.reshape_p.bind(x, new_sizes=sizes, dimensions=None, sharding=None), [draw.numbers(shape)]


def reduced(name: str, draw: Draw) -> Drawn:
    dtype = np.bool_ if name in ("reduce_and", "reduce_or") else np.int32 if name == "reduce_xor" else np.float32
    x = dataclasses.replace(draw, dtype=dtype).numbers(draw.shape(1))
    axes = draw.some(x.shape)
    if name.startswith("arg"):
        axis = draw.axis(x.shape)
        return lambda x: getattr(lax, name)(x, axis, np.int32), [x]
    return lambda x: getattr(lax, name)(x, axes), [x]


def cumulative(name: str, draw: Draw) -> Drawn:
    x = draw.numbers(draw.shape(1))
    axis = draw.axis(x.shape)
    return lambda x: getattr(lax, name)(x, axis), [x]


def split(draw: Draw) -> Drawn:
    shape = draw.shape(1)
    axis = draw.axis(shape)
    return lambda x: lax.split(x, (1, shape[axis] - 1), axis), [draw.numbers(shape)]


def concatenate(draw: Draw) -> Drawn:
    shape = draw.shape(1)
    axis = draw.axis(shape)
    other = [2 if d == axis else n for d, n in enumerate(shape)]
    return lambda *x: lax.concatenate(x, axis), [draw.numbers(shape), draw.numbers(other)]


def sort(draw: Draw) -> Drawn:
    shape = draw.shape(1)
    axis = draw.axis(shape)
    return lambda *x: lax.sort(x, axis), [draw.numbers(shape), draw.numbers(shape)]


def rev(draw: Draw) -> Drawn:
    shape = draw.shape(1)
    axes = draw.some(shape)
    return lambda x: lax.rev_p.bind(x, dimensions=axes), [draw.numbers(shape)]


def slice_(draw: Draw) -> Drawn:
    shape = draw.shape()
    start = [0 if draw.rng.random() < 0.6 else int(draw.rng.integers(n)) for n in shape]
    strides = tuple(1 if draw.rng.random() < 0.6 else 2 for _ in shape)
    return lambda x: lax.slice_p.bind(x, start_indices=tuple(start), limit_indices=tuple(shape), strides=strides), [
        draw.numbers(shape)
    ]


def pad(draw: Draw) -> Drawn:
    shape = draw.shape()
    config = [(0, 0, 0) if draw.rng.random() < 0.6 else tuple(map(int, draw.rng.integers(0, 2, 3))) for _ in shape]
    return lambda x, value: lax.pad(x, value, config), [draw.numbers(shape), draw.numbers(())]


def dynamic_slice(draw: Draw) -> Drawn:
    shape = draw.shape(1)
    sizes = draw.part(shape)
    return lambda x, *starts: lax.dynamic_slice_p.bind(x, *starts, slice_sizes=tuple(sizes)), [
        draw.numbers(shape),
        *draw.starts(shape),
    ]


def dynamic_update_slice(draw: Draw) -> Drawn:
    shape = draw.shape(1)
    update = draw.numbers(draw.part(shape))
    return lambda x, y, *starts: lax.dynamic_update_slice_p.bind(x, y, *starts), [
        draw.numbers(shape), update, *draw.starts(shape),
    ]  # fmt: skip


def gather(draw: Draw) -> Drawn:
    shape = draw.shape(1)
    batch = [0] if len(shape) > 1 and draw.rng.random() < 0.4 else []
    searched = sorted({d for d in draw.some(shape) if d not in batch})
    collapsed = [d for d in searched if draw.rng.random() < 0.6]
    sizes = [1 if d in (*batch, *collapsed) else n for d, n in enumerate(draw.part(shape))]
    lead = [*(shape[d] for d in batch), *draw.shape()[:2]]
    kept = len(shape) - len(batch) - len(collapsed)
    offset = tuple(sorted(int(d) for d in draw.rng.permutation(len(lead) + kept)[:kept]))
    numbers = lax.GatherDimensionNumbers(offset, tuple(collapsed), tuple(searched), tuple(batch), tuple(batch))
    mode = [lax.GatherScatterMode.CLIP, lax.GatherScatterMode.FILL_OR_DROP][draw.rng.integers(2)]
    indices = draw.rng.integers(-1, 4, [*lead, len(searched)]).astype(np.int32)
    return lambda x, i: lax.gather(x, i, numbers, tuple(sizes), mode=mode), [draw.numbers(shape), indices]


def dot_general(draw: Draw) -> Drawn:
    shape = draw.shape(1)
    taken = [int(d) for d in draw.rng.permutation(len(shape))[: draw.rng.integers(len(shape) + 1)]]
    other = [*(shape[d] for d in taken), *draw.shape()[:2]]
    cut = int(draw.rng.integers(len(taken) + 1))
    numbers = ((taken[:cut], [*range(cut)]), (taken[cut:], [*range(cut, len(taken))]))
    return lambda x, y: lax.dot_general(x, y, numbers), [draw.numbers(shape), draw.numbers(other)]


def convolution(draw: Draw) -> Drawn:
    batch, features, size, out = (int(n) for n in draw.rng.choice([1, 2, 4], 4))
    groups = features if draw.rng.random() < 0.3 else 1
    numbers = [("NCH", "OIH", "NCH"), ("NHC", "HIO", "NHC")][draw.rng.integers(2)]
    sizes = {"N": batch, "C": features, "H": size, "O": out * groups, "I": features // groups}
    x, w = (draw.numbers([sizes[a] if a != "H" or i == 0 else 2 for a in spec]) for i, spec in enumerate(numbers[:2]))
    return lambda x, w: lax.conv_general_dilated(
        x, w, (1,), "SAME", dimension_numbers=numbers, feature_group_count=groups
    ), [x, w]


_OTHERS: Mapping[str, Callable[[Draw], Drawn]] = {
    "bitcast_convert_type": bitcast, "broadcast_in_dim": broadcast_in_dim, "iota": iota, "transpose": transpose, "squeeze": squeeze,
    "reshape": reshape, "split": split, "concatenate": concatenate, "sort": sort, "rev": rev, "slice": slice_, "pad": pad,
    "dynamic_slice": dynamic_slice, "dynamic_update_slice": dynamic_update_slice, "gather": gather, "dot_general": dot_general,
    "conv_general_dilated": convolution,
}  # fmt: skip


def drawn(name: str, rng: np.random.Generator) -> tuple[Equation, list[Array]]:
    """A random equation of a primitive with its operands; JAX leaves out some that do nothing."""
    draw = Draw(rng)
    for _ in range(20):
        if name in _OTHERS:
            fn, operands = _OTHERS[name](draw)
        elif name in ELEMENTWISE:
            fn, operands = elementwise(name, draw)
        else:
            fn, operands = (cumulative if name.startswith("cum") else reduced)(name, draw)
        jaxpr = jax.make_jaxpr(fn)(*operands).jaxpr
        env = dict(zip(jaxpr.invars, operands, strict=True))
        if found := [eqn for eqn in jaxpr.eqns if eqn.primitive.name == name]:
            return found[0], [env[v] for v in found[0].invars]
    raise AssertionError(f"{name} was not drawn")


def run(eqn: Equation, operands: Sequence[Array]) -> list[Array]:
    return [np.asarray(x) for x in bind_primitive(eqn.primitive, eqn.params, *map(jnp.asarray, operands))]


# -- rows ---------------------------------------------------------------------------------------------------


#: A dimension, with the sizes that it consists of: those before an iteration axis, its own, those behind it.
Place = tuple[int, tuple[int, int, int]]


def place(axes: Axes, axis: IterationAxis) -> Place | None:
    """The place of an iteration axis in a tensor."""
    for dim, group in enumerate(axes):
        if axis in group:
            i, sizes = group.index(axis), [a.size.number or 0 for a in group]
            return dim, (math.prod(sizes[:i]), sizes[i], math.prod(sizes[i + 1 :]))
    return None


def row_first(x: Array, where: Place) -> Array:
    """A view of an array with the rows of an iteration axis as its first axis."""
    dim, sizes = where
    return np.moveaxis(x.reshape(*x.shape[:dim], *sizes, *x.shape[dim + 1 :]), dim + 1, 0)


def others_changed(rng: np.random.Generator, x: Array, where: Place, kept: int) -> Array:
    """The array with the elements of all rows but one in another order, and others where they are numbers."""
    result = x.copy()
    view = row_first(result, where)
    fresh = rng.permutation(view.reshape(-1)).reshape(view.shape)
    changed = np.arange(len(view)) != kept
    view[changed] = (fresh if x.dtype == np.bool_ else fresh + 1)[changed]
    return result


def same_axes(maps: AxisMaps) -> Iterator[IterationAxis]:
    tensors = [axes for axes in (*maps.operands, *maps.results) if axes is not None]
    found = dict.fromkeys(axis for axes in tensors for group in axes for axis in group)
    return (axis for axis in found if axis.iteration is Iteration.SAME)


@pytest.mark.parametrize("name", sorted(PRIMITIVES))
def test_a_row_of_a_result_depends_on_no_other_row_of_the_operands(name: str) -> None:
    for seed in range(2 if name in ELEMENTWISE else 6):
        rng = np.random.default_rng([seed, len(name)])
        eqn, operands = drawn(name, rng)
        maps = primitive_axes(eqn, [x.shape for x in operands])
        assert maps is not None
        before = run(eqn, operands)
        sizes = [[math.prod(a.size.number or 0 for a in group) for group in axes] for axes in maps.results]
        assert sizes == [[*x.shape] for x in before]
        for axis in same_axes(maps):
            kept = int(rng.integers(axis.size.number or 1))
            places = [None if own is None else place(own, axis) for own in maps.operands]
            other = [
                x if where is None else others_changed(rng, x, where, kept)
                for x, where in zip(operands, places, strict=True)
            ]
            for old, new, own in zip(before, run(eqn, other), maps.results, strict=True):
                if (where := place(own, axis)) is not None:
                    new, old = row_first(new, where)[kept], row_first(old, where)[kept]
                    np.testing.assert_allclose(new, old, rtol=1e-5)


# -- layouts ------------------------------------------------------------------------------------------------

MESH = {"x": 2, "y": 2}


def random_layout(rng: np.random.Generator, rank: int) -> Layout:
    """Each axis of the mesh is leading, divides a dimension, or is nowhere."""
    stacked, tiled = list[str](), [list[str]() for _ in range(rank)]
    for axis in rng.permutation(list(MESH)):
        where = int(rng.integers(-2, rank))
        if where == -1:
            stacked.append(str(axis))
        elif where >= 0:
            tiled[where].append(str(axis))
    return Layout(tuple(stacked), tuple(map(tuple, tiled)))


def sharded(rng: np.random.Generator, x: Array) -> tuple[ShardedArray, dict[tuple[int, ...], Array]]:
    """A value in a random layout, of the numbers of an array in another order on each device, and the part of each."""
    layout, parts = random_layout(rng, x.ndim), dict[tuple[int, ...], Array]()
    for index in itertools.product(*map(range, MESH.values())):
        key = tuple(i if a in layout.axes else 0 for a, i in zip(MESH, index, strict=True))
        parts[index] = parts[key] if key in parts else rng.permutation(np.ravel(x)).reshape(tuple(x.shape))
    return laid_out(parts, layout), parts


def laid_out(parts: Mapping[tuple[int, ...], Array], layout: Layout) -> ShardedArray:
    shape = next(iter(parts.values())).shape
    stack = np.stack([parts[i] for i in itertools.product(*map(range, MESH.values()))]).reshape(*MESH.values(), *shape)
    used = [a for a in MESH if a in layout.axes]
    stack = stack[tuple(slice(None) if a in used else 0 for a in MESH)]
    order = [used.index(a) for a in layout.stacked]
    for d, names in enumerate(layout.tiled):
        order += [*map(used.index, names), len(used) + d]
    sizes = [n * math.prod(MESH[a] for a in names) for n, names in zip(shape, layout.tiled, strict=True)]
    array = np.transpose(stack, order).reshape((*(MESH[a] for a in layout.stacked), *sizes))
    return ShardedArray(jnp.asarray(array), shape, layout)


def part_of(x: ShardedArray, index: Mapping[str, int]) -> Array:
    """The value on one device."""
    array = np.asarray(x.array)[tuple(index[a] for a in x.layout.stacked)]
    for d, names in enumerate(x.layout.tiled):
        if names:
            sizes = [MESH[a] for a in names]
            number = int(np.ravel_multi_index([index[a] for a in names], sizes))
            array = np.split(array, math.prod(sizes), axis=d)[number]
    return np.broadcast_to(array, [n for n in x.shape if is_static(n)])


@pytest.mark.parametrize("name", sorted(PRIMITIVES))
def test_each_device_has_what_the_equation_is_for_its_part(name: str) -> None:
    for seed in range(2 if name in ELEMENTWISE else 6):
        rng = np.random.default_rng([seed, len(name), 1])
        eqn, operands = drawn(name, rng)
        values = [sharded(rng, x) for x in operands]
        interpreter = Interpreter(MESH, PROPAGATION)
        results = interpreter.apply(eqn, [x for x, _ in values])
        for index in itertools.product(*map(range, MESH.values())):
            expected = run(eqn, [parts[index] for _, parts in values])
            for x, y in zip(results, expected, strict=True):
                got = part_of(x.sharded, dict(zip(MESH, index, strict=True)))
                np.testing.assert_allclose(got, y, rtol=1e-5, atol=1e-6)


def test_a_sum_over_a_divided_axis_is_reduced_once() -> None:
    """The features of a convolution, and a contraction, are summed up over the devices by one equation."""
    mesh = jax.make_mesh((2,), ("x",), (AxisType.Auto,), devices=jax.devices()[:2])

    def body(x: jax.Array, w: jax.Array) -> jax.Array:
        return lax.psum(lax.conv_general_dilated(x, w, (1,), "SAME"), "x")

    over = jax.shard_map(body, mesh=mesh, in_specs=(jax.P(None, "x"), jax.P(None, "x")), out_specs=jax.P())
    program = to_onnx(over, [(2, 4, 5), (3, 4, 2)])
    program.verify()
    assert [node.op_type for node in program.model.graph].count("Conv") == 1
    assert "ReduceSum" not in [node.op_type for node in program.model.graph]
