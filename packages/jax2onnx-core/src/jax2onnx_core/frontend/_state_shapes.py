"""`StateShapes`: shapes with symbols that states are to have in the model, in place of those of the arrays that they begin with."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import EllipsisType

from jax2onnx_graph.options import check_mapping

from jax2onnx_core.frontend._specs import Spec, is_dimension
from jax2onnx_core.jaxprs import Dim, is_extended_dtype
from jax2onnx_core.plugins.errors import OptionError

__all__ = ["StateShapes"]

#: A shape as users write it, in which `...` stands for the axes that stay as they are.
_Shape = Sequence[int | str | Dim | EllipsisType | None]

_FORM = "state_shapes maps names of states to their shapes, {'cached_*': ('B', 'C', ...)}"


@dataclasses.dataclass(frozen=True)
class StateShapes:
    """The shapes that the user gave for states: a pattern of names → a shape. Of several patterns that fit, the first counts.

    A pattern fits a name as a whole, or its last parts: "cached_*" fits "state.layers.0.attention.cached_key".

    Attributes:
      by_pattern: the shapes.
      states: the arguments that are states, by position or by the beginning of their names.
    """

    by_pattern: Mapping[str, _Shape] = dataclasses.field(default_factory=dict)
    states: Collection[object] = ()

    @classmethod
    def read(cls, given: object, states: Collection[object]) -> StateShapes:
        """The shapes that the user gave as `state_shapes`, for the arguments `states`. Raises OptionError."""
        check_mapping("state_shapes", given, "names of states to shapes, {'cached_*': ('B', 'C', ...)}")
        if not isinstance(given, Mapping):
            return cls()
        for pattern, shape in given.items():
            if not isinstance(pattern, str):
                raise OptionError(f"{_FORM}; {pattern!r:.80} is no name.")
            if not isinstance(shape, (tuple, list)) or not all(d is ... or is_dimension(d) for d in shape):
                raise OptionError(f"{_FORM}; {shape!r:.80} is no shape.")
            if sum(d is ... for d in shape) > 1:
                raise OptionError(
                    f"{_FORM}; in {shape!r:.80} the dots stand twice, so that it does not say which axes stay."
                )
        return cls(given, states)

    def applied(self, leaves: Iterable[tuple[str, int | None, Spec]]) -> list[Spec]:
        """The specifications of the inputs, those of states with the shapes that were given.

        Args:
          leaves: the name of each input, the position of its argument (None for a keyword), and its specification.

        Raises:
          OptionError: a pattern fits no state, or a shape has another rank.
        """
        specs, unused, known = [], set(self.by_pattern), []
        for name, position, spec in leaves:
            pattern = None
            if self.by_pattern and self._is_state(name, position):
                known.append(f"{name!r} of shape {spec.shape}")
                pattern = next((p for p in self.by_pattern if _fits(p, name)), None)
                unused -= {p for p in self.by_pattern if _fits(p, name)}
            specs.append(spec if pattern is None else _shaped(spec, name, self.by_pattern[pattern]))
        for pattern in sorted(unused):
            raise OptionError(
                f"state_shapes: there is no state {pattern!r}; the states are {', '.join(known) or 'none'}."
            )
        return specs

    def _is_state(self, name: str, position: int | None) -> bool:
        if position is not None and position in self.states:
            return True
        return any(isinstance(key, str) and f"{name}.".startswith(f"{key}.") for key in self.states)


def _fits(pattern: str, name: str) -> bool:
    parts = name.split(".")
    return any(fnmatch.fnmatchcase(".".join(parts[start:]), pattern) for start in range(len(parts)))


def _shaped(spec: Spec, name: str, shape: _Shape) -> Spec:
    """The specification of a state with another shape."""
    if is_extended_dtype(spec.dtype):
        raise OptionError(f"state_shapes: the state {name!r} is a random key, whose shape stays as it is.")
    given, rank = [*shape], len(spec.shape)
    if ... in given:
        start, kept = given.index(...), rank - len(given) + 1
        given[start : start + 1] = spec.shape[start : start + kept] if kept >= 0 else (...,)
    dims = tuple(dim for dim in given if not isinstance(dim, EllipsisType))
    if len(dims) != rank or ... in given:
        raise OptionError(
            f"state_shapes: {shape!r} is no shape for the state {name!r}, which has {rank} axes, {spec.shape}."
        )
    return dataclasses.replace(spec, shape=dims)
