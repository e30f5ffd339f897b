"""Measure which ONNX operators OpenVINO's CPU plugin computes right with which element types, and what it keeps of their meaning.

The calls are those of `measure_ort_kernels.py`, the probes of guarantees those of `measure_ort_guarantees.py`. An operator counts
as computed where the results are those of ONNX Runtime, on small numbers and on numbers of every size: integers of 64 bits are
taken of the range of 32 bits, which is all that the plugin computes with. Each operator runs in a process of its own, as the
plugin may end it. The results are the data files of `jax2onnx_openvino`; interrupted, the tool goes on where it was:

    python benchmarks/measure_openvino.py             # rewrites the data files
    python benchmarks/measure_openvino.py --show Add  # prints what was measured for one operator
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from pathlib import Path

import measure_ort_guarantees as properties
import measure_ort_kernels as calls
import numpy as np
import onnx
import onnx_ir as ir
import openvino
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import TargetError
from jax2onnx_onnxruntime import LegalisePass
from jax2onnx_onnxruntime import load as load_reference
from jax2onnx_openvino.loading import load
from measured_tables import command_line, measure, write_rows
from resumable import Entry
from sampled_calls import agree, in_domain, samples, with_inputs

ROOT = Path(__file__).parent.parent
DATA = ROOT / "packages/jax2onnx-openvino/src/jax2onnx_openvino"
RESULTS = ROOT / "conformance-results"
LOWEST, HIGHEST = 18, 23
NAMES = ("FLOAT", "FLOAT16", "BFLOAT16", "INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "BOOL")
"""The element types; DOUBLE is computed in single precision, UINT64 with the bits of int32."""
DTYPES = [ir.DataType[name] for name in NAMES]
logger = logging.getLogger(__name__)
REFUSALS = (RuntimeError, TargetError, ValueError)


def is_right(call: calls.Measured) -> bool:
    """Whether OpenVINO gives what ONNX Runtime gives for all samples."""
    given = list(samples(call))
    proto = with_inputs(calls.model_of(call), given[0])
    conditions = _compute_conditions(proto.graph)
    try:
        proto = onnx.shape_inference.infer_shapes(proto)
        session = load(ir.from_proto(proto))
        wanted = load_reference(LegalisePass()(ir.from_proto(proto)).model)
        return all(agree(session, wanted, in_domain(call, feeds) | conditions) for feeds in given)
    except Exception as error:  # noqa: BLE001  (whatever a runtime raises: the call is not known to be right)
        logger.debug("%s %s %s: %s", call.schema.name, call.opset, dict(call.bound), str(error)[-300:])
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


def measure_kernels(name: str) -> dict[str, dict[str, dict[str, str]]]:
    """The table's entries for an operator: key → opset → variable → types."""
    return calls.measure_operator(name, is_right, DTYPES, highest=HIGHEST, form=lambda _, schema: schema.since_version)


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
    """The properties of an operator and of its reductions, at the element types that are in both tables."""
    keys = {probe.key for probe in properties.probes() if probe.key.partition("_")[0] == name}
    return properties.measure(keys, keeps, DTYPES)


def written(entries: Mapping[str, Entry]) -> None:
    """Write the data files."""
    head = {"openvino": openvino.__version__.partition("-")[0], "device": "CPU", "opsets": [LOWEST, HIGHEST]}
    for table in ("kernels", "guarantees"):
        rows = {key: found for _, entry in sorted(entries.items()) for key, found in entry[table].items()}
        write_rows(DATA / f"{table}.json", head, table, rows)


def main() -> None:
    options = command_line(__doc__ or "").parse_args()
    measure(options, calls.operators(), work, RESULTS / "openvino-operators.jsonl", written)


if __name__ == "__main__":
    main()
