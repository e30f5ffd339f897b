"""States: inputs of a model that come back as outputs of it, for the next call."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence

from jax2onnx_graph.arrays import Dtype
from jax2onnx_graph.build.names import by_paths
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.facts.dims import Dim, Dims, SpecializedDim, is_static
from jax2onnx_graph.metadata import StatePair

__all__ = ["Leaf", "leaves_like", "pair_states"]

_FORMS = "states maps arguments to results, by position ({0: 0}) or by name ({'cache': 'new_cache'})"


@dataclasses.dataclass(frozen=True)
class Leaf:
    """An input or an output of a model, as a part of an argument or of a result.

    Attributes:
      name: the name that it has after the function's parameters or the keys of the result.
      given: its name in the model, which may be another that the user gave.
      position: the index of the positional argument, or the name of that by keyword; the index of the element of the result.
      path: the keys from there to the array, with dots between them.
      dtype: its element type.
      dims: its dimensions.
      label: the text that shows a dimension.
    """

    name: str
    given: str
    position: int | str
    path: str
    dtype: Dtype
    dims: Dims
    label: Callable[[Dim], str] = str

    def __str__(self) -> str:
        return f"{self.given!r}, {self.dtype}[{', '.join(map(self.label, self.dims))}]"


def pair_states(
    states: object, inputs: Sequence[Leaf], outputs: Sequence[Leaf], at_most: Callable[[Dim, Dim], bool]
) -> list[StatePair]:
    """The pairs that `states` stands for: positions or names of arguments → those of results, leaf by leaf.

    `at_most` says whether one dimension is at most another for all sizes of the symbols.

    Raises:
      OptionError: there is no such argument or result, their leaves differ, or a state does not come back as it went in.
    """
    if not isinstance(states, Mapping):
        raise OptionError(f"{_FORMS}; {states!r:.80} does neither.")
    pairs: list[StatePair] = []
    for given, returned in states.items():
        before, after = _leaves_of(given, inputs, "input"), _leaves_of(returned, outputs, "output")
        if before.keys() != after.keys():
            alone = [f"{_shown(path)} of the {what}" for what, own, others in
                     (("input", before, after), ("output", after, before)) for path in own if path not in others]  # fmt: skip
            raise OptionError(
                f"states: {given!r} and {returned!r} are different pytrees; {', '.join(alone[:3])} has no counterpart. "
                "Return the state in the form in which it comes in."
            )
        pairs += [_pair(leaf, after[path], at_most) for path, leaf in before.items()]
    for what, names in (("input", [p.input for p in pairs]), ("output", [p.output for p in pairs])):
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise OptionError(f"states: the {what} {', '.join(map(repr, twice))} is in several pairs; each is in one.")
    return pairs


def _leaves_of(key: object, leaves: Sequence[Leaf], what: str) -> dict[str, Leaf]:
    """The leaves that a position, a name, or the first part of several names stands for, by the rest of their paths."""
    if isinstance(key, int) and not isinstance(key, bool):
        found = by_paths((leaf.path, leaf) for leaf in leaves if leaf.position == key)
    elif isinstance(key, str):
        found = by_paths((leaf.path, leaf) for leaf in leaves if leaf.position == key)
        found = found or {leaf.name[len(key) + 1 :]: leaf for leaf in leaves if f"{leaf.name}.".startswith(f"{key}.")}
        renamed = [leaf for leaf in leaves if leaf.given == key]
        found = found or dict(zip([""], renamed, strict=False))
    else:
        raise OptionError(f"{_FORMS}; {key!r} is neither a position nor a name.")
    if not found:
        known = [leaf.given if isinstance(leaf.position, str) else f"{leaf.position}: {leaf.given}" for leaf in leaves]
        raise OptionError(f"states: there is no {what} {key!r}; the {what}s are {', '.join(known)}.")
    return found


def leaves_like(key: object, paths: Collection[str], inputs: Sequence[Leaf]) -> dict[str, Leaf]:
    """The leaves of an argument, to which somebody gives a value with leaves at `paths`. Raises OptionError if it has others."""
    found = _leaves_of(key, inputs, "input")
    if found.keys() != set(paths):
        raise OptionError(
            f"initial: the value of {key!r} needs the arrays {', '.join(map(repr, found))}, "
            f"but has {', '.join(map(repr, paths)) or 'none'}."
        )
    return found


def _shown(path: str) -> str:
    return repr(path) if path else "the array itself"


def _pair(before: Leaf, after: Leaf, at_most: Callable[[Dim, Dim], bool]) -> StatePair:
    wrong = f"states: the input {before} comes back as the output {after}."
    if before.dtype != after.dtype:
        raise OptionError(
            f"{wrong} The dtypes differ: let the function return it with .astype({str(before.dtype)!r}), "
            "or give the input the other dtype."
        )
    if len(before.dims) != len(after.dims):
        raise OptionError(f"{wrong} The ranks differ: return it with the axes with which it comes in.")
    changed = [axis for axis, (a, b) in enumerate(zip(before.dims, after.dims, strict=True)) if a != b]
    for axis in changed:
        size, new = before.dims[axis], after.dims[axis]
        if is_static(size) and not isinstance(size, SpecializedDim):
            raise OptionError(
                f"{wrong} Axis {axis} does not return with its size. A state that grows needs a symbolic dimension there: "
                "('S', …) that comes back as S + T."
            )
        if not at_most(size, new):
            raise OptionError(
                f"{wrong} Axis {axis} may come back shorter than {before.label(size)}. Return it with that size, or longer."
            )
    if len(changed) > 1:
        raise OptionError(f"{wrong} It grows along the axes {', '.join(map(str, changed))}; one is possible.")
    return StatePair(before.name, after.name, changed[0] if changed else None)
