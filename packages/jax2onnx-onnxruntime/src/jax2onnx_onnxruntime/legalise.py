"""The pass that makes a model run on ONNX Runtime's CPU kernels without changing its values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import onnx_ir as ir

from jax2onnx_onnxruntime.carriers import Carrier, Embedding, find_carrier, holds
from jax2onnx_onnxruntime.kernels import Signature, kernels, signature
from jax2onnx_onnxruntime.magnitudes import Magnitudes
from jax2onnx_onnxruntime.rewrites import Rewrite, find_rewrite, is_small_enough

__all__ = ["LegalisePass"]

_SMALL = 64
"""Constants with up to this many elements are converted at export; a Cast of larger ones is folded by ONNX
Runtime when it loads the model, and the file holds them once."""

_FLOAT8 = (ir.DataType.FLOAT8E4M3FN, ir.DataType.FLOAT8E4M3FNUZ, ir.DataType.FLOAT8E5M2, ir.DataType.FLOAT8E5M2FNUZ)

_Form = tuple[ir.DataType, Embedding]


class LegalisePass(ir.passes.InPlacePass):
    """Run every operator at an element type that ONNX Runtime has a kernel for.

    For each node whose kernel is missing for the type of its operands, in the main graph, in subgraphs
    and in functions:

    1. Its operands are cast to a carrier type (see `carriers`), its results are cast back. The results keep
       their names and types; the node keeps its place.
    2. A value is cast to a carrier once; all users share the Cast, which stands right after the value.
    3. A node takes the uncast result of the node before it where that has the same meaning: movement and order
       of values, and integer sums modulo 2ⁿ. Float results that were computed wider are rounded first.
    4. The cast of a widened value back to its own type is the value itself, also for Casts that were in the model.
    5. A Cast of a result that was computed in a carrier reads the carrier, if that holds the same number.
    6. Small constants are converted; the constant that nobody uses any more is dropped.
    7. Casts back that nobody uses are dropped.
    8. Integer operators whose kernels are wrong for large numbers are rewritten (see `rewrites`), unless the
       numbers are known to be small.

    Unknown operators, and types for which there is no exact carrier, are left as they are.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Apply the rules above; the model is modified in place."""
        work = _Legaliser(model)
        for function in model.functions.values():
            work.graph(function.graph, function.opset_imports.get("", work.opset))
        work.graph(model.graph, work.opset)
        work.drop_unused()
        return ir.passes.PassResult(model, work.modified)


class _Legaliser:
    def __init__(self, model: ir.Model) -> None:
        self.opset = model.opset_imports.get("", 1)
        self.modified = False
        self._first: dict[ir.Graph, ir.Node] = {}
        self._forms: dict[ir.Value, dict[_Form, ir.Value]] = {}
        self._casts_back: list[ir.Node] = []
        self._back: dict[ir.Value, None] = {}
        self._cast_backs_of: dict[ir.Value, ir.Value] = {}
        self._replaced_constants: dict[ir.Value, None] = {}
        self._names: set[str | None] | None = None
        self._magnitudes = Magnitudes()
        self._model = model

    # The walk.

    def graph(self, graph: ir.Graph, opset: int) -> None:
        nodes = list(graph)
        if nodes:
            self._first[graph] = nodes[0]
        for node in nodes:
            for body in _bodies(node):
                self.graph(body, opset)
            if node.domain != "":
                continue
            if node.op_type == "Cast":
                self._magnitudes.note(node)
                self._cast(node)
            else:
                self.node(node, opset)

    def node(self, node: ir.Node, opset: int) -> None:
        """Legalise one node, whose operands are legal."""
        self._magnitudes.note(node)
        key = _key(node)
        found = signature(key, opset)
        if found is None:
            return
        for variable, dtype in _bindings(node, found).items():
            native = kernels(key, variable, opset)
            if native is None or dtype in native:
                continue
            rewrite = find_rewrite(key, dtype) if variable == found.main else None
            if rewrite is not None:
                if not is_small_enough(key, self._magnitudes.of_all(_values_of(node, found, variable))):
                    self._rewrite(node, rewrite, dtype, opset)
                    return
                continue
            carrier = find_carrier(key, variable, dtype, opset)
            if carrier is not None:
                self._legalise(node, found, variable, dtype, carrier)

    def _legalise(self, node: ir.Node, found: Signature, variable: str, dtype: ir.DataType, carrier: Carrier) -> None:
        self.modified = True
        embeddings = set()
        for index, value in enumerate(node.inputs):
            if value is not None and found.input(index) == variable:
                carried, embedding = self._carried(value, carrier, node)
                embeddings.add(embedding)
                node.replace_input_with(index, carried)
        if node.op_type == "ConstantOfShape":
            _convert_fill(node, carrier.dtype)
        result = Embedding.RESIDUE if Embedding.RESIDUE in embeddings else carrier.result
        for index, value in enumerate(node.outputs):
            if value.name != "" and found.output(index) == variable and value.dtype == dtype:
                self._cast_back(node, value, carrier.dtype, result)

    def _rewrite(self, node: ir.Node, rewrite: Rewrite, dtype: ir.DataType, opset: int) -> None:
        try:
            result = rewrite(_Emitter(self, node, opset), node, dtype)
        except NotImplementedError:
            return
        self.modified = True
        old = node.outputs[0]
        name, result.shape = old.name, old.shape
        old.replace_all_uses_with(result, replace_graph_outputs=True)
        self._remove_from_walk(node)
        result.name = name

    # Casts of the model's own.

    def _cast(self, node: ir.Node) -> None:
        value, result = node.inputs[0], node.outputs[0]
        if value is None or value.dtype is None or result.dtype is None:
            return
        forms = self._forms.get(value, {})
        known = forms.get((result.dtype, Embedding.EXACT))
        if known is not None and not result.is_graph_output():
            result.replace_all_uses_with(known)
            self._remove_from_walk(node)
            self.modified = True
            return
        if value in self._back:
            wide = next((w for (_, e), w in forms.items() if e is Embedding.EXACT), None)
            if wide is not None:
                node.replace_input_with(0, wide)
        if holds(result.dtype, value.dtype) and result.dtype != value.dtype:
            self._forms.setdefault(result, {})[value.dtype, Embedding.EXACT] = value
            if node.graph is _home(value):
                self._forms.setdefault(value, {})[result.dtype, Embedding.EXACT] = result

    def insert(self, before: ir.Node, node: ir.Node) -> None:
        """Insert a node of a rewrite."""
        graph = before.graph
        assert graph is not None
        graph.insert_before(before, node)
        if self._first[graph] is before:
            self._first[graph] = node

    def _remove_from_walk(self, node: ir.Node) -> None:
        graph = node.graph
        _remove(node)
        if graph is not None and self._first[graph] is node and len(graph):
            self._first[graph] = graph[0]

    # Values in their carriers.

    def _carried(self, value: ir.Value, carrier: Carrier, node: ir.Node) -> tuple[ir.Value, Embedding]:
        forms = self._forms.setdefault(value, {})
        for embedding in carrier.operands:
            known = forms.get((carrier.dtype, embedding))
            if known is not None:
                return known, embedding
        if Embedding.FLIPPED in carrier.operands:
            embedding = Embedding.FLIPPED
            carried = self._flip(self._widened(value, carrier.dtype, node))
        else:
            assert value.dtype is not None
            embedding = (
                Embedding.EXACT if holds(carrier.dtype, value.dtype) or _is_truth(carrier) else Embedding.RESIDUE
            )
            carried = self._widened(value, carrier.dtype, node)
        forms[carrier.dtype, embedding] = carried
        return carried, embedding

    def _widened(self, value: ir.Value, dtype: ir.DataType, node: ir.Node) -> ir.Value:
        graph = _home(value)
        constant = value.const_value
        if constant is not None and value.is_initializer() and constant.size <= _SMALL and not value.is_graph_input():
            return self._converted_constant(value, dtype, graph)
        cast = self._new_cast(value, dtype, node)
        self._place(cast, value)
        return cast.outputs[0]

    def _converted_constant(self, value: ir.Value, dtype: ir.DataType, graph: ir.Graph) -> ir.Value:
        assert value.const_value is not None
        array = value.const_value.numpy().astype(dtype.numpy())
        new = ir.Value(name=self.new_name(value.name, dtype), shape=value.shape, type=ir.TensorType(dtype))
        new.const_value = ir.tensor(array, dtype=dtype, name=new.name)
        graph.register_initializer(new)
        self._replaced_constants[value] = None
        return new

    def _cast_back(self, node: ir.Node, value: ir.Value, dtype: ir.DataType, embedding: Embedding | None) -> None:
        """Let the node compute `value` in the carrier, and give its name and users to the cast of that."""
        narrow, name = value.dtype, value.name
        assert narrow is not None
        result = ir.Value(name=name, shape=value.shape, type=ir.TensorType(narrow))
        result.metadata_props.update(value.metadata_props)
        value.name = self.new_name(name, dtype)
        value.type = ir.TensorType(dtype)
        value.replace_all_uses_with(result, replace_graph_outputs=True)
        source = self._flip(value) if embedding is Embedding.FLIPPED else value
        cast = self._new_cast(source, narrow, node, result)
        self._place(cast, source)
        self._casts_back.append(cast)
        self._back[result] = None
        self._cast_backs_of[value] = result
        if embedding is not None:
            self._forms[result] = {(dtype, embedding): value}

    def cast_of(self, value: ir.Value) -> ir.Value:
        """The value that users of a node's original result now read."""
        return self._cast_backs_of[value]

    def _flip(self, value: ir.Value) -> ir.Value:
        """`value` (int64) with the sign bit inverted."""
        lowest = ir.tensor(np.array(np.iinfo(np.int64).min, np.int64))
        constant = ir.Node("", "Constant", [], [ir.AttrTensor("value", lowest)])
        constant.outputs[0].name = self.new_name(value.name, "sign_bit")
        constant.outputs[0].type, constant.outputs[0].shape = ir.TensorType(ir.DataType.INT64), ir.Shape([])
        flip = ir.Node("", "BitwiseXor", [value, constant.outputs[0]])
        flip.outputs[0].name = self.new_name(value.name, "flipped")
        flip.outputs[0].type, flip.outputs[0].shape = ir.TensorType(ir.DataType.INT64), value.shape
        self._place(flip, value)
        assert flip.graph is not None
        flip.graph.insert_before(flip, constant)
        return flip.outputs[0]

    # Nodes and names.

    def _new_cast(self, value: ir.Value, dtype: ir.DataType, node: ir.Node, output: ir.Value | None = None) -> ir.Node:
        attributes = [ir.AttrInt64("to", int(dtype))]
        if dtype in _FLOAT8:
            # Saturation would turn infinities into the largest number.
            attributes.append(ir.AttrInt64("saturate", 0))
        if output is None:
            output = ir.Value(name=self.new_name(value.name, dtype), shape=value.shape, type=ir.TensorType(dtype))
        cast = ir.Node("", "Cast", [value], attributes, outputs=[output], name=f"{output.name}_cast")
        cast.metadata_props.update(node.metadata_props)
        return cast

    def _place(self, node: ir.Node, value: ir.Value) -> None:
        """Put `node` where `value` becomes available, so that it precedes every user."""
        producer = value.producer()
        graph = _home(value)
        if producer is not None:
            graph.insert_after(producer, node)
        else:
            graph.insert_before(self._first[graph], node)

    def new_name(self, base: str | None, suffix: ir.DataType | str) -> str:
        if self._names is None:
            self._names = {value.name for graph in _all_graphs(self._model) for value in _values(graph)}
        stem = name = f"{base}_{suffix if isinstance(suffix, str) else suffix.short_name()}"
        count = 1
        while name in self._names:
            count += 1
            name = f"{stem}_{count}"
        self._names.add(name)
        return name

    def drop_unused(self) -> None:
        for cast in reversed(self._casts_back):
            output = cast.outputs[0]
            if not output.uses() and not output.is_graph_output():
                self._drop(cast)
        for value in self._replaced_constants:
            if not value.uses() and not value.is_graph_output() and value.graph is not None and value.name is not None:
                del value.graph.initializers[value.name]

    def _drop(self, cast: ir.Node) -> None:
        source = cast.inputs[0]
        _remove(cast)
        producer = None if source is None else source.producer()
        if producer is not None and producer.op_type == "BitwiseXor" and source is not None and not source.uses():
            constant = producer.inputs[1]
            _remove(producer)
            if constant is not None and constant.producer() is not None:
                _remove(constant.producer())


class _Emitter:
    """Puts the nodes of a rewrite before the node that they replace, and legalises them."""

    def __init__(self, work: _Legaliser, node: ir.Node, opset: int) -> None:
        self._work, self._node, self._opset = work, node, opset

    def op(
        self, op_type: str, *inputs: ir.Value | None, dtype: ir.DataType, like: ir.Value | None = None,
        final: bool = False, **attributes: Any,
    ) -> ir.Value:  # fmt: skip
        name = self._work.new_name(self._node.outputs[0].name, op_type.lower())
        shape = None if like is None else like.shape
        output = ir.Value(name=name, type=ir.TensorType(dtype), shape=shape)
        converted = ir.convenience.convert_attributes(attributes)
        node = ir.Node("", op_type, inputs, converted, outputs=[output], name=f"{name}_node")
        node.metadata_props.update(self._node.metadata_props)
        self._work.insert(self._node, node)
        if not final:
            self._work.node(node, self._opset)
        # Legalisation may have given the node's place to a cast: the value of the wanted type is the one to use.
        return output if output.dtype == dtype else self._work.cast_of(output)

    def constant(self, value: Any, dtype: ir.DataType) -> ir.Value:
        array = np.array(value, dtype.numpy())
        tensor = ir.tensor(array, dtype=dtype)
        name = self._work.new_name(self._node.outputs[0].name, "constant")
        output = ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape(array.shape))
        node = ir.Node("", "Constant", [], [ir.AttrTensor("value", tensor)], outputs=[output], name=f"{name}_node")
        self._work.insert(self._node, node)
        return output


def _is_truth(carrier: Carrier) -> bool:
    return carrier.dtype == ir.DataType.BOOL


def _remove(node: ir.Node | None) -> None:
    assert node is not None
    assert node.graph is not None
    node.graph.remove(node, safe=True)


def _home(value: ir.Value) -> ir.Graph:
    """The graph that a value is defined in."""
    producer = value.producer()
    graph = value.graph if producer is None else producer.graph
    assert graph is not None, f"{value} belongs to no graph"
    return graph


def _key(node: ir.Node) -> str:
    """The name under which the kernels of this node were measured."""
    if node.op_type not in ("ScatterElements", "ScatterND"):
        return node.op_type
    reduction = node.attributes.get_string("reduction", "none")
    return node.op_type if reduction == "none" else f"{node.op_type}_{reduction}"


def _values_of(node: ir.Node, found: Signature, variable: str) -> Iterator[ir.Value | None]:
    return (value for index, value in enumerate(node.inputs) if found.input(index) == variable)


def _bindings(node: ir.Node, found: Signature) -> dict[str, ir.DataType]:
    """Type variable → element type, from the operands, then from the results."""
    types: dict[str, ir.DataType] = {}
    for index, value in enumerate(node.inputs):
        if value is not None and value.dtype is not None:
            types.setdefault(found.input(index), value.dtype)
    for index, output in enumerate(node.outputs):
        if output.dtype is not None:
            types.setdefault(found.output(index), output.dtype)
    return types


def _bodies(node: ir.Node) -> Iterator[ir.Graph]:
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


def _all_graphs(model: ir.Model) -> Iterator[ir.Graph]:
    for graph in (model.graph, *(function.graph for function in model.functions.values())):
        yield graph
        yield from graph.subgraphs()


def _values(graph: ir.Graph) -> Iterable[ir.Value]:
    yield from graph.inputs
    yield from graph.initializers.values()
    for node in graph:
        yield from node.outputs


def _convert_fill(node: ir.Node, dtype: ir.DataType) -> None:
    """The `value` of ConstantOfShape in another element type."""
    fill = node.attributes["value"].as_tensor().numpy()
    node.attributes["value"] = ir.AttrTensor("value", ir.tensor(fill.astype(dtype.numpy()), dtype=dtype))
