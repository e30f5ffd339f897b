"""A builder of graphs that ONNX's reference evaluator runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.build.builder import Array, GraphBuilder, Value
from jax2onnx_graph.build.names import Names
from jax2onnx_graph.facts.dims import Dim, Dims, is_static
from jax2onnx_graph.targets import standard_target
from onnx.reference import ReferenceEvaluator


class PlainBuilder(GraphBuilder):
    """Writes at the end of a main graph whose dimensions are all numbers."""

    def __init__(self, *arrays: Array, opset: int = 23) -> None:
        super().__init__(opset, standard_target)
        self.arrays = {f"x{i}": array for i, array in enumerate(arrays)}
        inputs = [ir.val(name, ir.DataType.from_numpy(array.dtype), array.shape) for name, array in self.arrays.items()]
        self.graph = ir.Graph(inputs, [], nodes=[], opset_imports={"": opset, "own": 1}, name="g")
        self._names = Names(self.arrays)

    @property
    def operators(self) -> list[str]:
        return [node.op_type for node in self.graph]

    def run(self, value: Value) -> np.ndarray:
        """The array that a value is."""
        self.graph.outputs.append(value)
        model = ir.to_proto(ir.Model(self.graph, ir_version=10))
        self.graph.outputs.pop()
        (result,) = ReferenceEvaluator(model).run(None, dict(self.arrays))
        return np.asarray(result)

    def _insert(self, node: ir.Node) -> None:
        self.graph.append(node)

    def _node_name(self, op_type: str) -> str:
        return self._names.unique(op_type)

    def dims(self, value: Value) -> Dims | None:
        return tuple(value.shape.numpy()) if value.shape is not None and value.shape.is_static() else None

    def set_dims(self, value: Value, dims: Sequence[Dim]) -> None:
        value.shape = ir.Shape([int(dim) for dim in dims if is_static(dim)])

    def shape(self, dims: Sequence[Dim]) -> Value:
        return self.ints([int(dim) for dim in dims if is_static(dim)])

    def new_constant(self, array: Array, name: str = "const") -> Value:
        return self.new_tensor(ir.Tensor(np.array(array, order="C")), name)

    def new_tensor(self, tensor: ir.TensorProtocol, name: str) -> Value:
        value = ir.Value(
            name=self._names.unique(name), type=ir.TensorType(tensor.dtype), shape=ir.Shape(tensor.shape.numpy()), const_value=tensor
        )  # fmt: skip
        self.graph.register_initializer(value)
        return value
