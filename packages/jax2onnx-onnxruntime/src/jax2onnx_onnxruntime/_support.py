"""The operators and element types that run, by a kernel or after legalisation."""

from __future__ import annotations

import functools

import onnx_ir as ir
from jax2onnx_graph.arrays import Dtype
from jax2onnx_graph.legalise.kernels import bindings, operator_key, signature
from jax2onnx_graph.legalise.legalisation import Legalisation

from jax2onnx_onnxruntime._kernels import NEWEST, kernels, table
from jax2onnx_onnxruntime._rewrites import REWRITES, is_small_enough

__all__ = ["legalisation", "runs_as_well", "supports"]


@functools.cache
def legalisation(version: str = NEWEST) -> Legalisation:
    """The kernels and decompositions by which a version of ONNX Runtime computes operators exactly."""
    return Legalisation(table(version), REWRITES, is_small_enough, frozenset({ir.DataType.FLOAT16}))


def supports(op_type: str, dtype: Dtype, opset: int, version: str = NEWEST) -> bool:
    """Whether ONNX Runtime computes the operator on `dtype` exactly, natively or after legalisation."""
    return legalisation(version).supports(op_type, dtype, opset)


def runs_as_well(node: ir.Node, opset: int, lower: int, version: str = NEWEST) -> bool:
    """Whether there is a kernel for the element types of a node at a lower opset, if there is one at this opset."""
    key = operator_key(node)
    found = signature(key, opset)
    types = {} if found is None else bindings(node, found)
    return all(_is_kept(key, variable, dtype, opset, lower, version) for variable, dtype in types.items())


@functools.cache
def _is_kept(key: str, variable: str, dtype: ir.DataType, opset: int, lower: int, version: str) -> bool:
    """Whether there is a kernel for an element type at a lower opset, if there is one at this opset."""
    return dtype not in (kernels(key, variable, opset, version) or ()) or dtype in (
        kernels(key, variable, lower, version) or ()
    )
