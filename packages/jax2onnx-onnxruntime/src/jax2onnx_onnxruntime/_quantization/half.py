"""Weights and activations in half precision, with float32 where that is needed.

ONNX Runtime's own converter (`onnxruntime.transformers.float16`) knows float16 alone, and neither functions nor weights
that subgraphs share. What a processor lacks kernels for is left to the passes that legalise any model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import ml_dtypes
import numpy as np
import onnx_ir as ir
from jax2onnx_graph.facts.dtypes import type_name
from jax2onnx_graph.facts.operators import ValueUse, facts_of, operators_where, value_use
from jax2onnx_graph.facts.values import constant_tensor
from jax2onnx_graph.metadata import note_reason
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.targets import Target
from jax2onnx_graph.traversal import HAS_SUBGRAPHS
from jax2onnx_runtime.quantization import Mode, Quantization

__all__ = ["half_precision"]

_FLOAT = ir.DataType.FLOAT
_TYPES: Mapping[Mode, ir.DataType] = {"float16": ir.DataType.FLOAT16, "bfloat16": ir.DataType.BFLOAT16}

# Of so many elements, weights of operators in float32 are stored in half precision and cast.
_LARGE = 256

#: Operators that sum many numbers, exponentiate, or have no half-precision form.
_IN_FLOAT32 = frozenset({
    "BatchNormalization", "CumProd", "CumSum", "DFT", "Det", "GRU", "GlobalAveragePool", "InstanceNormalization", "LRN",
    "LSTM", "LogSoftmax", "LpNormalization", "Mean", "MeanVarianceNormalization", "Pow", "RNN", "Resize", "Softmax",
    *operators_where(lambda facts: facts.reduces and facts.use not in (ValueUse.ORDER, ValueUse.MOVE)),
    *operators_where(lambda facts: facts.type_bound and not facts.has_subgraphs),
})  # fmt: skip


def half_precision(model: ir.Model, request: Quantization, excluded: frozenset[str], target: Target) -> ir.Model:
    """The model with float32 made half precision, except in the nodes that `excluded` names.

    1. Weights and results are half; a value is cast where a reader needs the other type, once.
    2. Sums over many numbers, softmax, recurrent layers and what else loses too much are computed in float32, and so is
       what has a constant that the type cannot hold, such as a mask of -3e38 or an epsilon of 1e-12.
    3. What is computed of integers alone, as positions and their angles, is in float32 until it meets other numbers.
    4. Operators of ONNX Runtime's own are half where the target says so: products with weights in blocks, unless a scale is so
       small that it loses digits.
    5. Inputs and outputs stay float32 unless the request says otherwise.
    """
    dtype = _TYPES[request.mode]
    editor = GraphEditor(model.graph, opset=model.opset_imports[""])
    conversion = _Conversion(dtype, excluded, lambda name: target.supports(name, dtype.numpy(), editor.opset))
    if not request.keep_io_types:
        conversion.retype(model.graph.inputs)
    conversion.convert(editor)
    conversion.finish_outputs(editor, _FLOAT if request.keep_io_types else dtype)
    return model


class _Conversion:
    """The conversion of one model.

    Attributes:
      dtype: the type of half precision.
      excluded: the names of nodes that stay as they are.
      has_kernel: whether an operator, with its domain, is computed in half precision.
      exact: the float32 values that are computed of integers and constants alone.
    """

    def __init__(self, dtype: ir.DataType, excluded: frozenset[str], has_kernel: Callable[[str], bool]) -> None:
        self.dtype, self.excluded, self.has_kernel = dtype, excluded, has_kernel
        self.exact: set[ir.Value] = set()
        self._cast: dict[tuple[ir.Graph | ir.Function, ir.Value, ir.DataType], ir.Value] = {}

    def retype(self, values: Iterable[ir.Value]) -> None:
        """Make float32 values half."""
        for value in values:
            if value.dtype == _FLOAT:
                value.type = ir.TensorType(self.dtype)
                if value.is_initializer() and value.const_value is not None:  # the default of an optional input
                    value.const_value = _as(value.const_value, self.dtype)

    def convert(self, editor: GraphEditor) -> None:
        """Convert the nodes of a graph, in order, so that the types of operands are settled."""
        for node in list(editor.nodes()):
            if node.op_type in HAS_SUBGRAPHS and not node.domain:
                self._convert_bodies(editor, node)
            elif self._stays(node):
                self._keep(editor, node)
            else:
                self._read(editor, node, self.dtype)
                self.retype(node.outputs)
        editor.finish()

    def _convert_bodies(self, editor: GraphEditor, node: ir.Node) -> None:
        """A body takes and gives half precision, as the node does."""
        self._read(editor, node, self.dtype)
        for body in editor.nested_in(node):
            self.retype(body.graph.inputs)
            self.convert(body)
            self.finish_outputs(body, self.dtype)
        self.retype(node.outputs)

    def finish_outputs(self, editor: GraphEditor, dtype: ir.DataType) -> None:
        """Cast the outputs of a graph that have the other type."""
        for value in dict.fromkeys(editor.graph.outputs):
            if value.dtype in (_FLOAT, self.dtype) and value.dtype != dtype:
                cast = editor.after(value).op.Cast(value, to=dtype)
                note_reason(cast, f"this output is {type_name(dtype)}")
                editor.hand_over_output(value, cast)

    # What stays in float32.

    def _stays(self, node: ir.Node) -> bool:
        if node.domain:
            return node.name in self.excluded or not self._is_half(node)
        if node.op_type in _IN_FLOAT32 or node.name in self.excluded:
            return True
        operands = [value for value in node.inputs if value is not None and value.dtype in (_FLOAT, self.dtype)]
        computed = [value for value in operands if constant_tensor(value) is None]
        if computed and _moves(node) and all(value.dtype == _FLOAT and value.producer() for value in computed):
            return True
        if computed and _is_plain(node) and all(value in self.exact for value in computed):
            return True
        return not all(map(self._holds, operands))

    def _is_half(self, node: ir.Node) -> bool:
        """Whether a node of another domain is computed in half precision, with constants that lose no digits."""
        if not self.has_kernel(f"{node.domain}.{node.op_type}"):
            return False
        tensors = [tensor for value in node.inputs if (tensor := constant_tensor(value)) and tensor.dtype == _FLOAT]
        least = ml_dtypes.finfo(self.dtype.numpy()).smallest_normal
        arrays = [np.abs(tensor.numpy()) for tensor in tensors]
        return all(bool(((array == 0) | (array >= least)).all()) for array in arrays) and all(
            map(self._holds, filter(None, node.inputs))
        )

    def _holds(self, value: ir.Value) -> bool:
        """Whether half precision has the numbers of a constant: none overflows, and not all vanish."""
        tensor = constant_tensor(value)
        if tensor is None or tensor.dtype != _FLOAT:
            return True
        array = tensor.numpy()
        with np.errstate(over="ignore", under="ignore"):
            half = array.astype(self.dtype.numpy())
        overflows = bool((np.isinf(half.astype(np.float32)) & np.isfinite(array)).any())
        return not overflows and bool(half.any()) == bool(array.any())

    def _keep(self, editor: GraphEditor, node: ir.Node) -> None:
        computed = [value for value in node.inputs if value is not None and constant_tensor(value) is None]
        if all(value in self.exact or value.dtype not in (_FLOAT, self.dtype) for value in computed):
            self.exact.update(node.outputs)
        self._read(editor, node, _FLOAT)
        if node.name in self.excluded or node.domain:
            return
        for index, value in enumerate(node.inputs):
            tensor = constant_tensor(value)
            if value is not None and tensor is not None and tensor.size >= _LARGE and self._is_weight(value):
                half = self._typed(editor, node, value, self.dtype)
                node.replace_input_with(index, self._typed(editor, node, half, _FLOAT))

    def _is_weight(self, value: ir.Value) -> bool:
        return value.dtype == _FLOAT and self._holds(value)

    # Operands.

    def _read(self, editor: GraphEditor, node: ir.Node, dtype: ir.DataType) -> None:
        """Let a node read its operands in a type."""
        for index, value in enumerate(node.inputs):
            if value is not None and value.dtype in (_FLOAT, self.dtype) and value.dtype != dtype:
                node.replace_input_with(index, self._typed(editor, node, value, dtype))

    def _typed(self, editor: GraphEditor, node: ir.Node, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        key = editor.graph, value, dtype
        if key not in self._cast:
            tensor = constant_tensor(value)
            if tensor is not None and dtype == self.dtype:
                half = ir.LazyTensor(lambda: _as(tensor, dtype), dtype=dtype, shape=ir.Shape(tensor.shape.numpy()))
                self._cast[key] = editor.derived(value, half, dtype.name.lower())
            else:
                cast = self._cast[key] = editor.after(value, node).op.Cast(value, to=dtype)
                note_reason(cast, f"{node.op_type} is computed in {type_name(dtype)}")
        return self._cast[key]


def _as(tensor: ir.TensorProtocol, dtype: ir.DataType) -> ir.TensorProtocol:
    with np.errstate(under="ignore"):
        return ir.Tensor(tensor.numpy().astype(dtype.numpy()))


def _moves(node: ir.Node) -> bool:
    """Whether the results of a node are numbers of its operands."""
    return not node.domain and value_use(node.op_type) is ValueUse.MOVE


def _is_plain(node: ir.Node) -> bool:
    """Whether a node computes element by element, or moves elements."""
    return facts_of(node.op_type).elementwise is not None or _moves(node)
