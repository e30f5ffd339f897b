"""Tables for the cells of notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

__all__ = ["html_table"]


def html_table(titles: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """A table of texts; the caption, which may have several lines, stands above it."""
    head = "".join(f"<th>{html.escape(title)}</th>" for title in titles)
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    above = f"<pre>{html.escape(caption)}</pre>" if caption else ""
    return f"{above}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if body else above
