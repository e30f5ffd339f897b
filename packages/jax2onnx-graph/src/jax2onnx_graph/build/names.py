"""`Names`: deterministic, unique names for values and nodes, and `Origin`: the place in the function that nodes are named after."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from jax2onnx_graph.errors import OptionError

__all__ = [
    "Names",
    "Origin",
    "by_paths",
    "new_names",
    "numbered",
    "printable",
    "renamed",
    "title",
    "unwrapped",
    "user_line",
]


T = TypeVar("T")

_LIBRARY = re.compile(r"[/\\](?:site|dist)-packages[/\\]")


def printable(text: str) -> str:
    r"""The text with escapes in place of what has no place in a name: lone surrogates, which no file can hold, NUL, …

    >>> printable("a\ud800b\x00")
    'a\\ud800b\\x00'
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def new_names(
    option: str, given: Sequence[str] | Mapping[str, str] | None, own: Sequence[str], *, apart_from: Iterable[str] = ()
) -> dict[str, str]:
    """The own names of inputs or outputs that the user replaces → the names that he gives.

    Args:
      option: the name of the option that takes them, for the error.
      given: a name for each, in order; or own names → names, for some of them; None for no names.
      own: the names that they have without the option, in order.
      apart_from: names that they have to differ from: those given to the outputs where inputs are named.

    Raises:
      OptionError: the names are too few, too many or the same; they are the own names in another order, so that one would get
        the name of another; or an own name in the mapping is unknown.
    """
    if given is None:
        return {}
    names = list(given.values()) if isinstance(given, Mapping) else given
    if isinstance(names, str) or not all(isinstance(n, str) and n and n == printable(n) for n in names):
        raise OptionError(f"{option} needs a list of names, each a text of printable characters; got {given!r}.")
    found = _of_mapping(option, given, own) if isinstance(given, Mapping) else _of_list(option, given, own)
    if shared := sorted(set(names) & set(apart_from)):
        raise OptionError(
            f"An input and an output cannot share a name; both are called {', '.join(map(repr, shared))}."
        )
    return found


def _of_list(option: str, names: Sequence[str], own: Sequence[str]) -> dict[str, str]:
    """The names that a list gives, one by one."""
    if len(names) != len(own) or len(set(names)) != len(names):
        raise OptionError(f"{option} needs {len(own)} different names, one for each of {list(own)}; got {names!r}.")
    found = dict(zip(own, names, strict=True))
    if list(names) != list(own) and sorted(names) == sorted(own):
        crossed = {name: new for name, new in found.items() if name != new}
        raise OptionError(
            f"{option} are in the order {list(own)}, but the names given are in the order {list(names)}, so {own[0]!r} and others would "
            f"get each other's names. Leave the option out to keep the names; {option}={crossed!r} says that the exchange is meant."
        )
    return found


def _of_mapping(option: str, names: Mapping[str, str], own: Sequence[str]) -> dict[str, str]:
    """The names that a mapping gives to some of the own names."""
    if unknown := [name for name in names if name not in own]:
        raise OptionError(f"{option} has {', '.join(map(repr, unknown))}, which is none of the own names: {list(own)}.")
    renamed = [names.get(name, name) for name in own]
    if twice := sorted({name for name in renamed if renamed.count(name) > 1}):
        raise OptionError(f"{option} needs different names; several would be called {', '.join(map(repr, twice))}.")
    return dict(names)


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


def by_paths(leaves: Iterable[tuple[str, T]]) -> dict[str, T]:
    """Leaves by their paths, of which equal ones are numbered: the keys `"a.b"`, and `"a"` and `"b"` one in another, are one text."""
    taken = Names()
    return {taken.unique(path): leaf for path, leaf in leaves}


def numbered(name: str) -> Iterator[str]:
    """The name, then the name with numbers: `base`, `base_1`, `base_2`, …"""
    return itertools.chain([name], (f"{name}_{number}" for number in itertools.count(1)))


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
    return unwrapped(fn) if callable(fn) else fn


def unwrapped(fn: Callable[..., object]) -> Callable[..., object]:
    """The function that jit, `functools.wraps` and their like are around, whatever the `__getattr__` of an object answers."""
    met: dict[int, object] = {}
    while id(fn) not in met and inspect.getattr_static(fn, "__wrapped__", None) is not None:
        met[id(fn)] = fn
        fn = fn.__wrapped__  # type: ignore[attr-defined]
    return fn


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
