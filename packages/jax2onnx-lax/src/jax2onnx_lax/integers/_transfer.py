"""What is known of the result of a primitive, from what is known of its operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jax2onnx_core.lowering.definitions import Definition

from jax2onnx_lax.integers import _arithmetic, _arrangements, _bits, _booleans, _positions
from jax2onnx_lax.integers._domain import Integers, fitted, unknown
from jax2onnx_lax.integers._results import Transfer

__all__ = ["result"]

# Dtypes of so many bytes have the lengths of all axes, and positions along them.
_INDEX_BYTES = 4

#: Their results are lengths of axes, or positions along axes.
_OF_LENGTHS = frozenset({"iota", "dim_as_value", "dimension_size", "argmax", "argmin"})

#: They know something of results whatever their operands are.
_OF_ANY = frozenset({
    "iota", "dim_as_value", "dimension_size", "argmax", "argmin", "top_k", "approx_top_k", "sort", "convert_element_type",
})  # fmt: skip

_TRANSFERS: Mapping[str, Transfer] = {
    **_arithmetic.TRANSFERS, **_arrangements.TRANSFERS, **_bits.TRANSFERS, **_booleans.TRANSFERS, **_positions.TRANSFERS,
}  # fmt: skip


def result(definition: Definition, operands: Sequence[Integers | None]) -> Integers:
    """Find the known facts of a result of an equation, an array of integers or booleans.

    Args:
      definition: the equation and the result.
      operands: what is known of the operands; None for one that holds no integers.
    """
    transfer = _TRANSFERS.get(definition.primitive)
    found = None
    if transfer is not None and (definition.primitive in _OF_ANY or None not in operands):
        found = transfer(definition, *operands)
    if found is None:
        return unknown(definition.aval)
    if definition.primitive in _OF_LENGTHS and np.dtype(definition.aval.dtype).itemsize >= _INDEX_BYTES:
        return found
    return fitted(found, definition.aval)
