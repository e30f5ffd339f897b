"""Messages that speak of Python's arguments, in the options of a command line."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping

import click

__all__ = ["in_options"]

_TEXT = r"'[^']*'|\"[^\"]*\""
_ARGUMENT = re.compile(rf"(?<![\w.(])(\w+)=(\{{[^{{}}]*\}}|\([^()]*\)|\[[^\[\]]*\]|{_TEXT}|True|\d+)")
_ELLIPSIS = re.compile(rf"({_TEXT})|…")
# Options whose names differ from those of Python's arguments in more than a plural.
_NAMES = {"max_new_tokens": "count", "max_length": "count"}


def in_options(text: str, params: Iterable[click.Parameter]) -> str:
    """A message in which arguments of Python, such as `specialize={'T': 1}`, are options of a command, `--specialize T=1`.

    Args:
      text: the message.
      params: the options and arguments of the command; what is none of them stays as it is.
    """
    flags = {str(p.name): p.opts[-1] for p in params if isinstance(p, click.Option)}

    def option(found: re.Match[str]) -> str:
        name = _NAMES.get(found[1], found[1])
        flag = next((flags[n] for n in (name, f"{name}s", name.removesuffix("s")) if n in flags), None)
        if flag is None:
            return found[0]
        try:
            value = ast.literal_eval(_ELLIPSIS.sub(lambda part: part[1] or "'…'", found[2]))
        except (SyntaxError, ValueError):
            return found[0]
        return " ".join(_written(flag, value))

    return _ARGUMENT.sub(option, text)


def _written(flag: str, value: object) -> Iterator[str]:
    if value is True:
        yield flag
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield f"{flag} {_quoted(f'{key}={part}')}"
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield f"{flag} {_quoted(part)}"
    else:
        yield f"{flag} {_quoted(value)}"


def _quoted(value: object) -> str:
    """A value for a shell; what stands for something, `…`, without quotes."""
    text = str(value)
    return text if re.fullmatch(r"[\w=…./:,+-]+", text) else shlex.quote(text)
