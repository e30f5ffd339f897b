"""Measure which ONNX operators OpenVINO's CPU plugin computes right with which element types, and what it keeps of their meaning.

The calls are those of `measure_ort_kernels.py`, the probes of guarantees those of `measure_ort_guarantees.py`. An operator counts
as computed where the results are those of ONNX Runtime, on small numbers and on numbers of every size: integers of 64 bits are
taken of the range of 32 bits, which is all that the plugin computes with. Each operator runs in a process of its own, as the
plugin may end it. The results are the data files of `jax2onnx_openvino`; interrupted, the tool goes on where it was:

    python tools/measure_openvino.py             # rewrites the data files
    python tools/measure_openvino.py --show Add  # prints what was measured for one operator
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import measure_ort_guarantees as properties
import measure_ort_kernels as calls
import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import openvino
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import TargetError
from jax2onnx_graph.targets import Session
from jax2onnx_onnxruntime import LegalisePass
from jax2onnx_onnxruntime import load as load_reference
from jax2onnx_openvino.runner import load
from resumable import Entry, remembered, run

ROOT = Path(__file__).parent.parent
DATA = ROOT / "packages/jax2onnx-openvino/src/jax2onnx_openvino"
RESULTS = ROOT / "conformance-results"
LOWEST, HIGHEST = 18, 23
NAMES = ("FLOAT", "FLOAT16", "BFLOAT16", "INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "BOOL")
"""The element types; DOUBLE is computed in single precision, UINT64 with the bits of int32."""
DTYPES = [ir.DataType[name] for name in NAMES]
PRODUCTS = ("Einsum", "Gemm", "MatMul", "Mul", "PRelu", "Pow", "ReduceL2", "ReduceProd", "ReduceSumSquare")
REFUSALS = (RuntimeError, TargetError, ValueError)


def samples(call: calls.Measured) -> Iterator[dict[str, Array]]:
    """Operands of the call that are inputs, as scalars are not: small numbers, then numbers of every size."""
    shapes = {f"x{i}": (operand, call.bound[name]) for i, (name, operand) in enumerate(calls.operands_of(call.schema))
              if isinstance(operand, tuple) and operand}  # fmt: skip
    yield {name: calls.filled(shape, dtype) for name, (shape, dtype) in shapes.items()}
    is_product = call.schema.name in PRODUCTS or call.reduction == "mul"
    for seed, kind in enumerate(("wide", "wide", "narrow", "close")):
        random = np.random.default_rng(seed)
        divisors = {"x1"} if call.schema.name in ("Div", "Mod") else set[str]()
        found = {name: _numbers(random, shape, dtype, "divisor" if name in divisors and seed > 1 else kind, is_product)
                 for name, (shape, dtype) in shapes.items()}  # fmt: skip
        for name in divisors & found.keys():
            found[name][found[name] == 0] = 1
        yield found


def _numbers(
    random: np.random.Generator, shape: Sequence[int], dtype: ir.DataType, kind: str, is_product: bool
) -> Array:
    """Numbers of a kind: of the whole range of a type, of all sizes in it, so close that float32 does not tell them apart.

    Those of 64 bits are so small that sums and products fit 32.
    """
    if dtype == ir.DataType.BOOL:
        return random.random(shape) < 0.5
    if not dtype.is_integer():
        return random.uniform(-3, 3, shape).astype(dtype.numpy())
    if kind == "divisor":
        return random.integers(1, 8, shape).astype(dtype.numpy())
    info = np.iinfo(np.int32 if dtype.bitwidth == 64 else dtype.numpy())
    low, high = int(info.min), int(info.max)
    if dtype.bitwidth == 64:
        low, high = (-20000, 20000) if is_product else (low // 8, high // 8)
    if kind == "close" and dtype.bitwidth >= 32 and not is_product:
        low, high = high // 4, high // 4 + 3
    found = random.integers(low, high, shape, np.int64, endpoint=True)
    return (found >> random.integers(0, dtype.bitwidth if kind == "narrow" else 1, shape)).astype(dtype.numpy())


def is_right(call: calls.Measured) -> bool:
    """Whether OpenVINO gives what ONNX Runtime gives for all samples."""
    proto = calls.model_of(call)
    given = list(samples(call))
    for name, array in given[0].items():
        tensor = next(t for t in proto.graph.initializer if t.name == name)
        proto.graph.initializer.remove(tensor)
        proto.graph.input.append(onnx.helper.make_tensor_value_info(name, tensor.data_type, array.shape))
    conditions = _compute_conditions(proto.graph)
    try:
        proto = onnx.shape_inference.infer_shapes(proto)
        session = load(ir.from_proto(proto))
        wanted = load_reference(LegalisePass()(ir.from_proto(proto)).model)
        return all(_agree(call, session, wanted, _in_domain(call, feeds) | conditions) for feeds in given)
    except Exception as error:  # noqa: BLE001  (whatever a runtime raises: the call is not known to be right)
        if VERBOSE:
            sys.stderr.write(f"{call.schema.name} {call.opset} {dict(call.bound)}: {str(error)[-300:]}\n")
        return False


def _compute_conditions(graph: onnx.GraphProto) -> dict[str, Array]:
    """Let given booleans be the results of a comparison: the plugin computes what follows one in float32, in one kernel.

    Returns:
      The operands of the comparisons, by the names of their inputs.
    """
    added = {}
    for tensor in [t for t in graph.initializer if t.data_type == onnx.TensorProto.BOOL and t.dims]:
        graph.initializer.remove(tensor)
        name = f"{tensor.name}_number"
        added[name] = onnx.numpy_helper.to_array(tensor).astype(np.float32)
        graph.input.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, tensor.dims))
        graph.initializer.append(onnx.numpy_helper.from_array(np.array(0.5, np.float32), f"{tensor.name}_half"))
        graph.node.insert(0, onnx.helper.make_node("Less", [f"{tensor.name}_half", name], [tensor.name]))
    return added


def _in_domain(call: calls.Measured, feeds: dict[str, Array]) -> dict[str, Array]:
    """The operands with exponents and shifts that every type has room for."""
    if call.schema.name in ("Pow", "BitShift"):
        feeds["x1"] = np.abs(feeds["x1"].astype(np.float32) % 5).astype(feeds["x1"].dtype)
    return feeds


def _agree(call: calls.Measured, session: Session, wanted: Session, feeds: Mapping[str, Array]) -> bool:
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        got, want = session(feeds)[0], wanted(feeds)[0]
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    dtype = ir.DataType.from_numpy(want.dtype)
    if not dtype.is_floating_point():
        return bool(np.array_equal(got, want))
    precision = max(8 * float(ml_dtypes.finfo(want.dtype).eps), 1e-5)
    got, want = got.astype(np.float64), want.astype(np.float64)
    close = bool(np.allclose(got, want, rtol=precision, atol=precision, equal_nan=True))
    if VERBOSE and not close:
        sys.stderr.write(f"{call.schema.name} {dict(call.bound)}: {got} is not {want}\n")
    return close


def measure_kernels(name: str) -> dict[str, dict[str, dict[str, str]]]:
    """The table's entries for an operator: key → opset → variable → types."""
    entries: dict[str, dict[str, dict[str, str]]] = {}
    since = dict[int, dict[str, dict[str, str]]]()
    for opset, schema in calls.schemas(name):
        if opset > HIGHEST:
            continue
        reductions = ("", *calls.REDUCTIONS.get(name, ()))
        if schema.since_version not in since:
            since[schema.since_version] = {r: calls.measure(schema, opset, r, is_right, DTYPES) for r in reductions}
        for reduction, measured in since[schema.since_version].items():
            entry = entries.setdefault(f"{name}_{reduction}" if reduction else name, {})
            if not entry or list(entry.values())[-1] != measured:
                entry[str(opset)] = measured
    return entries


def keeps(probe: properties.Probe, dtype: ir.DataType) -> bool | None:
    """Whether OpenVINO keeps a property at this type; None where it does not load the probe."""
    operands = properties.arguments(probe, dtype.numpy())
    feeds = {f"x{i}": a for i, a in enumerate(operands) if not properties.is_constant(a)}
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        want = np.asarray(probe.expected(*operands))
        try:
            session = load(ir.from_proto(properties.model_of(probe, operands)))
        except REFUSALS:
            return None
        try:
            return all(properties.agrees(probe, dtype, session(feeds)[0], want) for _ in range(3))
        except REFUSALS:
            return False


def work(names: list[str]) -> list[Entry]:
    """The kernels and properties of operators."""
    return [{"name": name, "kernels": measure_kernels(name), "guarantees": measure_properties(name)} for name in names]


def measure_properties(name: str) -> dict[str, dict[str, dict[str, str]]]:
    """Those of an operator and of its reductions, at the types that are in both tables."""
    keys = {probe.key for probe in properties.probes() if probe.key.partition("_")[0] == name}
    return properties.measure(keys, keeps, DTYPES)


def written(entries: Mapping[str, Entry]) -> None:
    """Write the data files."""
    head = {"openvino": openvino.__version__.partition("-")[0], "device": "CPU", "opsets": [LOWEST, HIGHEST]}
    for table in ("kernels", "guarantees"):
        rows = {key: found for _, entry in sorted(entries.items()) for key, found in entry[table].items()}
        lines = [f"{json.dumps(operator)}: {json.dumps(found)}" for operator, found in rows.items()]
        text = json.dumps(head)[:-1] + f', "{table}": {{\n' + ",\n".join(lines) + "\n}}\n"
        (DATA / f"{table}.json").write_text(text)


VERBOSE = False


def main() -> None:
    global VERBOSE
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", metavar="OPERATOR", help="measure one operator and print the result")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    options = parser.parse_args()
    if options.show:
        VERBOSE = True
        sys.stdout.write(json.dumps(work([options.show]), indent=1) + "\n")
        return
    file = RESULTS / "openvino-operators.jsonl"
    if options.fresh:
        file.unlink(missing_ok=True)
    names: list[Any] = calls.operators()
    run([name for name in names if name not in remembered(file)], work, file, 1)
    written(remembered(file))


if __name__ == "__main__":
    main()
