"""The fixtures for tests of passes, and the modules beside this one."""

from __future__ import annotations

import pathlib
import sys

from jax2onnx_testing.pass_fixtures import declined, fused, limited, rewrite

__all__ = ["declined", "fused", "limited", "rewrite"]

sys.path.insert(0, str(pathlib.Path(__file__).parent))
