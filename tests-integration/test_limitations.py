"""The limitations of targets: cases that exist, and a page that names all."""

from __future__ import annotations

import fnmatch

import pytest
import targets
from jax2onnx_graph.limitations import Limitation
from jax2onnx_testing.collection import Found, find_cases

LIMITATIONS = list(dict.fromkeys(limitation for _, limitation in targets.limitations()))


@pytest.mark.parametrize("limitation", LIMITATIONS, ids=lambda limitation: limitation.subject)
def test_its_patterns_match_cases(limitation: Limitation) -> None:
    cases = [found.id for found in find_cases() if isinstance(found, Found)]
    assert [pattern for pattern in limitation.cases if not fnmatch.filter(cases, pattern)] == []


def test_the_page_names_all() -> None:
    page = targets.PAGE.read_text(encoding="utf-8")
    assert "\n".join(targets.limitation_rows()) in page, "python tools/targets.py --limitations brings it up to date"
