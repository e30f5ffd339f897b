"""Names for NumPy's types, whose shapes and element types are not known to a type checker, and Python numbers as arrays."""

from __future__ import annotations

from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

__all__ = ["Array", "Dtype", "DtypeLike", "number_array"]

#: An array of any element type, those of `ml_dtypes` included.
Array: TypeAlias = np.ndarray[Any, Any]
#: A dtype of NumPy or `ml_dtypes`.
Dtype: TypeAlias = np.dtype[Any]
#: What says which dtype is meant: a dtype, or the class of its scalars (`np.float32`).
DtypeLike: TypeAlias = Dtype | type[np.generic]


def number_array(number: complex, dtype: Dtype) -> Array:
    """A Python bool, int, float or complex number as an array of no axes.

    Raises:
      ValueError: it is none of the numbers that the dtype has, up to rounding; the message is a sentence.
    """
    classes = _classes(dtype)
    if not isinstance(number, classes) or (isinstance(number, bool) and bool not in classes):
        raise ValueError(f"{number!r} is a {type(number).__name__}, which {dtype} does not hold.")
    if isinstance(number, int) and int is classes[-1]:
        limits = ml_dtypes.iinfo(dtype)
        if not limits.min <= number <= limits.max:
            raise ValueError(f"{number} does not fit {dtype}, which holds {limits.min} to {limits.max}.")
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            array = np.asarray(complex(number) if isinstance(number, complex) else number).astype(dtype)
            is_lost, became = np.isfinite(complex(number)) and not np.isfinite(array), array.item()
    except OverflowError:  # an int beyond all floats
        is_lost, became = True, np.inf
    if is_lost:
        what = "NaN" if np.isnan(became) else "infinite"
        raise ValueError(f"{number!s:.80} does not fit {dtype}: it would become {what}.")
    return array


def _classes(dtype: Dtype) -> tuple[type, ...]:
    """The classes of Python's numbers that a dtype holds."""
    if dtype == np.bool_:
        return (bool,)
    if "int" in dtype.name:
        return (int,)
    return (int, float, complex) if dtype.kind == "c" else (int, float)
