"""Graphs as ONNX text in, one expression per output out; every rewriting is run and compared."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax2onnx_graph.facts.values import constant_tensor
from onnx.reference import ReferenceEvaluator
from onnx_ir.passes.common import RemoveUnusedNodesPass, ShapeInferencePass

Rewrite = Callable[..., list[str]]


@pytest.fixture
def rewrite() -> Rewrite:
    """`rewrite(pass_, text)`: the outputs of the rewritten model as expressions.

    The model computes what it did before on random inputs (symbolic dimensions are 3), passes the
    checker, keeps the names and types of its outputs, and has no unnamed value.
    """

    def run(pass_: ir.passes.InPlacePass, text: str, *, infer: bool = True) -> list[str]:
        model = ir.from_onnx_text(text)
        if infer:
            model = ShapeInferencePass()(model).model
        before = ir.to_proto(model)
        result = pass_(model)
        RemoveUnusedNodesPass()(model)
        after = ir.to_proto(model)
        onnx.checker.check_model(after, full_check=True)
        assert result.modified or list(before.graph.node) == list(after.graph.node)
        assert list(after.graph.output) == list(before.graph.output)
        _compare(before, after)
        return [expression(value) for value in model.graph.outputs]

    return run


def expression(value: ir.Value | None) -> str:
    """`value` as `Op{attribute}(operands)`, small constants by their values, others by their shape."""
    if value is None:
        return "_"
    tensor = constant_tensor(value)
    if tensor is not None:
        return str(tensor.numpy().tolist()) if tensor.size <= 8 else f"const{list(tensor.shape.numpy())}"
    node = value.producer()
    if node is None:
        return str(value.name)
    plain = (attribute for attribute in node.attributes.values() if attribute.type != ir.AttributeType.GRAPH)
    attributes = ", ".join(str(attribute.value).replace("(", "[").replace(")", "]") for attribute in plain)
    graphs = [a.as_graph() for a in node.attributes.values() if a.type == ir.AttributeType.GRAPH]
    bodies = "".join(f"<{', '.join(map(expression, graph.outputs))}>" for graph in graphs)
    operands = ", ".join(map(expression, node.inputs))
    index = f".{value.index()}" if len(node.outputs) > 1 else ""
    return f"{node.op_type}{f'{{{attributes}}}' if attributes else ''}{bodies}({operands}){index}"


def _compare(before: onnx.ModelProto, after: onnx.ModelProto) -> None:
    inputs = {value.name: _random(value.type.tensor_type) for value in before.graph.input}
    expected = ReferenceEvaluator(before).run(None, inputs)
    for want, got in zip(expected, ReferenceEvaluator(after).run(None, inputs), strict=True):
        assert want.shape == got.shape
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


def _random(tensor: onnx.TypeProto.Tensor) -> np.ndarray:
    shape = [dim.dim_value if dim.HasField("dim_value") else 3 for dim in tensor.shape.dim]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    return (np.random.default_rng(0).standard_normal(shape) * 2).astype(dtype)
