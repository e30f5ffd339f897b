"""What every case is tested for without saying so."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
import onnx
import onnx_ir as ir
from jax2onnx_core import Case, OnnxProgram
from jax2onnx_core.lowering.physical import physical
from jax2onnx_core.plugins.cases import ExpectGraph
from jax2onnx_core.program.verification import choose_sizes, tolerance
from jax2onnx_onnxruntime import LegalisePass, load

from jax2onnx_testing.matcher import match_graph
from jax2onnx_testing.reference import Reference
from jax2onnx_testing.values import Distribution, arguments
from jax2onnx_testing.variants import Variant, build

__all__ = ["CheckFailedError", "assert_close", "check_program", "check_variant"]


class CheckFailedError(AssertionError):
    """A program is not what its case says, or what every program must be."""


def check_variant(variant: Variant) -> None:
    """Build, export and check one variant of a case. Raises `CheckFailedError` at the first thing that is wrong."""
    built, case = build(variant), variant.found.case
    program = built.export()
    check_program(program)
    _check_same_bytes(program, built.export())
    seed = zlib.crc32(variant.id.encode())
    reference = Reference(built.fn)
    with jax.enable_x64(variant.x64):
        for run, sizes in enumerate(choose_sizes(program)):
            args, kwargs = arguments(program, built.inputs, sizes, case.values, seed + run)
            _check_values(program, reference(args, kwargs), case, sizes, _run(program, args, kwargs))
    if variant.is_expected:
        for expectation in _expectations(case):
            match_graph(program.model, expectation)


def _expectations(case: Case) -> Sequence[ExpectGraph]:
    return [case.expect] if isinstance(case.expect, ExpectGraph) else case.expect


def check_program(program: OnnxProgram) -> None:
    """The model is valid, its outputs are declared as JAX has them, and no dimension has lost its name."""
    onnx.checker.check_model(program.model_proto, full_check=True)
    _check_outputs(program)
    lost = program.check_symbols()
    if lost:
        raise CheckFailedError("\n".join(["Dimensions are not labelled as JAX has them:", *lost]))


def _check_outputs(program: OnnxProgram) -> None:
    outputs, avals = program.model.graph.outputs, program.traced.out_avals
    names = list(program.options.output_names or program.traced.out_names)
    if [output.name for output in outputs] != names:
        raise CheckFailedError(f"The outputs are called {[o.name for o in outputs]}, but should be {names}.")
    for output, aval in zip(outputs, avals, strict=True):
        dtype, dims = physical(aval)
        wanted = [str(program.inputs.symbols.label(d)) for d in dims]
        if output.dtype is None or output.dtype.numpy() != dtype:
            raise CheckFailedError(f"Output {output.name!r} is declared as {output.dtype}, but JAX has {dtype}.")
        if output.shape is None or _labels(output.shape) != wanted:
            raise CheckFailedError(f"Output {output.name!r} is declared as {output.shape}, but JAX has {wanted}.")


def _labels(shape: ir.Shape) -> list[str]:
    return [str(d.value) if isinstance(d, ir.SymbolicDim) else str(d) for d in shape]


def _check_same_bytes(program: OnnxProgram, again: OnnxProgram) -> None:
    first, second = (p.model_proto.SerializeToString(deterministic=True) for p in (program, again))
    if first != second:
        raise CheckFailedError("Two exports of the same function are not the same bytes.")


def _check_values(
    program: OnnxProgram, want: Sequence[np.ndarray[Any, Any]], case: Case, sizes: Mapping[str, int],
    got: Sequence[np.ndarray[Any, Any]],
) -> None:  # fmt: skip
    where = ", ".join(f"{k} = {v}" for k, v in sizes.items()) or "the exported shapes"
    if len(want) != len(got):
        raise CheckFailedError(f"The model has {len(got)} outputs, JAX {len(want)}.")
    for name, wanted, array in zip(program.output_names, want, got, strict=True):
        assert_close(array, wanted, f"Output {name!r} at {where}", case.values, case.rtol, case.atol)


def _run(program: OnnxProgram, args: Any, kwargs: Any) -> list[np.ndarray[Any, Any]]:
    session = program.session if program.target.load is not None else load(LegalisePass()(program.model.clone()).model)
    return session(program.feeds(*args, **kwargs))


def assert_close(
    got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], what: str, values: Distribution = "finite",
    rtol: float | None = None, atol: float | None = None,
) -> None:  # fmt: skip
    """Both arrays are of the same dtype, shape and, within the tolerance of the dtype, values.

    The absolute tolerance is relative to the largest number, unless extremes were fed in ("special").
    """
    if got.dtype != want.dtype:
        raise CheckFailedError(f"{what} has dtype {got.dtype}, but JAX has {want.dtype}.")
    if got.shape != want.shape:
        raise CheckFailedError(f"{what} has shape {got.shape}, but JAX has {want.shape}.")
    rtol = tolerance(want.dtype) if rtol is None else rtol
    if rtol == 0 or want.size == 0:
        close = np.asarray(got == want)
    else:
        exact, computed = want.astype(np.float64), got.astype(np.float64)
        scale = 1.0 if values == "special" else float(np.max(np.abs(exact), initial=0, where=np.isfinite(exact)))
        atol = rtol * max(scale, 1e-30) if atol is None else atol
        close = np.isclose(computed, exact, rtol=rtol, atol=atol, equal_nan=True)
    if not close.all():
        index = tuple(int(i) for i in np.argwhere(~close)[0])
        raise CheckFailedError(
            f"{what} differs from JAX in {int((~close).sum())} of {close.size} elements; the first is at {index}: "
            f"{got[index]!r} instead of {want[index]!r}."
        )
