"""Finalising: from the engine's nodes to a valid, named, optimised `onnx_ir.Model`."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import onnx
from jax2onnx_graph import ir
from jax2onnx_graph.passes import default_passes
from jax2onnx_graph.targets import Target

from jax2onnx_core.lowering.engine import Engine
from jax2onnx_core.lowering.scope import Scope
from jax2onnx_core.plugins.errors import ConversionError, PassError
from jax2onnx_core.plugins.registry import Registry

__all__ = ["build_model", "optimise"]

# The element types that came after opset 18, by the version of the operators that take them.
_FIRST_OPSET = {
    **dict.fromkeys(("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"), 19),
    **dict.fromkeys(("INT4", "UINT4"), 21),
    "FLOAT4E2M1": 23,
    "FLOAT8E8M0": 24,
    **dict.fromkeys(("INT2", "UINT2"), 25),
}


def build_model(engine: Engine, scope: Scope, outputs: Sequence[ir.Value], output_names: Sequence[str]) -> ir.Model:
    """The model of a lowered main graph; outputs get their names, constants in use become initializers."""
    finished = _name_outputs(engine, scope, outputs, output_names)
    nodes = scope.all_nodes()
    _check_types(engine.opset, itertools.chain(scope.inputs, (v for node in _walk(nodes) for v in node.outputs)))
    functions = engine.functions.functions
    domains = {node.domain for node in _walk(nodes)} | {f.domain for f in functions}
    domains |= {node.domain for function in functions for node in _walk(function)}
    opsets = {"": engine.opset, **dict.fromkeys(sorted(domains - {""}), 1)}
    graph = ir.Graph(scope.inputs, finished, nodes=nodes, name="main", opset_imports=opsets)
    constants = _constants(nodes)
    _return_names(engine, constants)
    for value in constants:
        graph.register_initializer(value)
    for function in functions:
        _constants_to_nodes(function)
        function.opset_imports.update(opsets)
    return ir.Model(
        graph,
        ir_version=_ir_version(engine.opset),
        producer_name="jax2onnx-core",
        functions=functions,
    )


def _check_types(opset: int, values: Iterable[ir.Value]) -> None:
    """Raise if a value has an element type that the operators of `opset` do not know."""
    for dtype in {value.dtype for value in values}:
        first = 0 if dtype is None else _FIRST_OPSET.get(dtype.name, 0)
        if first > opset:
            raise ConversionError(
                f"The model holds {dtype} tensors, which ONNX has from opset {first} on, and it is for opset {opset}. "
                f"Convert with to_onnx(..., opset={first})."
            )


def _ir_version(opset: int) -> int:
    found: int = onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", opset)])
    return max(found, 10)  # 10 lets functions carry the types of their values


def _name_outputs(engine: Engine, scope: Scope, outputs: Sequence[ir.Value], names: Sequence[str]) -> list[ir.Value]:
    own = {value for node in scope.nodes for value in node.outputs}
    finished: list[ir.Value] = []
    for value, name in zip(outputs, names, strict=True):
        if value not in own or value in finished:
            value = engine.identity(scope, value)
        value.name = engine.names.value(name)
        finished.append(value)
    return finished


def _walk(nodes: Iterable[ir.Node]) -> Iterable[ir.Node]:
    for node in nodes:
        yield node
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                yield from _walk(attribute.as_graph())


def _constants(nodes: Iterable[ir.Node]) -> list[ir.Value]:
    """The constants that the nodes use, in order of first use, subgraphs included."""
    found: dict[ir.Value, None] = {}
    for node in _walk(nodes):
        for value in node.inputs:
            if value is not None and value.const_value is not None and value.producer() is None:
                found[value] = None
    return list(found)


def _return_names(engine: Engine, used: Iterable[ir.Value]) -> None:
    """A weight that is used only reshaped gets the name that the weight itself does not need."""
    used = list(used)
    free = {weight.name for weight in engine.constants.weight_values()} - {value.name for value in used}
    for value in used:
        base, _, number = (value.name or "").rpartition("_")
        if number.isdigit() and base in free:
            free.remove(base)
            value.name = base


def _constants_to_nodes(function: ir.Function) -> None:
    """Function bodies have no initializers: their constants become Constant nodes."""
    for value in _constants(function):
        tensor = value.const_value
        assert tensor is not None, "a constant holds its tensor"
        node = ir.Node("", "Constant", [], [ir.AttrTensor("value", tensor)], num_outputs=1)
        output = node.outputs[0]
        output.name, output.type, output.shape = f"{function.name}.{value.name}", value.type, value.shape
        for user in list(_walk(function)):
            for i, operand in enumerate(user.inputs):
                if operand is value:
                    user.replace_input_with(i, output)
        function.insert_before(function[0], node)


def optimise(model: ir.Model, registry: Registry, target: Target) -> None:
    """Run core's passes, those of the plugins at their places, and the target's legalisation."""
    remaining = list(registry.passes)
    for graph_pass in default_passes():
        _run(model, graph_pass, "jax2onnx-core")
        name = type(graph_pass).__name__
        for contributed in [p for p in remaining if p.after == name]:
            remaining.remove(contributed)
            _run(model, contributed.factory(), contributed.owner)
    for contributed in remaining:
        _run(model, contributed.factory(), contributed.owner)
    for factory in target.passes:
        _run(model, factory(), f"target {target.name}")
    _run(model, ir.passes.common.RemoveUnusedNodesPass(), "onnx-ir")
    graphs: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    for graph in graphs:
        _make_names_unique(graph)


def _make_names_unique(graph: ir.Graph | ir.Function) -> None:
    """Values that passes made in subgraphs were named within their own graph; ONNX wants one name once in all."""
    kept = {*graph.inputs, *graph.outputs}
    taken = {v.name for v in kept}
    if isinstance(graph, ir.Graph):
        taken.update(graph.initializers)
    for node in _walk(graph):
        bodies = [a.as_graph() for a in node.attributes.values() if a.type == ir.AttributeType.GRAPH]
        for value in (*node.outputs, *(v for body in bodies for v in body.inputs)):
            if value in kept or value.name == "":
                continue
            if value.name in taken:
                value.name = next(n for i in itertools.count(1) if (n := f"{value.name}_{i}") not in taken)
            taken.add(value.name)


def _run(model: ir.Model, graph_pass: ir.passes.PassBase, owner: str) -> None:
    try:
        graph_pass(model)
    except Exception as error:
        raise PassError(
            f"The graph pass {type(graph_pass).__name__} of {owner} failed: {type(error).__name__}: {error}"
        ) from error
