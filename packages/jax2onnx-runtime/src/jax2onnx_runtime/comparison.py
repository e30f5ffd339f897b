"""Comparing the arrays that a model gives with those that it should give, on random inputs."""

from __future__ import annotations

import dataclasses

import ml_dtypes
import numpy as np
from jax2onnx_graph.arrays import Array, Dtype, DtypeLike
from jax2onnx_graph.errors import VerificationError

__all__ = ["Comparison", "OutputError", "compare", "output_error", "random_array", "tolerance"]


# Relative tolerance by dtype: about four decimal digits less than the dtype has.
_TOLERANCES = {
    "float64": 1e-9,
    "float32": 1e-4,
    "float16": 2e-2,
    "bfloat16": 6e-2,
    "complex128": 1e-9,
    "complex64": 1e-4,
}


def tolerance(dtype: Dtype, least: float = 0.0) -> float:
    """The relative tolerance for results of this dtype, `least` for floats if that is more; exact for integers and booleans."""
    own = _TOLERANCES.get(np.dtype(dtype).name, 0.3 if "float" in np.dtype(dtype).name else 0.0)
    return max(own, least) if own else own


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Result of comparing two arrays of one shape.

    Attributes:
      largest: the largest finite absolute difference.
      scale: the size of an ordinary number.
      allowed: the absolute difference that is allowed of every element.
      detail: how many elements differ and the first of them; empty if all are close.
      is_known: whether the comparison says something: a wanted number is finite, or there are no numbers.
    """

    largest: float
    scale: float
    allowed: float
    detail: str
    is_known: bool

    @property
    def is_close(self) -> bool:
        """Whether all elements are equal within the tolerance; NaN equals NaN."""
        return not self.detail


def compare(
    got: Array, want: Array, *, rtol: float | None = None, atol: float | None = None, scale: float | None = None, least: float = 0.0,
) -> Comparison:  # fmt: skip
    """Compare arrays of one shape.

    Args:
      got: what the model gives.
      want: what it should give.
      rtol: the relative tolerance; that of `want`'s dtype if not given.
      atol: the absolute tolerance; `rtol` times `scale` if not given.
      scale: the size of an ordinary number; the largest finite magnitude in `want` if not given.
      least: the relative tolerance of floats, if that of their dtype is less and `rtol` is not given.
    """
    rtol = tolerance(want.dtype, least) if rtol is None else rtol
    wide = np.complex128 if np.issubdtype(want.dtype, np.complexfloating) else np.float64
    exact, computed = want.astype(wide), got.astype(wide)
    with np.errstate(invalid="ignore"):
        distance = np.where(computed == exact, 0.0, np.abs(computed - exact))
    if scale is None:
        scale = float(np.max(np.abs(exact), initial=0.0, where=np.isfinite(exact)))
    if rtol == 0 and not atol:
        allowed, close = 0.0, np.asarray((got == want) | ((got != got) & (want != want)))
    else:
        allowed = rtol * max(scale, 1e-30) if atol is None else atol
        close = np.isclose(computed, exact, rtol=rtol, atol=allowed, equal_nan=True)
    largest = float(distance[np.isfinite(distance)].max(initial=0.0))
    is_known = bool(np.isfinite(exact).any()) or not exact.size
    if close.all():
        return Comparison(largest, scale, allowed, "", is_known)
    index = tuple(int(i) for i in np.argwhere(~close)[0])
    return Comparison(
        largest, scale, allowed,
        f"{int((~close).sum())} of {close.size} elements, largest difference {largest:.3g}; the first is at {index}: "
        f"{got[index]!r} instead of {want[index]!r}",
        is_known,
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class OutputError(Comparison):
    """Difference between an output of a model and the expected array, in one run.

    Attributes:
      output: its name.
      where: the run: "B = 3".
    """

    output: str
    where: str

    def check(self) -> None:
        """Raise VerificationError if an element differs by more than the tolerance."""
        if self.detail:
            raise VerificationError(
                f"Output {self.output!r} differs from what it should be at {self.where}: {self.detail}. program.bisect(...) shows "
                "the operation."
            )


def output_error(
    name: str, got: Array, want: Array, where: str, *, rtol: float | None = None, atol: float | None = None, least: float = 0.0,
) -> OutputError:  # fmt: skip
    """Compare an output with the expected array, in one run.

    Args:
      name: that of the output.
      got: what the model gives.
      want: what it should give.
      where: the run, as messages describe it.
      rtol: the relative tolerance; by default that of `want`'s dtype.
      atol: the absolute tolerance; by default `rtol` times the largest number of `want`.
      least: the relative tolerance of floats, if that of their dtype is less and `rtol` is not given.

    Raises:
      VerificationError: the shapes differ.
    """
    if want.shape != got.shape:
        raise VerificationError(f"Output {name!r} has shape {got.shape} instead of {want.shape}, at {where}.")
    found = compare(got, want, rtol=rtol, atol=atol, least=least)
    return OutputError(**vars(found), output=name, where=where)


def random_array(
    rng: np.random.Generator, dtype: DtypeLike, shape: tuple[int, ...], bounds: tuple[float, float] | None = None
) -> Array:
    """A random input; integers are such as the dtype has.

    Args:
      rng: the generator.
      dtype: the element type.
      shape: the shape.
      bounds: the least number, and the one up to which they go, which itself is not among integers; by default standard
        normal numbers, integers from 0 to 4, or booleans.
    """
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    if "int" in dtype.name:
        low, high = map(int, bounds or (0, 5))
        high = min(high, int(ml_dtypes.iinfo(dtype).max) + 1)
        return rng.integers(low, high, shape, np.int64 if low < 0 else np.uint64).astype(dtype)
    if bounds is not None:
        return rng.uniform(*bounds, shape).astype(dtype)
    if dtype.kind == "c":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)
