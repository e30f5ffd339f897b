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
from typing import Any, Literal

import jax
import numpy as np

__all__ = [
    "SIZES",
    "Data",
    "Maker",
    "Program",
    "arguments",
    "has_sizes_from_data",
    "in_jax",
    "numbers",
    "program",
    "programs",
    "specs",
]

#: A shape of float32, a shape with a dtype, "key" for a random key, or a pytree of arrays.
Spec = Any
Maker = Callable[[], Callable[..., Any]]

#: The sizes of symbols, in each run.
SIZES: Sequence[Mapping[str, int]] = (
    {"B": 3, "T": 5, "N": 4, "H": 6, "W": 4},
    {"B": 1, "T": 8, "N": 2, "H": 3, "W": 5},
)

#: Data: any numbers; such that masks select nothing, all, or one element; with NaN among them.
Data = Literal["any", "none", "all", "one", "nan"]


@dataclasses.dataclass(frozen=True)
class Program:
    """A program.

    Attributes:
      name: the library and what it computes.
      make: makes the function that is exported.
      inputs: what its inputs are.
      rtol: the relative tolerance.
      refusal: words of the error where it is no model; empty where it is one.
    """

    name: str
    make: Maker
    inputs: Sequence[Spec]
    rtol: float
    refusal: str = ""


_found: dict[str, list[Program]] = {}


def program(*inputs: Spec, rtol: float = 2e-4, refusal: str = "") -> Callable[[Maker], Maker]:
    """Add a function that makes a program to those of its module."""

    def add(make: Maker) -> Maker:
        library = make.__module__.rpartition(".")[2].removesuffix("_programs")
        _found.setdefault(library, []).append(
            Program(f"{library}-{make.__name__.strip('_')}", make, inputs, rtol, refusal)
        )
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
    return one.name.startswith("sizes")


def in_jax(fn: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """The result of a function as JAX computes it without jit, loops included where their bodies have sizes from data."""
    arrays = jax.tree.map(jax.numpy.asarray, list(arguments))
    try:
        return fn(*arrays)
    except (jax.errors.JAXTypeError, IndexError):
        with jax.disable_jit():
            return fn(*arrays)


def arguments(one: Program, sizes: Mapping[str, int], data: Data = "any") -> list[Any]:
    """Inputs of these sizes."""
    random = np.random.default_rng(zlib.crc32(one.name.encode()))
    return [_with_data(_argument(spec, sizes, random), data) for spec in one.inputs]


def _with_data(x: Any, data: Data) -> Any:
    if data == "any" or not isinstance(x, np.ndarray):
        return x
    is_real, is_chosen = x.dtype.kind == "f", np.full(x.shape, data == "all")
    if data == "nan":
        is_chosen, chosen = np.arange(x.size).reshape(x.shape) % 3 == 1, np.full_like(x, np.nan) if is_real else x
        return np.where(is_chosen, chosen, x)
    if data == "one":
        is_chosen.flat[-1:] = True
    chosen = np.abs(x) if is_real else np.maximum(x, 1)
    return np.where(is_chosen, chosen, -np.abs(x) if is_real else 0).astype(x.dtype)


def _argument(spec: Spec, sizes: Mapping[str, int], random: np.random.Generator) -> Any:
    if isinstance(spec, str):
        return jax.random.key(5)
    is_shape = isinstance(spec, tuple) and all(isinstance(d, int | str) for d in spec)
    dims, dtype = (spec, np.float32) if is_shape else spec
    shape = tuple(sizes.get(d, d) for d in dims)
    if np.issubdtype(dtype, np.floating):
        return random.normal(size=shape).astype(dtype)
    return random.integers(0, 2 if dtype is bool else 10, shape).astype(dtype)
