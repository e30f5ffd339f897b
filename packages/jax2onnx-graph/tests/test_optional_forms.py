"""What fails while an optional form is made declines it; in tests it is raised."""

from __future__ import annotations

import pytest
from jax2onnx_graph import optional_forms
from jax2onnx_graph.optional_forms import attempt


@pytest.fixture
def _as_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a user's process is, in which no test runs."""
    monkeypatch.setattr(optional_forms, "_SETTING", optional_forms._Setting())


def _recursive() -> int:
    return _recursive()


@pytest.mark.usefixtures("_as_users")
def test_a_form_that_fails_is_none_with_its_error_as_the_reason():
    reasons: list[str] = []
    assert attempt(lambda: 1 // 0, reasons.append) is None
    assert reasons == ["ZeroDivisionError: integer division or modulo by zero"]


def test_a_form_that_fails_raises_in_tests():
    with pytest.raises(ZeroDivisionError):
        attempt(lambda: 1 // 0, pytest.fail)


@pytest.mark.usefixtures("_as_users")
def test_a_recursion_without_end_is_not_retried_at_each_level():
    tried: list[int] = []

    def nested(depth: int) -> int | None:
        tried.append(depth)
        if not depth:
            return _recursive()
        return attempt(lambda: nested(depth - 1), lambda _: None) or attempt(lambda: nested(depth - 1), lambda _: None)

    reasons: list[str] = []
    assert attempt(lambda: nested(8), reasons.append) is None
    assert (len(tried), len(reasons)) == (9, 1)
