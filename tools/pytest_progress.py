"""A pytest plugin: a line for each twentieth of the tests, then a table by package, and the reasons for skips, counted.

Loaded by the nox sessions that run tests (`-p pytest_progress`), with or without pytest-xdist.
"""

from __future__ import annotations

import collections
import dataclasses
import re
import time
from collections.abc import Iterator, Sequence

import pytest

#: Lines that are printed while the tests run.
LINES = 20
#: Characters of a reason that are shown.
WIDTH = 150


@dataclasses.dataclass
class Part:
    """The outcomes of the tests of one package, or of its cases."""

    outcomes: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    seconds: float = 0.0


def part_of(nodeid: str) -> str:
    """The part of the repository that a test belongs to: "lax", "cases of lax", "tests-integration"."""
    case = re.search(r"suite\.py::\w+\[(?:jax2onnx-)?([a-z]\w*)", nodeid)
    if case is not None:
        return f"cases of {case[1]}"
    package = re.search(r"packages/jax2onnx-(\w+)/", nodeid)
    return package[1] if package is not None else nodeid.partition("/")[0]


def reason_of(report: pytest.TestReport) -> str:
    """Reason for skipping a test, in one line."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr or "")
    return text.removeprefix("Skipped: ").partition("\n")[0][:WIDTH]


class Progress:
    """Counts the reports of one run."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self.terminal = terminal
        self.total = self.done = 0
        self.started = time.monotonic()
        self.parts: dict[str, Part] = collections.defaultdict(Part)
        self.reasons: collections.Counter[str] = collections.Counter()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Without workers, the tests are known here."""
        self.total = self.total or len(session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Each worker of pytest-xdist collects all tests."""
        self.total = len(ids)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """No letters: `pytest_runtest_logreport` says how far the tests are. An `xfail` is left to pytest."""
        if "wasxfail" in vars(report):
            return None
        if report.failed:
            return ("failed", "", "FAILED") if report.when == "call" else ("error", "", "ERROR")
        counts = report.skipped or report.when == "call"
        return (report.outcome, "", report.outcome.upper()) if counts else ("", "", "")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count one phase of one test."""
        part = self.parts[part_of(report.nodeid)]
        part.seconds += report.duration
        if report.skipped:
            self.reasons[reason_of(report)] += 1
        if report.failed:
            self.terminal.write_line(f"FAILED {report.nodeid}", red=True)
        if report.when == "call" or not report.passed:
            part.outcomes[report.outcome] += 1
        if report.when == "teardown":
            before, self.done = self.done, self.done + 1
            if self.total and before * LINES // self.total < self.done * LINES // self.total:
                self.terminal.write_line(self._line())

    def _line(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self.started), 60)
        return f"{100 * self.done // self.total:4} %  {self.done:5} of {self.total} tests  {minutes:3}:{seconds:02} minutes"

    def pytest_terminal_summary(self) -> None:
        """The table, and why tests were skipped."""
        if self.parts:
            self.terminal.section("by package")
            for line in self._table():
                self.terminal.write_line(line)
        if self.reasons:
            self.terminal.section("skipped, and why")
            for reason, count in self.reasons.most_common():
                self.terminal.write_line(f"{count:6}  {reason}")

    def _table(self) -> Iterator[str]:
        outcomes = ["passed", "skipped", "failed"]
        yield f"{'':24}{''.join(f'{name:>9}' for name in outcomes)}{'seconds':>9}"
        for name, part in sorted(self.parts.items()):
            counts = "".join(f"{part.outcomes[outcome] or '':>9}" for outcome in outcomes)
            yield f"{name:24}{counts}{part.seconds:9.0f}"


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Only the process that talks to the terminal counts."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:  # workers of pytest-xdist have none
        config.pluginmanager.register(Progress(terminal), "progress-of-tests")
