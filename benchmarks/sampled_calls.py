"""Calls of single operators with numbers of every size, for the tools that compare a runtime with ONNX Runtime."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence

import measure_ort_kernels as calls
import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
from jax2onnx_graph.arrays import Array
from jax2onnx_runtime.runtimes import LoadedModel

__all__ = ["agree", "in_domain", "samples", "with_inputs"]

PRODUCTS = ("Einsum", "Gemm", "MatMul", "Mul", "PRelu", "Pow", "ReduceL2", "ReduceProd", "ReduceSumSquare")


def samples(call: calls.Measured) -> Iterator[dict[str, Array]]:
    """Operands of the call that are inputs, as scalars are not: small numbers, then numbers of every size."""
    shapes = {f"x{i}": (operand, call.bound[name]) for i, (name, operand) in enumerate(calls.operands_of(call.schema))
              if isinstance(operand, tuple) and operand}  # fmt: skip
    yield {name: calls.filled(shape, dtype) for name, (shape, dtype) in shapes.items()}
    is_product = call.schema.name in PRODUCTS or call.reduction == "mul"
    for seed, kind in enumerate(("wide", "wide", "narrow", "close")):
        random = np.random.default_rng(seed)
        divisors = {"x1"} if call.schema.name in ("Div", "Mod") else set[str]()
        found = {name: _numbers(random, shape, dtype, "divisor" if name in divisors and seed > 1 else kind, is_product)
                 for name, (shape, dtype) in shapes.items()}  # fmt: skip
        for name in divisors & found.keys():
            found[name][found[name] == 0] = 1
        yield found


def _numbers(
    random: np.random.Generator, shape: Sequence[int], dtype: ir.DataType, kind: str, is_product: bool
) -> Array:
    """Numbers of a kind: of the whole range of a type, of all sizes in it, so close that float32 does not tell them apart.

    Those of 64 bits are so small that sums and products fit 32.
    """
    if dtype == ir.DataType.BOOL:
        return random.random(shape) < 0.5
    if not dtype.is_integer():
        return random.uniform(-3, 3, shape).astype(dtype.numpy())
    if kind == "divisor":
        return random.integers(1, 8, shape).astype(dtype.numpy())
    info = np.iinfo(np.int32 if dtype.bitwidth == 64 else dtype.numpy())
    low, high = int(info.min), int(info.max)
    if dtype.bitwidth == 64:
        low, high = (-20000, 20000) if is_product else (low // 8, high // 8)
    if kind == "close" and dtype.bitwidth >= 32 and not is_product:
        low, high = high // 4, high // 4 + 3
    found = random.integers(low, high, shape, np.int64, endpoint=True)
    return (found >> random.integers(0, dtype.bitwidth if kind == "narrow" else 1, shape)).astype(dtype.numpy())


def with_inputs(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> onnx.ModelProto:
    """The model with these constants as inputs; it is modified in place."""
    for name, array in feeds.items():
        tensor = next(t for t in model.graph.initializer if t.name == name)
        model.graph.initializer.remove(tensor)
        model.graph.input.append(onnx.helper.make_tensor_value_info(name, tensor.data_type, array.shape))
    return model


def in_domain(call: calls.Measured, feeds: dict[str, Array]) -> dict[str, Array]:
    """The operands with exponents and shifts that every type has room for."""
    if call.schema.name in ("Pow", "BitShift"):
        feeds["x1"] = np.abs(feeds["x1"].astype(np.float32) % 5).astype(feeds["x1"].dtype)
    return feeds


def agree(session: LoadedModel, wanted: LoadedModel, feeds: Mapping[str, Array]) -> bool:
    """Whether two sessions give the same first output, but for rounding.

    Args:
      session: the session that is tried.
      wanted: the session that is believed.
      feeds: the inputs by name.
    """
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        got, want = session(feeds)[0], wanted(feeds)[0]
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    dtype = ir.DataType.from_numpy(want.dtype)
    if not dtype.is_floating_point():
        return bool(np.array_equal(got, want))
    precision = max(8 * float(ml_dtypes.finfo(want.dtype).eps), 1e-5)
    got, want = got.astype(np.float64), want.astype(np.float64)
    return bool(np.allclose(got, want, rtol=precision, atol=precision, equal_nan=True))
