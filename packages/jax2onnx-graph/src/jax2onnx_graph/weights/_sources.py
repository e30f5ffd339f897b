"""Sources of weights, of which one is read at a time."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from jax2onnx_graph.arrays import Array, Dtype
from jax2onnx_graph.errors import WeightsError
from jax2onnx_graph.weights.absent import WeightType

__all__ = ["ArrayLike", "GivenArrays", "WeightSource"]


class WeightSource(Mapping[str, Array]):
    """Arrays by their names, each read when it is asked for."""

    @abc.abstractmethod
    def type_of(self, name: str) -> WeightType | None:
        """The type of an array; None where only reading it tells."""

    def blocks(self, name: str) -> Iterator[Array]:
        """The array in blocks along its first axis."""
        yield self[name]

    def under(self, path: str) -> WeightSource:
        """The arrays whose names begin with `path` and a dot, without these: `under("params")`."""
        return _Part(self, f"{path}.")


class _Part(WeightSource):
    def __init__(self, source: WeightSource, prefix: str) -> None:
        self._source, self._prefix = source, prefix

    def type_of(self, name: str) -> WeightType | None:
        return self._source.type_of(self._prefix + name)

    def blocks(self, name: str) -> Iterator[Array]:
        return self._source.blocks(self._prefix + name)

    def __getitem__(self, name: str) -> Array:
        return self._source[self._prefix + name]

    def __iter__(self) -> Iterator[str]:
        return (name.removeprefix(self._prefix) for name in self._source if name.startswith(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)


@runtime_checkable
class ArrayLike(Protocol):
    """A value that has the element type and the shape of an array."""

    @property
    def dtype(self) -> Dtype: ...

    @property
    def shape(self) -> Sequence[int]: ...


@runtime_checkable
class _ArrayHolder(Protocol):
    """An object that JAX converts to the array that it holds, such as a variable of Flax."""

    def __jax_array__(self) -> ArrayLike: ...


class GivenArrays(WeightSource):
    """Arrays, or functions that make them, by their names; names of nested containers are joined by dots."""

    def __init__(self, given: Mapping[str, object]) -> None:
        self._given: dict[str, ArrayLike | Callable[[], object]] = {}
        for name, array in _flat(given, ()):
            if name in self._given:
                raise WeightsError(f"Two weights are called {name}; name them apart.")
            self._given[name] = array

    def type_of(self, name: str) -> WeightType | None:
        given = self._given[name]
        if not isinstance(given, ArrayLike):
            return None
        try:
            return WeightType(np.dtype(given.dtype), tuple(given.shape))
        except TypeError as error:
            raise WeightsError(
                f"The weight {name} is of type {given.dtype}, which is not NumPy's; random keys are given as their numbers, by "
                "jax.random.key_data."
            ) from error

    def __getitem__(self, name: str) -> Array:
        given = self._given[name]
        return np.asarray(given if isinstance(given, ArrayLike) else given())

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)


def _flat(given: object, path: tuple[str, ...]) -> Iterator[tuple[str, ArrayLike | Callable[[], object]]]:
    if isinstance(given, _ArrayHolder) and not isinstance(given, ArrayLike):
        given = given.__jax_array__()
    if isinstance(given, Mapping | list | tuple):
        for key, value in given.items() if isinstance(given, Mapping) else enumerate(given):
            yield from _flat(value, (*path, str(key)))
    elif isinstance(given, ArrayLike) or callable(given):
        yield ".".join(path), given
    elif isinstance(given, bool | int | float | complex):
        yield ".".join(path), np.asarray(given)
    elif given is not None:
        raise WeightsError(f"The weight {'.'.join(path)} is no array, nor a function that makes one: {given!r:.80}.")
