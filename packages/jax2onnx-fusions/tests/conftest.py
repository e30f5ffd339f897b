"""The fixtures for tests of passes."""

from __future__ import annotations

from jax2onnx_testing.pass_fixtures import declined, fused, limited, rewrite

__all__ = ["declined", "fused", "limited", "rewrite"]
