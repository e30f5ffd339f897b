"""The cases of jax2onnx-lax and jax2onnx-nnx, exported for a target and run in its runtime: the table of docs/targets.md."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import signal
import textwrap
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from types import FrameType

import onnx_ir as ir
from jax2onnx_core import OnnxProgram, errors
from jax2onnx_graph.arrays import Array
from jax2onnx_runtime.runtimes import LoadedModel
from jax2onnx_runtime.sizes import choose_sizes
from jax2onnx_testing.checks import CheckFailedError, check_values
from jax2onnx_testing.collection import CollectedCase, find_cases
from jax2onnx_testing.reference import Reference
from jax2onnx_testing.values import arguments
from jax2onnx_testing.variants import Variant, build, quick_variants_of
from resumable import Entry

__all__ = ["KNOWN", "SECONDS", "check", "reason", "variants"]

#: So long may a case take: `onnx.reference` runs a loop node by node.
SECONDS = 60

Load = Callable[[ir.Model], LoadedModel]

_ONNX, _ONNXRUNTIME, _OPENVINO = r"onnx", r"onnxruntime==.*", "openvino"

#: Why a runtime does not run what is right, or gets it wrong: patterns of the target and of what became of the case, the reason.
KNOWN = (
    (_ONNX, "Scan is not implemented", "onnx.reference has no Scan backwards."),
    (_ONNX, "index can't contain negative values", "onnx.reference pads by no negative amounts."),
    (_ONNX, "need at least one array to concatenate", "onnx.reference stacks nothing where a Loop has no iterations."),
    (_ONNX, "scans::scan_.* wrong .* has shape", "onnx.reference joins what the iterations of a Loop give; it has to stack it."),
    (_ONNX, "reduce_window::min.* wrong", "MaxPool of onnx.reference loses NaN."),
    (_ONNX, "log_softmax.* wrong", "LogSoftmax of onnx.reference takes the logarithm of Softmax, which may be zero."),
    (_ONNX, "logsumexp_of_infinities.* wrong", "ReduceLogSumExp of onnx.reference is NaN where all numbers are −∞."),
    (r"onnx|onnxruntime==.*", "prelu.* wrong", "PRelu multiplies what it does not choose by zero: infinities become NaN."),
    (r"onnxruntime==1\.(18|20)", "sqrt_special.* wrong", "Sqrt of the version takes subnormal numbers for zero."),
    (r"onnxruntime==1\.(18|20)", "may_be_empty.*ReduceMax", "ReduceMax of the version takes no array without elements."),
    (_OPENVINO, "softmax.* wrong", "Softmax of OpenVINO keeps a NaN, but not in the whole row."),
    (_OPENVINO, "rem_of_floats.* wrong", "Mod of floats of OpenVINO takes the quotient in float32: remainders of quotients beyond 2²⁴ are wrong."),
    (_OPENVINO, "svd_symbolic.* (wrong|not run)", "OpenVINO takes values of an earlier size where sizes grow from run to run."),
    (_OPENVINO, "lt_to_of_zeros.* wrong", "OpenVINO loses the sign of zero in a chain of operators."),
    (_OPENVINO, "rows_that_may_be_none.* wrong", "A Scan of no rows has no rows' sizes either in OpenVINO."),
    (_OPENVINO, "Reshape.*(nothing|empty)|(nothing|empty).*[Rr]eshape", "OpenVINO cannot reshape arrays without elements."),
    (r"onnxruntime==1\.23", "masked_by_head.*Attention", "Attention of the version takes no mask that has heads."),
    (_ONNXRUNTIME, "OrtValue", "The Python API of the version takes and gives no arrays of types that NumPy lacks."),
)  # fmt: skip


def reason(target: str, entry: Entry) -> str | None:
    """The reason for a wrong result that is no defect of ours; None if none is known."""
    text = f"{entry['name']} {entry['status']} {entry['detail']}"
    reasons = (why for whose, pattern, why in KNOWN if re.fullmatch(whose, target) and re.search(pattern, text))
    return next(reasons, None)


def variants() -> dict[str, Variant]:
    """One variant of each case in single precision, symbolic if it can be, by name."""
    found = [case for case in find_cases(["lax", "nnx"]) if isinstance(case, CollectedCase)]
    chosen = [variant for case in found for variant in quick_variants_of(case, ["f32"], 1)]
    return {variant.id: variant for variant in chosen if variant.skip_reason is None and not _is_bound(variant)}


def _is_bound(variant: Variant) -> bool:
    """Whether a case is about one target or one opset."""
    return not {"target", "opset", "plugins"}.isdisjoint(variant.found.case.options)


class _NotRunError(Exception):
    """The runtime cannot load or run a model."""


class _TooSlowError(BaseException):
    """A case took longer than `SECONDS`; nothing on the way may take it for an error of its own."""


def check(variant: Variant, target: str, load: Load) -> Entry:
    """How a variant fares: "equal", "refused" at export, "wrong", "not run" by the runtime, or "too slow" for this check."""
    status, detail = "equal", ""
    try:
        with _limited(), warnings.catch_warnings(action="ignore"):
            _run(variant, target, load)
    except errors.ConversionError as error:
        status, detail = "refused", str(error)
    except CheckFailedError as error:
        status, detail = "wrong", str(error)
    except _NotRunError as error:
        status, detail = "not run", str(error)
    except _TooSlowError:
        status = "too slow"
    return {"name": variant.id, "status": status, "detail": textwrap.shorten(detail, 400, placeholder=" …")}


def _run(variant: Variant, target: str, load: Load) -> None:
    built, case = build(variant), variant.found.case
    program = dataclasses.replace(built, options={**built.options, "target": target}).export()
    session = _session(program, load)
    reference = Reference(built.fn)
    for run, sizes in enumerate(choose_sizes(program.inputs.space(program.traced.out_avals))):
        args, kwargs = arguments(program, built.inputs, sizes, case.values, zlib.crc32(variant.id.encode()) + run)
        want = reference(args, kwargs)
        check_values(program, want, case, sizes, session(program.feeds(*args, **kwargs)))


def _session(program: OnnxProgram, load: Load) -> LoadedModel:
    """A session of the runtime, whose errors are of one class."""

    def run(feeds: Mapping[str, Array]) -> list[Array]:
        try:
            return load(program.model)(feeds)
        except Exception as error:
            raise _NotRunError(f"{type(error).__name__}: {error}") from error

    return run


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise _TooSlowError

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
