"""The ten ordinary models of `tests-integration/ten_models.py`, for tools, which are no package with the tests."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["ten_models"]


def ten_models() -> Mapping[str, Callable[[], Any]]:
    """The makers of the models, by name."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests-integration"))
    makers: Mapping[str, Callable[[], Any]] = importlib.import_module("ten_models").MODELS
    return makers
