"""The law of axes: what the table says of an axis holds when the operands are changed and permuted along it."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.facts.axis_maps import Axes, AxisMaps, Iteration, IterationAxis, axis_maps, view_axes
from jax2onnx_graph.facts.sizes import LabelledDim, size_of
from jax2onnx_graph.facts.sub_axes import SubAxis, operand_sub_axes, result_sub_axes
from onnx import helper
from onnx.reference import ReferenceEvaluator

_DYADIC = 8  # numbers with few bits, so that the order of a sum does not matter


def numbers(rng: np.random.Generator, shape: Sequence[int]) -> Array:
    return (rng.integers(-16, 16, shape) / _DYADIC).astype(np.float32)


@dataclasses.dataclass
class Graph:
    """A graph under construction, with the shape of each value."""

    rng: np.random.Generator
    inputs: dict[str, Array] = dataclasses.field(default_factory=dict)
    constants: dict[str, Array] = dataclasses.field(default_factory=dict)
    values: dict[str, Array] = dataclasses.field(default_factory=dict)
    nodes: list[onnx.NodeProto] = dataclasses.field(default_factory=list)

    def constant(self, array: Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def add(self, op_type: str, *operands: str, outputs: int = 1, **attributes: Any) -> str:
        names = [f"v{len(self.values) + i}" for i in range(outputs)]
        node = helper.make_node(op_type, list(operands), names, **attributes)
        known = {**self.inputs, **self.constants, **self.values}
        feeds = {name: known[name] for name in operands if name}
        graph = helper.make_graph(
            [node],
            "g",
            [_info(n, a) for n, a in feeds.items()],
            [helper.make_empty_tensor_value_info(n) for n in names],
        )
        results = ReferenceEvaluator(_model(graph)).run(None, feeds)
        self.values.update(zip(names, map(np.asarray, results), strict=True))
        self.nodes.append(node)
        return names[0]

    def model(self) -> ir.Model:
        graph = helper.make_graph(
            self.nodes, "g", [_info(n, a) for n, a in self.inputs.items()], [_info(n, a) for n, a in self.values.items()],
            [onnx.numpy_helper.from_array(a, n) for n, a in self.constants.items()],
        )  # fmt: skip
        return ir.from_proto(_model(graph))

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        model = ir.to_proto(self.model())
        return dict(zip(self.values, map(np.asarray, ReferenceEvaluator(model).run(None, dict(inputs))), strict=True))


def _info(name: str, array: Array) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def _model(graph: onnx.GraphProto) -> onnx.ModelProto:
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 23)])


# -- random nodes: each takes a value and adds a node that reads it --------------------------------------------------


def unary(g: Graph, x: str, shape: Sequence[int]) -> str:
    return g.add(str(g.rng.choice(["Neg", "Relu", "Identity", "Abs"])), x)


def broadcast(g: Graph, x: str, shape: Sequence[int]) -> str:
    own = [n if g.rng.random() < 0.6 else 1 for n in shape][g.rng.integers(len(shape) + 1) :]
    operands = [x, g.constant(numbers(g.rng, own))]
    return g.add(str(g.rng.choice(["Add", "Mul", "Max"])), *(operands if g.rng.random() < 0.5 else operands[::-1]))


def transposed(g: Graph, x: str, shape: Sequence[int]) -> str:
    return g.add("Transpose", x, perm=[int(i) for i in g.rng.permutation(len(shape))])


def reshaped(g: Graph, x: str, shape: Sequence[int]) -> str:
    factors = [p for n in shape for p in _prime_factors(n)]
    cuts = sorted(g.rng.integers(0, len(factors) + 1, g.rng.integers(0, 4)))
    sizes = [math.prod(part) for part in np.split(np.array(factors, int), cuts)]
    return g.add("Reshape", x, g.constant(np.array([int(n) for n in sizes], np.int64)))


def _prime_factors(n: int) -> list[int]:
    first = next((p for p in range(2, n + 1) if n % p == 0), 0)
    return [first, *_prime_factors(n // first)] if first else []


def along(g: Graph, x: str, shape: Sequence[int]) -> str:
    axis = int(g.rng.integers(len(shape)))
    if g.rng.random() < 0.3:
        return g.add("CumSum", x, g.constant(np.array(axis, np.int64)))
    return g.add(str(g.rng.choice(["Softmax", "Hardmax"])), x, axis=axis)


def reduced(g: Graph, x: str, shape: Sequence[int]) -> str:
    axes = np.flatnonzero(g.rng.random(len(shape)) < 0.5).astype(np.int64)
    if not axes.size:
        return g.add("ArgMax", x, axis=0, keepdims=int(g.rng.random() < 0.5))
    op_type = str(g.rng.choice(["ReduceSum", "ReduceMax"]))
    return g.add(op_type, x, g.constant(axes), keepdims=int(g.rng.random() < 0.5))


def product(g: Graph, x: str, shape: Sequence[int]) -> str:
    if g.rng.random() < 0.5 and len(shape) > 1:
        lead = [n if g.rng.random() < 0.5 else 1 for n in shape[:-2]]
        return g.add("MatMul", g.constant(numbers(g.rng, [*lead, 2, shape[-2]])), x)
    lead = [n if g.rng.random() < 0.5 else 1 for n in shape[:-2]]
    return g.add("MatMul", x, g.constant(numbers(g.rng, [*lead, shape[-1], 3])))


def general_product(g: Graph, x: str, shape: Sequence[int]) -> str:
    if len(shape) != 2:
        return unary(g, x, shape)
    flips = [int(i) for i in g.rng.integers(0, 2, 2)]
    rows, summed = shape[::-1] if flips[0] else shape
    other = g.constant(numbers(g.rng, [3, summed] if flips[1] else [summed, 3]))
    return g.add("Gemm", x, other, g.constant(numbers(g.rng, [rows, 1])), transA=flips[0], transB=flips[1])


def einsum(g: Graph, x: str, shape: Sequence[int]) -> str:
    own = "abcdefgh"[: len(shape)]
    other = "".join(g.rng.permutation(list(own[: g.rng.integers(1, len(own) + 1)] + "z")))
    result = "".join(g.rng.permutation([letter for letter in own + "z" if g.rng.random() < 0.7]))
    sizes = {**dict(zip(own, shape, strict=True)), "z": 2}
    return g.add(
        "Einsum", x, g.constant(numbers(g.rng, [sizes[a] for a in other])), equation=f"{own},{other}->{result}"
    )


def selected(g: Graph, x: str, shape: Sequence[int]) -> str:
    axis = int(g.rng.integers(len(shape)))
    indices = g.rng.integers(0, shape[axis], [(), (2,), (1, 3)][g.rng.integers(3)])
    return g.add("Gather", x, g.constant(np.array(indices, np.int64)), axis=axis)


def looked_up(g: Graph, x: str, shape: Sequence[int]) -> str:
    index = g.add(
        "Cast", g.add("Mod", g.add("Abs", g.add("Floor", x)), g.constant(np.array(2, np.float32)), fmod=1), to=7
    )
    return g.add("Gather", g.constant(numbers(g.rng, [3, 2, 2])), index, axis=int(g.rng.integers(2)))


def sliced(g: Graph, x: str, shape: Sequence[int]) -> str:
    axis = int(g.rng.integers(len(shape)))
    bounds = [[0], [max(1, shape[axis] - 1)], [axis], [1]]
    return g.add("Slice", x, *(g.constant(np.array(one, np.int64)) for one in bounds))


def split(g: Graph, x: str, shape: Sequence[int]) -> str:
    axis = int(g.rng.integers(len(shape)))
    sizes = np.array([1, shape[axis] - 1], np.int64)
    return unary(g, x, shape) if shape[axis] < 2 else g.add("Split", x, g.constant(sizes), axis=axis, outputs=2)


def joined(g: Graph, x: str, shape: Sequence[int]) -> str:
    other = x if g.rng.random() < 0.5 else g.constant(numbers(g.rng, shape))
    return g.add("Concat", x, other, axis=int(g.rng.integers(len(shape))))


def padded(g: Graph, x: str, shape: Sequence[int]) -> str:
    pads = g.rng.integers(0, 2, (2, len(shape))) * (g.rng.random(len(shape)) < 0.5)
    return g.add("Pad", x, g.constant(pads.reshape(-1).astype(np.int64)))


def repeated(g: Graph, x: str, shape: Sequence[int]) -> str:
    if g.rng.random() < 0.5:
        return g.add("Tile", x, g.constant(g.rng.integers(1, 3, len(shape)).astype(np.int64)))
    wide = [2, *(n if n != 1 else 3 for n in shape)]
    return g.add("Expand", x, g.constant(np.array(wide, np.int64)))


def normalised(g: Graph, x: str, shape: Sequence[int]) -> str:
    axis = int(g.rng.integers(len(shape)))
    return g.add("LayerNormalization", x, g.constant(numbers(g.rng, shape[axis:])), axis=axis)


NODES: Sequence[Callable[[Graph, str, Sequence[int]], str]] = [
    unary, broadcast, transposed, reshaped, along, reduced, product, general_product, einsum, selected, looked_up, sliced,
    split, joined, padded, repeated, normalised,
]  # fmt: skip


# -- the law --------------------------------------------------------------------------------------------------------


def axis_last(array: Array, rows: SubAxis) -> Array:
    """[…, n]: the array with a sub-axis as the last one."""
    outer, inner = rows.outer.number, rows.inner.number
    assert outer is not None
    assert inner is not None
    before, behind = array.shape[: rows.axis], array.shape[rows.axis + 1 :]
    whole = array.reshape(*before, outer, -1, inner, *behind)
    return np.moveaxis(whole, rows.axis + 1, -1)


def changed(rng: np.random.Generator, array: Array, rows: SubAxis, kept: int) -> Array:
    """The array with other numbers in all rows but one."""
    result = array.copy()
    view = axis_last(result, rows)
    mask = np.arange(view.shape[-1]) != kept
    fresh = numbers(rng, view.shape).astype(array.dtype) if array.dtype.kind == "f" else view[..., ::-1]
    changed_rows = np.where(mask, fresh, view)
    outer, inner = rows.outer.number or 1, rows.inner.number or 1
    before, behind = array.shape[: rows.axis], array.shape[rows.axis + 1 :]
    return np.moveaxis(changed_rows, -1, rows.axis + 1).reshape(*before, outer * view.shape[-1] * inner, *behind)


def flipped(array: Array, rows: SubAxis) -> Array:
    """The array with its rows in the opposite order."""
    result = array.copy()
    axis_last(result, rows)[...] = axis_last(array, rows)[..., ::-1]
    return result


def sub_axis(axes: Axes, axis: IterationAxis) -> SubAxis | None:
    """The place of an iteration axis in a tensor."""
    for place, group in enumerate(axes):
        if axis in group:
            i = group.index(axis)
            return SubAxis(
                place, size_of([s.size.dim for s in group[:i]]), size_of([s.size.dim for s in group[i + 1 :]])
            )
    return None


@dataclasses.dataclass
class Node:
    """A random node by itself, with what its operands and results are."""

    graph: Graph
    node: ir.Node
    operands: dict[str, Array]
    results: dict[str, Array]
    maps: AxisMaps

    @staticmethod
    def random(kind: Callable[[Graph, str, Sequence[int]], str], seed: int) -> Node:
        rng = np.random.default_rng([seed, NODES.index(kind)])
        graph = Graph(rng)
        shape = [int(n) for n in rng.choice([1, 2, 3, 4], rng.integers(1, 5))]
        graph.inputs["x"] = numbers(rng, shape)
        kind(graph, "x", shape)
        node, known = graph.model().graph.node(-1), {**graph.inputs, **graph.constants, **graph.values}
        maps = axis_maps(node)
        assert maps is not None, f"nothing is known of {node.op_type}"
        operands, results = (
            {str(v.name): known[str(v.name)] for v in some if v is not None} for some in (node.inputs, node.outputs)
        )
        return Node(Graph(rng, operands, {}, results, graph.nodes[-1:]), node, operands, results, maps)

    def axes(self, iteration: Iteration) -> list[IterationAxis]:
        """The axes of the operands of this kind."""
        axes = dict.fromkeys(axis for own in self.maps.operands for group in own or () for axis in group)
        return [axis for axis in axes if axis.iteration is iteration]

    def run(self, axis: IterationAxis, change: Callable[[Array, SubAxis], Array]) -> dict[str, Array]:
        """The results where all operands with an axis are changed along it."""
        changed_operands = dict(self.operands)
        for value, own in zip(self.node.inputs, self.maps.operands, strict=True):
            place = None if own is None else sub_axis(own, axis)
            if place is not None and value is not None:
                changed_operands[str(value.name)] = change(changed_operands[str(value.name)], place)
        return self.graph.run(changed_operands)


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("kind", NODES, ids=lambda kind: kind.__name__)
def test_a_row_of_a_result_depends_on_no_other_row_of_an_axis_that_is_the_same(kind, seed):
    one = Node.random(kind, seed)
    rng = one.graph.rng
    for axis in one.axes(Iteration.SAME):
        kept = int(rng.integers(axis.size.number or 0))
        results = one.run(axis, functools.partial(changed, rng, kept=kept))
        for value, own in zip(one.node.outputs, one.maps.results, strict=True):
            place = sub_axis(own, axis)
            if place is not None:
                before, after = one.results[str(value.name)], results[str(value.name)]
                np.testing.assert_array_equal(axis_last(after, place)[..., kept], axis_last(before, place)[..., kept])


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("kind", [reduced, product, general_product, einsum, selected], ids=lambda kind: kind.__name__)
def test_the_order_along_an_axis_that_is_summed_over_does_not_matter(kind, seed):
    one = Node.random(kind, seed)
    for axis in one.axes(Iteration.SUMMED):
        assert all(sub_axis(own, axis) is None for own in one.maps.results)
        for name, after in one.run(axis, flipped).items():
            np.testing.assert_array_equal(after, one.results[name])


_DEPENDS_ON_ALL = SubAxis(-1)


def followed(graph: Graph, start: SubAxis) -> dict[str, SubAxis]:
    """The sub-axis of each value that depends on the input, whose rows depend on the same rows of the input alone."""
    found = {"x": start}
    for node in graph.model().graph:
        results: set[SubAxis | None] = set()
        for index, value in enumerate(node.inputs):
            rows = None if value is None else found.get(str(value.name))
            if rows is not None:
                own = None if rows is _DEPENDS_ON_ALL else result_sub_axes(node, index, rows)
                results.add(None if own is None else own[0])
        rows = results.pop() if len(results) == 1 else None if results else start
        for output in node.outputs if results or rows is not start else ():
            found[str(output.name)] = rows or _DEPENDS_ON_ALL
    return found


@pytest.mark.parametrize("seed", range(150))
def test_rows_are_followed_through_random_graphs(seed):
    rng = np.random.default_rng(seed)
    graph = Graph(rng)
    shape = [int(n) for n in rng.choice([2, 3, 4, 6], rng.integers(1, 4))]
    graph.inputs["x"] = numbers(rng, shape)
    value = "x"
    for _ in range(5):
        array = {**graph.inputs, **graph.values}[value]
        if not array.ndim or array.size > 4096:
            break
        value = NODES[int(rng.integers(len(NODES)))](graph, graph.add("Cast", value, to=1), array.shape)
    axis = int(rng.integers(len(shape)))
    kept = int(rng.integers(shape[axis]))
    after = graph.run({"x": changed(rng, graph.inputs["x"], SubAxis(axis), kept)})
    for name, rows in followed(graph, SubAxis(axis)).items():
        if name != "x" and rows is not _DEPENDS_ON_ALL:
            np.testing.assert_array_equal(
                axis_last(after[name], rows)[..., kept], axis_last(graph.values[name], rows)[..., kept]
            )


def test_random_graphs_are_not_all_unknown():
    """Most rows are followed through elementwise nodes, transposes, views and products."""
    rng = np.random.default_rng(0)
    graph = Graph(rng)
    graph.inputs["x"] = numbers(rng, [2, 6, 4])
    flat = graph.add("Reshape", "x", graph.constant(np.array([12, 4], np.int64)))
    moved = graph.add("Transpose", graph.add("MatMul", flat, graph.constant(numbers(rng, [4, 3]))), perm=[1, 0])
    assert followed(graph, SubAxis(1))[moved] == SubAxis(1, outer=size_of([2]))


@pytest.mark.parametrize("seed", range(60))
def test_operands_and_results_say_the_same_of_an_axis(seed):
    rng = np.random.default_rng(seed)
    graph = Graph(rng)
    shape = [int(n) for n in rng.choice([2, 3, 4], rng.integers(1, 4))]
    graph.inputs["x"] = numbers(rng, shape)
    NODES[seed % len(NODES)](graph, "x", shape)
    node = graph.model().graph.node(-1)
    for axis in range(len(node.inputs[0].shape or ())):
        there = result_sub_axes(node, 0, SubAxis(axis))
        if there is not None and there[0] is not None and (back := operand_sub_axes(node, there[0])) is not None:
            assert back[0] == SubAxis(axis)


D = ir.SymbolicDim
VIEWS: Mapping[str, tuple[Sequence[LabelledDim], Sequence[LabelledDim], Sequence[Sequence[object]], Sequence[Sequence[object]]]] = {
    "merged": ([2, 3, 4], [6, 4], [[0], [1], [2]], [[0, 1], [2]]),
    "split": ([6, 4], [2, 3, 4], [[0, 1], [2]], [[0], [1], [2]]),
    "crossing": ([2, 6, 4, 5], [2, 8, 3, 5], [[0], ["?"], ["?"], [1]], [[0], ["?"], ["?"], [1]]),
    "symbolic": ([D("B"), D("T"), 12], [D("B*T"), 3, 4], [[0], [1], [2, 3]], [[0, 1], [2], [3]]),
    "a sum": ([D("B"), D("T + 1"), 8], [D("B*T + B"), 8], [[0], [1], [2]], [[0, 1], [2]]),
    "a multiple": ([D("B"), 4, 2], [D("4*B"), 2], [[0], [1], [2]], [[0, 1], [2]]),
    "told by the number of elements": ([D("B"), D("T"), 8], [D(None), 8], [[0], [1], [2]], [[0, 1], [2]]),
    "symbols that change places": ([D("B"), D("T")], [D("T"), D("B")], [["?"], ["?"]], [["?"], ["?"]]),
    "ones": ([1, 3], [3, 1, 1], [[0], [1, 2, 3]], [[0, 1], [2], [3]]),
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
def test_views_have_the_largest_common_axes(name):
    source, target, *expected = VIEWS[name]
    numbers_of: dict[IterationAxis, int] = {}
    shown = [
        [
            ["?" if a.iteration is Iteration.OTHER else numbers_of.setdefault(a, len(numbers_of)) for a in group]
            for group in axes
        ]
        for axes in view_axes(source, target)
    ]
    assert shown == expected


def told(inputs: str, body: str, outputs: str) -> str:
    """The axes of the last node's operands and results: a letter for each, in capitals where rows depend on each other, with + where summed."""
    text = f'<ir_version: 10, opset_import: ["" : 23, "own" : 1]> g ({inputs}) => ({outputs}) {{ {body} }}'
    model = ir.from_onnx_text(text)
    for node in model.graph:
        if node.op_type == "Constant":
            node.outputs[0].shape = ir.Shape(node.attributes["value"].as_tensor().shape.numpy())
    maps, letters = axis_maps(model.graph[-1]), dict[IterationAxis, str]()
    if maps is None:
        return "unknown"

    def letter(axis: IterationAxis) -> str:
        name = letters.setdefault(axis, "abcdefgh"[len(letters)])
        return {Iteration.SAME: name, Iteration.OTHER: name.upper(), Iteration.SUMMED: f"+{name}"}[axis.iteration]

    def tensor(axes: Axes | None) -> str:
        return "-" if axes is None else f"[{' '.join(''.join(map(letter, group)) or '.' for group in axes)}]"

    operands, results = (" ".join(map(tensor, some)) for some in (maps.operands, maps.results))
    return f"{operands} -> {results}"


ONE, ZERO = "one = Constant<value = int64[1] {1}>() ", "zero = Constant<value = int64[1] {0}>() "
PADS = "p = Constant<value = int64[4] {{{}}}>() y = Pad(x, p)"


@pytest.mark.parametrize(
    ("inputs", "body", "outputs", "expected"),
    [
        ("float[2,3] x, float[3] z", "y = Add(x, z)", "float[2,3] y", "[a b] [b] -> [a b]"),
        ("float[2,1] x, float[3] z", "y = Add(x, z)", "float[2,3] y", "[a .] [b] -> [a b]"),
        ("float[N,3] x, float[M,3] z", "y = Add(x, z)", "float[K,3] y", "[A b] [A b] -> [A b]"),
        ("float[N,3] x, float[N,3] z", "y = Add(x, z)", "float[N,3] y", "[a b] [a b] -> [a b]"),
        ("float[N,3] x, float[1,3] z", "y = Add(x, z)", "float[N,3] y", "[a b] [. b] -> [a b]"),
        ("float[2,3] x, float lo", "y = Clip(x, lo)", "float[2,3] y", "[a b] - -> [a b]"),
        ("float[2,3] x, float z", "y = own.Add(x, z)", "float[2,3] y", "unknown"),
        ("float[2,3] x", "y = RandomNormalLike(x)", "float[2,3] y", "unknown"),
        ("float[2,3] x", "y = Shape(x)", "int64[2] y", "unknown"),
        ("float[2,3,4] x", "y = Softmax<axis = 1>(x)", "float[2,3,4] y", "[a B c] -> [a B c]"),
        ("float[2,3,4] x", "y = Softmax(x)", "float[2,3,4] y", "[a b C] -> [a b C]"),
        ("float[2,3] x", ONE + "y = ReduceSum(x, one)", "float[2,1] y", "[a +b] - -> [a .]"),
        ("float[2,3] x", ONE + "y = ReduceSum<keepdims = 0>(x, one)", "float[2] y", "[a +b] - -> [a]"),
        ("float[2,3] x", "y = ReduceSum<keepdims = 0>(x)", "float y", "unknown"),
        ("float[2,3] x, int64[1] i", "y = ReduceSum<keepdims = 0>(x, i)", "float[K] y", "unknown"),
        ("float[2,3] x", "y = ArgMax<axis = 0, keepdims = 0>(x)", "int64[3] y", "[A b] -> [b]"),
        ("float[2,3] x", "i = Constant<value = int64 {1}>() y = CumSum(x, i)", "float[2,3] y", "[a B] - -> [a B]"),
        ("float[2,3] x", PADS.format("0, 1, 0, 2"), "float[2,6] y", "[a B] - -> [a B]"),
        ("float[2,3] x", PADS.format("0, 1, 0, 0"), "float[2,4] y", "[a B] - -> [a B]"),
        ("float[2,3] x", PADS.format("0, 0, 0, 1"), "float[2,4] y", "[a B] - -> [a B]"),
        ("float[2,3] x", PADS.format("1, 0, 0, 0"), "float[3,3] y", "[A b] - -> [A b]"),
        ("float[2,3] x", PADS.format("0, 0, 1, 0"), "float[3,3] y", "[A b] - -> [A b]"),
        ("float[2,3] x, int64[4] p", "y = Pad(x, p)", "float[K,L] y", "[A B] - -> [A B]"),
        ("float[2,3] x", ONE + "p = Constant<value = int64[2] {1, 2}>() y = Pad(x, p, , one)", "float[2,6] y", "[a B] - - - -> [a B]"),
        ("float[2,3] x, int64[1] i", "p = Constant<value = int64[2] {1, 2}>() y = Pad(x, p, , i)", "float[K,L] y", "unknown"),
        ("float[2,3] x, float[3,4] z", "y = MatMul(x, z)", "float[2,4] y", "[a +b] [+b c] -> [a c]"),
        ("float[3] x, float[3,4] z", "y = MatMul(x, z)", "float[4] y", "[+a] [+a b] -> [b]"),
        ("float[2,3] x, float[3] z", "y = MatMul(x, z)", "float[2] y", "[a +b] [+b] -> [a]"),
        ("float[5,2,3] x, float[1,3,4] z", "y = MatMul(x, z)", "float[5,2,4] y", "[a b +c] [. +c d] -> [a b d]"),
        ("float[5,2,3] x, float[3,4] z", "y = MatMul(x, z)", "float[5,2,4] y", "[a b +c] [+c d] -> [a b d]"),
        ("float[N,2,3] x, float[M,3,4] z", "y = MatMul(x, z)", "float[K,2,4] y", "[A b +c] [A +c d] -> [A b d]"),
        ("float[2,3] x, float[3,4] z", "y = Gemm(x, z)", "float[2,4] y", "[a +b] [+b c] -> [a c]"),
        ("float[3,2] x, float[4,3] z, float[4] w", "y = Gemm<transA = 1, transB = 1>(x, z, w)", "float[2,4] y", "[+a b] [c +a] [c] -> [b c]"),
        ("float[2,3] x, float[3,4] z", 'y = Einsum<equation = "ab,bc->ac">(x, z)', "float[2,4] y", "[a +b] [+b c] -> [a c]"),
        ("float[2,3] x, float[3,4] z", 'y = Einsum<equation = "ab, bc -> ca">(x, z)', "float[4,2] y", "[a +b] [+b c] -> [c a]"),
        ("float[3,3] x", 'y = Einsum<equation = "ii->i">(x)', "float[3] y", "[A A] -> [A]"),
        ("float[3] x, float[3] z", 'y = Einsum<equation = "i,i->i">(x, z)', "float[3] y", "[a] [a] -> [a]"),
        ("float[N] x, float[M] z", 'y = Einsum<equation = "i,i->i">(x, z)', "float[N] y", "[A] [A] -> [A]"),
        ("float[2,3] x, float[3,4] z", 'y = Einsum<equation = "ab,bc">(x, z)', "float[2,4] y", "unknown"),
        ("float[2,3] x", 'y = Einsum<equation = "a...->a">(x)', "float[2] y", "unknown"),
        ("float[2,3,4] x, int64[5] i", "y = Gather<axis = 1>(x, i)", "float[2,5,4] y", "[a B c] [d] -> [a d c]"),
        ("float[2,3] x, float[2,4] z", "y = Concat<axis = 1>(x, z)", "float[2,7] y", "[a B] [a B] -> [a B]"),
        ("float[2,3] x", "y = Concat<axis = 1>(x, x)", "float[2,6] y", "[a b] [a b] -> [a cb]"),
        ("float[2,4] x", "y, z = Split<axis = 1, num_outputs = 2>(x)", "float[2,2] y, float[2,2] z", "[a B] -> [a B] [a B]"),
        ("float[2,3] x, int64[2,3] i", "y = GatherElements<axis = 1>(x, i)", "float[2,3] y", "[a B] [a B] -> [a B]"),
        ("float[2,3] x, int64[1,3] i", "y = GatherElements<axis = 1>(x, i)", "float[1,3] y", "[A B] [A B] -> [A B]"),
        ("float[2,3,4] x", "y = Transpose<perm = [1, 2, 0]>(x)", "float[3,4,2] y", "[a b c] -> [b c a]"),
        ("float[2,3,4] x", "y = Transpose(x)", "float[4,3,2] y", "[a b c] -> [c b a]"),
        ("float[2,3,4] x, float[4] s", "y = LayerNormalization<axis = 1>(x, s)", "float[2,3,4] y", "[a B C] [C] -> [a B C]"),
        ("float[2,3,4] x, float[3,4] s", "y = LayerNormalization<axis = -1>(x, s)", "float[2,3,4] y", "unknown"),
        ("float[2,3] x", "n = Constant<value = int64[2] {1, 2}>() y = Tile(x, n)", "float[2,6] y", "[a b] - -> [a cb]"),
        ("float[2,3] x", "n = Constant<value = int64[2] {1, 0}>() y = Tile(x, n)", "float[2,0] y", "unknown"),
        ("float[2,3] x, int64[2] n", "y = Tile(x, n)", "float[K,L] y", "unknown"),
        ("float[3] x, int64[2] n", "y = Expand(x, n)", "float[2,3] y", "[a] - -> [b a]"),
        ("float[2,3] x", "s = Constant<value = int64[1] {6}>() y = Reshape(x, s)", "float[6] y", "[a b] - -> [ab]"),
        ("float[2,0] x", "s = Constant<value = int64[1] {0}>() y = Reshape(x, s)", "float[0] y", "unknown"),
        ("float[2,3] x, float z", "u = own.F(z) y = Add(x, u)", "float[2,3] y", "unknown"),
        ("float[2,3] x, float z", "u = own.F(z) y = MatMul(x, u)", "float[2,3] y", "unknown"),
        ("float[2,3] x, float z", "u = own.F(z) y = MatMul(u, x)", "float[2,3] y", "unknown"),
        ("float[2,3] x, float z", "u = own.F(z) y = Gemm(u, x)", "float[2,3] y", "unknown"),
        ("float[2,3] x, float[3,4] z, float w", "u = own.F(w) y = Gemm(x, z, u)", "float[2,4] y", "unknown"),
        ("float[2,3] x, float z", "u = own.F(z) y = Gather(x, u)", "float[K] y", "unknown"),
        ("float[2,3] x, float z", "u = own.F(z) y = Softmax(u)", "float[2,3] y", "unknown"),
        ("float[2,3] x", "y = own.F(x)", "float[2,3] y", "unknown"),
    ],
)  # fmt: skip
def test_axes_by_the_operator(inputs, body, outputs, expected):
    found = told(inputs, body, outputs)
    assert found == expected
