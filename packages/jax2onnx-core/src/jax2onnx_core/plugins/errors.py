"""Every error and warning of the project, each a sentence that says what is wrong, where, and what to do next."""

from __future__ import annotations

from jax2onnx_graph.errors import (
    ConversionError,
    Declined,
    Jax2OnnxError,
    OptionError,
    PassError,
    RuleError,
    RuntimeInputError,
    SaveError,
    SymbolError,
    TargetError,
    VerificationError,
)  # fmt: skip

__all__ = [
    "ConversionError", "Declined", "ExportWarning", "InputError", "Jax2OnnxError", "OptionError", "PassError", "PluginError",
    "RuleError", "RuntimeInputError", "SaveError", "SymbolError", "TargetError", "UndecidedDimensionError",
    "UnsupportedError", "VerificationError",
]  # fmt: skip


class ExportWarning(UserWarning):
    """The model does what the function did while it was traced, which may not be what was meant."""


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
