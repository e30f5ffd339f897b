"""Bodies whose results are written later: a result that is no node's of the body, or was one before, is copied."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
import pytest
from jax2onnx_graph.legalise._branches import open_graph, put_if, write_results
from jax2onnx_graph.rewrite.editor import GraphEditor, InsertionPoint

TEXT = '<ir_version: 10, opset_import: ["" : 23]> g (float[2] x, bool p) => (float[2] z) { y = Abs(x) z = Neg(y) }'


@pytest.mark.parametrize(
    ("results", "operators"),
    [
        (["made", "other"], ["Neg", "Exp"]),
        (["made", "made"], ["Neg", "Identity"]),
        (["made", "outside"], ["Neg", "Identity"]),
        (["given", "made"], ["Neg", "Identity"]),
        (["outside", "outside"], ["Identity", "Identity"]),
    ],
)
def test_results_are_outputs_or_copies(results: Sequence[str], operators: Sequence[str]) -> None:
    around = ir.from_onnx_text(TEXT).graph[0].outputs[0]
    given = ir.Value(name="state", type=ir.TensorType(ir.DataType.FLOAT))
    body = open_graph("body", [given], [around, around])

    def write(b: InsertionPoint, _: GraphEditor) -> list[ir.Value]:
        values = {"given": given, "outside": around}
        for name, op_type in (("made", "Neg"), ("other", "Exp")):
            if name in results:
                values[name] = b.op(op_type, given)
        return [values[name] for name in results]

    write_results(GraphEditor(body, opset=23), write)
    assert sorted(node.op_type for node in body) == sorted(operators)
    assert len(set(body.outputs)) == 2
    sources = {"made": "Neg", "other": "Exp"}
    for name, output in zip(results, body.outputs, strict=True):
        node = output.producer()
        assert node is not None
        assert node.graph is body
        source = node.inputs[0] if node.op_type == "Identity" else output
        assert source is not None
        wanted = {"given": given, "outside": around}
        if name in sources:
            made = source.producer()
            assert made is not None
            assert made.op_type == sources[name]
        else:
            assert source is wanted[name]


@pytest.mark.parametrize("runs_where", [True, False])
def test_an_operator_is_in_the_branch_in_which_it_runs(runs_where: bool) -> None:
    model = ir.from_onnx_text(TEXT)
    editor = GraphEditor(model.graph, opset=23)
    node, condition = model.graph[1], model.graph.inputs[1]
    put_if(editor, node, condition, lambda b, _: [b.op.Exp(model.graph.inputs[0])], runs_where=runs_where, mended="m")
    editor.finish()
    put = model.graph[-1]
    operators = {
        name: [one.op_type for one in put.attributes[f"{name}_branch"].as_graph()] for name in ("then", "else")
    }
    assert operators == ({"then": ["Neg"], "else": ["Exp"]} if runs_where else {"then": ["Exp"], "else": ["Neg"]})
    assert [value.name for value in model.graph.outputs] == ["z"]
