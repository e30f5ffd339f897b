"""uint32, for which OpenVINO's CPU plugin has the instructions of int32 only: written as int32 with the same bits."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.facts.operators import ValueUse, facts_of, value_use
from jax2onnx_graph.legalise.kernels import operator_key
from jax2onnx_graph.rewrite.editor import GraphEditor, InsertionPoint
from jax2onnx_graph.targets import Target, standard_target
from jax2onnx_graph.traversal import HAS_SUBGRAPHS, all_nodes, all_values
from jax2onnx_graph.weights.absent import computed

from jax2onnx_openvino._unsigned_forms import FORMS, from_float, inverted, to_float, to_int64

__all__ = ["UnsignedPass", "has_form"]

T = ir.DataType

_USES = frozenset({ValueUse.MOVE, ValueUse.RING, ValueUse.TRUTH, ValueUse.ORDER})
"""The uses of values for which int32 of the same bits can stand for uint32."""


def has_form(key: str) -> bool:
    """Whether an operator on uint32 is written with operators on int32."""
    if key in FORMS or key in HAS_SUBGRAPHS or key == "Cast":
        return True
    return value_use(key) in _USES and not facts_of(key).type_bound


class UnsignedPass(ir.passes.InPlacePass):
    """Put int32 in the place of uint32.

    1. Inputs and outputs of the model stay uint32, and are cast; other values and constants are int32 of the same bits.
    2. What adds, multiplies, combines bits, compares for equality or moves values stays as it is.
    3. What asks for the order of values gets them with the sign bit inverted, and what it gives of them is inverted back.
    4. Shifts, quotients, remainders, signs and conversions are written with other operators. In int64, which the plugin
       computes in 32 bits, numbers from 2³¹ on become 2³¹ - 1.
    """

    def __init__(self, target: Target = standard_target) -> None:
        super().__init__()
        self._target = target

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Apply the rules above to the model, in place."""
        unsigned = dict.fromkeys(value for value in all_values(model) if value.dtype == T.UINT32)
        if not unsigned:
            return ir.passes.PassResult(model, modified=False)
        editor = GraphEditor(model.graph, opset=model.opset_imports.get("", 1), target=self._target)
        given = [value for value in model.graph.inputs if value in unsigned]
        results = [value for value in dict.fromkeys(model.graph.outputs) if value in unsigned and value not in given]
        for node in all_nodes(model):
            _retype_attributes(node)
        for value in unsigned:
            if value not in given:
                _retype(value)
        unsigned.update(dict.fromkeys([_cast_input(editor, value) for value in given]))
        for value in results:
            result = editor.after(value).op("Cast", value, to=T.UINT32)
            editor.stand_in(value, result)
            editor.hand_over_output(value, result)
        _Writer(unsigned).graph(editor)
        editor.set_contents(value for value in unsigned if value not in given)
        return ir.passes.PassResult(model, modified=True)


def _retype(value: ir.Value) -> None:
    """Let a value, and the constant that it may be, be int32."""
    value.type = ir.TensorType(T.INT32)
    if value.const_value is not None:
        value.const_value = _as_signed(value.const_value)


def _as_signed(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    return computed(lambda array: array.view(np.int32), [tensor], T.INT32, tensor.shape.numpy())


def _retype_attributes(node: ir.Node) -> None:
    """Let the attributes that name the element type of results, or are tensors of it, be int32."""
    for name, attribute in node.attributes.items():
        if attribute.type == ir.AttributeType.TENSOR and attribute.as_tensor().dtype == T.UINT32:
            node.attributes[name] = ir.AttrTensor(name, _as_signed(attribute.as_tensor()))
    named = facts_of(node.op_type).result_type
    if named is not None and named.attribute and node.attributes.get_int(named.attribute, 0) == T.UINT32:
        node.attributes[named.attribute] = ir.AttrInt64(named.attribute, T.INT32)


def _cast_input(editor: GraphEditor, value: ir.Value) -> ir.Value:
    """An input of the model as int32, which all nodes read in its place."""
    readers = value.uses()
    result = editor.after(value).op("Cast", value, to=T.INT32)
    for node, index in readers:
        node.replace_input_with(index, result)
    return result


class _Writer:
    """Writes the nodes of a model whose `unsigned` values are int32 by now."""

    def __init__(self, unsigned: dict[ir.Value, None]) -> None:
        self._unsigned = unsigned

    def graph(self, editor: GraphEditor) -> None:
        """Rules 3 and 4 for a graph and those nested in it."""
        for node in list(editor.nodes()):
            for nested in editor.nested_in(node):
                self.graph(nested)
            key = operator_key(node)
            if node.domain or self._unsigned.keys().isdisjoint([*node.inputs, *node.outputs]):
                continue
            if key == "Cast":
                self._replace(editor, node, self._converted(editor.before(node), node))
            elif key in FORMS:
                self._replace(editor, node, FORMS[key](editor.before(node), node))
            elif value_use(key) is ValueUse.ORDER and key != "Equal":
                self._invert(editor, node)
        editor.finish()

    def _replace(self, editor: GraphEditor, node: ir.Node, result: ir.Value | None) -> None:
        if result is None:
            return
        old = node.outputs[0]
        name, result.shape = old.name, old.shape
        if old in self._unsigned:
            self._unsigned[result] = None
        editor.replace(node, result)
        result.name = name

    def _converted(self, b: InsertionPoint, node: ir.Node) -> ir.Value | None:
        """The result of a Cast from or to unsigned numbers; None where it is that from or to int32."""
        x, result = node.inputs[0], node.outputs[0]
        assert x is not None and x.dtype is not None and result.dtype is not None
        if x in self._unsigned and result.dtype.is_floating_point():
            return to_float(b, x, result.dtype)
        if x in self._unsigned and result.dtype == T.INT64:
            return to_int64(b, x)
        return from_float(b, x) if result in self._unsigned and x.dtype.is_floating_point() else None

    def _invert(self, editor: GraphEditor, node: ir.Node) -> None:
        b = editor.before(node)
        for index, value in enumerate(node.inputs):
            if value in self._unsigned:
                node.replace_input_with(index, inverted(b, value))
        for output in node.outputs:
            if output in self._unsigned:
                self._unsigned[editor.reroute(output, lambda value: inverted(editor.after(value), value))] = None
