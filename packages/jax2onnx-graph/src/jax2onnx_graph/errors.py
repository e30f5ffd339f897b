"""Errors of graphs, symbols, passes, targets and files, and the base class of every error of the project."""

from __future__ import annotations

__all__ = [
    "ConversionError", "Declined", "Jax2OnnxError", "OptionError", "PassError", "ReadError", "RuleError", "RuntimeInputError", "SaveError", "SymbolError", "TargetError",
    "VerificationError",
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


class PassError(ConversionError):
    """A graph pass failed."""


class TargetError(Jax2OnnxError):
    """The target runtime is unknown or not installed, or cannot run the model."""


class RuntimeInputError(Jax2OnnxError, ValueError):
    """The arguments of a program do not fit its declared inputs."""


class SaveError(Jax2OnnxError, OSError):
    """The model could not be written; nothing was left half-written."""


class ReadError(Jax2OnnxError, OSError):
    """A file could not be read, or holds no model."""


class Declined(Exception):
    """Raised in a lowering rule, by `ctx.decline(reason)`: the rule does not apply here, the next candidate is tried."""


class VerificationError(Jax2OnnxError, AssertionError):
    """The model's outputs differ from those that it should have."""
