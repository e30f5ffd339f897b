"""Equations whose operands are all constants are evaluated at export."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence

import jax
import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.build.attributes import element_type
from jax2onnx_graph.build.builder import Value
from jax2onnx_graph.weights.absent import AbsentTensor, computed

from jax2onnx_core import _compat, _compat_meshes, _compat_options
from jax2onnx_core.frontend._composite import is_composite
from jax2onnx_core.jax_types import Equation, Function
from jax2onnx_core.jaxprs import is_jaxpr, is_static, is_symbolic_dim
from jax2onnx_core.lowering._model_state import ModelState
from jax2onnx_core.lowering._operation import Operation
from jax2onnx_core.lowering.physical import from_physical, has_components, physical_array, physical_type, static_type

__all__ = ["evaluate_equation"]

# A result of at most this many bytes is always worth storing instead of computing.
_SMALL = 16_384
# Equal equations on operands of at most this many bytes are evaluated once.
_SCALARS = 64

Evaluator = Function


def evaluate_equation(
    state: ModelState, evaluators: Mapping[str, Evaluator], operation: Operation, eqn: Equation,
    operands: Sequence[Value],
) -> list[Value] | None:  # fmt: skip
    """The results as constants, or None where the equation has to be lowered.

    Evaluated are first-order equations on constants, without effects, when their results are static and small or not
    larger than the operands; by the NumPy function that a plugin declares for the primitive, otherwise by JAX.
    """
    for operand in operands:
        if operand.const_value is None:
            return None
    if eqn.effects or is_composite(eqn.primitive):
        return None
    size = _static_size(operation)
    if size is None or size > max(_SMALL, sum(v.const_value.nbytes for v in operands if v.const_value)):
        return None
    has_parts = any(has_components(aval.dtype) for aval in (*operation.avals_in, *operation.avals_out))
    evaluator = None if has_parts else evaluators.get(operation.name)
    if not operands and evaluator is None:
        return None
    tensors = [v.const_value for v in operands if v.const_value is not None]
    name = _result_name(operands, operation.name)

    def evaluate(*arrays: Array) -> list[Array] | None:
        results = _by_numpy(evaluator, arrays, operation) if evaluator else None
        if results is not None or sum(array.nbytes for array in arrays) > _SCALARS:
            return _by_jax(eqn, operation, arrays) if results is None else results
        # Each layer has them again.
        asked = eqn.primitive, eqn.params, eqn.ctx.threefry_partitionable, operation.avals_in, arrays
        return state.findings.once(lambda: _by_jax(eqn, operation, arrays), "constants", asked)

    if any(isinstance(tensor, AbsentTensor) for tensor in tensors):
        return _when_present(state, evaluate, tensors, operation, name) if _is_first_order(eqn) else None
    arrays = [tensor.numpy() for tensor in tensors]
    results = evaluate(*arrays)
    same = {id(array): operand for array, operand in zip(arrays, operands, strict=True)}
    return None if results is None else [same.get(id(array)) or state.constant(array, name) for array in results]


def _when_present(
    state: ModelState, evaluate: Function, tensors: Sequence[ir.TensorProtocol], operation: Operation, name: str
) -> list[Value]:
    """The results as constants that are evaluated when the weights are there."""

    def result(index: int, *arrays: Array) -> Array:
        with _compat_options.default_options(), _compat_meshes.without_mesh():
            array: Array = evaluate(*arrays)[index]
        return array

    types = [(element_type(dtype), dims) for dtype, dims in map(static_type, operation.avals_out)]
    made = [computed(functools.partial(result, i), tensors, *of) for i, of in enumerate(types)]
    return [state.tensor(tensor, name) for tensor in made]


def _static_size(operation: Operation) -> int | None:
    """The bytes of the results; None where a shape is symbolic."""
    for aval in (*operation.avals_in, *operation.avals_out):
        if not all(map(is_static, aval.shape)):
            return None
    types = map(static_type, operation.avals_out)
    return sum(math.prod(dims) * max(1, dtype.itemsize) for dtype, dims in types)


def _by_numpy(evaluator: Evaluator, arrays: Sequence[Array], operation: Operation) -> list[Array] | None:
    try:
        with np.errstate(all="ignore"):
            result = evaluator(*arrays, **operation.params)
    except NotImplementedError:
        return None
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    return [np.asarray(r, physical_type(a)[0]) for r, a in zip(results, operation.avals_out, strict=True)]


def _by_jax(eqn: Equation, operation: Operation, arrays: Sequence[Array]) -> list[Array] | None:
    if not _is_first_order(eqn):
        return None
    with _compat_options.options_of(eqn), jax.ensure_compile_time_eval():
        # `jnp.asarray` would compile a program for each shape.
        operands = [jax.device_put(from_physical(x, aval)) for x, aval in zip(arrays, operation.avals_in, strict=True)]
        results = _compat.bind_primitive(eqn.primitive, eqn.params, *operands)
        return [physical_array(r) for r in results]


def _is_first_order(eqn: Equation) -> bool:
    return not any(_holds_jaxpr(value) or is_symbolic_dim(value) for value in eqn.params.values())


def _holds_jaxpr(value: object) -> bool:
    return is_jaxpr(value) or (isinstance(value, (list, tuple)) and any(map(_holds_jaxpr, value)))


def _result_name(operands: Sequence[Value], operation: str) -> str:
    largest = max(operands, key=lambda v: v.const_value.nbytes if v.const_value else 0, default=None)
    if largest is None or largest.name is None or largest.name.startswith("const"):
        return "const"
    return f"{largest.name}.{operation}"
