"""What the tests of all packages share."""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    """What was imported and collected stays: the garbage collector need not look through it again and again."""
    gc.freeze()
