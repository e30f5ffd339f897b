"""The grammar of `--input`: `[name:] type[dimensions]`, such as `x: f32[B, 28, 28, 1]`."""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

from jax2onnx_cli._terminal import BadInput

__all__ = ["InputSpec", "Inputs", "read_inputs", "read_spec"]

_SPEC = re.compile(r"(?:(?P<name>[^:\[\]]*):)?(?P<dtype>[^:\[]*)(?P<dims>\[.*)?", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_]\w*(\.\w+)*")
_DIMENSION = re.compile(r"[\w+\-*(), ]+")
_SHORT = re.compile(r"(bf|f|i|u|c)(\d+)")
_LONG = {"bf": "bfloat", "f": "float", "i": "int", "u": "uint", "c": "complex"}

#: A dimension as `to_onnx` takes it: a number, a name or an expression, None for one without a name.
Dimension = int | str | None


@dataclasses.dataclass(frozen=True)
class InputSpec:
    """One array.

    Attributes:
      name: the name that it was given, with dots where it is a part of an argument.
      dims: its dimensions.
      dtype: its type; None for JAX's default.
    """

    name: str | None
    dims: tuple[Dimension, ...]
    dtype: str | None

    @property
    def leaf(self) -> tuple[object, ...]:
        """The array as `to_onnx` takes it."""
        return self.dims if self.dtype is None else (self.dims, self.dtype)


@dataclasses.dataclass(frozen=True)
class Inputs:
    """The arguments of a function.

    Attributes:
      positional: what `to_onnx` takes for each positional argument.
      keywords: the same for keyword arguments.
      heads: the names that the positional arguments were given, None for those without.
      names: the names of all arrays in the order of the model's inputs; None if some were given none.
    """

    positional: Sequence[object]
    keywords: Mapping[str, object] = dataclasses.field(default_factory=dict)
    heads: Sequence[str | None] = ()
    names: Sequence[str] | None = None


def read_inputs(positional: Sequence[InputSpec], keywords: Sequence[InputSpec] = ()) -> Inputs:
    """The arguments that the arrays make; arrays whose names begin alike, `batch.speed` and `batch.distance`, are one argument."""
    import jax

    if any(spec.name is None for spec in keywords):
        raise BadInput("An input by keyword needs its name: --kwargs 'training: bool[]'.")
    counts = collections.Counter(spec.name for spec in (*positional, *keywords) if spec.name is not None)
    if twice := [name for name, count in counts.items() if count > 1]:
        raise BadInput(f"There are two inputs called {twice[0]!r}; a name is that of one array.")
    args, kwargs = _arguments(positional), _arguments(keywords)
    tree = [*args.values()], dict(kwargs)
    names = [spec.name for spec in jax.tree_util.tree_leaves(tree)]
    leaves, keyword_leaves = jax.tree_util.tree_map(lambda spec: spec.leaf, tree)
    heads = [key if isinstance(key, str) else None for key in args]
    return Inputs(leaves, keyword_leaves, heads, None if None in names else names)


def _arguments(specs: Sequence[InputSpec]) -> dict[str | int, object]:
    """Each argument as a pytree of arrays, by its name, or by a number."""
    groups: dict[str | int, dict[str, InputSpec]] = {}
    for number, spec in enumerate(specs):
        head, _, path = (spec.name or "").partition(".")
        groups.setdefault(head or number, {})[path] = spec
    return {head: _nested(str(head), group) for head, group in groups.items()}


def _nested(name: str, specs: Mapping[str, InputSpec]) -> object:
    """The pytree of arrays with these paths: dicts, and lists where the keys are numbers."""
    if "" in specs and len(specs) > 1:
        raise BadInput(f"{name!r} is an array, and {name}.{max(specs)} a part of it; it can be one of both.")
    if "" in specs:
        return specs[""]
    children: dict[str, dict[str, InputSpec]] = {}
    for path, spec in specs.items():
        key, _, rest = path.partition(".")
        children.setdefault(key, {})[rest] = spec
    if all(key.isdecimal() for key in children):
        if sorted(map(int, children)) != [*range(len(children))]:
            raise BadInput(f"The elements of {name!r} are numbered 0, 1, 2, …; there are {', '.join(children)}.")
        return [_nested(f"{name}.{key}", children[key]) for key in sorted(children, key=int)]
    return {key: _nested(f"{name}.{key}", child) for key, child in children.items()}


def read_spec(text: str) -> InputSpec:
    """The array that a text describes. Raises BadInput with the position of the error in the text."""
    parts = _SPEC.match(text)
    assert parts is not None, "all parts are optional"
    if parts.end() < len(text):
        _refuse(text, parts.end(), "a second ':' is too much")
    if parts["dims"] is None:
        _refuse(text, len(text.rstrip()), "the dimensions are missing, such as [B, 4], or [] for a number")
    name, dtype = (parts[part] and parts[part].strip() for part in ("name", "dtype"))
    if name is not None and not _NAME.fullmatch(name):
        _refuse(text, 0, f"{name!r} is not a name; it is one as in Python, with dots before the keys of a pytree")
    return InputSpec(name, tuple(_dims(text, parts.start("dims"))), _dtype(text, parts.start("dtype"), dtype))


def _dtype(text: str, place: int, name: str) -> str | None:
    if not name:
        return None
    import ml_dtypes  # adds its types to NumPy's
    import numpy as np

    assert ml_dtypes is not None
    long = _SHORT.sub(lambda found: _LONG[found[1]] + found[2], name) if _SHORT.fullmatch(name) else name
    try:
        is_known = np.dtype(long).kind in "biufcV" and np.dtype(long).name == long
    except TypeError:
        is_known = False
    if not is_known:
        place += len(text[place:]) - len(text[place:].lstrip())
        _refuse(
            text,
            place,
            f"{name!r} is no type; types are f32, f64, f16, bf16, i32, i64, u8, bool, c64 and NumPy's names",
        )
    return long


def _dims(text: str, opening: int) -> Iterator[Dimension]:
    """The dimensions between the brackets."""
    closing = text.find("]", opening)
    if closing < 0:
        _refuse(text, len(text.rstrip()), "the closing ']' is missing")
    if rest := text[closing + 1 :].strip():
        _refuse(text, text.index(rest, closing), "the text should end behind the ']'")
    if not text[opening + 1 : closing].strip():
        return
    for start, part in _parts(text, opening + 1, closing):
        dim = part.strip()
        if not dim:
            _refuse(text, start, "a dimension is missing")
        if dim in ("?", "None"):
            yield None
        elif dim.isascii() and dim.isdecimal():
            yield int(dim)
        elif _DIMENSION.fullmatch(dim) and dim.count("(") == dim.count(")"):
            yield dim
        else:
            _refuse(
                text, start + len(part) - len(part.lstrip()),
                f"{dim!r} is no dimension; it is a number, a name, an expression such as 2*T+1, or ? for one without a name",
            )  # fmt: skip


def _parts(text: str, start: int, end: int) -> Iterator[tuple[int, str]]:
    """The parts of `text[start:end]` between commas outside of parentheses, each with its position in the text."""
    depth = 0
    for place in range(start, end):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if text[place] == "," and depth <= 0:
            yield start, text[start:place]
            start = place + 1
    yield start, text[start:end]


def _refuse(text: str, place: int, why: str) -> NoReturn:
    raise BadInput(f"input {text!r}, at character {place + 1}: {why}.")
