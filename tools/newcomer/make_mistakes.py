"""Run each of the files that are named on the command line, in an empty namespace, and print what it raises or warns of, as JSON.

A newcomer's Python runs this, which has the built packages and nothing of this repository.
"""

from __future__ import annotations

import json
import sys
import traceback
import warnings
from pathlib import Path


def outcome(file: Path) -> str:
    """The last lines of what Python shows: warnings, and the error with its notes."""
    code = compile(file.read_text(), file.name, "exec")
    lines: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            exec(code, {"__name__": "__main__", "__file__": file.name})
        except Exception as error:  # noqa: BLE001 (whatever it is, it is shown)
            notes = vars(error).get("__notes__", [])
            error.__notes__ = [note for note in notes if "JAX has removed its internal frames" not in note]
            lines = traceback.format_exception_only(error)
    shown = [f"{one.category.__name__}: {one.message}" for one in caught]
    return "\n".join([*shown, "".join(lines)]).strip("\n")


print(json.dumps([outcome(Path(name)) for name in sys.argv[1:]]))
