"""Small programs as the documentation and the examples of libraries have them: each is exported and equals JAX, and none may be lost.

A module per library. A program is a function that returns what is exported; `program` says of what inputs:

    @program(("B", 4))
    def linear_regression():
        weights = numbers(4, 3)
        return lambda x: x @ weights
"""

from __future__ import annotations

import dataclasses
import importlib
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

__all__ = ["SIZES", "Maker", "Program", "arguments", "has_sizes_from_data", "numbers", "program", "programs", "specs"]

#: A shape of float32, a shape with a dtype, "key" for a random key, or a pytree of arrays.
Spec = Any
Maker = Callable[[], Callable[..., Any]]

#: The sizes of symbols, in each run.
SIZES: Sequence[Mapping[str, int]] = ({"B": 3, "T": 5, "N": 4}, {"B": 1, "T": 8, "N": 2})


@dataclasses.dataclass(frozen=True)
class Program:
    """A program.

    Attributes:
      name: the library and what it computes.
      make: makes the function that is exported.
      inputs: what its inputs are.
      rtol: the relative tolerance.
    """

    name: str
    make: Maker
    inputs: Sequence[Spec]
    rtol: float


_found: dict[str, list[Program]] = {}


def program(*inputs: Spec, rtol: float = 2e-4) -> Callable[[Maker], Maker]:
    """Add a function that makes a program to those of its module."""

    def add(make: Maker) -> Maker:
        library = make.__module__.rpartition(".")[2].removesuffix("_programs")
        _found.setdefault(library, []).append(Program(f"{library}-{make.__name__.strip('_')}", make, inputs, rtol))
        return make

    return add


def programs() -> list[Program]:
    """All programs, of each module of this folder."""
    for file in sorted(Path(__file__).parent.glob("*_programs.py")):
        importlib.import_module(f"{__name__}.{file.stem}")
    return [one for library in sorted(_found) for one in _found[library]]


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    """Fixed numbers of about the size of trained weights."""
    return np.random.default_rng([7, *shape]).normal(size=shape).astype(np.float32) / np.float32(
        np.sqrt(shape[0] if shape else 1)
    )


def specs(one: Program) -> list[Any]:
    """The inputs as `to_onnx` takes them."""
    return [jax.random.key(5) if spec == "key" else spec for spec in one.inputs]


def has_sizes_from_data(one: Program) -> bool:
    """Whether sizes of the program depend on data, so that JAX computes it without jit."""
    return one.name.startswith("sizes-")


def arguments(one: Program, sizes: Mapping[str, int], sign: int | None = None) -> list[Any]:
    """Inputs of these sizes; with a sign, all numbers are positive (1) or none is (-1), so that masks select all or nothing."""
    random = np.random.default_rng(zlib.crc32(one.name.encode()))
    found = [_argument(spec, sizes, random) for spec in one.inputs]
    return found if sign is None else [_with_sign(x, sign) for x in found]


def _with_sign(x: Any, sign: int) -> Any:
    return sign * np.abs(x) if x.dtype.kind == "f" else np.maximum(x * sign, 0).astype(x.dtype)


def _argument(spec: Spec, sizes: Mapping[str, int], random: np.random.Generator) -> Any:
    if isinstance(spec, str):
        return jax.random.key(5)
    is_shape = isinstance(spec, tuple) and all(isinstance(d, int | str) for d in spec)
    dims, dtype = (spec, np.float32) if is_shape else spec
    shape = tuple(sizes.get(d, d) for d in dims)
    if np.issubdtype(dtype, np.floating):
        return random.normal(size=shape).astype(dtype)
    return random.integers(0, 2 if dtype is bool else 10, shape).astype(dtype)
