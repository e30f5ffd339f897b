"""Measure which ONNX operators ONNX Runtime's CPU provider runs with which element types.

Every operator of the standard domain is built as a model of one node, for each of its versions
between the lowest and the highest opset asked for and for each element type, loaded without graph
optimisation and run. What loads and runs is a kernel, unless it computes wrong integers (see PROBES).
The result is the data file of `jax2onnx_onnxruntime._kernels`:

    python benchmarks/measure_ort_kernels.py            # writes the data file of the installed version
    python benchmarks/measure_ort_kernels.py --show Add # prints what one operator can do

The files of other versions stay. With an older runtime PYTHONPATH has to lead to jax2onnx-graph.

Operators with a `reduction` attribute are measured once per reduction ("ScatterND", "ScatterND_add").
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from measured_tables import write

LOWEST, HIGHEST = 18, 28
DTYPES = [d for d in ir.DataType if d.name not in ("UNDEFINED", "STRING", "COMPLEX64", "COMPLEX128")]

Operand = tuple[int, ...] | np.ndarray | None
"""A shape to be filled in the measured type, an array that is given as it is, or nothing."""

Run = Callable[[onnx.ModelProto], np.ndarray]
"""Runs a model without inputs."""


class Template(NamedTuple):
    """Call of an operator: operands, attributes, type variables that change together, types to start from."""

    operands: Sequence[Operand] | None = None
    attributes: Mapping[str, Any] = {}
    tied: Sequence[str] = ()
    defaults: Mapping[str, ir.DataType] = {}


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def scalar(value: float, dtype: Any = np.int64) -> np.ndarray:
    return np.array(value, dtype)


X, IMAGE = (2, 3), (1, 2, 6, 6)
KERNEL = {"kernel_shape": [2, 2]}

TEMPLATES: dict[str, Template] = {
    "AffineGrid": Template([(1, 2, 3), ints(1, 1, 2, 2)]),
    "Attention": Template([(1, 1, 2, 4)] * 3, tied=["T2", "U"]),
    "AveragePool": Template([IMAGE], KERNEL),
    "BatchNormalization": Template([(2, 3), (3,), (3,), (3,), (3,)], tied=["T1", "T2"]),
    "BitShift": Template([X, X], {"direction": "LEFT"}),
    **{f"{kind}Window": Template([scalar(4)]) for kind in ("Blackman", "Hamming", "Hann")},
    "Bernoulli": Template([X]),
    "CenterCropPad": Template([X, ints(2, 2)]),
    "Clip": Template([X, (), ()]),
    "Col2Im": Template([(1, 4, 4), ints(3, 3), ints(2, 2)]),
    "Compress": Template([X, np.array([True, False])], {"axis": 0}),
    "Concat": Template([X, X], {"axis": 0}),
    "ConstantOfShape": Template([ints(2, 3)]),
    "Conv": Template([IMAGE, (2, 2, 3, 3)]),
    "ConvInteger": Template([IMAGE, (2, 2, 3, 3)], tied=["T2"]),
    "ConvTranspose": Template([IMAGE, (2, 2, 3, 3)]),
    "CumProd": Template([X, scalar(0)]),
    "CumSum": Template([X, scalar(0)]),
    "DFT": Template([(1, 4, 1)]),
    "DeformConv": Template([IMAGE, (2, 2, 1, 1), (1, 2, 6, 6)]),
    "DepthToSpace": Template([(1, 4, 2, 2)], {"blocksize": 2}),
    "DequantizeLinear": Template([X, scalar(1, np.float32)]),
    "Det": Template([(2, 2)]),
    "Einsum": Template([(2, 3), (3, 2)], {"equation": "ij,jk->ik"}),
    "Expand": Template([X, ints(2, 2, 3)]),
    "GRU": Template([(2, 1, 3), (1, 6, 3), (1, 6, 2)], {"hidden_size": 2}),
    "Gather": Template([X, ints(0)]),
    "GatherElements": Template([X, np.zeros((1, 3), np.int64)]),
    "GatherND": Template([X, np.zeros((1, 2), np.int64)]),
    "Gemm": Template([(2, 3), (3, 2), (2,)]),
    "GlobalAveragePool": Template([IMAGE]),
    "GlobalLpPool": Template([IMAGE]),
    "GlobalMaxPool": Template([IMAGE]),
    "GridSample": Template([(1, 1, 3, 3), (1, 2, 2, 2)], tied=["T2"]),
    "GroupNormalization": Template([IMAGE, (2,), (2,)], {"num_groups": 2}),
    "If": Template([scalar(1, bool)]),
    "InstanceNormalization": Template([IMAGE, (2,), (2,)]),
    "LRN": Template([IMAGE], {"size": 1}),
    "LSTM": Template([(2, 1, 3), (1, 8, 3), (1, 8, 2)], {"hidden_size": 2}),
    "LayerNormalization": Template([X, (3,), (3,)]),
    "Loop": Template([scalar(1), scalar(1, bool), X]),
    "LpPool": Template([IMAGE], KERNEL),
    "MatMul": Template([(2, 3), (3, 2)]),
    "MatMulInteger": Template([(2, 3), (3, 2)], tied=["T2"]),
    "Max": Template([X, X]),
    "MaxPool": Template([IMAGE], KERNEL),
    "MaxUnpool": Template([(1, 1, 2, 2), np.arange(4).reshape(1, 1, 2, 2)], KERNEL),
    "Mean": Template([X, X]),
    "MeanVarianceNormalization": Template([IMAGE]),
    "Min": Template([X, X]),
    "OneHot": Template([ints(0, 1), scalar(3), (2,)], defaults={"T1": ir.DataType.INT64, "T2": ir.DataType.INT64}),
    "Pad": Template([X, ints(0, 1, 1, 0), ()]),
    "Pow": Template([X, X], tied=["T1"]),
    "QuantizeLinear": Template([X, scalar(1, np.float32)]),
    "RMSNormalization": Template([X, (3,)], tied=["V"]),
    "RNN": Template([(2, 1, 3), (1, 2, 3), (1, 2, 2)], {"hidden_size": 2}),
    "Range": Template([scalar(0), scalar(3), scalar(1)]),
    "Reshape": Template([X, ints(3, 2)]),
    "Resize": Template([(1, 1, 2, 2), None, np.ones(4, np.float32)]),
    "ReverseSequence": Template([X, ints(1, 2, 2)]),
    "RotaryEmbedding": Template([(1, 1, 2, 4), (1, 2, 2), (1, 2, 2)]),
    "STFT": Template([(1, 8, 1), scalar(2), None, scalar(4)]),
    "Scan": Template([X], {"num_scan_inputs": 1}),
    "ScatterElements": Template([X, np.array([[0, 1, 0]]), (1, 3)]),
    "ScatterND": Template([X, ints(0, 1).reshape(2, 1), (2, 3)]),
    "Slice": Template([X, ints(0), ints(1), ints(1)]),
    "SpaceToDepth": Template([IMAGE], {"blocksize": 2}),
    "Split": Template([X, ints(1, 1)]),
    "Squeeze": Template([(1, 3), ints(0)]),
    "Sum": Template([X, X]),
    "TensorScatter": Template([(1, 4, 2), (1, 1, 2), ints(1)], {"axis": 1}),
    "Tile": Template([X, ints(2, 1)]),
    "TopK": Template([X, ints(1)]),
    "Unsqueeze": Template([X, ints(0)]),
    "Where": Template([np.ones(X, bool), X, X]),
}
BY_ATTRIBUTE = {"Cast": "to", "BitCast": "to", "EyeLike": "dtype", "RandomNormal": "dtype", "RandomUniform": "dtype",
                "RandomNormalLike": "dtype", "RandomUniformLike": "dtype", "Bernoulli": "dtype",
                "HannWindow": "output_datatype", "HammingWindow": "output_datatype",
                "BlackmanWindow": "output_datatype"}  # fmt: skip
"""Operators whose output type is chosen by an attribute."""
SKIPPED = {"Constant", "ImageDecoder", "MaxRoiPool", "MelWeightMatrix", "Multinomial", "NegativeLogLikelihoodLoss",
           "NonMaxSuppression", "QLinearConv", "QLinearMatMul", "RegexFullMatch", "RoiAlign", "Scatter",
           "SoftmaxCrossEntropyLoss", "TfIdfVectorizer", "Upsample"}  # fmt: skip
REDUCTIONS = {"ScatterElements": ("add", "mul", "max", "min"), "ScatterND": ("add", "mul", "max", "min")}


def filled(shape: Sequence[int], dtype: ir.DataType) -> np.ndarray:
    """Small positive values of the type; ones, where it cannot hold more."""
    array = np.ones(shape, np.float32) if dtype.bitwidth < 8 else np.arange(np.prod(shape)).reshape(shape) % 3 + 1
    return array.astype(dtype.numpy())


class Measured(NamedTuple):
    """One call to try: an operator with all its type variables bound."""

    schema: onnx.defs.OpSchema
    reduction: str
    bound: Mapping[str, ir.DataType]
    opset: int


def operands_of(schema: onnx.defs.OpSchema) -> list[tuple[str, Operand]]:
    """The operands of the template, each with the name of its type."""
    template = TEMPLATES.get(schema.name, Template())
    required = [i for i in schema.inputs if i.option != onnx.defs.OpSchema.FormalParameterOption.Optional]
    operands = template.operands if template.operands is not None else [X] * len(required)
    return [(schema.inputs[min(i, len(schema.inputs) - 1)].type_str, operand) for i, operand in enumerate(operands)]


def arguments(call: Measured) -> Iterator[np.ndarray | None]:
    for name, operand in operands_of(call.schema):
        if isinstance(operand, tuple):
            yield filled(operand, call.bound[name])
        elif operand is None or name not in call.bound:
            yield operand
        else:
            yield operand.astype(call.bound[name].numpy())


def body(call: Measured) -> onnx.GraphProto:
    """A subgraph that returns its inputs: of If, of Loop (iteration, condition, value) or of Scan."""
    graph = onnx.GraphProto(name="body")
    values = {"If": [], "Loop": ["i", "c", "v"], "Scan": ["v"]}[call.schema.name]
    formal = {"i": (ir.DataType.INT64, []), "c": (ir.DataType.BOOL, []), "v": (call.bound["V"], [2, 3])}
    if call.schema.name == "Loop":
        graph.input.extend(onnx.helper.make_tensor_value_info(v, *formal[v]) for v in values)
    else:
        graph.input.extend(onnx.ValueInfoProto(name=v) for v in values)
    if not values:
        proto = ir.to_proto(ir.tensor(filled(X, call.bound["V"])))
        graph.node.append(onnx.helper.make_node("Constant", [], ["v_out"], value=proto))
        values = ["v"]
    else:
        graph.node.extend(onnx.helper.make_node("Identity", [v], [v + "_out"]) for v in values if v != "i")
    graph.output.extend(onnx.ValueInfoProto(name=v + "_out") for v in values if v != "i")
    return graph


def attributes(call: Measured) -> dict[str, Any]:
    values = dict(TEMPLATES.get(call.schema.name, Template()).attributes)
    if call.reduction:
        values["reduction"] = call.reduction
    name = call.schema.name
    if name in BY_ATTRIBUTE:
        values[BY_ATTRIBUTE[name]] = int(call.bound[call.schema.outputs[0].type_str])
    if name in ("RandomNormal", "RandomUniform"):
        values["shape"] = [2]
    graphs = [a.name for a in call.schema.attributes.values() if a.type == onnx.defs.OpSchema.AttrType.GRAPH]
    values |= {a: body(call) for a in graphs}
    if name == "Mod":
        values["fmod"] = int(call.bound["T"].is_floating_point())
    if name == "ConstantOfShape":
        array = filled((1,), call.bound[call.schema.outputs[0].type_str])
        values["value"] = ir.to_proto(ir.tensor(array))
    return values


def model_of(call: Measured) -> onnx.ModelProto:
    node = onnx.NodeProto(op_type=call.schema.name)
    graph = onnx.GraphProto(name="g")
    for position, array in enumerate(arguments(call)):
        node.input.append("" if array is None else f"x{position}")
        if array is not None:
            proto = ir.to_proto(ir.tensor(array))
            proto.name = f"x{position}"
            graph.initializer.append(proto)
    node.attribute.extend(onnx.helper.make_attribute(k, v) for k, v in attributes(call).items())
    outputs = 2 if call.schema.name == "Split" else max(1, call.schema.min_output)
    node.output.extend(f"y{i}" for i in range(outputs))
    graph.node.append(node)
    graph.output.append(onnx.ValueInfoProto(name="y0"))
    return onnx.ModelProto(
        ir_version=onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", call.opset)]),
        graph=graph,
        opset_import=[onnx.OperatorSetIdProto(version=call.opset)],
    )


def runs(call: Measured) -> bool:
    """Whether the model of this call loads and runs, without graph optimisation."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = ort.InferenceSession(model_of(call).SerializeToString(), options, providers=["CPUExecutionProvider"])
        session.run_with_ort_values(None, {})
    except (ort.capi.onnxruntime_pybind11_state.Fail, ort.capi.onnxruntime_pybind11_state.InvalidGraph,
            ort.capi.onnxruntime_pybind11_state.NotImplemented, ort.capi.onnxruntime_pybind11_state.InvalidArgument,
            ort.capi.onnxruntime_pybind11_state.RuntimeException) as error:  # fmt: skip
        if VERBOSE:
            sys.stderr.write(f"{call.schema.name} {call.opset} {dict(call.bound)}: {str(error)[:300]}\n")
        return False
    return True


VERBOSE = False


PROBES: dict[str, Callable[..., Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Max": np.maximum,
    "Min": np.minimum,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Equal": np.equal,
    "MatMul": lambda a, b: a @ b.T,
    "Clip": lambda a, b: np.minimum(np.maximum(a, b[0, 0]), b[0, 1]),
    "Sign": np.sign,
    "Abs": np.abs,
    "Neg": np.negative,
    "CumSum": lambda a: a.cumsum(1, dtype=a.dtype),
    "ReduceSum": lambda a: a.sum(1, dtype=a.dtype, keepdims=True),
    "ReduceProd": lambda a: a.prod(1, dtype=a.dtype, keepdims=True),
    "ReduceSumSquare": lambda a: (a * a).sum(1, dtype=a.dtype, keepdims=True),
    "ReduceL1": lambda a: np.abs(a).sum(1, dtype=a.dtype, keepdims=True),
    "ReduceMax": lambda a: a.max(1, keepdims=True),
    "ReduceMin": lambda a: a.min(1, keepdims=True),
    "ArgMax": lambda a: a.argmax(1)[:, None],
    "ArgMin": lambda a: a.argmin(1)[:, None],
    "TopK": lambda a: a.max(1, keepdims=True),
}
"""Operators whose integer kernels are tried on numbers of every size: some accumulate in float64 and saturate
(ReduceSum), some compare 64-bit numbers by halves (Max, ReduceMax)."""


FLOAT_PROBES: dict[str, Callable[..., Any]] = {
    "Sign": np.sign,
    "Abs": np.abs,
    "Neg": np.negative,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Relu": lambda x: np.maximum(x, 0),
}
"""Operators whose half-precision kernels are tried on NaN, infinities and signed zeros (Sign drops NaN)."""


def run_here(model: onnx.ModelProto) -> np.ndarray:
    """The first output of a model without inputs, without graph optimisation."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return cast("np.ndarray", session.run(None, {})[0])


def keeps_specials(name: str, reference: Callable[..., Any], dtype: ir.DataType, opset: int, run: Run) -> bool:
    """Whether a kernel treats NaN, infinities and signed zeros as NumPy does.

    Args:
      name: the operator, of one operand.
      reference: the same function in NumPy.
      dtype: the element type.
      opset: the opset of the model.
      run: runs a model without inputs.
    """
    operand = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 0.5, -1.5]).astype(dtype.numpy())
    tensor = ir.to_proto(ir.tensor(operand))
    tensor.name = "x"
    nodes = [onnx.helper.make_node(name, ["x"], ["a"]), onnx.helper.make_node("Cast", ["a"], ["y"], to=1)]
    graph = onnx.helper.make_graph(nodes, "g", [], [onnx.ValueInfoProto(name="y")], [tensor])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.OperatorSetIdProto(version=opset)], ir_version=10)
    return bool(np.array_equal(run(model), reference(operand.astype(np.float32)), equal_nan=True))


def probe_operands(name: str, dtype: np.dtype[Any]) -> Iterator[tuple[list[np.ndarray], list[np.ndarray]]]:
    """Pairs of the operator's operands and the reference's."""
    random, info = np.random.default_rng(0), np.iinfo(dtype)
    for bits in (4, 8, 16, 31, 32, 33, 53, 64):
        for offset in (0, 5 << 32, -(7 << 32), info.min, info.max >> 1):
            width = min(bits, info.bits)
            a, b = (random.integers(0, 1 << width, (5, 9), np.uint64, endpoint=False) if width < 64 else
                    random.integers(0, (1 << 64) - 1, (5, 9), np.uint64, endpoint=True) for _ in range(2))  # fmt: skip
            a, b = ((v + np.array(offset % (1 << 64), np.uint64)).astype(dtype) for v in (a, b))
            if name == "Clip":
                yield [a, b[0, 0], b[0, 1]], [a, b]
            elif name == "MatMul":
                yield [a, np.ascontiguousarray(b.T)], [a, b]
            elif name.startswith("Reduce"):
                yield [a, ints(1)], [a]
            elif name in ("CumSum", "TopK"):
                yield [a, scalar(1) if name == "CumSum" else ints(1)], [a]
            else:
                yield [a, b][: len(onnx.defs.get_schema(name).inputs) + (name in ("Max", "Min"))], [a, b]


def computes_right(schema: onnx.defs.OpSchema, dtype: ir.DataType, opset: int, run: Run = run_here) -> bool:
    """Whether a kernel agrees with NumPy on all kinds of numbers; True where there is no reference.

    Args:
      schema: the schema of the operator.
      dtype: the element type.
      opset: the opset of the model.
      run: runs a model without inputs.
    """
    reference = PROBES.get(schema.name)
    if schema.name in FLOAT_PROBES and dtype in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16):
        return keeps_specials(schema.name, FLOAT_PROBES[schema.name], dtype, opset, run)
    if reference is None or not dtype.is_integer() or dtype.bitwidth < 8:
        return True
    attributes: dict[str, Any] = {"axis": 1} if schema.name in ("ArgMax", "ArgMin") else {}
    for operands, arguments_ in probe_operands(schema.name, dtype.numpy()):
        arity = (
            reference.__code__.co_argcount
            if isinstance(reference, types.FunctionType)
            else cast("np.ufunc", reference).nin
        )
        want = reference(*arguments_[:arity])
        model = onnx.helper.make_model(
            onnx.helper.make_graph(
                [onnx.helper.make_node(schema.name, [f"x{i}" for i in range(len(operands))],
                                       [f"y{i}" for i in range(max(1, schema.min_output))], **attributes)],
                "g", [], [onnx.ValueInfoProto(name="y0")],
                [onnx.numpy_helper.from_array(v, f"x{i}") for i, v in enumerate(operands)],
            ),
            opset_imports=[onnx.OperatorSetIdProto(version=opset)], ir_version=10,
        )  # fmt: skip
        if not np.array_equal(run(model), want):
            return False
    return True


def tensor_variables(schema: onnx.defs.OpSchema) -> dict[str, set[str]]:
    """The type variables of an operator that stand for tensors, with their allowed type names."""
    used = {p.type_str for p in [*schema.inputs, *schema.outputs]}
    return {
        c.type_param_str: set(c.allowed_type_strs)
        for c in schema.type_constraints
        if c.type_param_str in used and any(t.startswith("tensor(") for t in c.allowed_type_strs)
    }


def default_type(allowed: set[str]) -> ir.DataType:
    for name, dtype in (
        ("float", "FLOAT"),
        ("int64", "INT64"),
        ("int32", "INT32"),
        ("uint8", "UINT8"),
        ("int8", "INT8"),
    ):
        if f"tensor({name})" in allowed:
            return ir.DataType[dtype]
    return ir.DataType.BOOL


def is_right(call: Measured) -> bool:
    """Whether ONNX Runtime runs a call, and computes right integers."""
    return runs(call) and (not is_probed(call) or computes_right(call.schema, call.bound["T"], call.opset))


def is_probed(call: Measured) -> bool:
    """Whether the results of a call are compared, too."""
    return "T" in tensor_variables(call.schema) and not call.reduction


def measure(
    schema: onnx.defs.OpSchema,
    opset: int,
    reduction: str = "",
    works: Callable[[Measured], bool] = is_right,
    dtypes: Sequence[ir.DataType] = DTYPES,
) -> dict[str, str]:
    """The element types with which an operator works, for each type variable, the others at their default.

    Args:
      schema: the schema of the operator.
      opset: the opset of the models.
      reduction: the attribute `reduction`, where the operator has one.
      works: whether a call runs and is right.
      dtypes: the element types to try.

    Returns:
      Type variable → names of element types.
    """
    variables = tensor_variables(schema)
    tied = TEMPLATES.get(schema.name, Template()).tied
    chosen = schema.name in BY_ATTRIBUTE or schema.name in ("ConstantOfShape", "If")
    given = {name for name, operand in operands_of(schema) if operand is not None} | (
        {schema.outputs[0].type_str} if chosen else set()
    )
    result = {}
    for variable in variables:
        if variable not in given or variable in tied:
            continue
        able = []
        for dtype in dtypes:
            bound = {v: default_type(allowed) for v, allowed in variables.items()}
            bound |= TEMPLATES.get(schema.name, Template()).defaults
            bound[variable] = dtype
            bound |= {v: dtype for v in tied if v in bound}
            if schema.name == "BitCast":
                bound = {v: ir.DataType[f"UINT{max(8, dtype.bitwidth)}"] for v in variables} | {variable: dtype}
            if works(Measured(schema, reduction, bound, opset)):
                able.append(dtype.short_name())
        result[variable] = " ".join(able)
    return result | {v: result[next(iter(result))] for v in tied if v in variables}


@functools.cache
def newest_opset() -> int:
    """The newest opset whose models the runtime loads, up to `HIGHEST`."""
    bound = {"T": ir.DataType.FLOAT}
    relus = ((opset, onnx.defs.get_schema("Relu", opset, "")) for opset in range(HIGHEST, LOWEST, -1))
    return next(opset for opset, schema in relus if runs(Measured(schema, "", bound, opset)))


def schemas(name: str, highest: int | None = None) -> Iterator[tuple[int, onnx.defs.OpSchema]]:
    """(opset, schema) for each opset of the range that has the operator, up to the newest that the runtime loads."""
    for opset in range(LOWEST, (highest or newest_opset()) + 1):
        try:
            schema = onnx.defs.get_schema(name, opset, "")
        except onnx.defs.SchemaError:
            continue
        if not schema.deprecated:
            yield opset, schema


def measure_operator(
    name: str, works: Callable[[Measured], bool] = is_right, dtypes: Sequence[ir.DataType] = DTYPES, *,
    highest: int | None = None, form: Callable[[int, onnx.defs.OpSchema], int] = lambda opset, _: opset,
) -> dict[str, dict[str, dict[str, str]]]:  # fmt: skip
    """The table's entries for an operator (several, for one with reductions): key → opset → variable → types.

    An opset stands for itself and those after it, up to the next one listed. One version of an operator may run in one
    opset and not in another: operators that the runtime expands into others need these in the same version.

    Args:
      name: the operator.
      works: whether a call of it gives the right result.
      dtypes: the element types to try.
      highest: the newest opset; by default the newest that the runtime loads.
      form: a number that is the same for opsets of which one measurement is enough.
    """
    entries: dict[str, dict[str, dict[str, str]]] = {}
    known: dict[int, dict[str, dict[str, str]]] = {}
    for opset, schema in schemas(name, highest):
        number, reductions = form(opset, schema), ("", *REDUCTIONS.get(name, ()))
        if number not in known:
            known[number] = {r: measure(schema, opset, r, works, dtypes) for r in reductions}
        for reduction, found in known[number].items():
            entry = entries.setdefault(f"{name}_{reduction}" if reduction else name, {})
            if not entry or list(entry.values())[-1] != found:
                entry[str(opset)] = found
    return entries


def operators() -> list[str]:
    names = set()
    for schema in onnx.defs.get_all_schemas_with_history():
        tensors = all(p.type_str.startswith("tensor") or p.type_str in tensor_variables(schema) for p in schema.inputs)
        others = any(word in schema.name for word in ("Sequence", "String", "Optional"))
        if (
            schema.domain == ""
            and tensors
            and (not others or schema.name == "ReverseSequence")
            and schema.name not in SKIPPED
        ):
            names.add(schema.name)
    return sorted(names)


def main() -> None:
    global VERBOSE
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", metavar="OPERATOR", help="measure one operator and print the result")
    parser.add_argument("--verbose", action="store_true", help="say why each failing call failed")
    options = parser.parse_args()
    VERBOSE = options.verbose
    if options.show:
        sys.stdout.write(json.dumps(measure_operator(options.show), indent=1) + "\n")
        return
    kernels: dict[str, Any] = {}
    for name in operators():
        kernels |= measure_operator(name)
    data = {
        "onnxruntime": ort.__version__,
        "provider": "CPUExecutionProvider",
        "opsets": [LOWEST, newest_opset()],
        "kernels": kernels,
    }
    write(data, "kernels")


if __name__ == "__main__":
    main()
