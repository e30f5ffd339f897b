"""Names for NumPy's types, whose shapes and element types are not known to a type checker."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

__all__ = ["Array", "Dtype", "DtypeLike"]

#: An array of any element type, those of `ml_dtypes` included.
Array: TypeAlias = np.ndarray[Any, Any]
#: A dtype of NumPy or `ml_dtypes`.
Dtype: TypeAlias = np.dtype[Any]
#: What says which dtype is meant: a dtype, or the class of its scalars (`np.float32`).
DtypeLike: TypeAlias = Dtype | type[np.generic]
