"""Cases of `linear_attention`."""

from __future__ import annotations

from jax2onnx_core import Case

__all__ = ["cases"]

cases: list[Case] = []
