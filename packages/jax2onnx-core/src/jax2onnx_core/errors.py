"""Every error of the project, each a sentence that says what is wrong, where, and what to do next."""

from __future__ import annotations

__all__ = [
    "ConversionError",
    "Declined",
    "InputError",
    "Jax2OnnxError",
    "OptionError",
    "PassError",
    "PluginError",
    "RuleError",
    "RuntimeInputError",
    "SaveError",
    "SymbolError",
    "TargetError",
    "UndecidedDimensionError",
    "UnsupportedError",
    "VerificationError",
]


class Jax2OnnxError(Exception):
    """Base class of all errors raised by the project."""


class OptionError(Jax2OnnxError, TypeError):
    """An option of a public function is unknown or has an impossible value."""


class InputError(Jax2OnnxError, ValueError):
    """The input specification does not fit the function, or is not one."""


class SymbolError(Jax2OnnxError, ValueError):
    """A symbolic dimension is misspelt, contradictory, unsolvable or unknown."""


class UndecidedDimensionError(SymbolError):
    """Tracing needs the number behind a symbolic dimension; `symbols` are those in question, if that is known."""

    def __init__(self, message: str, symbols: frozenset[str]) -> None:
        super().__init__(message)
        self.symbols = symbols


class PluginError(Jax2OnnxError):
    """A plugin is broken, duplicated, written for another API, or claims what another one has."""


class ConversionError(Jax2OnnxError):
    """The function cannot be converted."""


class UnsupportedError(ConversionError, NotImplementedError):
    """The function uses primitives that no installed plugin lowers (all of them are listed)."""


class RuleError(ConversionError):
    """A lowering rule failed or returned something that contradicts the equation."""


class PassError(ConversionError):
    """A graph pass failed."""


class TargetError(Jax2OnnxError):
    """The target runtime is unknown or not installed, or cannot run the model."""


class RuntimeInputError(Jax2OnnxError, ValueError):
    """The arguments of a program do not fit its declared inputs."""


class SaveError(Jax2OnnxError, OSError):
    """The model could not be written; nothing was left half-written."""


class VerificationError(Jax2OnnxError, AssertionError):
    """The model's outputs differ from JAX's."""


class Declined(Exception):
    """Raised by `ctx.decline(reason)`: the rule does not apply here, the next candidate is tried."""
