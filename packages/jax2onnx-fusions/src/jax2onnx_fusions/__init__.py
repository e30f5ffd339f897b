"""Formulas that become ONNX operators: each is a pass, contributed by the plugin of this package."""

from __future__ import annotations

__version__ = "0.1.0"
