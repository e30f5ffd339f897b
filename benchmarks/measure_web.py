"""Measure what ONNX Runtime Web computes, in a browser: its kernels in WebAssembly, and those for WebGPU.

The calls and probes are those of `measure_ort_kernels.py` and `measure_ort_guarantees.py`, run in the build `onnxruntime-web/webgpu`.
Its kernels in WebAssembly are those of ONNX Runtime's CPU provider, for fewer element types than `onnxruntime-web/wasm` has. An operator counts as computed on the GPU where its node is placed
there, and gives what ONNX Runtime gives where that is finite: the language of shaders leaves NaN and infinities open, and functions
such as Cos with three digits. The results are data files of `jax2onnx_onnxruntime`; interrupted, the tool goes on where it was:

    python benchmarks/measure_web.py             # rewrites the data files
    python benchmarks/measure_web.py --show Add  # prints what was measured for one operator

Needs what `nox -s browser` installs.
"""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import measure_ort_guarantees as properties
import measure_ort_kernels as calls
import numpy as np
import onnx
import onnx_ir as ir
from browser_runtime import BrowserRuntime, version
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import TargetError
from jax2onnx_onnxruntime import LegalisePass
from jax2onnx_onnxruntime import load as load_reference
from measured_tables import DATA, command_line, measure, write_rows
from resumable import Entry
from sampled_calls import in_domain, samples, with_inputs

RESULTS = Path(__file__).parents[1] / "conformance-results"
PROVIDERS = ("wasm", "webgpu")
LOWEST = 18
GPU_TYPES = [ir.DataType[name] for name in ("FLOAT", "INT32", "UINT32", "INT64", "BOOL", "UINT8", "INT8")]
"""Element types of inputs that a script can pass to WebGPU; float16 needs a device that has it, unlike the one in software."""
DIGITS = 1e-3
"""To this part functions of shaders have to be right: WGSL allows sine and cosine an error of 2⁻¹¹."""
NUMPY_TYPES = [d for d in properties.DTYPES if d.numpy().isbuiltin == 1]
"""Element types that NumPy has itself."""


logger = logging.getLogger(__name__)


@functools.cache
def browser(provider: str) -> BrowserRuntime:
    return BrowserRuntime(provider)


@functools.cache
def newest_opset() -> int:
    """The newest opset whose models the package loads."""
    bound = {"T": ir.DataType.FLOAT}
    relus = ((opset, onnx.defs.get_schema("Relu", opset, "")) for opset in range(calls.HIGHEST, LOWEST, -1))
    return next(opset for opset, schema in relus if runs(calls.Measured(schema, "", bound, opset)))


@functools.cache
def castable_types() -> list[ir.DataType]:
    """The element types that the build has kernels for."""
    schema = onnx.defs.get_schema("Cast", 23, "")
    bound = {"T1": ir.DataType.FLOAT, "T2": ir.DataType.FLOAT}
    return [d for d in calls.DTYPES if runs(calls.Measured(schema, "", {**bound, "T2": d}, 23))]


# -- WebAssembly ------------------------------------------------------------------------------


def first_output(model: onnx.ModelProto) -> Array:
    return browser("wasm").run(model.SerializeToString(), {}, optimise=False)[0]


def runs(call: calls.Measured) -> bool:
    """Whether the model of this call loads and runs, without graph optimisation. Its result is not handed over: scripts lack types."""
    model = calls.model_of(call)
    model.graph.node.append(onnx.helper.make_node("Shape", ["y0"], ["shape"]))
    model.graph.output[0].name = "shape"
    return _succeeds(lambda: first_output(model))


def is_right(call: calls.Measured) -> bool:
    """Whether the kernel in WebAssembly runs a call, and computes right integers."""
    return runs(call) and (
        not calls.is_probed(call) or calls.computes_right(call.schema, call.bound["T"], call.opset, first_output)
    )


def is_kept(probe: properties.Probe, dtype: ir.DataType) -> bool | None:
    """Whether a property is kept at this type; None where the operator has no kernel for it."""
    operands = properties.arguments(probe, dtype.numpy())
    feeds = {f"x{i}": a for i, a in enumerate(operands) if not properties.is_constant(a)}
    model = properties.model_of(probe, operands).SerializeToString()
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        want = np.asarray(probe.expected(*operands))
    try:
        return properties.agrees(probe, dtype, browser("wasm").run(model, feeds)[0], want)
    except TargetError as error:
        missing = "Could not find an implementation" in str(error) or "type" in str(error).lower()
        return None if missing else False


# -- WebGPU -----------------------------------------------------------------------------------


def is_on_gpu(call: calls.Measured) -> bool:
    """Whether a call runs on the GPU, and gives what ONNX Runtime gives for all samples."""
    given = list(samples(call))
    model = with_inputs(calls.model_of(call), given[0])
    try:
        model = onnx.shape_inference.infer_shapes(model)
        wanted = load_reference(LegalisePass()(ir.from_proto(model)).model)
    except Exception:  # noqa: BLE001  (there is nothing to compare with)
        return False
    data, runtime = model.SerializeToString(), browser("webgpu")

    def is_near(feeds: Mapping[str, Array]) -> bool:
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            got, want = runtime.run(data, feeds, optimise=False)[0], wanted(feeds)[0]
        if got.dtype != want.dtype or got.shape != want.shape:
            return False
        if want.dtype.kind != "f":
            return bool(np.array_equal(got, want))
        finite = np.isfinite(want)
        return bool(np.allclose(got[finite], want[finite], rtol=DIGITS, atol=DIGITS))

    def compare() -> bool:
        if runtime.placement(data, given[0], optimise=False).on_cpu:
            return False
        return all(is_near(in_domain(call, feeds)) for feeds in given)

    return _succeeds(compare)


def _succeeds(action: Callable[[], Any]) -> bool:
    """Whether an action ends without an error of the runtime, with a result that is not False."""
    try:
        return action() is not False
    except TargetError as error:
        logger.debug("%s", str(error)[:300])
        return False


# -- all of it --------------------------------------------------------------------------------


def measure_operator(
    name: str, works: Callable[[calls.Measured], bool], dtypes: Sequence[ir.DataType]
) -> dict[str, dict[str, dict[str, str]]]:
    """The table's entries of an operator; see `calls.measure_operator`."""

    def form(opset: int, schema: onnx.defs.OpSchema) -> int:
        # What the runtime expands into others needs these at the same opset.
        return opset if schema.has_function else schema.since_version  # type: ignore[attr-defined]  # ONNX's stubs lack it

    return calls.measure_operator(name, works, dtypes, highest=newest_opset(), form=form)


def work(jobs: list[str]) -> list[Entry]:
    return [measured(job) for job in jobs]


def measured(job: str) -> Entry:
    """The table's entries of an operator in a provider, named as in "wasm Add" or "webgpu Add"."""
    provider, _, name = job.partition(" ")
    if provider == "webgpu":
        return {"name": job, "webgpu": measure_operator(name, is_on_gpu, GPU_TYPES)}
    keys = {probe.key for probe in properties.probes() if probe.key.partition("_")[0] == name}
    return {
        "name": job,
        "kernels": measure_operator(name, is_right, castable_types()),
        "guarantees": properties.measure(keys, is_kept, NUMPY_TYPES),
    }


def written(entries: Mapping[str, Entry]) -> None:
    """Write the data files."""
    head = {"onnxruntime": version(), "provider": "wasm", "opsets": [LOWEST, newest_opset()]}
    _write("kernels-web", head, "kernels", entries)
    _write("guarantees-web", {**head, "opset": properties.OPSET}, "guarantees", entries)
    _write("kernels-webgpu", {**head, "provider": "webgpu"}, "webgpu", entries)


def _write(file: str, head: Mapping[str, Any], table: str, entries: Mapping[str, Entry]) -> None:
    rows = {key: found for _, entry in sorted(entries.items()) for key, found in entry.get(table, {}).items()}
    name = "guarantees" if table == "guarantees" else "kernels"
    write_rows(DATA / "versions" / f"{file}.json", head, name, rows)


def main() -> None:
    options = command_line(__doc__ or "").parse_args()
    jobs = [f"{provider} {name}" for provider in PROVIDERS for name in calls.operators()]
    measure(options, jobs, work, RESULTS / "web-operators.jsonl", written)


if __name__ == "__main__":
    main()
