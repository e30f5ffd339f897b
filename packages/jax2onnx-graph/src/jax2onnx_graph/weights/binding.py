"""`GivenWeights` and `bound_model`: weights from a source, given to a model that lacks them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import ml_dtypes
import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.arrays import Array, Dtype
from jax2onnx_graph.errors import WeightsError
from jax2onnx_graph.weights.absent import AbsentTensor, Weights, WeightType
from jax2onnx_graph.weights.opening import open_weights

__all__ = ["GivenWeights", "Rename", "bound_model", "needed_weights", "renamed"]

#: The names in a source by the names in the program; a mapping may leave out those that are the same.
Rename = Mapping[str, str] | Callable[[str], str]

_Result = TypeVar("_Result")


def needed_weights(model: ir.Model) -> list[str]:
    """The names of the weights that a model lacks."""
    tensors = (value.const_value for value in model.graph.initializers.values())
    return [*dict.fromkeys(name for t in tensors if isinstance(t, AbsentTensor) for name in t.weights)]


def bound_model(model: ir.Model, weights: Weights) -> ir.Model:
    """A copy of the model whose weights are read when it is saved or run."""
    copy = model.clone()
    for value in copy.graph.initializers.values():
        if isinstance(value.const_value, AbsentTensor):
            value.const_value = value.const_value.present(weights)
    return copy


class GivenWeights(Weights):
    """The weights of a program in a source, as the program has them: checked, and of its types.

    Attributes:
      needed: the names of those that are used.
    """

    def __init__(
        self, types: Mapping[str, WeightType], needed: Sequence[str], source: object, rename: Rename | None
    ) -> None:
        """Take the weights called `needed`, which are among those of `types`.

        Raises:
          WeightsError: one is missing or has another type, or nothing in the program has the name of one that is given.
            All of them are named.
        """
        self._types = types
        self._source = open_weights(source)
        self._present = set(self._source)
        self._names = {name: renamed(name, rename) for name in types}
        self.needed = list(needed)
        self._check()

    def array(self, name: str) -> Array:
        if name not in self.needed:  # nothing depends on its numbers
            dtype, shape = self._types[name]
            return _parts(np.zeros(shape, dtype))
        return self._typed(name, self._read(name, self._source.__getitem__))

    def arrays(self) -> dict[str, Array]:
        """All weights, zeros for those that are not used."""
        return {name: self.array(name) for name in self._types}

    def blocks(self, name: str) -> Iterator[Array]:
        if self._source.type_of(self._names[name]) is None:  # of whatever shape it turns out to be
            yield self.array(name)
            return
        for block in self._read(name, self._source.blocks):
            yield self._typed(name, block, is_block=True)

    def _read(self, name: str, read: Callable[[str], _Result]) -> _Result:
        try:
            return read(self._names[name])
        except WeightsError:
            raise
        except Exception as error:
            raise WeightsError(
                f"The weight {self._names[name]} could not be read ({type(error).__name__}: {error})."
            ) from error

    def _check(self) -> None:
        found = [name for name in self.needed if self._names[name] in self._present]
        missing = [f"{self._names[name]} {self._types[name]}" for name in self.needed if name not in found]
        surplus = sorted(self._present - set(self._names.values()))
        others = [text for name in found if (text := self._difference(name))]
        problems = [
            f"{what}: {', '.join(names)}"
            for what, names in (("missing", missing), ("unknown to the program", surplus), ("of another type", others))
            if names
        ]
        if problems:
            advice = (
                "With other names in the source, give rename=…; program.weights has those of the program."
                if missing
                else "Leave out what the program does not have."
                if surplus
                else "A weight of another layout is given as a function that makes it, {name: lambda: array.T}."
            )
            raise WeightsError(f"The weights do not fit the program; {'; '.join(problems)}. {advice}")

    def _difference(self, name: str) -> str | None:
        found = self._source.type_of(self._names[name])
        return (
            None
            if found is None or _fits(found, self._types[name])
            else _wrong(self._names[name], found, self._types[name])
        )

    def _typed(self, name: str, array: Array, *, is_block: bool = False) -> Array:
        """The array in the type of the program."""
        wanted, found = self._types[name], WeightType(array.dtype, array.shape)
        expected = WeightType(wanted.dtype, (*array.shape[:1], *wanted.shape[1:])) if is_block else wanted
        if not _fits(found, expected):
            raise WeightsError(f"A weight does not fit the program; of another type: {_wrong(name, found, wanted)}.")
        result = _converted(array, wanted.dtype)
        if result is None:
            raise WeightsError(f"The weight {self._names[name]} has numbers that {wanted.dtype} does not hold.")
        return _parts(result)


def renamed(name: str, rename: Rename | None) -> str:
    """The name that a weight has among others; its own where it has no other."""
    if rename is None:
        return name
    return rename.get(name, name) if isinstance(rename, Mapping) else rename(name)


def _wrong(name: str, found: WeightType, wanted: WeightType) -> str:
    return f"{name} is {found}, the program has {wanted}"


def _fits(found: WeightType, wanted: WeightType) -> bool:
    return found.shape == wanted.shape and _kind(found.dtype) == _kind(wanted.dtype)


@functools.cache
def _kind(dtype: Dtype) -> str:
    """The kind of an element type: types of one kind are converted to each other."""
    if dtype.kind not in "iufV":  # NumPy's numbers, and those of `ml_dtypes`
        return dtype.kind
    return "integer" if "int" in dtype.name else "float"


def _converted(array: Array, dtype: Dtype) -> Array | None:
    """The array in another type of its kind; None if it has numbers that the type does not hold, up to rounding."""
    if array.dtype == dtype:
        return array
    with np.errstate(over="ignore", invalid="ignore"):
        result = array.astype(dtype)
    if _kind(dtype) == "integer":
        is_same = np.array_equal(result.astype(array.dtype), array) and np.array_equal(result < 0, array < 0)
        return result if is_same else None
    limit = float(ml_dtypes.finfo(dtype).max)
    if limit <= float(ml_dtypes.finfo(array.dtype).max):
        # What is too large becomes infinite, NaN, or the greatest number, as the type has them; infinities and NaN may become others.
        is_other = (np.isfinite(array) != np.isfinite(result)) | (np.isnan(array) != np.isnan(result))
        if np.isfinite(np.array(np.inf).astype(dtype)):
            is_other |= np.abs(array) > limit
        if bool(is_other.any()):
            return None
    return result


def _parts(array: Array) -> Array:
    """Complex numbers as real and imaginary parts, on a last axis."""
    if array.dtype.kind != "c":
        return array
    real = np.dtype(f"float{array.dtype.itemsize * 4}")
    return np.ascontiguousarray(array).view(real).reshape(*array.shape, 2)
