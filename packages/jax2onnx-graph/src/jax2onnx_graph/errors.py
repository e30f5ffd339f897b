"""Every error and warning of the project, each a sentence that says what is wrong, where, and what to do next."""

from __future__ import annotations

__all__ = [
    "ContextFullError", "ConversionError", "Declined", "ExportWarning", "InputError", "Jax2OnnxError", "OptionError", "PassError",
    "PassedOn", "PluginError",
    "ReadError", "RuleError", "RuntimeInputError", "SaveError", "SymbolError", "TargetError", "UndecidedDimensionError",
    "UnsupportedError", "VerificationError", "WeightsError", "located",
]  # fmt: skip


class Jax2OnnxError(Exception):
    """Base class of all errors raised by the project."""


class OptionError(Jax2OnnxError, TypeError):
    """An option of a public function is unknown or has an impossible value."""


class SymbolError(Jax2OnnxError, ValueError):
    """A symbolic dimension is misspelt, contradictory, unsolvable or unknown."""


class ConversionError(Jax2OnnxError):
    """The function cannot be converted."""


class RuleError(ConversionError):
    """A lowering rule or a pass emitted something that is no valid node, or that contradicts the equation.

    `is_located` says that the message already names the rule and the user's line.
    """

    is_located = False


def located(error: Exception, primitive: str, rule: str | None, owner: str, place: str) -> Exception:
    """An error that was raised in a lowering rule as one that names the rule and the user's line.

    Args:
      error: the error; returned as it is if it belongs to the project and needs no place, or has one already.
      primitive: the primitive that was lowered.
      rule: the name of the rule; None where it is not known.
      owner: the distribution that the rule is from.
      place: the user's line of the equation, or what else says where it is.
    """
    if isinstance(error, Jax2OnnxError) and not (isinstance(error, RuleError) and not error.is_located):
        return error
    what = f"{error}" if isinstance(error, RuleError) else f"{type(error).__name__}: {error}."
    name = "" if rule is None else f" ({rule})"
    result = RuleError(
        f"Lowering {primitive!r} failed: {what} The rule is by {owner}{name}, for the equation at {place}."
    )
    result.is_located = True
    return result


class PassError(ConversionError):
    """A graph pass failed."""


class TargetError(Jax2OnnxError):
    """The target runtime is unknown or not installed, or cannot run the model."""


class RuntimeInputError(Jax2OnnxError, ValueError):
    """The arguments of a program do not fit its declared inputs."""


class ContextFullError(RuntimeInputError):
    """The caches or the positions of a decoder have no room for further tokens; its states are as they were."""


class SaveError(Jax2OnnxError, OSError):
    """The model could not be written; nothing was left half-written."""


class ReadError(Jax2OnnxError, OSError):
    """A file could not be read, or holds no model."""


class WeightsError(Jax2OnnxError, ValueError):
    """Weights are absent, or those that are given do not fit the program, or cannot be read."""


class Declined(Exception):
    """Raised in a lowering rule, by `ctx.decline(reason)`: the rule does not apply here, the next candidate is tried."""


class PassedOn(Declined):
    """Raised in a lowering rule, by `ctx.pass_on(reason)`: the rule is for other operands, which the report does not say."""


class VerificationError(Jax2OnnxError, AssertionError):
    """The model's outputs differ from those that it should have."""


class ExportWarning(UserWarning):
    """What the user should know, while the export, or the run of a model, goes on."""


class InputError(Jax2OnnxError, ValueError):
    """The input specification does not fit the function, or is not one."""


class UndecidedDimensionError(SymbolError):
    """Tracing needs the number behind a symbolic dimension; `symbols` are those in question, if that is known."""

    def __init__(self, message: str, symbols: frozenset[str]) -> None:
        super().__init__(message)
        self.symbols = symbols


class PluginError(Jax2OnnxError):
    """A plugin is broken, duplicated, written for another API, or claims what another one has."""


class UnsupportedError(ConversionError, NotImplementedError):
    """The function uses primitives that no installed plugin lowers (all of them are listed)."""
