"""`Names`: deterministic, unique names for values and nodes, and `Origin`: the place in the function that nodes are named after."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import types
from collections.abc import Iterable, Sequence

from jax2onnx_graph.errors import OptionError

__all__ = ["Names", "Origin", "check_names", "printable", "renamed", "title", "user_line"]


_LIBRARY = re.compile(r"[/\\](?:site|dist)-packages[/\\]")


def printable(text: str) -> str:
    r"""The text with escapes in place of what has no place in a name: lone surrogates, which no file can hold, NUL, …

    >>> printable("a\ud800b\x00")
    'a\\ud800b\\x00'
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def check_names(option: str, names: Sequence[str], defaults: Sequence[str], *, apart_from: Sequence[str] = ()) -> None:
    """Check names that the user gives for inputs or outputs.

    Args:
      option: the name of the option that takes them, for the error.
      names: the names.
      defaults: the names that they replace, one by one.
      apart_from: names that they have to differ from: those of the outputs where inputs are named.

    Raises:
      OptionError: they are none, too few or too many, or the same.
    """
    if isinstance(names, str) or not all(isinstance(n, str) and n and n == printable(n) for n in names):
        raise OptionError(f"{option} needs a list of names, each a text of printable characters; got {names!r}.")
    if len(names) != len(defaults) or len(set(names)) != len(names):
        raise OptionError(
            f"{option} needs {len(defaults)} different names, one for each of {list(defaults)}; got {names!r}."
        )
    if shared := sorted(set(names) & set(apart_from)):
        raise OptionError(
            f"An input and an output cannot share a name; both are called {', '.join(map(repr, shared))}."
        )


class Names:
    """The names that are taken in one model, those in `taken` to begin with."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._counts = dict.fromkeys(taken, 0)

    def reserve(self, names: Iterable[str]) -> None:
        """Take names that are given out by somebody else."""
        self._counts.update(dict.fromkeys(names, 0))

    def unique(self, base: str) -> str:
        """`base`, or `base_1`, `base_2`, … where it is taken; unprintable characters are escaped."""
        base = printable(base)
        count = self._counts.get(base)
        if count is None:
            self._counts[base] = 0
            return base
        while True:
            count += 1
            candidate = f"{base}_{count}"
            if candidate not in self._counts:
                self._counts[base] = count
                self._counts[candidate] = 0
                return candidate


def user_line(frames: Iterable[tuple[str, int, str]]) -> str | None:
    """The line behind a node, of frames (file, line, function), the innermost first: the first that is in no installed library.

    >>> layer, model = ("/lib/site-packages/flax/nnx/nn/linear.py", 401, "Linear.__call__"), ("/me/net.py", 12, "Net.__call__")
    >>> user_line([layer, model]), user_line([layer])
    ('/me/net.py:12 (Net.__call__)', '/lib/site-packages/flax/nnx/nn/linear.py:401 (Linear.__call__)')
    """
    found = list(frames)
    own = (frame for frame in found if not _LIBRARY.search(frame[0]))
    file, line, function = next(own, found[0] if found else ("", 0, ""))
    return f"{file}:{line} ({function})" if found else None


def title(fn: object) -> str:
    """A name for the model of a callable: that of the function that jit or the like is around, or of the class of a model object."""
    while (inner := _inside(fn)) is not fn:
        fn = inner
    name = fn.__name__ if isinstance(fn, types.FunctionType) else type(fn).__name__
    return name if name.isidentifier() else "main"


def _inside(fn: object) -> object:
    """The callable that `fn` binds or wraps; `fn` itself if it is neither bound nor wrapped."""
    if type(fn) is tuple and fn:  # a named one is called by the name of its class
        return fn[0]
    if isinstance(fn, functools.partial):
        return fn.func
    if isinstance(fn, types.MethodType):
        return fn.__self__
    return inspect.unwrap(fn) if callable(fn) else fn


def renamed(node: str, op_type: str) -> str:
    """The name, not yet unique, of a node of another operator that stands where `node` is.

    >>> renamed("blocks.0.attn/Softmax_1", "Attention")
    'blocks.0.attn/Attention'
    >>> renamed("erf_inv.Mul", "Add")
    'erf_inv.Add'
    """
    place = max(node.rfind("/"), node.rfind("."))
    return node[: place + 1] + op_type


@dataclasses.dataclass(frozen=True)
class Origin:
    """The place in the exported function that nodes are named after, and the user's line where the model keeps lines.

    Nodes are called `<name stack>/<operator>`, those outside of any named scope `<operation>.<operator>`.
    """

    stack: str = ""
    operation: str = ""
    line: str | None = None

    def within(self, stack: str, operation: str, line: str | None) -> Origin:
        """The origin of an operation in a jaxpr that has this origin.

        Args:
          stack: the name stack of the operation in the jaxpr, joined by dots.
          operation: its primitive.
          line: the user's line; None where it has none of its own.
        """
        return Origin(".".join(part for part in (self.stack, stack) if part), operation, line or self.line)

    def node_name(self, op_type: str) -> str:
        """A name for a node, not yet unique."""
        if self.stack:
            return f"{self.stack}/{op_type}"
        return f"{self.operation}.{op_type}" if self.operation else op_type
