"""Measure which ONNX operators run wholly on Qualcomm's NPU, and right, with which element types.

The calls are those of `measure_ort_kernels.py`. An operator counts where the results are those of ONNX Runtime's CPU provider: integers
exactly, on small numbers, floats within the precision of half of them, in which the NPU computes. The NPU is simulated by the
provider's library for processors of x86-64, in another environment, as `nox -s qnn` makes one. Its process may end, which is a loss.
Interrupted, the tool goes on where it was:

    python benchmarks/measure_qnn.py --python .nox/3.11/qnn-qnn/bin/python             # writes the data file
    python benchmarks/measure_qnn.py --python .nox/3.11/qnn-qnn/bin/python --show Add  # prints what was measured for one operator
"""

from __future__ import annotations

import functools
import logging
import subprocess
import warnings
from collections.abc import Mapping
from pathlib import Path

import measure_ort_kernels as calls
import numpy as np
import onnx
import onnx_ir as ir
from jax2onnx_graph.arrays import Array
from jax2onnx_onnxruntime import load as load_reference
from measured_tables import command_line, measure, write_rows
from other_runtimes import OtherRuntime
from resumable import Entry
from sampled_calls import in_domain, samples, with_inputs

ROOT = Path(__file__).parent.parent
FILE = ROOT / "packages/jax2onnx-qnn/src/jax2onnx_qnn/kernels.json"
RESULTS = ROOT / "conformance-results" / "qnn-operators.jsonl"
LOWEST, HIGHEST = 18, 23
DTYPES = [ir.DataType[name] for name in ("FLOAT", "FLOAT16", "INT8", "UINT8", "INT32", "UINT32", "INT64", "BOOL")]
PRECISION = 1e-2
logger = logging.getLogger(__name__)


@functools.cache
def npu(python: str) -> OtherRuntime:
    return OtherRuntime(python, module="jax2onnx_qnn.loading")


def is_right(python: str, call: calls.Measured) -> bool:
    """Whether the NPU gives what ONNX Runtime's CPU provider gives, for small numbers."""
    small, *_ = samples(call)
    feeds = in_domain(call, small)
    proto = _narrowed(with_inputs(calls.model_of(call), feeds))
    try:
        model = ir.from_proto(onnx.shape_inference.infer_shapes(proto))
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            got, want = npu(python).load(model)(feeds)[0], load_reference(model)(feeds)[0]
            return agree(got, want)
    except Exception as error:  # noqa: BLE001  (whatever a runtime raises: the call is not known to be right)
        logger.debug("%s %s %s: %s", call.schema.name, call.opset, dict(call.bound), str(error)[-300:])
        return False


def _narrowed(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model whose result of 64 bits is cast to 32, since such are values inside of models: results of JAX have 32."""
    inferred = onnx.shape_inference.infer_shapes(model)
    if inferred.graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.INT64:
        model.graph.node.append(
            onnx.helper.make_node("Cast", [model.graph.output[0].name], ["narrow"], to=onnx.TensorProto.INT32)
        )
        model.graph.output[0].CopyFrom(onnx.ValueInfoProto(name="narrow"))
    return model


def agree(got: Array, want: Array) -> bool:
    """Whether results are equal, but for the rounding of half precision."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    if not ir.DataType.from_numpy(want.dtype).is_floating_point():
        return bool(np.array_equal(got, want))
    got, want = got.astype(np.float64), want.astype(np.float64)
    return bool(np.allclose(got, want, rtol=PRECISION, atol=PRECISION, equal_nan=True))


def measured(name: str, python: str) -> dict[str, Mapping[str, str]]:
    """The element types of an operator, and of it with each reduction, at the newest opset of the target."""
    *_, (opset, schema) = (found for found in calls.schemas(name, HIGHEST))
    works = functools.partial(is_right, python)
    return {
        f"{name}_{reduction}" if reduction else name: calls.measure(schema, opset, reduction, works, DTYPES)
        for reduction in ("", *calls.REDUCTIONS.get(name, ()))
    }


def work(python: str, names: list[str]) -> list[Entry]:
    return [{"name": name, "kernels": measured(name, python)} for name in names]


def written(python: str, entries: Mapping[str, Entry]) -> None:
    """Write the data file."""
    rows = {
        key: {str(LOWEST): found} for _, entry in sorted(entries.items()) for key, found in entry["kernels"].items()
    }
    write_rows(
        FILE, {"onnxruntime-qnn": version(python), "device": "HTP", "opsets": [LOWEST, HIGHEST]}, "kernels", rows
    )


def version(python: str) -> str:
    code = "from importlib.metadata import version; print(version('onnxruntime-qnn'))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    parser = command_line(__doc__ or "")
    parser.add_argument("--python", required=True, help="the interpreter of the environment with onnxruntime-qnn")
    options = parser.parse_args()
    names = [name for name in calls.operators() if any(True for _ in calls.schemas(name, HIGHEST))]
    measure(
        options, names, functools.partial(work, options.python), RESULTS, functools.partial(written, options.python)
    )


if __name__ == "__main__":
    main()
