"""LoRA adapters of a finished model: read, checked, written, and handed to its runs."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array, Dtype
from jax2onnx_graph.errors import OptionError, WeightsError
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.saving.files import checked_path
from jax2onnx_graph.weights.binding import Rename, renamed
from jax2onnx_graph.weights.opening import open_weights

from jax2onnx_runtime.adapters.pairs import AdapterPair, read_adapters
from jax2onnx_runtime.pytrees import PyTree
from jax2onnx_runtime.runtimes import Runtime

__all__ = ["AdapterInputs", "Adapters"]


class AdapterInputs:
    """The inputs of a model that take adapters: pairs of matrices of any rank.

    Args:
      model: the model, whose metadata names the pairs.
      runtime: what reads and writes files of adapters.
    """

    def __init__(self, model: ir.Model, runtime: Runtime) -> None:
        self._model, self._runtime = model, runtime

    @functools.cached_property
    def pairs(self) -> list[AdapterPair]:
        """The pairs of inputs, which are optional: without an adapter they add nothing."""
        return read_adapters(self._model)

    @functools.cached_property
    def _inputs(self) -> dict[str, ir.Value]:
        values = {value.name or "": value for value in self._model.graph.inputs}
        return {name: values[name] for pair in self.pairs for name in (pair.a, pair.b)}

    @property
    def names(self) -> list[str]:
        """The names of the inputs."""
        return list(self._inputs)

    def none(self) -> dict[str, Array]:
        """The matrices of rank 0, with which the model computes what it does without an adapter."""
        return {name: self._empty(name) for name in self._inputs}

    def _empty(self, name: str) -> Array:
        tensor = self._inputs[name].const_value
        assert tensor is not None, "the optional inputs of a model have a default"
        return tensor.numpy()

    def read(
        self, source: object, *, rename: Rename | None = None, scale: float = 1.0, partial: bool = False
    ) -> dict[str, Array]:
        """The matrices of an adapter as the model takes them, by the names of inputs.

        Args:
          source: the path of a file of the runtime's own (`.onnx_adapter`) or of safetensors, a mapping of names to arrays or to
            functions that make them, nested or not, as a state of NNX or a pytree of dictionaries is.
          rename: the names in the source by those of the inputs, where they differ: a mapping or a function.
          scale: a number that the product of each pair is multiplied with, beside what the function does itself.
          partial: whether pairs may be missing, which then add nothing.

        Raises:
          OptionError: the model takes no adapters.
          WeightsError: the source cannot be read, or matrices are missing, are none of the model, or have another shape, rank
            or type: float64 for a model in fewer bits, or whole numbers. All of them are named.
        """
        self._check_any()
        arrays = self._opened(source)
        named = {name: renamed(name, rename) for name in self._inputs}
        present = set(arrays)
        problems = [*self._misfits(arrays, present, named, partial=partial)]
        if problems:
            raise WeightsError(f"The adapter does not fit the model; {'; '.join(problems)}. {self._advice()}")
        given = {name: self._matrix(name, arrays[other]) for name, other in named.items() if other in present}
        for pair in self.pairs:
            if scale != 1.0 and pair.b in given:
                given[pair.b] = _scaled(pair.b, given[pair.b], scale)
        return {**self.none(), **given}

    def save(
        self, path: str | os.PathLike[str], source: object, *, rename: Rename | None = None, scale: float = 1.0,
        partial: bool = False,
    ) -> Path:  # fmt: skip
        """Write an adapter to a file that the runtime reads by itself (`.onnx_adapter`); see `read`.

        Raises:
          SaveError: nothing can be written there.
          TargetError: the runtime has no such files.
        """
        arrays = self.read(source, rename=rename, scale=scale, partial=partial)
        path = checked_path(path)
        self._runtime.installed().save_adapter(path, arrays)
        return path

    def _check_any(self) -> None:
        if not self.pairs:
            raise OptionError(
                "The model takes no adapters: program.with_adapters() makes the matrices of those in it optional inputs, before it is "
                "quantised or saved."
            )

    def _opened(self, source: object) -> Mapping[str, Array]:
        suffix = self._runtime.adapter_suffix
        if suffix and isinstance(source, str | os.PathLike) and Path(source).suffix == suffix:
            if not Path(source).is_file():
                raise WeightsError(f"Cannot read an adapter from {source}: there is no such file.")
            return self._runtime.installed().read_adapter(Path(source))
        return open_weights(source)

    def _misfits(
        self, arrays: Mapping[str, Array], present: Collection[str], named: Mapping[str, str], *, partial: bool
    ) -> Iterator[str]:
        """The reasons why an adapter does not fit, as parts of a sentence."""
        absent = {pair: [n for n in (pair.a, pair.b) if named[n] not in present] for pair in self.pairs}
        missing = [named[name] for names in absent.values() for name in names if not partial or len(names) == 1]
        if missing:
            yield f"missing: {', '.join(missing)}"
        if surplus := sorted(set(present) - set(named.values())):
            yield f"unknown to the model: {', '.join(surplus)}"
        if partial and not missing and all(absent.values()):
            yield "it has no matrix of the model"
        for pair in self.pairs:
            ranks = {}
            for name, axis in pair.axes.items():
                if named[name] in present:
                    problem, ranks[name] = self._misfit(name, axis, np.asarray(arrays[named[name]]))
                    if problem:
                        yield problem
            if len(set(ranks.values()) - {None}) == 2:
                yield f"{pair.a} has rank {ranks[pair.a]}, {pair.b} has rank {ranks[pair.b]}"

    def _misfit(self, name: str, axis: int, array: Array) -> tuple[str, int | None]:
        """The fault of a matrix, and its rank where it has one."""
        wanted = self._sizes(name)
        rank = _rank(array, axis, wanted)
        if rank is None or array.size != math.prod(_with_rank(wanted, axis, rank)):
            shown = ", ".join("R" if i == axis else str(size) for i, size in enumerate(wanted))
            return f"{name} is {array.dtype}{list(array.shape)}, the model takes [{shown}] for a rank R", None
        if not _is_float(array.dtype):
            return f"{name} is of {array.dtype}, which are no floating-point numbers", rank
        dtype = self._empty(name).dtype
        if array.dtype == np.float64 != dtype:
            return f"{name} is float64, the model takes {dtype}: array.astype({dtype.name!r}) has that", rank
        with np.errstate(over="ignore", invalid="ignore"):
            fits = np.isfinite(array.astype(dtype)) | ~np.isfinite(array)
        return ("" if fits.all() else f"{name} has numbers that {dtype} does not hold"), rank

    def _sizes(self, name: str) -> list[int]:
        return [dim if isinstance(dim, int) else 0 for dim in dims_of(self._inputs[name]) or ()]

    def _matrix(self, name: str, array: Array) -> Array:
        """A matrix in the type of the model; one with several axes in the place of the one that is not the rank is reshaped."""
        axis = next(pair.axes[name] for pair in self.pairs if name in pair.axes)
        array = np.asarray(array)
        sizes = self._sizes(name)
        shape = _with_rank(sizes, axis, _rank(array, axis, sizes) or 0)
        return np.ascontiguousarray(array.reshape(shape).astype(self._empty(name).dtype))

    def _advice(self) -> str:
        shown = ", ".join(self.names[:4]) + (", …" if len(self.names) > 4 else "")
        return (
            f"The model takes {shown}. With other names in the source, give rename=…; a matrix of another layout is given as a "
            "function that makes it, {name: lambda: array.T}; partial=True lets whole pairs be missing."
        )


def _scaled(name: str, matrix: Array, scale: float) -> Array:
    """A matrix times a number, rounded once. Raises WeightsError where its type does not hold that."""
    with np.errstate(over="ignore", invalid="ignore"):
        scaled: Array = (matrix.astype(np.float64) * scale).astype(matrix.dtype)
    if (np.isfinite(matrix) & ~np.isfinite(scaled)).any():
        raise WeightsError(f"{name} times the scale {scale} has numbers that {matrix.dtype} does not hold.")
    return scaled


def _rank(array: Array, axis: int, sizes: Sequence[int]) -> int | None:
    """The length of the axis of the rank, the first or the last one behind the layers; None for what is no matrix of each layer."""
    layers = len(sizes) - 2
    if array.ndim < len(sizes) or list(array.shape[:layers]) != [*sizes[:layers]]:
        return None
    return int(array.shape[layers] if axis == layers else array.shape[-1])


def _with_rank(sizes: Sequence[int], axis: int, rank: int) -> list[int]:
    """The sizes of an input of adapters for a rank."""
    return [rank if i == axis else size for i, size in enumerate(sizes)]


def _is_float(dtype: Dtype) -> bool:
    """Whether the elements are floating-point numbers, those of `ml_dtypes` among them."""
    return dtype.kind == "f" or (dtype.kind == "V" and "float" in dtype.name)


class Adapters(AdapterInputs):
    """The adapters that a program takes: its one base, with adapters of any rank in turn.

    Args:
      model: the model of the program.
      runtime: what reads and writes files of adapters.
      run: calls the program with further inputs: the arrays by name, positional and keyword arguments.
    """

    def __init__(
        self, model: ir.Model, runtime: Runtime, run: Callable[[Mapping[str, Array], tuple[PyTree, ...], dict[str, PyTree]], PyTree]
    ) -> None:  # fmt: skip
        super().__init__(model, runtime)
        self._run = run

    def use(
        self, source: object, *, rename: Rename | None = None, scale: float = 1.0, partial: bool = False
    ) -> Callable[..., PyTree]:
        """The program with an adapter, to be called like the program; the model is not loaded anew. See `read`."""
        arrays = self.read(source, rename=rename, scale=scale, partial=partial)

        def call(*args: PyTree, **kwargs: PyTree) -> PyTree:
            return self._run(arrays, args, kwargs)

        return call

    def __repr__(self) -> str:
        shown = ", ".join(f"{pair.a}, {pair.b} (rank {pair.rank})" for pair in self.pairs)
        return f"Adapters({shown})"
