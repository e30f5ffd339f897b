"""`ctx.op`: emitting nodes whose results have types, and shapes where those are plain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.facts.schemas import output_types
from jax2onnx_graph.facts.shapes import infer_dims

from jax2onnx_core.lowering.physical import onnx_dtype

if TYPE_CHECKING:
    from jax2onnx_core.lowering.engine import Engine
    from jax2onnx_core.lowering.scope import Scope

__all__ = ["Emitter", "make_node"]


class Emitter:
    """`op.Add(x, y)`, or `op("Add", x, y, domain=…, outputs=…, dtype=…)`."""

    def __init__(self, engine: Engine, scope: Scope) -> None:
        self._engine, self._scope = engine, scope

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        def emit(*inputs: ir.Value | None, **options: Any) -> Any:
            return self(op_type, *inputs, **options)

        return emit

    def __call__(
        self,
        op_type: str,
        *inputs: ir.Value | None,
        domain: str = "",
        outputs: int = 1,
        dtype: np.dtype[Any] | Sequence[np.dtype[Any]] | None = None,
        dims: tuple[Any, ...] | None = None,
        **attributes: Any,
    ) -> Any:
        """Emit one node and return its value, or the tuple of its values where `outputs` is not 1.

        `dtype` gives the element type(s) that the operator's schema leaves open; `dims` the shape of the
        first output, which otherwise is inferred where it follows from the operands' shapes.
        """
        node = make_node(self._engine, op_type, inputs, domain, outputs, dtype, attributes)
        self._scope.nodes.append(node)
        if dims is None and not domain:
            dims = infer_dims(op_type, inputs, attributes, self._engine.dims)
        if dims is not None:
            for output in node.outputs if op_type == "Split" else node.outputs[:1]:
                self._engine.set_dims(output, dims)
        return node.outputs[0] if outputs == 1 else node.outputs


def make_node(
    engine: Engine,
    op_type: str,
    inputs: Sequence[ir.Value | None],
    domain: str,
    outputs: int,
    dtype: Any,
    attributes: Mapping[str, Any],
) -> ir.Node:
    """A node with named, typed outputs, not yet in any graph."""
    if dtype is not None:
        given = dtype if isinstance(dtype, (list, tuple)) else [dtype] * outputs
        types = [onnx_dtype(np.dtype(d)) for d in given]
    elif any(isinstance(a, ir.Graph) for a in attributes.values()):
        types = _body_types(op_type, attributes)[:outputs]
    else:
        types = output_types(op_type, domain, engine.opset, inputs, _plain(attributes), outputs)
    name = engine.names.node(op_type)
    values = [
        ir.Value(name=name if outputs == 1 else f"{name}.{i}", type=ir.TensorType(t)) for i, t in enumerate(types)
    ]
    attrs = [_attribute(key, value) for key, value in attributes.items() if value is not None]
    node = ir.Node(domain, op_type, inputs, attrs, outputs=values, name=name)
    if engine.provenance and engine.location is not None:
        node.metadata_props["source"] = engine.location
    return node


def _body_types(op_type: str, attributes: Mapping[str, Any]) -> list[ir.DataType]:
    graph = next(a for a in attributes.values() if isinstance(a, ir.Graph))
    skipped = 1 if op_type == "Loop" else 0
    return [value.dtype or ir.DataType.UNDEFINED for value in graph.outputs[skipped:]]


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: int(onnx_dtype(np.dtype(value))) if key in _DTYPE_ATTRIBUTES and not isinstance(value, int) else value
        for key, value in attributes.items()
        if value is not None
    }


_DTYPE_ATTRIBUTES = frozenset({"to", "dtype", "output_dtype"})


def _attribute(name: str, value: Any) -> ir.Attr:
    if name in _DTYPE_ATTRIBUTES and not isinstance(value, int):
        return ir.AttrInt64(name, int(onnx_dtype(np.dtype(value))))
    if isinstance(value, (bool, np.bool_, np.integer)):
        return ir.AttrInt64(name, int(value))
    if isinstance(value, np.floating):
        return ir.AttrFloat32(name, float(value))
    if isinstance(value, (np.ndarray, np.generic)):
        return ir.AttrTensor(name, ir.tensor(np.asarray(value)))
    if isinstance(value, (list, tuple)):
        return ir.convenience.convert_attribute(
            name, [int(v) if isinstance(v, np.integer) else v for v in value], _list_type(value)
        )
    return ir.convenience.convert_attribute(name, value)


def _list_type(values: Sequence[Any]) -> ir.AttributeType | None:
    """The type of plain lists, given because inferring it takes onnx_ir longer than all else about a node."""
    if all(isinstance(v, (int, np.integer)) for v in values):
        return ir.AttributeType.INTS
    return ir.AttributeType.FLOATS if all(isinstance(v, float) for v in values) else None
