"""Every error of the project, each a sentence that says what is wrong, where, and what to do next."""

from __future__ import annotations

from jax2onnx_graph.errors import ConversionError, Declined, Jax2OnnxError, PassError, RuleError, SaveError, TargetError

__all__ = [
    "ConversionError", "Declined", "InputError", "Jax2OnnxError", "OptionError", "PassError", "PluginError",
    "RuleError", "RuntimeInputError", "SaveError", "SymbolError", "TargetError", "UndecidedDimensionError",
    "UnsupportedError", "VerificationError",
]  # fmt: skip


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


class UnsupportedError(ConversionError, NotImplementedError):
    """The function uses primitives that no installed plugin lowers (all of them are listed)."""


class RuntimeInputError(Jax2OnnxError, ValueError):
    """The arguments of a program do not fit its declared inputs."""


class VerificationError(Jax2OnnxError, AssertionError):
    """The model's outputs differ from JAX's."""
