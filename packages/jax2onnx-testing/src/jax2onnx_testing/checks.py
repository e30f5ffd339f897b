"""The checks that every case gets: a valid model, declared types and shapes, reproducible bytes, and JAX's values."""

from __future__ import annotations

import importlib.metadata
import traceback
import zlib
from collections.abc import Mapping, Sequence

import jax
import onnx
import onnx_ir as ir
from jax2onnx_core import OnnxProgram
from jax2onnx_core.jax_types import PyTree
from jax2onnx_core.lowering.physical import physical_type
from jax2onnx_core.plugins.cases import CaseRun
from jax2onnx_core.program.verification import as_traced
from jax2onnx_graph.arrays import Array
from jax2onnx_runtime.comparison import compare
from jax2onnx_runtime.sizes import choose_sizes
from packaging.version import InvalidVersion, Version

from jax2onnx_testing.collection import CollectedCase
from jax2onnx_testing.errors import CheckFailedError
from jax2onnx_testing.matcher import match_graph
from jax2onnx_testing.reference import Reference
from jax2onnx_testing.targets import explain_failures, explain_refusals, loaded
from jax2onnx_testing.values import Distribution, arguments
from jax2onnx_testing.variants import Built, Variant, build

__all__ = [
    "assert_close",
    "check_at_sizes",
    "check_program",
    "check_values",
    "check_variant",
    "run_program",
]


def check_variant(variant: Variant, *, twice: bool = True) -> None:
    """Build, export and check one variant of a case.

    Args:
      variant: the variant.
      twice: whether it is exported a second time, which has to give the same bytes.

    Raises:
      CheckFailedError: the first thing that is wrong.
      KnownLimitationError: the variant's target refuses the case, or is known to get it wrong.
    """
    _check_since(variant.found)
    built, case = build(variant), variant.found.case
    with explain_refusals(variant.target):
        program = built.export()
    if twice:
        _check_same_bytes(program, built.export())
    with explain_failures(variant.target, program, variant.found.id):
        runs = _check_runs(program, built)
        check_program(program, built.options.get("output_names"))
    if variant.is_expected:
        for expectation in case.expectations:
            match_graph(program.model, expectation)
        _check_declines(variant.found, program)
        _check_by_case(variant.found, program.model, runs)


def _check_since(found: CollectedCase) -> None:
    """Check that `Case.since`, if it is given, is a version that the distribution has reached; one that is not installed has none."""
    if found.case.since is None:
        return
    try:
        since = Version(found.case.since)
    except InvalidVersion as error:
        raise CheckFailedError(
            f"The case {found.id} says since={found.case.since!r}, which is no version; say one such as '0.2.0'."
        ) from error
    try:
        installed = importlib.metadata.version(found.distribution)
    except importlib.metadata.PackageNotFoundError:
        return
    if since > Version(installed):
        raise CheckFailedError(
            f"The case {found.id} says since={found.case.since!r}, but {found.distribution} is at {installed}."
        )


def _check_declines(found: CollectedCase, program: OnnxProgram) -> None:
    """Check that the reasons of `Case.declines`, or parts of them, are among those of the program."""
    expected = [found.case.declines] if isinstance(found.case.declines, str) else found.case.declines
    reasons = {reason for _, reason in program.log.reasons} | {formula.reason for formula in program.log.not_formed}
    if missing := [part for part in expected if not any(part in reason for reason in reasons)]:
        raise CheckFailedError(
            f"Nothing declines in {found.id} because {' or because '.join(missing)}; there is: "
            f"{'; '.join(sorted(reasons)) or 'no reason'}."
        )


def _check_by_case(found: CollectedCase, model: ir.Model, runs: Sequence[CaseRun]) -> None:
    """Call `Case.check`, if there is one, with each run; its failure names the case, the sizes and the line that fails."""
    if found.case.check is None:
        return
    for run in runs:
        try:
            answer = found.case.check(model, run)
        except Exception as error:
            line = traceback.extract_tb(error.__traceback__)[-1].line
            detail = str(error) or line
            reason = detail if isinstance(error, AssertionError) else f"{type(error).__name__}: {error} ({line})"
            raise CheckFailedError(f"The check of {found.id} fails at {_where(run.sizes)}: {reason}") from error
        if answer is not None:
            raise CheckFailedError(
                f"The check of {found.id} returns {answer!r:.80}, which nobody reads: it asserts what it checks."
            )


def _check_runs(program: OnnxProgram, built: Built) -> list[CaseRun]:
    """Run a program at several sizes, and compare it with JAX."""
    variant, case = built.variant, built.variant.found.case
    seed = zlib.crc32(variant.id.encode())
    sizes = choose_sizes(program.inputs.space(program.traced.out_avals))
    runs: list[CaseRun] = []
    with jax.enable_x64(variant.x64):
        calls = [arguments(program.inputs, built.inputs, one, case.values, seed + run) for run, one in enumerate(sizes)]
        for one, (args, kwargs), want in zip(sizes, calls, Reference(built.fn).of_calls(calls), strict=True):
            got = run_program(program, args, kwargs, variant.target)
            check_values(program, want, variant, one, got)
            outputs = dict(zip(program.output_names, got, strict=True))
            runs.append(CaseRun(one, program.feeds(*args, **kwargs), outputs))
    return runs


def check_program(program: OnnxProgram, output_names: Sequence[str] | None = None) -> None:
    """Check what is required of every program, without running it.

    The model is valid, the outputs (`output_names` if given) have JAX's types and shapes, and each symbolic dimension
    has the name that it has in JAX. Raises `CheckFailedError`.
    """
    onnx.checker.check_model(program.model_proto, full_check=True)
    _check_outputs(program, output_names or program.traced.out_names)
    lost = program.check_symbols()
    if lost:
        raise CheckFailedError("\n".join(["Dimensions are not labelled as JAX has them:", *lost]))


def _check_outputs(program: OnnxProgram, names: Sequence[str]) -> None:
    outputs, avals = program.model.graph.outputs, program.traced.out_avals
    if [output.name for output in outputs] != names:
        raise CheckFailedError(f"The outputs are called {[o.name for o in outputs]}, but should be {names}.")
    for output, aval in zip(outputs, avals, strict=True):
        dtype, dims = physical_type(aval)
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


def check_values(
    program: OnnxProgram, want: Sequence[Array], variant: Variant, sizes: Mapping[str, int], got: Sequence[Array]
) -> None:
    """Check the outputs of a model against those of JAX.

    Args:
      program: the exported model.
      want: JAX's outputs.
      variant: the variant of the case, which says the tolerance.
      sizes: the sizes of the symbols, for the message.
      got: the outputs of the model.

    Raises:
      CheckFailedError: they differ by more than the tolerance.
    """
    case = variant.found.case
    rtol, atol = case.tolerances(variant.precision)
    least = program.target.rounding
    if least > (rtol or 0.0):  # those of the case are about the types of its floats
        rtol = atol = None
    if len(want) != len(got):
        raise CheckFailedError(f"The model has {len(got)} outputs, JAX {len(want)}.")
    for name, wanted, array in zip(program.output_names, want, got, strict=True):
        assert_close(array, wanted, f"Output {name!r} at {_where(sizes)}", case.values, rtol, atol, least)


def _where(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{k} = {v}" for k, v in sizes.items()) or "the exported shapes"


def check_at_sizes(
    program: OnnxProgram, sizes: Sequence[Mapping[str, int]] | None = None, *,
    rtol: float | None = None, atol: float | None = None,
) -> None:  # fmt: skip
    """Check an exported function as `program.verify(sizes=sizes)` does, but with JAX's results compiled as one program.

    `verify` evaluates equation by equation, which takes longer for small sizes.

    Args:
      program: the exported function.
      sizes: the sizes of the symbols for each run; chosen if not given.
      rtol: the relative tolerance; that of the dtype if not given.
      atol: the absolute tolerance.

    Raises:
      CheckFailedError: the outputs differ.
    """
    runs = list(program.random_calls(sizes, {}, 0))
    with jax.enable_x64(program.x64):
        leaves = [as_traced(jax.tree_util.tree_leaves((run.args, run.kwargs)), program.inputs.avals) for run in runs]
        calls = [jax.tree_util.tree_unflatten(program.inputs.tree, one) for one in leaves]
        results = Reference(program.reference.with_weights({})).of_calls(calls)
    for run, want in zip(runs, results, strict=True):
        got = run_program(program, run.args, run.kwargs)
        arranged = map(program.layouts.given, program.output_names, want)
        for name, wanted, array in zip(program.output_names, arranged, got, strict=True):
            assert_close(array, wanted, f"Output {name!r} at {run.where}", rtol=rtol, atol=atol)


def run_program(
    program: OnnxProgram, args: Sequence[PyTree], kwargs: Mapping[str, PyTree], target: str | None = None
) -> list[Array]:
    """The flat outputs of a program.

    Args:
      program: the program.
      args: its arguments by position.
      kwargs: its arguments by keyword.
      target: the one that the tests are for, whose own runtime runs it; for None, a program for plain ONNX runs as one for the
        default target.
    """
    session = loaded(program) if target is None else program.loaded
    return session(program.feeds(*args, **kwargs))


def assert_close(
    got: Array, want: Array, what: str, values: Distribution = "finite",
    rtol: float | None = None, atol: float | None = None, least: float = 0.0,
) -> None:  # fmt: skip
    """Check that two arrays have the same dtype and shape, and values that are close.

    Args:
      got: the array of the model.
      want: the array of JAX.
      what: the subject of the error's sentence.
      values: how the inputs were drawn; the absolute tolerance is relative to the largest number in `want`, except for
        "special" inputs, which are extreme.
      rtol: the relative tolerance; that of the dtype if not given.
      atol: the absolute tolerance.
      least: the relative tolerance of floats, if that of their dtype is less and `rtol` is not given.

    Raises:
      CheckFailedError: they differ.
    """
    if got.dtype != want.dtype:
        raise CheckFailedError(f"{what} has dtype {got.dtype}, but JAX has {want.dtype}.")
    if got.shape != want.shape:
        raise CheckFailedError(f"{what} has shape {got.shape}, but JAX has {want.shape}.")
    found = compare(got, want, rtol=rtol, atol=atol, scale=1.0 if values == "special" else None, least=least)
    if not found.is_close:
        raise CheckFailedError(f"{what} differs from JAX in {found.detail}.")
