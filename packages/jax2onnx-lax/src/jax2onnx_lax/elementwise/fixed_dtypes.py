"""For cases whose dtypes do not follow the variant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

__all__ = ["only_once"]


def only_once(*dtypes: Any) -> Mapping[Literal["f32", "f64"], str]:
    """`skip` of a case with these dtypes: it runs with 64-bit types enabled if one of them needs that, else without."""
    reason = "The dtypes are fixed."
    return {"f32": reason} if any(np.dtype(d).itemsize == 8 for d in dtypes) else {"f64": reason}
