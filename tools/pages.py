"""Writing a generated part of a page, between two marks that stay."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

__all__ = ["write_part"]


def write_part(page: Path, name: str, lines: Iterable[str]) -> None:
    """Write lines between `<!-- NAME: written by … -->` and `<!-- end of NAME -->` of a page, in the place of the older ones.

    Raises:
      ValueError: the page has no such marks.
    """
    text = page.read_text(encoding="utf-8")
    found = re.search(rf"^<!-- {name}: written by .* -->\n(.*?)^<!-- end of {name} -->", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError(
            f"{page} has no marks of the part {name!r}: <!-- {name}: written by … --> and <!-- end of {name} -->"
        )
    new = text[: found.start(1)] + "".join(f"{line}\n" for line in lines) + text[found.end(1) :]
    page.write_text(new, encoding="utf-8", newline="\n")
