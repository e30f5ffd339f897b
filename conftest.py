"""Settings that the tests of all packages share."""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    """Spare the garbage collector what was imported and collected, which stays until the end."""
    gc.freeze()
