"""The plugin `tools/pytest_missing.py`: a skip for a missing package fails, another does not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parent.parent / "tools"


def outcome(folder: Path, text: str, *options: str) -> tuple[int, str]:
    (folder / "test_it.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "pytest_missing", *options, "test_it.py"]
    environment = {**os.environ, "PYTHONPATH": str(TOOLS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize("options", [(), ("-p", "xdist", "-n", "1")], ids=["here", "in a worker"])
@pytest.mark.parametrize("where", ["def test_it(): ", ""], ids=["in a test", "in a module"])
def test_a_missing_package_fails(tmp_path, where, options):
    text = f"import pytest\n{where}pytest.importorskip('no_such_package')\n"
    status, printed = outcome(tmp_path, text, *options)
    assert status != pytest.ExitCode.OK
    assert "could not import 'no_such_package'" in printed
    assert "This session is meant to have it" in printed


def test_another_reason_is_a_skip(tmp_path):
    status, printed = outcome(tmp_path, "import pytest\ndef test_it(): pytest.skip('no such harness')")
    assert status == pytest.ExitCode.OK
    assert "1 skipped" in printed
