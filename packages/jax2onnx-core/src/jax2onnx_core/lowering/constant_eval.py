"""Equations whose operands are all constants are evaluated at export."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_graph import ir

from jax2onnx_core import _compat
from jax2onnx_core.frontend.composite import is_composite
from jax2onnx_core.lowering.physical import is_packed, physical, to_numpy

if TYPE_CHECKING:
    from jax2onnx_core.lowering.engine import Engine, Operation

__all__ = ["fold_equation"]

# A result of at most this many bytes is always worth storing instead of computing.
_SMALL = 16_384


def fold_equation(engine: Engine, operation: Operation, eqn: Any, operands: list[ir.Value]) -> list[ir.Value] | None:
    """The results as constants, or None where the equation has to be lowered.

    Folded are first-order equations on constants, without effects and not declared unsupported (a callback is not run),
    when their results are static and small or not larger than the operands. NumPy functions declared by plugins evaluate, otherwise JAX does.
    """
    if any(v.const_value is None for v in operands) or eqn.effects or is_composite(eqn.primitive):
        return None
    if operation.name in engine.registry.unsupported:
        return None
    size = _static_size(operation)
    if size is None or size > max(_SMALL, sum(v.const_value.nbytes for v in operands if v.const_value)):
        return None
    fold = engine.registry.folds.get(operation.name)
    if not operands and fold is None:
        return None
    arrays = [v.const_value.numpy() for v in operands if v.const_value is not None]
    results = _by_numpy(fold, arrays, operation) if fold else None
    if results is None:
        results = _by_jax(eqn, arrays)
    if results is None:
        return None
    name = _result_name(engine, operands, operation.name)
    return [engine.constants.constant(array, name) for array in results]


def _static_size(operation: Operation) -> int | None:
    total = 0
    for aval in (*operation.avals_in, *operation.avals_out):
        if is_packed(aval.dtype) or any(_compat.is_symbolic_dim(d) for d in aval.shape):
            return None
    for aval in operation.avals_out:
        dtype, dims = physical(aval)
        total += int(np.prod([int(d) for d in dims], dtype=np.int64)) * max(1, dtype.itemsize)
    return total


def _by_numpy(fold: Any, arrays: list[np.ndarray[Any, Any]], operation: Operation) -> list[np.ndarray[Any, Any]] | None:
    try:
        with np.errstate(all="ignore"):
            result = fold(*arrays, **operation.params)
    except NotImplementedError:
        return None
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    return [np.asarray(r, physical(a)[0]) for r, a in zip(results, operation.avals_out, strict=True)]


def _by_jax(eqn: Any, arrays: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]] | None:
    if any(_holds_jaxpr(value) or _compat.is_symbolic_dim(value) for value in eqn.params.values()):
        return None
    with jax.ensure_compile_time_eval():
        results = _compat.bind_equation(eqn.primitive, eqn.params, *map(jnp.asarray, arrays))
        return [to_numpy(r) for r in results]


def _holds_jaxpr(value: Any) -> bool:
    return _compat.is_jaxpr(value) or (isinstance(value, (list, tuple)) and any(map(_holds_jaxpr, value)))


def _result_name(engine: Engine, operands: list[ir.Value], operation: str) -> str:
    largest = max(operands, key=lambda v: v.const_value.nbytes if v.const_value else 0, default=None)
    if largest is None or largest.name is None or largest.name.startswith("const"):
        return "const"
    return f"{largest.name}.{operation}"
