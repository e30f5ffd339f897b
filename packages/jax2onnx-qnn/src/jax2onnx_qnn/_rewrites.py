"""Operators that the NPU lacks, written with operators that it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir
from jax2onnx_graph.legalise.legalisation import Rewrite

__all__ = ["REWRITES"]

#: Operators, what writes them with others, and for which element types.
REWRITES: Mapping[str, tuple[Rewrite, Sequence[ir.DataType]]] = {}
