"""The target that cases are exported for, its runtime, and what is known of both."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from jax2onnx_core import OnnxProgram
from jax2onnx_core.plugins.discovery import installed_plugins
from jax2onnx_graph.errors import ConversionError, OptionError, TargetError
from jax2onnx_graph.limitations import Limitation
from jax2onnx_graph.passes import make_names_unique
from jax2onnx_graph.targets import find_target, split_name, standard_target
from jax2onnx_runtime.runtimes import LoadedModel, Runtime

from jax2onnx_testing.errors import CheckFailedError, KnownLimitationError

__all__ = ["explain_failures", "explain_refusals", "explanation", "loaded", "runtime_of", "target_of_tests"]


def target_of_tests(given: str | None) -> str | None:
    """The target that tests are for: the given one, or that of an older version of the default runtime where this is installed.

    None is the default target in its newest version, the one for which cases say what graphs they expect.
    """
    default, _ = installed_plugins().registry.runtime_of(None)
    return given or (default.name if split_name(default.name)[1] else None)


def runtime_of(target: str | None) -> Runtime:
    """The runtime that tests models for a target; that of the default target for None.

    Raises:
      OptionError: there is no such target.
      CheckFailedError: no runtime of the target is installed.
    """
    found, runtime = installed_plugins().registry.runtime_of(target)
    try:
        return runtime.installed()
    except TargetError as error:
        raise CheckFailedError(f"The tests need the runtime of the target {found.name!r}: {error}") from error


def loaded(program: OnnxProgram) -> LoadedModel:
    """The model of a program, loaded. One for plain ONNX is adapted to the default target, whose runtime is faster.

    Raises:
      CheckFailedError: no runtime of the target is installed.
      TargetError: the model cannot be loaded.
    """
    registry = installed_plugins().registry
    default = find_target(registry.targets, None)
    if program.target is not standard_target or default is standard_target:
        runtime_of(program.target.name)
        return program.loaded
    model = program.model.clone()
    for factory in default.passes():
        factory(default)(model)
    make_names_unique(model)
    return runtime_of(None).load(model)


@contextlib.contextmanager
def explain_refusals(target: str | None) -> Iterator[None]:
    """Raise KnownLimitationError where a case cannot be exported for the target that the tests are for."""
    try:
        yield
    except (ConversionError, OptionError, TargetError) as error:
        if target is None:
            raise
        raise KnownLimitationError(f"refused: {error}") from error


@contextlib.contextmanager
def explain_failures(target: str | None, program: OnnxProgram, case: str) -> Iterator[None]:
    """Raise KnownLimitationError where a limitation of the target that the tests are for explains why a case fails.

    Args:
      target: what the tests are for; None for the default target, for which nothing is explained.
      program: the exported case.
      case: its id.

    Raises:
      CheckFailedError: no runtime of the target is installed.
      KnownLimitationError: as above.
    """
    runtime_of(target)
    try:
        yield
    except Exception as error:
        known = None if target is None else explanation(program, case, f"{type(error).__name__}: {error}")
        if known is None:
            raise
        raise KnownLimitationError(known.reason) from error


def explanation(program: OnnxProgram, case: str, message: str) -> Limitation | None:
    """The limitation of a program's target, or of its runtime, that explains why a case fails; None if none does.

    Args:
      program: the exported case.
      case: its id.
      message: the runtime's error, or what tells the difference.
    """
    known = [*program.target.limitations(), *program.runtime.limitations(program.target)]
    return next((one for one in known if one.explains(program.model, case, message)), None)
