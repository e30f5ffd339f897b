"""Types and helpers of the `*_cases` modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
from jax2onnx_core.plugins.cases import ExpectGraph, Precision, expect_graph
from jax2onnx_graph.build.builder import DtypeLike

__all__ = ["ASSUME_FINITE", "CLOSE", "Expect", "Fn", "Values", "at_most", "only_once"]

#: `Case.options` of a case about what a model leaves out where no number is NaN or infinite.
ASSUME_FINITE: Mapping[str, Sequence[str]] = {"assume": ["finite"]}

#: `Case.rtol` where float32 is to be closer than it is compared otherwise.
CLOSE: Mapping[Precision, float] = {"f32": 1e-5}

#: What a case expects of its graph; see `Case.expect`.
Expect = str | ExpectGraph | Sequence[str]

#: A function to export.
Fn = Callable[..., object]

#: What random inputs are drawn from; see `Case.values`.
Values = Literal["special", "finite", "positive", "unit"]


def only_once(*dtypes: DtypeLike) -> Mapping[Precision, str]:
    """`Case.skip` of a case whose dtypes are fixed: it runs as f64 if one of them has 64 bits, else as f32."""
    reason = "The dtypes are fixed."
    return {"f32": reason} if any(np.dtype(d).itemsize == 8 for d in dtypes) else {"f64": reason}


def at_most(operators: int, **counts: int) -> ExpectGraph:
    """`Case.expect` of a graph that is too long to be written down: at most so many operators, and exactly these numbers of some.

    Control flow that is not counted must be absent: `at_most(40)` is straight-line code, `at_most(40, Scan=1)` has one loop.
    """
    return expect_graph(counts={"If": 0, "Loop": 0, "Scan": 0, **counts}, at_most=operators)
