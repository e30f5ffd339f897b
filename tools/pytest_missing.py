"""A pytest plugin: what is skipped because a package is missing fails.

Loaded by the nox sessions that run tests (`-p pytest_missing`), with or without pytest-xdist. Their environments are meant to
have every package that tests ask for by `pytest.importorskip`, which is called without a reason: this plugin reads pytest's own.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

#: How the reason of `pytest.importorskip` begins.
BEGINNING = "Skipped: could not import "


def refuse(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip for a missing package into a failure that says where it was asked for."""
    if report.skipped and isinstance(report.longrepr, tuple):
        path, line, reason = report.longrepr
        if reason.startswith(BEGINNING):
            report.outcome = "failed"
            report.longrepr = f"{path}:{line}: {reason}. This session is meant to have it: see TESTED in the noxfile."


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test, or its fixtures."""
    report = yield
    refuse(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A module that asks for the package at its top."""
    report = yield
    refuse(report)
    return report
