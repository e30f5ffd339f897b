"""Fixtures for tests of passes: graphs as ONNX text in, expressions or operators out; every rewriting is run and compared.

A `conftest.py` that imports them, `from jax2onnx_testing.pass_fixtures import declined, fused, limited, rewrite`, has them for its tests.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax2onnx_graph.facts.availability import is_allowed
from jax2onnx_graph.facts.values import constant_tensor
from jax2onnx_graph.forms import Form, Threshold
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.targets import Property, Target
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops._op_list import load_op
from onnx_ir.passes.common import RemoveUnusedNodesPass, ShapeInferencePass

__all__ = ["LimitedTarget", "Rewrite", "declined", "expression", "fused", "limited", "node_lines", "rewrite"]

Rewrite = Callable[..., list[str]]

#: Operators → others on the same operands.
_ALIKE: Sequence[Mapping[str, str]] = [
    {"Add": "Sub", "Sub": "Add", "Mul": "Add", "Div": "Mul", "Max": "Min", "Min": "Max"},
    {"Sigmoid": "Tanh", "Tanh": "Erf", "Erf": "Tanh", "Relu": "Neg", "Neg": "Abs", "Exp": "Sigmoid"},
    {"ReduceSum": "ReduceMean", "ReduceMean": "ReduceSum", "ReduceMax": "ReduceMin"},
]

#: Symbolic dimensions are 3, except these.
_SIZES = {"T": 5}


class LimitedTarget(Target):
    """A target for tests, which lacks what it is told to.

    Attributes:
      missing: operators that it does not have.
      lost: pairs of an operator and what the target does not keep of its meaning.
      dtypes: the element types that it computes with; all if there are none.
      opset: the version of the standard operators of which it has the others.
      avoided: forms that it does not prefer to any other.
      thresholds: those of its thresholds that are not the ordinary ones.
    """

    def __init__(
        self, *missing: str, lost: Collection[tuple[str, Property]] = (), dtypes: Collection[type[np.generic]] = (),
        opset: int = 26, avoided: Collection[Form] = (), thresholds: Mapping[Threshold, int] | None = None,
    ) -> None:  # fmt: skip
        self.missing, self.lost, self.opset, self.avoided = missing, lost, opset, avoided
        self.thresholds = thresholds or {}
        self.dtypes = [np.dtype(dtype) for dtype in dtypes]

    def supports(self, op_type: str, dtype: np.dtype[Any], opset: int) -> bool:
        if op_type in self.missing or (self.dtypes and dtype not in self.dtypes):
            return False
        return is_allowed(op_type, dtype, min(opset, self.opset))

    def guarantees(self, op_type: str, dtype: np.dtype[Any], kept: Property) -> bool:
        return (op_type, kept) not in self.lost

    def prefers(self, *forms: Form) -> Form:
        return next(form for form in forms if form not in self.avoided)

    def threshold(self, threshold: Threshold) -> int:
        return self.thresholds.get(threshold, super().threshold(threshold))


@pytest.fixture(scope="session")
def limited() -> type[LimitedTarget]:
    """The class of targets that lack something."""
    return LimitedTarget


@pytest.fixture(scope="session")
def rewrite() -> Rewrite:
    """`rewrite(pass_, text)`: the outputs of the rewritten model as expressions.

    The model computes what it did before on random inputs, passes the checker, keeps the names and types of its outputs, and has no unnamed value.
    An operator of another domain, which has the name of one of its operators, stays. The results are kept, too, where a caller may replace
    the weights, and where a value between the nodes is a further output.
    """

    def run(pass_: ir.passes.InPlacePass, text: str, *, infer: bool = True, tolerance: float = 1e-6) -> list[str]:
        model = _rewritten(pass_, text, infer=infer, tolerance=tolerance)
        return [expression(value) for value in model.graph.outputs]

    return run


@pytest.fixture(scope="session")
def fused() -> Rewrite:
    """`fused(pass_, body, x, y, opset=…)`: the operators of the rewritten model in order, constants aside.

    `x` and `y` declare the model's inputs and outputs, `values` initializers and the types of values that ONNX does not infer. It is
    checked as in `rewrite`, to `tolerance`.
    """

    def run(
        pass_: ir.passes.InPlacePass, body: str, x: str = "float[B,5,8] x", y: str = "float[B,5,8] y", *,
        values: str = "", opset: int = 23, tolerance: float = 2e-5,
    ) -> list[str]:  # fmt: skip
        model = _rewritten(pass_, _main(body, x, y, opset, values), infer=True, tolerance=tolerance)
        return [node.op_type for node in model.graph if node.op_type != "Constant"]

    return run


@pytest.fixture(scope="session")
def declined() -> Rewrite:
    """`declined(pass_, body, x, y, opset=…)`: the reasons why the pass left the model as it is.

    `x` and `y` declare the model's inputs and outputs.
    """

    def run(
        pass_: GraphPass, body: str, x: str = "float[B,5,8] x", y: str = "float[B,5,8] y", *, opset: int = 23
    ) -> list[str]:
        model = _parsed(_main(body, x, y, opset), infer=True)
        before = ir.to_proto(model)
        assert not pass_(model).modified
        assert list(ir.to_proto(model).graph.node) == list(before.graph.node)
        return [formula.reason for formula in pass_.not_formed()]

    return run


def _main(body: str, x: str, y: str, opset: int, values: str = "") -> str:
    """A model with these nodes, inputs, outputs and further values as text."""
    declared = f"<{values}>" if values else ""
    return f'<ir_version: 10, opset_import: ["" : {opset}]> main ({x}) => ({y}) {declared} {{ {body} }}'


def _parsed(text: str, *, infer: bool) -> ir.Model:
    model = ir.from_onnx_text(text)
    if infer:
        model = ShapeInferencePass()(model).model
    RemoveUnusedNodesPass()(model)
    return model


def _rewritten(pass_: ir.passes.InPlacePass, text: str, *, infer: bool, tolerance: float) -> ir.Model:
    _check_other_domain(pass_, text, infer=infer, tolerance=tolerance)
    _check_look_alike(pass_, text, infer=infer, tolerance=tolerance)
    _check_replaceable_weights(pass_, text, infer=infer, tolerance=tolerance)
    _check_further_output(pass_, text, infer=infer, tolerance=tolerance)
    model = _parsed(text, infer=infer)
    before = ir.to_proto(model)
    result = pass_(model)
    RemoveUnusedNodesPass()(model)
    after = ir.to_proto(model)
    onnx.checker.check_model(after, full_check=True)
    assert result.modified or list(before.graph.node) == list(after.graph.node)
    assert list(after.graph.output) == list(before.graph.output)
    names = [node.name for node in after.graph.node if node.name]
    assert len(names) == len(set(names))
    _compare(before, after, tolerance)
    return model


def _check_other_domain(pass_: ir.passes.InPlacePass, text: str, *, infer: bool, tolerance: float) -> None:
    """One of the nodes, another one for each text, stays as it is where its domain is not the standard one, as do the results."""
    model = _parsed(text, infer=infer)
    nodes = [node for node in model.graph if node.op_type != "Constant"] or list(model.graph)
    node = nodes[zlib.crc32(text.encode()) % len(nodes)]
    node.domain, model.opset_imports["other"] = "other", 1
    before = ir.to_proto(model)
    operation = node.op_type, list(node.attributes.values())
    pass_(model)
    assert node.graph is model.graph, f"{node.op_type} of another domain was taken for the standard one"
    assert (node.op_type, list(node.attributes.values())) == operation
    RemoveUnusedNodesPass()(model)
    _compare(before, ir.to_proto(model), tolerance, [_shifted(node.op_type)])


def _check_look_alike(pass_: ir.passes.InPlacePass, text: str, *, infer: bool, tolerance: float) -> None:
    """One of the nodes, another one for each text, is another operator on the same operands: the pass keeps the results."""
    model = _parsed(text, infer=infer)
    found = [(node, alike[node.op_type]) for node in model.graph for alike in _ALIKE if node.op_type in alike]
    if not found:
        return
    node, other = found[zlib.crc32(text.encode()) % len(found)]
    node.op_type = other
    if not all(value is None or value.dtype is None or _is_float(value) for value in node.inputs):
        return
    before = ir.to_proto(model)
    pass_(model)
    RemoveUnusedNodesPass()(model)
    _compare(before, ir.to_proto(model), tolerance)


def _check_replaceable_weights(pass_: ir.passes.InPlacePass, text: str, *, infer: bool, tolerance: float) -> None:
    """The weights are inputs with defaults, which a caller may replace: the pass keeps the results of others, too."""
    model = _parsed(text, infer=infer)
    weights = [value for value in model.graph.initializers.values() if not value.is_graph_input() and _is_float(value)]
    if not weights:
        return
    model.graph.inputs.extend(weights)
    before = ir.to_proto(model)
    pass_(model)
    assert list(before.graph.input) == list(ir.to_proto(model).graph.input)
    _compare(before, ir.to_proto(model), tolerance)


def _check_further_output(pass_: ir.passes.InPlacePass, text: str, *, infer: bool, tolerance: float) -> None:
    """One of the values between the nodes, another one for each text, is an output, too: the pass keeps it and its name."""
    model = _parsed(text, infer=infer)
    nodes = [node for node in model.graph if node.op_type != "Constant"]
    values = [value for node in nodes for value in node.outputs if value.name and value.shape and value.dtype]
    inner = [value for value in values if not value.is_graph_output()]
    if not inner:
        return
    model.graph.outputs.append(inner[zlib.crc32(text.encode()) % len(inner)])
    before = ir.to_proto(model)
    pass_(model)
    after = ir.to_proto(model)
    onnx.checker.check_model(after, full_check=True)
    assert [value.name for value in after.graph.output] == [value.name for value in before.graph.output]
    _compare(before, after, tolerance)


def _is_float(value: ir.Value) -> bool:
    return value.dtype is not None and value.dtype.is_floating_point()


def _shifted(op_type: str) -> type[OpRun]:
    """The operator of the domain "other" that adds 1 to the floats which the standard one gives, and negates its booleans."""

    def run(self: OpRun, *operands: object, **attributes: object) -> tuple[object, ...]:
        results = map(np.asarray, standard._run(self, *operands, **attributes))  # noqa: SLF001  (a class of it is made here)
        return tuple(
            ~each if each.dtype == bool else each if each.dtype.kind in "iu" else (each + 1).astype(each.dtype)
            for each in results
        )

    standard = load_op("", op_type, None)
    return type(op_type, (standard,), {"op_domain": "other", "_run": run})


def node_lines(pass_: ir.passes.InPlacePass, body: str, *, opset: int = 23) -> str:
    """The nodes of the rewritten graph of a model whose types are inferred, one per line, without node names and attribute types.

    The model passes the checker.
    """
    text = f'<ir_version: 10, opset_import: ["" : {opset}]>\n{body}'
    proto = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text))
    model = pass_(ir.from_proto(proto)).model
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    lines = ir.to_onnx_text(model).splitlines()
    nodes = [re.sub(r"^\[.*?\] ", "", line.strip()).replace(": int = ", "=") for line in lines]
    return "\n".join(line for line in nodes if " = " in line and "(" in line)


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


def _compare(
    before: onnx.ModelProto, after: onnx.ModelProto, tolerance: float, operators: Sequence[type[OpRun]] = ()
) -> None:
    inputs = {value.name: _random(value.type.tensor_type) for value in before.graph.input}
    expected = ReferenceEvaluator(before, new_ops=list(operators)).run(None, inputs)
    for want, got in zip(expected, ReferenceEvaluator(after, new_ops=list(operators)).run(None, inputs), strict=True):
        assert want.shape == got.shape
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def _random(tensor: onnx.TypeProto.Tensor) -> np.ndarray:
    shape = [dim.dim_value if dim.HasField("dim_value") else _SIZES.get(dim.dim_param, 3) for dim in tensor.shape.dim]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    return (np.random.default_rng(0).standard_normal(shape) * 2).astype(dtype)
