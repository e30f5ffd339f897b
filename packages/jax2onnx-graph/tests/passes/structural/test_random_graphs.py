"""The law of every pass: the model computes what it did before, under the names it had before."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax2onnx_graph.forms import Threshold
from jax2onnx_graph.passes import structural_passes
from jax2onnx_graph.passes.structural.sink_selections import SinkSelections
from jax2onnx_graph.targets import standard_target
from onnx.reference import ReferenceEvaluator

_DIMS = (1, 2, 3)


class _Graph:
    """A random graph on tensors of rank 2 to 4, with shapes known everywhere."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.inputs = [self._input(f"x{i}") for i in range(2)]
        self.values = list(self.inputs)
        self.nodes: list[ir.Node] = []
        self.constants: list[ir.Value] = []

    def _input(self, name: str) -> ir.Value:
        shape = [int(d) for d in self.rng.choice(_DIMS, self.rng.integers(2, 5))]
        return ir.val(name, ir.DataType.FLOAT, shape)

    def constant(self, array: np.ndarray) -> ir.Value:
        """A constant; equal integers are one, as they are in exported graphs."""
        equal = (v for v in self.constants if v.dtype == ir.DataType.INT64 and v.const_value is not None)
        for value in equal if array.dtype == np.int64 else ():
            if value.const_value.shape == array.shape and np.array_equal(value.const_value.numpy(), array):
                return value
        tensor = ir.tensor(array, name=f"c{len(self.constants)}")
        value = ir.Value(
            name=tensor.name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape), const_value=tensor
        )
        self.constants.append(value)
        return value

    def emit(
        self, op_type: str, inputs: list[ir.Value | None], shape, dtype=ir.DataType.FLOAT, **attributes
    ) -> ir.Value:
        node = ir.node(op_type, inputs, attributes)
        output = node.outputs[0]
        output.name, output.shape, output.type = f"v{len(self.nodes)}", ir.Shape(shape), ir.TensorType(dtype)
        self.nodes.append(node)
        return output

    def grow(self) -> None:
        x = self.values[-1] if self.rng.random() < 0.6 else self.values[self.rng.integers(len(self.values))]
        grown = getattr(self, f"_{self.rng.choice(_OPERATORS)}")(x, list(x.shape.numpy()))
        if np.prod(grown.shape.numpy()) < 5000:
            self.values.append(grown)

    def _transpose(self, x, shape):
        perm = [int(i) for i in self.rng.permutation(len(shape))]
        known = [
            p
            for p in [n.attributes.get_ints("perm") for n in self.nodes if n.op_type == "Transpose"]
            if len(p) == len(shape)
        ]
        if known and self.rng.random() < 0.6:
            perm = list(known[self.rng.integers(len(known))])
            perm = [perm.index(i) for i in range(len(perm))] if self.rng.random() < 0.7 else perm
        return self.emit("Transpose", [x], [shape[i] for i in perm], perm=perm)

    def _unary(self, x, shape):
        return self.emit(str(self.rng.choice(["Relu", "Tanh", "Neg", "Identity"])), [x], shape)

    def _binary(self, x, shape):
        peers = [v for v in self.values if list(v.shape.numpy()) == shape]
        return self.emit(str(self.rng.choice(["Add", "Mul", "Max"])), [x, peers[self.rng.integers(len(peers))]], shape)

    def _broadcast(self, x, shape):
        own = [d if self.rng.random() < 0.5 else 1 for d in shape][self.rng.integers(len(shape)) :]
        value = self.constant(self.rng.standard_normal(own).astype(np.float32))
        if self.rng.random() < 0.4:
            value = self.emit("Expand", [value, self.constant(np.array(shape, np.int64))], shape)
        elif self.rng.random() < 0.4:
            value = self.emit("Tanh", [value], own)
        return self.emit("Add", [x, value] if self.rng.random() < 0.5 else [value, x], shape)

    def _concat(self, x, shape):
        axis = int(self.rng.integers(len(shape)))
        return self.emit("Concat", [x, x], [2 * d if i == axis else d for i, d in enumerate(shape)], axis=axis)

    def _reduce(self, x, shape):
        keep = int(self.rng.integers(2)) if len(shape) > 2 else 1
        axes = sorted({int(a) for a in self.rng.integers(len(shape), size=2)})[: len(shape) - 2 + keep]
        left = [1 if i in axes else d for i, d in enumerate(shape) if keep or i not in axes]
        return self.emit("ReduceMean", [x, self.constant(np.array(axes, np.int64))], left, keepdims=keep)

    def _softmax(self, x, shape):
        return self.emit("Softmax", [x], shape, axis=int(self.rng.integers(len(shape))))

    def _pad(self, x, shape):
        pads = self.rng.integers(2, size=2 * len(shape))
        grown = [d + int(a + b) for d, a, b in zip(shape, pads[: len(shape)], pads[len(shape) :])]
        return self.emit("Pad", [x, self.constant(pads.astype(np.int64))], grown)

    def _slice(self, x, shape):
        axis = int(self.rng.integers(len(shape)))
        operands = [self.constant(np.array([v], np.int64)) for v in (0, 1, axis)]
        return self.emit("Slice", [x, *operands], [1 if i == axis else d for i, d in enumerate(shape)])

    def _take(self, x, shape):
        axis = int(self.rng.integers(len(shape)))
        drops = len(shape) > 2 and self.rng.random() < 0.5
        indices = self.rng.integers(-shape[axis], shape[axis], size=() if drops else (1 + int(self.rng.integers(2)),))
        taken = self.indices(np.asarray(indices, np.int64))
        return self.emit("Gather", [x, taken], [*shape[:axis], *indices.shape, *shape[axis + 1 :]], axis=axis)

    def _take_per_batch(self, x, shape):
        batch = int(self.rng.integers(1, len(shape)))
        extra = int(self.rng.integers(len(shape) < 3, 2))
        indices = self.rng.integers(-shape[batch], shape[batch], size=(*shape[:batch], *[1] * extra, 1))
        result = [*indices.shape[:-1], *shape[batch + 1 :]]
        return self.emit("GatherND", [x, self.indices(indices.astype(np.int64))], result, batch_dims=batch)

    def indices(self, array: np.ndarray) -> ir.Value:
        """Indices that are a constant, or computed after all that there is so far."""
        value = self.constant(array)
        if self.rng.random() < 0.5:
            return value
        return self.emit("Add", [value, self.constant(np.zeros((), np.int64))], array.shape, ir.DataType.INT64)

    def _matmul(self, x, shape):
        weights = self.rng.standard_normal((shape[-1], int(self.rng.choice(_DIMS)))).astype(np.float32)
        return self.emit("MatMul", [x, self.constant(weights)], [*shape[:-1], weights.shape[1]])

    def _layer_norm(self, x, shape):
        axis = int(self.rng.integers(1, len(shape)))
        scale = self.constant(self.rng.standard_normal(shape[axis:]).astype(np.float32))
        return self.emit("LayerNormalization", [x, scale], shape, axis=axis)

    def _reshape(self, x, shape):
        new = [int(d) for d in self.rng.permutation(shape)]
        return self.emit("Reshape", [x, self.constant(np.array(new, np.int64))], new)

    def _merge_and_split(self, x, shape):
        if len(shape) < 3:
            return self._unary(x, shape)
        merged = [shape[0] * shape[1], *shape[2:]]
        flat = self.emit("Reshape", [x, self.constant(np.array(merged, np.int64))], merged)
        active = self._unary(flat, merged) if self.rng.random() < 0.5 else self._matmul(flat, merged)
        split = [*shape[:2], *active.shape.numpy()[1:]]
        return self.emit("Reshape", [active, self.constant(np.array(split, np.int64))], split)

    def _unsqueeze(self, x, shape):
        if len(shape) > 3:
            return self._squeeze(x, shape)
        axis = int(self.rng.integers(len(shape) + 1))
        return self.emit("Unsqueeze", [x, self.constant(np.array([axis], np.int64))], [*shape[:axis], 1, *shape[axis:]])

    def _squeeze(self, x, shape):
        ones = [i for i, d in enumerate(shape) if d == 1][: len(shape) - 2]
        if not ones:
            return self._unary(x, shape)
        return self.emit(
            "Squeeze", [x, self.constant(np.array(ones, np.int64))], [d for i, d in enumerate(shape) if i not in ones]
        )

    def _casts(self, x, shape):
        wide = self.emit("Cast", [x], shape, ir.DataType.DOUBLE, to=ir.DataType.DOUBLE)
        return self.emit("Cast", [wide], shape, to=ir.DataType.FLOAT)

    def feeds(self) -> dict[str, np.ndarray]:
        return {v.name or "": self.rng.standard_normal(v.shape.numpy()).astype(np.float32) for v in self.inputs}

    def model(self) -> ir.Model:
        made = [v for v in self.values if v.producer() is not None]
        outputs = list(dict.fromkeys([made[-1], *(made[i] for i in self.rng.integers(len(made), size=2))]))
        graph = ir.Graph(
            self.inputs, outputs, nodes=self.nodes, initializers=self.constants, opset_imports={"": 20}, name="g"
        )
        return ir.Model(graph, ir_version=10)


_OPERATORS = [
    name[1:] for name in vars(_Graph) if name.startswith("_") and not name.startswith("__") and name != "_input"
]
_SELECTIONS = ["slice", "take", "take_per_batch"]
_OPERATORS += ["transpose"] * 8 + ["unary", "binary"] * 2


@pytest.mark.parametrize("seed", range(200))
def test_selections_that_move_wherever_they_can_select_the_same(limited, seed):
    eager = limited(thresholds={Threshold.OPERATOR_CALL: -1_000_000})  # as if each operator more saved work
    random = _Graph(seed)
    while len(random.values) < 8:
        random.grow()
    for name in random.rng.choice(_SELECTIONS, 4):
        x = random.values[-1]
        random.values.append(getattr(random, f"_{name}")(x, list(x.shape.numpy())))
        if random.rng.random() < 0.5:
            random.grow()
    model = random.model()
    before, feeds = ir.to_proto(model), random.feeds()
    SinkSelections(eager)(model)
    after = ir.to_proto(model)
    onnx.checker.check_model(after, full_check=True)
    for want, got in zip(*(ReferenceEvaluator(m).run(None, feeds) for m in (before, after)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(60))
def test_a_random_graph_computes_what_it_did_before(seed):
    random = _Graph(seed)
    while len(random.values) < 14:
        random.grow()
    model = random.model()
    before = ir.to_proto(model)
    feeds = random.feeds()
    expected = ReferenceEvaluator(before).run(None, feeds)
    for one in structural_passes():
        graph_pass = one.factory(standard_target)
        graph_pass(model)
        after = ir.to_proto(model)
        onnx.checker.check_model(after, full_check=True)
        assert [o.name for o in after.graph.output] == [o.name for o in before.graph.output]
        for want, got in zip(expected, ReferenceEvaluator(after).run(None, feeds), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5, err_msg=type(graph_pass).__name__)
