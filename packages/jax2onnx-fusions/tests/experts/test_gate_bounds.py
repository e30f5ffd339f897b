"""What is proven of gates holds for the values that ONNX's reference computes, in random graphs of the operators that make them."""

from __future__ import annotations

import functools
import random
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_fusions.experts._expert_axes import ExpertAxes, Sizes
from jax2onnx_fusions.experts._expert_gates import ExpertGate, expert_gate
from jax2onnx_fusions.experts._gate_factors import GateFactor, gate_factor
from jax2onnx_fusions.experts._sparsity import Sparsity, Validity, sparsity
from jax2onnx_graph.facts.sub_axes import SubAxis
from onnx.reference import ReferenceEvaluator

FLOAT, INT, BOOL = ir.DataType.FLOAT, ir.DataType.INT64, ir.DataType.BOOL
EXPERTS = 3
GRAPHS = 40
Dims = tuple[int | str, ...]
Array = np.ndarray
Values = dict[ir.Value, Array]

UNARY = {
    "Neg": (FLOAT, INT), "Abs": (FLOAT, INT), "Relu": (FLOAT,), "Sqrt": (FLOAT,), "Exp": (FLOAT,), "Sigmoid": (FLOAT,), "Tanh": (FLOAT,),
    "Not": (BOOL,), "Identity": (FLOAT, INT, BOOL), "IsNaN": (FLOAT,),
}  # fmt: skip
BINARY = {
    "Add": (FLOAT, INT), "Sub": (FLOAT, INT), "Mul": (FLOAT, INT), "Div": (FLOAT,), "Max": (FLOAT, INT), "And": (BOOL,), "Or": (BOOL,),
    "Xor": (BOOL,), "Equal": (FLOAT, INT), "Greater": (FLOAT, INT), "Less": (FLOAT, INT), "GreaterOrEqual": (FLOAT, INT),
    "LessOrEqual": (FLOAT, INT),
}  # fmt: skip
OF_BOOLEANS = {"Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "IsNaN"}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan]


class RandomGraph:
    """A graph that grows by one node at a time.

    Attributes:
      values: the values, each with its dimensions.
      nodes: the nodes in order.
      sparse: values of which something is proven, which half of the operands are.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.nodes: list[ir.Node] = []
        self.sparse: list[ir.Value] = []
        self.initializers: list[ir.Value] = []
        self.inputs = [
            self._input("x", FLOAT, ("T", EXPERTS)), self._input("z", FLOAT, (EXPERTS, EXPERTS)), self._input("i", INT, ("T", 2)),
            self._input("j", INT, ("T",)), self._input("b", BOOL, ("T", EXPERTS)), self._input("s", FLOAT, ("T", "T")),
        ]  # fmt: skip
        self.values = [*self.inputs]
        numbers = self.constant(np.arange(EXPERTS))
        for chosen, axis, dims in ((self.inputs[2], 2, ("T", 2, 1)), (self.inputs[3], 1, ("T", 1))):
            last = self.node("Unsqueeze", [chosen, self.constant([axis])], dims, INT)
            one_hot = self.node("Equal", [last, numbers], (*dims[:-1], EXPERTS), BOOL)
            self.add(one_hot)
            self.add(self.node("Cast", [one_hot], (*dims[:-1], EXPERTS), FLOAT, to=FLOAT))
        self.values += [
            self.constant(x) for x in (np.float32(0), np.float32(1), np.float32(-np.inf), np.int64(0), np.int64(1))
        ]

    def _input(self, name: str, dtype: ir.DataType, dims: Dims) -> ir.Value:
        return ir.Value(name=name, shape=ir.Shape(dims), type=ir.TensorType(dtype))

    def constant(self, value: object) -> ir.Value:
        tensor = ir.tensor(np.asarray(value), name=f"c{len(self.initializers)}")
        self.initializers.append(ir.Value(
            name=tensor.name, shape=ir.Shape(tensor.shape.numpy()), type=ir.TensorType(tensor.dtype), const_value=tensor
        ))  # fmt: skip
        return self.initializers[-1]

    def node(
        self, op_type: str, inputs: Sequence[ir.Value | None], dims: Dims, dtype: ir.DataType, **attributes: object
    ) -> ir.Value:
        node = ir.node(op_type, inputs, attributes=attributes)  # type: ignore[arg-type]
        (output,) = node.outputs
        output.name, output.shape, output.type = f"v{len(self.nodes)}", ir.Shape(dims), ir.TensorType(dtype)
        self.nodes.append(node)
        return output

    def pick(self, *dtypes: ir.DataType, rank: int = 0) -> ir.Value:
        """A value of one of the types, whose rank is at least this; one of the last more often."""
        found = [value for value in self.values if value.dtype in dtypes and len(dims_of(value)) >= rank]
        sparse = [value for value in found if value in self.sparse]
        return self.random.choice(sparse if sparse and self.random.random() < 0.5 else [*found, *found[-3:]])

    def add(self, value: ir.Value) -> None:
        """Keep a value for later nodes."""
        self.values.append(value)
        bounds = [
            (sparsity(value, SubAxis(axis), dim), dim)
            for axis, dim in enumerate(dims_of(value))
            if isinstance(dim, int)
        ]
        if any(bound is not None and bound.bound < dim for bound, dim in bounds):
            self.sparse.append(value)

    @functools.cached_property
    def evaluator(self) -> ReferenceEvaluator:
        """Computes all values of the finished graph."""
        outputs = [value for node in self.nodes for value in node.outputs]
        graph = ir.Graph(self.inputs, outputs, nodes=self.nodes, initializers=self.initializers, opset_imports={"": 23})
        return ReferenceEvaluator(ir.to_proto(ir.Model(graph, ir_version=10)))


def dims_of(value: ir.Value) -> Dims:
    assert value.shape is not None
    return tuple(dim if isinstance(dim, int) else str(dim.value) for dim in value.shape)


def broadcast(*all_dims: Dims) -> Dims | None:
    rank = max(map(len, all_dims))
    found = []
    for sizes in zip(*((1,) * (rank - len(dims)) + dims for dims in all_dims), strict=True):
        wide = {size for size in sizes if size != 1}
        if len(wide) > 1:
            return None
        found.append(wide.pop() if wide else 1)
    return tuple(found)


# -- steps: each adds a node, or returns None where the draw fits none -----------------------------------


def unary(graph: RandomGraph) -> ir.Value:
    op_type = graph.random.choice([*UNARY])
    value = graph.pick(*UNARY[op_type])
    return graph.node(op_type, [value], dims_of(value), BOOL if op_type in OF_BOOLEANS else value.dtype or FLOAT)


def cast(graph: RandomGraph) -> ir.Value:
    value, to = graph.pick(FLOAT, INT, BOOL), graph.random.choice([FLOAT, BOOL, INT])
    if value.dtype == FLOAT and to == INT:
        to = BOOL  # of NaN there is no integer
    return graph.node("Cast", [value], dims_of(value), to, to=to)


def binary(graph: RandomGraph) -> ir.Value | None:
    op_type = graph.random.choice([*BINARY, "Mul", "Mul", "Equal", "And"])
    dtype = graph.random.choice(BINARY[op_type])
    operands = [graph.pick(dtype), graph.pick(dtype)]
    dims = broadcast(*map(dims_of, operands))
    return None if dims is None else graph.node(op_type, operands, dims, BOOL if op_type in OF_BOOLEANS else dtype)


def number_of_expert(graph: RandomGraph) -> ir.Value:
    value, number = graph.pick(INT, rank=1), graph.random.randint(-1, EXPERTS)
    return graph.node("Equal", [value, graph.constant(np.int64(number))], dims_of(value), BOOL)


def where(graph: RandomGraph) -> ir.Value | None:
    condition, dtype = graph.pick(BOOL), graph.random.choice([FLOAT, INT])
    operands = [condition, graph.pick(dtype), graph.pick(dtype)]
    if graph.random.random() < 0.5:
        operands[2] = graph.constant(np.zeros((), np.float32 if dtype == FLOAT else np.int64))
    dims = broadcast(*map(dims_of, operands))
    return None if dims is None else graph.node("Where", operands, dims, dtype)


def unsqueeze(graph: RandomGraph) -> ir.Value | None:
    value = graph.pick(FLOAT, BOOL, INT)
    dims = dims_of(value)
    axis = graph.random.randint(0, len(dims))
    if len(dims) > 3:
        return None
    return graph.node(
        "Unsqueeze", [value, graph.constant([axis])], (*dims[:axis], 1, *dims[axis:]), value.dtype or FLOAT
    )


def transpose(graph: RandomGraph) -> ir.Value:
    value = graph.pick(FLOAT, BOOL, INT, rank=2)
    dims = dims_of(value)
    perm = graph.random.sample(range(len(dims)), len(dims))
    return graph.node("Transpose", [value], tuple(dims[axis] for axis in perm), value.dtype or FLOAT, perm=perm)


def merge(graph: RandomGraph) -> ir.Value | None:
    """A Reshape that merges two axes, or splits one that was."""
    value = graph.pick(FLOAT, BOOL, INT, rank=2)
    dims = dims_of(value)
    axis = graph.random.randint(0, len(dims) - 2)
    first, second = dims[axis : axis + 2]
    whole = first * second if isinstance(first, int) and isinstance(second, int) else f"{first}*{second}"
    if isinstance(whole, str) and any(isinstance(dim, str) for dim in (*dims[:axis], *dims[axis + 2 :])):
        return None
    if isinstance(first, str) and isinstance(second, str):
        whole = "T**2"
    merged = (*dims[:axis], ("T" if whole in ("T*1", "1*T") else whole), *dims[axis + 2 :])
    merged = tuple("*".join(reversed(dim.split("*"))) if isinstance(dim, str) and dim.startswith("T*") and "**" not in dim else dim
                   for dim in merged)  # fmt: skip
    shape = [dim if isinstance(dim, int) else -1 for dim in merged]
    return graph.node("Reshape", [value, graph.constant(shape)], merged, value.dtype or FLOAT)


def split(graph: RandomGraph) -> ir.Value | None:
    """A Reshape that splits an axis of a product."""
    value = graph.pick(FLOAT, BOOL, INT, rank=1)
    dims = dims_of(value)
    axis = graph.random.randint(0, len(dims) - 1)
    size, factor = dims[axis], graph.random.choice([2, EXPERTS])
    is_first = graph.random.random() < 0.5
    if isinstance(size, str):
        prefix, _, rest = size.partition("*")
        if not prefix.isdigit() or int(prefix) % factor:
            return None
        other: int | str = rest if int(prefix) == factor else f"{int(prefix) // factor}*{rest}"
    elif size % factor:
        return None
    else:
        other = size // factor
    parts = (factor, other) if is_first else (other, factor)
    made = (*dims[:axis], *parts, *dims[axis + 1 :])
    if len(made) > 4 or sum(isinstance(dim, str) for dim in made) > 1:
        return None
    shape = [dim if isinstance(dim, int) else -1 for dim in made]
    return graph.node("Reshape", [value, graph.constant(shape)], made, value.dtype or FLOAT)


def reduce(graph: RandomGraph) -> ir.Value:
    value = graph.pick(FLOAT, rank=1)
    dims, keeps = dims_of(value), graph.random.random() < 0.5
    axis = graph.random.randint(0, len(dims) - 1)
    made = tuple(1 if i == axis else dim for i, dim in enumerate(dims) if keeps or i != axis)
    op_type = graph.random.choice(["ReduceSum", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean"])
    return graph.node(op_type, [value, graph.constant([axis])], made, FLOAT, keepdims=int(keeps))


def along(graph: RandomGraph) -> ir.Value:
    value = graph.pick(FLOAT, rank=1)
    axis = graph.random.randint(0, len(dims_of(value)) - 1)
    if graph.random.random() < 0.5:
        return graph.node("Softmax", [value], dims_of(value), FLOAT, axis=axis)
    return graph.node("CumSum", [value, graph.constant(np.int64(axis))], dims_of(value), FLOAT)


def take(graph: RandomGraph) -> ir.Value | None:
    """A position along an axis, by Gather or Slice, or the axis backwards."""
    value = graph.pick(FLOAT, BOOL, INT, rank=1)
    dims, dtype = dims_of(value), value.dtype or FLOAT
    axis, way = graph.random.randint(0, len(dims) - 1), graph.random.choice(["Gather", "Slice", "back"])
    size = dims[axis]
    if way == "back":
        ends = [graph.constant([one]) for one in (-1, np.iinfo(np.int64).min, axis, -1)]
        return graph.node("Slice", [value, ends[0], ends[1], ends[2], ends[3]], dims, dtype)
    if not isinstance(size, int):
        return None
    place = graph.random.randint(-size, size - 1)
    if way == "Gather":
        return graph.node(
            "Gather", [value, graph.constant(np.int64(place))], (*dims[:axis], *dims[axis + 1 :]), dtype, axis=axis
        )
    bounds = [graph.constant([one]) for one in (place, place + 1 or np.iinfo(np.int64).max, axis)]
    return graph.node("Slice", [value, *bounds], (*dims[:axis], 1, *dims[axis + 1 :]), dtype)


def repeat(graph: RandomGraph) -> ir.Value | None:
    """A value twice along an axis, by Concat or Tile; or along one of size 1 so often as there are experts, by Expand."""
    value = graph.pick(FLOAT, BOOL, INT, rank=1)
    dims, dtype = dims_of(value), value.dtype or FLOAT
    axis, way = graph.random.randint(0, len(dims) - 1), graph.random.choice(["Concat", "Tile", "Expand"])
    size = dims[axis]
    if way == "Expand" and size == 1:
        shape = [EXPERTS if i == axis else 1 for i in range(len(dims))]
        made = tuple(EXPERTS if i == axis else dim for i, dim in enumerate(dims))
        return graph.node("Expand", [value, graph.constant(shape)], made, dtype)
    if not isinstance(size, int) or size > 6:
        return None
    made = (*dims[:axis], 2 * size, *dims[axis + 1 :])
    if way == "Tile":
        return graph.node(
            "Tile", [value, graph.constant([2 if i == axis else 1 for i in range(len(dims))])], made, dtype
        )
    return graph.node("Concat", [value, value], made, dtype, axis=axis)


def product(graph: RandomGraph) -> ir.Value | None:
    left, right = graph.pick(FLOAT, rank=2), graph.pick(FLOAT, rank=2)
    own, other = dims_of(left), dims_of(right)
    batch = broadcast(own[:-2], other[:-2]) if own[:-2] or other[:-2] else ()
    if own[-1] != other[-2] or batch is None:
        return None
    return graph.node("MatMul", [left, right], (*batch, own[-2], other[-1]), FLOAT)


def scatter(graph: RandomGraph) -> ir.Value | None:
    data = graph.pick(FLOAT, rank=2)
    if dims_of(data) != ("T", EXPERTS):
        return None
    if graph.random.random() < 0.5:
        data = graph.node("Mul", [data, graph.constant(np.float32(0))], dims_of(data), FLOAT)
    numbers = graph.node("Mod", [graph.inputs[2], graph.constant(np.int64(EXPERTS))], ("T", 2), INT)
    updates = graph.node("Cast", [graph.inputs[2]], ("T", 2), FLOAT, to=FLOAT)
    return graph.node("ScatterElements", [data, numbers, updates], dims_of(data), FLOAT, axis=1)


STEPS: list[Callable[[RandomGraph], ir.Value | None]] = [
    unary, cast, binary, binary, binary, number_of_expert, where, where, unsqueeze, transpose, merge, split, reduce, reduce, along, take,
    take, repeat, product, scatter,
]  # fmt: skip


def random_graph(seed: int, steps: int = 12) -> RandomGraph:
    graph = RandomGraph(seed)
    for _ in range(steps):
        value = graph.random.choice(STEPS)(graph)
        if value is not None:
            graph.add(value)
    return graph


def computed(graph: RandomGraph, size: int, seed: int, *, finite: bool) -> Values:
    """All values of the graph, for so many tokens."""
    numbers = np.random.default_rng(seed)
    arrays: dict[str, Array] = {}
    for value in graph.inputs:
        shape = tuple(size if dim == "T" else int(dim) for dim in dims_of(value))
        if value.dtype == INT:
            arrays[str(value.name)] = numbers.integers(-1, EXPERTS + 1, shape)
        elif value.dtype == BOOL:
            arrays[str(value.name)] = numbers.integers(0, 2, shape).astype(bool)
        else:
            arrays[str(value.name)] = numbers.choice(SPECIAL[: 5 if finite else None], shape).astype(np.float32)
    outputs = [value for node in graph.nodes for value in node.outputs]
    with np.errstate(all="ignore"):
        results = map(np.asarray, graph.evaluator.run(None, arrays))
    return {value: arrays[str(value.name)] for value in graph.inputs} | dict(zip(outputs, results, strict=True))


def are_finite(values: Values) -> bool:
    return all(np.isfinite(array).all() or array.dtype == bool for array in values.values())


class Claims:
    """All that is proven of the values of a graph."""

    def __init__(self, graph: RandomGraph) -> None:
        self.bounds: list[tuple[ir.Value, int, Sparsity]] = []
        self.gates = defaultdict[tuple[object, ...], list[tuple[ir.Value, ExpertGate]]](list)
        self.factors: list[tuple[ir.Value, tuple[int, ...], GateFactor]] = []
        for value in (output for node in graph.nodes for output in node.outputs):
            gate = expert_gate(value)
            if gate is not None:
                self.gates[gate.source, gate.axis, gate.rows, dims_of(value)].append((value, gate))
            for axis, dim in enumerate(dims_of(value)):
                if isinstance(dim, int):
                    self._along(value, axis, dim)

    def _along(self, value: ir.Value, axis: int, size: int) -> None:
        bound = sparsity(value, SubAxis(axis), size)
        if bound is not None:
            self.bounds.append((value, axis, bound))
        dims = value.shape or ()
        tokens = [place for place, dim in enumerate(dims) if place != axis and not isinstance(dim, int)]
        roles = ExpertAxes(tuple(map(SubAxis, tokens)), SubAxis(axis))
        found = gate_factor(value, roles, Sizes(tuple(dims[place] for place in tokens), size)) if size > 1 else None
        if found is not None:
            self.factors.append((value, (*tokens, axis), found))

    def check(self, values: Values, *, finite: bool) -> None:
        """Assert the claims that have to hold of these values."""
        for value, axis, bound in self.bounds:
            if finite or bound.validity is Validity.ALWAYS:
                counts = np.count_nonzero(values[value], axis=axis)
                most = counts.mean() if bound.validity is Validity.ON_AVERAGE else counts.max(initial=0)
                assert most <= bound.bound, (value.producer(), axis, bound)
        for gates in self.gates.values():
            self._check_gates(values, [
                (value, gate) for value, gate in gates if gate.sparsity.validity <= (Validity.IF_FINITE if finite else Validity.ALWAYS)
            ])  # fmt: skip
        for value, axes, found in self.factors if finite else ():
            rest = [axis for axis in range(values[value].ndim) if axis not in axes]
            results = values[value].transpose([*axes, *rest])
            of_gates = values.get(found.value, np.ones(1))
            factor = of_gates.transpose([*found.axes, *(a for a in range(of_gates.ndim) if a not in found.axes)])
            assert not results[factor.reshape(results.shape[: len(axes)]) == 0].any(), (value.producer(), found)

    @staticmethod
    def _check_gates(values: Values, gates: Sequence[tuple[ir.Value, ExpertGate]]) -> None:
        """Of gates that are computed of the same lines of a source, at most so many are other than zero at one place."""
        for bound in {gate.sparsity.bound for _, gate in gates}:
            by_number = defaultdict[int, list[Array]](list)
            for value, gate in gates:
                if gate.sparsity.bound <= bound:
                    by_number[gate.number].append(values[value] != 0)
            count = np.sum([np.any(own, axis=0) for own in by_number.values()], axis=0)
            assert np.max(count, initial=0) <= bound, gates


@pytest.mark.parametrize("part", range(8))
def test_what_is_proven_of_gates_holds(part):
    for seed in range(part * GRAPHS, (part + 1) * GRAPHS):
        graph = random_graph(seed)
        claims = Claims(graph)
        for size, finite in ((1, True), (2, True), (3, False), (5, True)):
            values = computed(graph, size, seed, finite=finite)
            claims.check(values, finite=finite and are_finite(values))
