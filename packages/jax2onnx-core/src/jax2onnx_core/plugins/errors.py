"""Every error and warning of the project, each a sentence that says what is wrong, where, and what to do next."""

from __future__ import annotations

from jax2onnx_graph.errors import (
    ConversionError,
    Declined,
    ExportWarning,
    InputError,
    Jax2OnnxError,
    OptionError,
    PassedOn,
    PassError,
    PluginError,
    RuleError,
    RuntimeInputError,
    SaveError,
    SymbolError,
    TargetError,
    UndecidedDimensionError,
    UnsupportedError,
    VerificationError,
    WeightsError,
)  # fmt: skip

__all__ = [
    "ConversionError",
    "Declined",
    "ExportWarning",
    "InputError",
    "Jax2OnnxError",
    "OptionError",
    "PassError",
    "PassedOn",
    "PluginError",
    "RuleError",
    "RuntimeInputError",
    "SaveError",
    "SymbolError",
    "TargetError",
    "UndecidedDimensionError",
    "UnsupportedError",
    "VerificationError",
    "WeightsError",
]  # fmt: skip
