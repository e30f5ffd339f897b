"""The cases of packages, exported for a target and run in its runtime: the tables of docs/targets.md and docs/devices.md."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import signal
import textwrap
import warnings
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from types import FrameType

import onnx_ir as ir
from jax2onnx_core import OnnxProgram, errors
from jax2onnx_graph.arrays import Array
from jax2onnx_runtime.runtimes import LoadedModel
from jax2onnx_runtime.sizes import choose_sizes
from jax2onnx_testing.checks import check_values
from jax2onnx_testing.collection import CollectedCase, find_cases
from jax2onnx_testing.errors import CheckFailedError
from jax2onnx_testing.reference import Reference
from jax2onnx_testing.targets import explanation
from jax2onnx_testing.values import arguments
from jax2onnx_testing.variants import Built, Variant, build, quick_variants_of
from resumable import Entry

__all__ = ["SECONDS", "check", "dead", "variants"]

#: So long may a case take: `onnx.reference` runs a loop node by node.
SECONDS = 60

Load = Callable[[ir.Model], LoadedModel]


def variants(packages: Collection[str] = ("lax", "nnx"), *, is_static: bool = False) -> dict[str, Variant]:
    """One variant of each case in single precision, by name.

    Args:
      packages: whose cases; those of all packages if there are none.
      is_static: whether the variant has fixed sizes; otherwise it has symbols if it can.
    """
    found = [case for case in find_cases(packages) if isinstance(case, CollectedCase)]
    chosen = [variant for case in found for variant in quick_variants_of(case, ["f32"], 1)]
    if is_static:
        chosen = [dataclasses.replace(variant, symbolic=False) for variant in chosen]
    return {variant.id: variant for variant in chosen if variant.skip_reason is None and not _is_bound(variant)}


def _is_bound(variant: Variant) -> bool:
    """Whether a case is about one target or one opset."""
    return not {"target", "opset", "plugins"}.isdisjoint(variant.found.case.options)


class _NotRunError(Exception):
    """The runtime cannot load or run a model."""


class _TooSlowError(BaseException):
    """A case took longer than `SECONDS`; nothing on the way may take it for an error of its own."""


def check(variant: Variant, target: str, load: Load) -> Entry:
    """Check a variant: "equal", "refused" at export, "wrong", "not run" by the runtime, or "too slow" for this check.

    The reason is that of a limitation of the target or its runtime; None where none explains the result.
    """
    status, detail, reason = "equal", "", None
    try:
        with _limited(), warnings.catch_warnings(action="ignore"):
            built = build(dataclasses.replace(variant, target=target))
            program = built.export()
            try:
                _run(program, built, load)
            except (CheckFailedError, _NotRunError) as error:
                status, detail = "wrong" if isinstance(error, CheckFailedError) else "not run", str(error)
                known = explanation(program, variant.found.id, detail)
                reason = None if known is None else known.reason
    except errors.ConversionError as error:
        status, detail = "refused", str(error)
    except _TooSlowError:
        status = "too slow"
    shown = textwrap.shorten(detail, 400, placeholder=" …")
    return {"name": variant.id, "status": status, "detail": shown, "reason": reason}


def dead(name: str) -> Entry:
    """The result of a variant with whose model the runtime ended the process."""
    return {"name": name, "status": "not run", "detail": "The runtime ended the process.", "reason": None}


def _run(program: OnnxProgram, built: Built, load: Load) -> None:
    variant, case = built.variant, built.variant.found.case
    session = _session(program, load)
    reference = Reference(built.fn)
    # What computes in less precision than the types of a model has other special numbers than they.
    values = "finite" if program.target.rounding and case.values == "special" else case.values
    for run, sizes in enumerate(choose_sizes(program.inputs.space(program.traced.out_avals))):
        args, kwargs = arguments(program.inputs, built.inputs, sizes, values, zlib.crc32(variant.id.encode()) + run)
        want = reference(args, kwargs)
        check_values(program, want, variant, sizes, session(program.feeds(*args, **kwargs)))


def _session(program: OnnxProgram, load: Load) -> LoadedModel:
    """A session of the runtime, whose errors are of one class."""
    loaded = functools.cache(lambda: load(program.model))

    def run(feeds: Mapping[str, Array]) -> list[Array]:
        try:
            return loaded()(feeds)
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
