"""`nox -l --json` → the include list of a CI matrix: one entry per session, with its Python version."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    sessions = json.loads(Path(sys.argv[1]).read_text())
    entries = [{"session": s["session"], "version": s["call_spec"]["version"]} for s in sessions]
    print(f"tests={json.dumps(entries)}")


if __name__ == "__main__":
    main()
