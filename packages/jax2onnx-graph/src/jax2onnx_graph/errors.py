"""Errors of graphs, passes, targets and files, and the base class of every error of the project."""

from __future__ import annotations

__all__ = ["ConversionError", "Declined", "Jax2OnnxError", "PassError", "RuleError", "SaveError", "TargetError"]


class Jax2OnnxError(Exception):
    """Base class of all errors raised by the project."""


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


class SaveError(Jax2OnnxError, OSError):
    """The model could not be written; nothing was left half-written."""


class Declined(Exception):
    """Raised in a lowering rule, by `ctx.decline(reason)`: the rule does not apply here, the next candidate is tried."""
