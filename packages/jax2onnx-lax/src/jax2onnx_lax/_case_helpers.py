"""Types and helpers of the `*_cases` modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
from jax2onnx_graph.build.builder import DtypeLike

__all__ = ["ASSUME_FINITE", "Fn", "Values", "only_once"]

#: `Case.options` of a case about what a model leaves out where no number is NaN or infinite.
ASSUME_FINITE: Mapping[str, Sequence[str]] = {"assume": ["finite"]}

#: A function to export.
Fn = Callable[..., object]

#: What random inputs are drawn from; see `Case.values`.
Values = Literal["special", "finite", "positive", "unit"]


def only_once(*dtypes: DtypeLike) -> Mapping[Literal["f32", "f64"], str]:
    """`Case.skip` of a case whose dtypes are fixed: it runs as f64 if one of them has 64 bits, else as f32."""
    reason = "The dtypes are fixed."
    return {"f32": reason} if any(np.dtype(d).itemsize == 8 for d in dtypes) else {"f64": reason}
