"""Putting finished nodes together as a model."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.build.element_types import check_element_types
from jax2onnx_graph.build.names import Origin
from jax2onnx_graph.traversal import walk

from jax2onnx_core.lowering._scope import Scope

__all__ = ["assemble_model"]


def assemble_model(
    scope: Scope, outputs: Sequence[ir.Value], names: Sequence[str], functions: Sequence[ir.Function], *, producer: str,
    name: str,
) -> ir.Model:  # fmt: skip
    """The model of the main graph in `scope`, whose `outputs` get their `names`, and functions.

    The constants in use become initializers, in functions Constant nodes.

    Raises:
      ConversionError: a value has an element type that the operators of the opset, or the target, do not know.
    """
    outputs = scope.own_outputs(outputs, Origin())
    for value, output_name in zip(outputs, names, strict=True):
        value.name = output_name
    inputs, nodes = scope.inputs, scope.all_nodes()
    opset, target = scope.state.opset, scope.state.target
    values = itertools.chain(inputs, (v for node in walk(nodes) for v in node.outputs))
    check_element_types(opset, target, {value.dtype for value in values})
    domains = {node.domain for node in walk(nodes)} | {f.domain for f in functions}
    domains |= {node.domain for function in functions for node in walk(function)}
    opsets = {"": opset, **dict.fromkeys(sorted(domains - {""}), 1)}
    graph = ir.Graph(inputs, outputs, nodes=nodes, name=name, opset_imports=opsets)
    for value in _constants(nodes):
        graph.register_initializer(value)
    for function in functions:
        _constants_to_nodes(function)
        function.opset_imports.update(opsets)
    return ir.Model(graph, ir_version=target.ir_version, producer_name=producer, functions=functions)


def _constants(nodes: Iterable[ir.Node]) -> list[ir.Value]:
    """The constants that the nodes use, in order of first use, subgraphs included."""
    found: dict[ir.Value, None] = {}
    for node in walk(nodes):
        for value in node.inputs:
            if value is not None and value.const_value is not None and value.producer() is None:
                found[value] = None
    return list(found)


def _constants_to_nodes(function: ir.Function) -> None:
    """Function bodies have no initializers: their constants become Constant nodes."""
    for value in _constants(function):
        tensor = value.const_value
        assert tensor is not None, "a constant holds its tensor"
        node = ir.Node("", "Constant", [], [ir.AttrTensor("value", tensor)], num_outputs=1)
        output = node.outputs[0]
        output.name, output.type, output.shape = f"{function.name}.{value.name}", value.type, value.shape
        for user in list(walk(function)):
            for i, operand in enumerate(user.inputs):
                if operand is value:
                    user.replace_input_with(i, output)
        function.insert_before(function[0], node)
