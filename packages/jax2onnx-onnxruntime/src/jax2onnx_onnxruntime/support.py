"""Which operators run with which element types, by a kernel or after legalisation."""

from __future__ import annotations

import functools

import onnx_ir as ir
from jax2onnx_graph.arrays import Dtype
from jax2onnx_graph.facts.availability import is_allowed

from jax2onnx_onnxruntime.carriers import find_carrier
from jax2onnx_onnxruntime.kernels import NEWEST, bindings, element_type, is_measured, kernels, operator_key, signature
from jax2onnx_onnxruntime.rewrites import find_rewrite

__all__ = ["runs_as_well", "supports"]


@functools.cache
def supports(op_type: str, dtype: Dtype, opset: int, version: str = NEWEST) -> bool:
    """Whether ONNX Runtime computes the operator on `dtype` exactly, natively or after legalisation.

    `dtype` is that of the operator's main operand (the values of `Where`, the data of `Gather`, the
    result of `ConstantOfShape`). An operator that was not measured is taken to run as the standard allows.
    """
    element, found = element_type(dtype), signature(op_type, opset)
    if element is None or found is None:
        return False
    if not is_measured(op_type, version):
        return is_allowed(op_type, dtype, opset)
    if find_rewrite(op_type, element) is not None:
        return True
    variables = ("T1", "T2") if op_type == "Cast" else (found.main,)
    return all(_reachable(op_type, variable, element, opset, version) for variable in variables)


def _reachable(key: str, variable: str, element: ir.DataType, opset: int, version: str) -> bool:
    """Whether there is a kernel for the element type, or for one that carries it."""
    native = kernels(key, variable, opset, version)
    if native is None:
        return False
    return element in native or find_carrier(key, variable, element, opset, version) is not None


def runs_as_well(node: ir.Node, opset: int, lower: int, version: str = NEWEST) -> bool:
    """Whether there is a kernel for the element types of a node at a lower opset, if there is one at this opset."""
    key = operator_key(node)
    found = signature(key, opset)
    types = {} if found is None else bindings(node, found)
    return not any(
        dtype in (kernels(key, variable, opset, version) or ())
        and dtype not in (kernels(key, variable, lower, version) or ())
        for variable, dtype in types.items()
    )
