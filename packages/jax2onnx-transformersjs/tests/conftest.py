"""Lets the tests of this package share the module beside them, and a tokenizer."""

from __future__ import annotations

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))


@pytest.fixture
def tokenizer(tmp_path: pathlib.Path) -> pathlib.Path:
    """The file of a tokenizer of eleven words."""
    from folder_programs import written_tokenizer

    return written_tokenizer(tmp_path / "tokenizer.json", 11)
