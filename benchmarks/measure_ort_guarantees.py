"""Measure which properties of ONNX operators the kernels of ONNX Runtime's CPU provider keep.

Each probe is a model of one operator (or of a few that the runtime fuses into one) with operands that show a property:
a NaN among numbers, integers that overflow, an array without elements. It is run for each element type. The result is
the data file of `jax2onnx_onnxruntime._guarantees`:

    python benchmarks/measure_ort_guarantees.py             # writes the data file of the installed version
    python benchmarks/measure_ort_guarantees.py --show TopK # prints what was measured for one operator

The files of other versions stay. With an older runtime PYTHONPATH has to lead to jax2onnx-graph and jax2onnx-onnxruntime.

A type for which the operator has no kernel appears neither under `kept` nor under `lost`.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import json
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from jax2onnx_graph.errors import RuntimeInputError
from jax2onnx_graph.legalise.guarantees import concerns
from jax2onnx_graph.targets import Property
from jax2onnx_onnxruntime import load
from measure_ort_kernels import newest_opset
from measured_tables import write
from onnxruntime.capi import onnxruntime_pybind11_state as errors

Array = np.ndarray[Any, Any]
Values = Sequence[Any]
Operand = Values | Array | Callable[[np.dtype[Any]], Array]
"""Numbers to be given in the measured type, an array that is given as it is, or a function of the type."""

OPSET = min(23, newest_opset())
DTYPES = [
    d for d in ir.DataType if d.name not in ("UNDEFINED", "STRING", "COMPLEX64", "COMPLEX128") and d.bitwidth >= 8
]
if "tensor_size_in_bytes" not in dir(ort.OrtValue):  # arrays of types that NumPy lacks cannot be handed over
    DTYPES = [d for d in DTYPES if d.numpy().isbuiltin == 1]
SIMPLE = [ir.DataType[name] for name in ("FLOAT", "DOUBLE", "INT32", "INT64")]
REFUSALS = (errors.Fail, errors.InvalidArgument, errors.RuntimeException, RuntimeInputError)
NAN, INF = math.nan, math.inf
ENDLESS: set[tuple[str, Property]] = {("Conv", "empty"), ("LSTM", "empty"), ("GRU", "empty")}
"""Properties that are lost and not probed: the kernel of Conv does not end for images without channels but with padding, those of LSTM
and GRU end the process for sequences without rows."""


@dataclasses.dataclass(frozen=True)
class Probe:
    """One call of an operator whose result shows whether a property is kept.

    Attributes:
      key: the operator, with its reduction where it has one: "ScatterND_max".
      kept: the property.
      operands: the operands; those that are a function or plain numbers have the measured type.
      expected: the right first result, made from the operands.
      attributes: those of the node.
      graph: several nodes in place of the operator, as ONNX text with the operands x0, x1, … and the result y.
      ulps: how far the result may be off, in units of the type's precision relative to the largest expected number.
      dtypes: the types to measure, all if empty.
    """

    key: str
    kept: Property
    operands: Sequence[Operand]
    expected: Callable[..., Array]
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    graph: str = ""
    ulps: float = 8
    dtypes: Sequence[ir.DataType] = ()


# -- the probes --------------------------------------------------------------------------------------


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def rows_with_nan() -> list[list[float]]:
    """Rows of 40 numbers, each with a NaN at another place; longer than a vector register."""
    rows = np.linspace(-1, 1, 6 * 40).reshape(6, 40)
    for row, place in enumerate((0, 1, 17, 31, 38, 39)):
        rows[row, place] = NAN
    return list(rows.tolist())


def nan_probes() -> Iterator[Probe]:
    """A NaN among the operands."""
    rows, column = rows_with_nan(), [[v] for v in rows_with_nan()[2]]
    all_nan = lambda x, axes: np.full(np.asarray(x).sum(int(axes[0])).shape, NAN)  # noqa: E731
    for name in ("Max", "Min", "Sum", "Mean", "L1", "L2", "Prod", "LogSumExp", "SumSquare"):
        for operand, axis in ((rows, 1), (column, 0)):
            yield Probe(f"Reduce{name}", "nan", [operand, ints(axis)], all_nan, {"keepdims": 0})
    yield Probe("ReduceLogSumExp", "nan", [[INF, NAN, 0.0], ints(0)], lambda *_: np.array(NAN), {"keepdims": 0})
    first_nan = lambda x: np.isnan(x.astype(np.float64)).argmax(1)  # noqa: E731
    for name in ("ArgMax", "ArgMin"):
        yield Probe(name, "nan", [rows], first_nan, {"axis": 1, "keepdims": 0})
    yield Probe("TopK", "nan", [rows, ints(1)], lambda x, k: np.full((6, 1), NAN))
    for operand in (rows, [[NAN, 1.0, -NAN, -INF, NAN, INF, -2.0]]):
        count, ascending = ints(len(operand[0])), lambda x, k: np.sort(x.astype(np.float64))
        yield Probe("TopK", "nan", [operand, count], ascending, {"largest": 0})
        yield Probe("TopK", "nan", [operand, count], lambda x, k: np.sort(x.astype(np.float64))[:, ::-1])
    for length in (1, 2, 7, 40):
        same = np.concatenate([np.full((2, length), NAN), np.linspace(-1, 0, 2 * length).reshape(2, -1)])
        for operand, axis in ((same.tolist(), 1), (same.T.tolist(), 0)):
            best = lambda x, *_, a=axis, n=length: np.where(np.isnan(np.min(x.astype(np.float64), a)), 0, n - 1)  # noqa: E731
            yield Probe("ArgMax", "nan_rows", [operand], best, {"axis": axis, "keepdims": 0})
            yield Probe("ArgMin", "nan_rows", [operand], lambda x, a=axis: np.zeros(4), {"axis": axis, "keepdims": 0})
    yield from sorted_nan_probes()
    image = [[np.reshape(rows[2], (5, 8)).tolist()]]
    for name in ("MaxPool", "AveragePool"):
        yield Probe(name, "nan", [image], lambda x: _pooled_nan(x), {"kernel_shape": [2, 2]})
    for name in ("GlobalMaxPool", "GlobalAveragePool"):
        yield Probe(name, "nan", [image], lambda x: np.full((1, 1, 1, 1), NAN))
    yield from elementwise_nan_probes(rows)
    yield from scattered_nan_probes()
    yield from recurrent_nan_probes()
    yield from formula_nan_probes(rows)


def sorted_nan_probes() -> Iterator[Probe]:
    """The places that TopK gives to elements that are all NaN, beside a row of numbers."""
    for length, count, largest in itertools.product((2, 7, 40, 300), (1, 2, 5), (0, 1)):
        if count <= length:
            places = np.arange(count) if not largest else length - 1 - np.arange(count)
            yield Probe(
                "TopK", "nan_rows", [[[NAN] * length, np.linspace(-1, 0, length).tolist()], ints(count)],
                lambda *_, p=places: np.stack([np.arange(p.size), p]),
                graph=f"v, y = TopK<axis = 1, largest = {largest}>(x0, x1)",
            )  # fmt: skip


def _pooled_nan(x: Array) -> Array:
    """NaN where a window of 2 × 2 holds one, 0 elsewhere (which is not compared)."""
    nan = np.isnan(x.astype(np.float64))[0, 0]
    return np.where(nan[1:, 1:] | nan[:-1, 1:] | nan[1:, :-1] | nan[:-1, :-1], NAN, 0.0)[None, None]


def _where_nan(x: Array, *_: Array) -> Array:
    """NaN where `x` is, 0 elsewhere (which is not compared)."""
    return np.where(np.isnan(x.astype(np.float64)), NAN, 0.0)


def elementwise_nan_probes(rows: Values) -> Iterator[Probe]:
    for name in ("Abs", "Ceil", "Celu", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Neg",
                 "Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Softplus", "Sqrt", "Tanh"):  # fmt: skip
        yield Probe(name, "nan", [rows], _where_nan)
    for name in ("Max", "Min"):
        yield Probe(name, "nan", [rows, [0.5]], _where_nan)
        yield Probe(name, "nan", [[0.5], rows], lambda c, x: _where_nan(x))
        yield Probe(name, "nan", [np.zeros(np.shape(rows)).tolist(), rows], lambda c, x: _where_nan(x))
    yield Probe("Clip", "nan", [rows, lambda d: np.array(-0.5, d), lambda d: np.array(0.5, d)], _where_nan)
    for name, compared in (("Less", np.less), ("LessOrEqual", np.less_equal), ("Greater", np.greater),
                           ("GreaterOrEqual", np.greater_equal), ("Equal", np.equal)):  # fmt: skip
        yield Probe(name, "nan", [rows, [0.0]], compared)
        yield Probe(name, "nan", [[0.0], rows], compared)
    yield Probe("Cast", "nan", [rows], lambda x: x != 0, {"to": int(ir.DataType.BOOL)})
    yield Probe("Softmax", "nan", [rows], lambda x: np.full(x.shape, NAN))
    yield Probe("LogSoftmax", "nan", [rows], lambda x: np.full(x.shape, NAN))


def scattered_nan_probes() -> Iterator[Probe]:
    """A NaN in the data, before a number among the updates, and after one."""
    data, indices, updates = [NAN, 1.0, 1.0], np.array([0, 1, 1, 2, 2]), [2.0, NAN, 3.0, 3.0, NAN]
    every = lambda *_: np.full(3, NAN)  # noqa: E731
    for reduction in ("max", "min", "add", "mul"):
        yield Probe(f"ScatterElements_{reduction}", "nan", [data, indices, updates], every)
        yield Probe(f"ScatterND_{reduction}", "nan", [data, indices[:, None], updates], every)


def recurrent_nan_probes() -> Iterator[Probe]:
    """A NaN in the input of one step, with biases, for numbers of units that do and do not fill a vector register."""
    for name, gates, activation in (("LSTM", 4, ""), ("GRU", 3, ""), ("RNN", 1, ""), ("RNN", 1, "Relu")):
        key = f"{name}_{activation}" if activation else name
        chosen = f', activations = ["{activation}"]' if activation else ""
        for units in (3, 8, 33):
            node = f"y = {name}<hidden_size = {units}{chosen}>(x0, x1, x2, x3)"
            x = [[[0.5, 0.5]], [[0.5, NAN]], [[0.5, 0.5]]]
            kernels: list[Operand] = [tenths(1, gates * units, width) for width in (2, units)]
            kernels.append(tenths(1, 2 * gates * units))
            want = lambda *_, n=units: np.repeat([0.0, NAN, NAN], n).reshape(3, 1, 1, n)  # noqa: E731
            yield Probe(key, "nan", [x, *kernels], want, graph=node)


def tenths(*shape: int) -> Callable[[np.dtype[Any]], Array]:
    return lambda dtype: np.full(shape, 0.1).astype(dtype)


def formula_nan_probes(rows: Values) -> Iterator[Probe]:
    """Operators that are a whole formula over rows: a NaN reaches all of the row."""
    every = lambda x, *_: np.full(x.shape, NAN)  # noqa: E731
    yield Probe("LayerNormalization", "nan", [rows, ones(40), ones(40)], every)
    yield Probe("RMSNormalization", "nan", [rows, ones(40)], every)
    for place in range(3):
        operands: list[Operand] = [np.ones((1, 1, 4, 8)).tolist() for _ in range(3)]
        operands[place] = [[[[NAN] * 8] * 4]]
        yield Probe("Attention", "nan", operands, lambda *_: np.full((1, 1, 4, 8), NAN))
    angles = lambda d: np.full((1, 4, 4), 0.5).astype(d)  # noqa: E731
    yield Probe("RotaryEmbedding", "nan", [[[[[NAN] * 8] * 4]], angles, angles], every)
    sizes = np.array([1, 1, 4, 4])
    image = [[[[1.0, 1.0], [1.0, NAN]]]]
    resized = lambda *_: np.where(np.arange(16).reshape(1, 1, 4, 4) == 15, NAN, 0)  # noqa: E731
    yield Probe(
        "Resize", "nan", [image, sizes], resized, {"mode": "linear"}, graph='y = Resize<mode = "linear">(x0, , , x1)'
    )


def integers(*shape: int, seed: int = 0) -> Callable[[np.dtype[Any]], Array]:
    """Numbers over the whole range of an integer type."""

    def make(dtype: np.dtype[Any]) -> Array:
        info = np.iinfo(dtype)
        return np.random.default_rng(seed).integers(info.min, info.max, shape, dtype, endpoint=True)

    return make


def wrap_probes() -> Iterator[Probe]:
    """Integers whose results do not fit their type."""
    a, b, axes = integers(5, 9), integers(5, 9, seed=1), ints(1)
    for name, function in (("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply)):
        yield Probe(name, "wraps", [a, b], function)
    yield Probe("Neg", "wraps", [a], np.negative)
    yield Probe("Abs", "wraps", [a], np.abs)
    yield Probe("CumSum", "wraps", [a, np.array(1)], lambda x, _: x.cumsum(1, dtype=x.dtype))
    yield Probe("MatMul", "wraps", [a, integers(9, 4, seed=1)], lambda x, y: x @ y)
    yield Probe("Gemm", "wraps", [a, integers(9, 4, seed=1)], lambda x, y: x @ y)
    reduced: dict[str, Callable[[Array], Array]] = {
        "Sum": lambda x: x.sum(1, dtype=x.dtype),
        "Prod": lambda x: x.prod(1, dtype=x.dtype),
        "SumSquare": lambda x: (x * x).sum(1, dtype=x.dtype),
        "L1": lambda x: np.abs(x).sum(1, dtype=x.dtype),
    }
    for name, of_array in reduced.items():
        yield Probe(f"Reduce{name}", "wraps", [a, axes], lambda x, _, f=of_array: f(x), {"keepdims": 0})
    data, updates, indices = integers(3), integers(6, seed=1), np.array([0, 1, 1, 2, 2, 2])
    for reduction, function in (("add", np.add), ("mul", np.multiply)):
        want = lambda x, i, u, f=function: _accumulated(f, x, i, u)  # noqa: E731
        yield Probe(f"ScatterElements_{reduction}", "wraps", [data, indices, updates], want)
        yield Probe(f"ScatterND_{reduction}", "wraps", [data, indices[:, None], updates], want)


def _accumulated(function: np.ufunc, data: Array, indices: Array, updates: Array) -> Array:
    """The updates taken into the data one after the other."""
    result = data.copy()
    for index, update in zip(indices.reshape(-1), updates, strict=True):
        result[index] = function(result[index], update)
    return result


def empty(*shape: int) -> Callable[[np.dtype[Any]], Array]:
    return lambda dtype: np.zeros(shape, dtype)


def ones(*shape: int) -> Callable[[np.dtype[Any]], Array]:
    return lambda dtype: np.ones(shape, dtype)


def empty_probes() -> Iterator[Probe]:
    """Reductions over no elements, and operators on arrays without elements."""
    yield from empty_reduction_probes()
    yield from empty_product_probes()
    same = lambda x, *_: x  # noqa: E731
    for shape in ((0, 3), (2, 0)):
        for name in ("Softmax", "LogSoftmax", "Hardmax"):
            yield Probe(name, "empty", [empty(*shape)], same)
        for name, weights in {"LayerNormalization": 2, "RMSNormalization": 1}.items():
            yield Probe(name, "empty", [empty(*shape), *[empty(shape[1])] * weights], same)
        yield Probe("CumSum", "empty", [empty(*shape), np.array(1)], same)
        yield Probe("TopK", "empty", [empty(*shape), ints(0)], lambda x, k: np.zeros((x.shape[0], 0)))
        for name in ("Add", "Max"):
            yield Probe(name, "empty", [empty(*shape), empty(*shape)], same)
    images = empty(0, 2, 6, 6)
    for name in ("MaxPool", "AveragePool"):
        yield Probe(name, "empty", [images], lambda x: np.zeros((0, 2, 5, 5)), {"kernel_shape": [2, 2]})
    yield Probe("GlobalAveragePool", "empty", [images], lambda x: np.zeros((0, 2, 1, 1)))
    yield Probe("GlobalAveragePool", "empty", [empty(1, 2, 0, 6)], lambda x: np.full((1, 2, 1, 1), NAN))
    yield Probe("InstanceNormalization", "empty", [images, empty(2), empty(2)], same)
    for batch, heads, queries, keys in ((0, 2, 3, 4), (2, 2, 0, 4), (2, 2, 3, 0)):
        operands = [ones(batch, heads, queries, 8), ones(batch, heads, keys, 8), ones(batch, heads, keys, 8)]
        yield Probe("Attention", "empty", operands, lambda q, *_: np.zeros(q.shape))
    step = "u, y = RNN <hidden_size = 2>(x0, x1, x2, , , x3)"
    for length, batch in ((0, 2), (3, 0)):
        cell = [ones(length, batch, 4), ones(1, 2, 4), ones(1, 2, 2), ones(1, batch, 2)]
        yield Probe("RNN", "empty", cell, lambda *given: given[-1], graph=step)
    for name, gates in (("LSTM", 4), ("GRU", 3)):  # of a sequence with rows: see `ENDLESS`
        yield Probe(
            name, "empty", [ones(3, 2, 4), ones(1, gates * 2, 4), ones(1, gates * 2, 2)], same, {"hidden_size": 2}
        )
    yield Probe("ScatterND", "empty", [ones(2, 3), np.zeros((0, 1), np.int64), empty(0, 3)], same)
    yield Probe("ScatterElements", "empty", [ones(2, 3), np.zeros((0, 3), np.int64), empty(0, 3)], same)


def empty_product_probes() -> Iterator[Probe]:
    """Sums of no products, and products of no rows or columns."""
    for name in ("MatMul", "Gemm", "MatMulInteger"):
        dtypes = [ir.DataType.INT8, ir.DataType.UINT8] if name == "MatMulInteger" else []
        for left, right in (((2, 0), (0, 3)), ((0, 2), (2, 3)), ((2, 3), (3, 0))):
            result = left[0], right[1]
            yield Probe(name, "empty", [ones(*left), ones(*right)], lambda *_, s=result: np.zeros(s), dtypes=dtypes)
    batches: list[list[tuple[int, ...]]] = [[(2, 5, 0), (2, 0, 3), (2, 5, 3)], [(2, 0, 3), (3, 4), (2, 0, 4)]]
    for first, second, shape in batches:
        yield Probe("MatMul", "empty", [ones(*first), ones(*second)], lambda *_, s=shape: np.zeros(s))
    for matrix in (ones(0, 3), ones(2, 0, 3)):
        yield Probe("MatMul", "empty", [matrix, ones(3)], lambda x, _: np.zeros(x.shape[:-1]))
    for swapped in ("x0", "x1"):
        product = f"""
            t = Transpose<perm = [0, 2, 1]>({swapped})
            y = MatMul({"t, x1" if swapped == "x0" else "x0, t"})
        """
        shapes = ((2, 0, 3), (2, 0, 4)) if swapped == "x0" else ((2, 3, 0), (2, 4, 0))
        yield Probe(
            "MatMul", "empty", [*itertools.starmap(ones, shapes)], lambda *_: np.zeros((2, 3, 4)), graph=product
        )
    image, filters = ones(1, 0, 5, 5), ones(2, 0, 3, 3)
    yield Probe("Conv", "empty", [image, filters], lambda *_: np.zeros((1, 2, 3, 3)))
    yield Probe("Conv", "empty", [ones(0, 2, 6, 6), ones(3, 2, 3, 3)], lambda *_: np.zeros((0, 3, 4, 4)))


def empty_reduction_probes() -> Iterator[Probe]:
    """Reductions over no elements; with axes counted from the end, the kernels do not even give the right shape."""
    of_nothing: dict[str, Callable[[np.dtype[Any]], float]] = {
        **dict.fromkeys(("ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare"), lambda d: 0),
        "ReduceProd": lambda d: 1,
        "ReduceMean": lambda d: NAN,
        **dict.fromkeys(("ReduceLogSum", "ReduceLogSumExp"), lambda d: -INF),
        "ReduceMax": _lowest,
        "ReduceMin": _highest,
    }  # fmt: skip
    for name, neutral in of_nothing.items():
        # The mean of no integers is not defined.
        dtypes = [d for d in DTYPES if d.is_floating_point()] if name == "ReduceMean" else []
        for shape, axes in (
            ((2, 0), [1]),
            ((0, 3), [0]),
            ((0, 3), [1]),
            ((2, 0, 3), [1, 2]),
            ((2, 0, 3), [0, 2]),
        ):
            for keepdims in (0, 1):
                full = lambda x, a, f=neutral, k=keepdims: np.full(_reduced_shape(x, a, k), f(x.dtype))  # noqa: E731
                operands: list[Operand] = [empty(*shape), ints(*axes)]
                yield Probe(name, "empty", operands, full, {"keepdims": keepdims}, dtypes=dtypes)


def _reduced_shape(x: Array, axes: Array, keepdims: int) -> tuple[int, ...]:
    return np.zeros(x.shape).sum(tuple(int(axis) for axis in axes), keepdims=bool(keepdims)).shape


def _is_float(dtype: np.dtype[Any]) -> bool:
    return ir.DataType.from_numpy(dtype).is_floating_point()


def _lowest(dtype: np.dtype[Any]) -> float:
    return -INF if _is_float(dtype) else 0 if dtype == np.bool_ else int(ml_dtypes.iinfo(dtype).min)


def _highest(dtype: np.dtype[Any]) -> float:
    return INF if _is_float(dtype) else 1 if dtype == np.bool_ else int(ml_dtypes.iinfo(dtype).max)


def infinity_probes() -> Iterator[Probe]:
    """Infinite operands."""
    rows = [[-INF, 0.0, 1.0], [INF, 0.0, 1.0], [-INF] * 3, [INF, INF, 0.0]]
    wide = [[*row, *[0.5] * 30] if row[1] != -INF else [-INF] * 33 for row in rows]
    for operand in (rows, wide):
        yield Probe("Softmax", "inf", [operand], _softmax)
        yield Probe("LogSoftmax", "inf", [operand], lambda x: np.log(_softmax(x)))
        yield Probe("ReduceLogSumExp", "inf", [operand, ints(1)], _log_sum_exp, {"keepdims": 0})
        for name, function in {
            "ReduceMax": np.max,
            "ReduceMin": np.min,
            "ReduceSum": np.sum,
            "ReduceMean": np.mean,
        }.items():
            want = lambda x, _, f=function: f(x.astype(np.float64), axis=1)  # noqa: E731
            yield Probe(name, "inf", [operand, ints(1)], want, {"keepdims": 0})
    for rank in (1, 2, 3):
        for channels in (1, 16):
            image = np.full((1, channels, *[5] * rank), -INF).tolist()
            yield Probe(
                "MaxPool", "inf", [image], lambda x: x[(..., *[slice(4)] * (x.ndim - 2))], {"kernel_shape": [2] * rank}
            )
    limits = {"Exp": (0, INF), "Sigmoid": (0, 1), "Tanh": (-1, 1), "Erf": (-1, 1), "Softplus": (0, INF), "Relu": (0, INF),
              "Reciprocal": (0, 0), "Atan": (-math.pi / 2, math.pi / 2), "Elu": (-1, INF), "Sign": (-1, 1),
              "Floor": (-INF, INF), "HardSigmoid": (0, 1), "Sqrt": (NAN, INF), "Log": (NAN, INF)}  # fmt: skip
    for name, limit in limits.items():
        yield Probe(name, "inf", [[-INF, INF] * 20], lambda x, v=limit: np.array([*v] * 20))
    yield Probe("Mod", "inf", [[-2.5, 0.0, 3.0, 7.0] * 10, [-INF, INF] * 20], lambda x, _: x, {"fmod": 1})


def hidden_probes() -> Iterator[Probe]:
    """Minus infinity among numbers, for rows that do and do not fill a vector register."""
    for length in (3, 33):
        for place in (0, length // 2, length - 1):
            row = [0.25 * (i % 7) for i in range(length)]
            row[place] = -INF
            rows = [row, [1.0] * length, row]
            yield Probe("Softmax", "minus_inf", [rows], _softmax)
            yield Probe("LogSoftmax", "minus_inf", [rows], lambda x: np.log(_softmax(x)))
            yield Probe("ReduceLogSumExp", "minus_inf", [rows, ints(1)], _log_sum_exp, {"keepdims": 0})
            yield Probe("ReduceMax", "minus_inf", [rows, ints(1)], lambda x, _: x.max(1), {"keepdims": 0})
    for rank in (1, 2, 3):
        for channels in (1, 16):
            image = np.linspace(-2, 2, channels * 5**rank).reshape(1, channels, *[5] * rank)
            odd: tuple[Any, ...] = (..., *[slice(1, None, 2)] * rank)
            image[odd] = -INF  # of a window of 2, one element and no more
            pooled = lambda x, r=rank: _pooled(x, r)  # noqa: E731
            yield Probe("MaxPool", "minus_inf", [image.tolist()], pooled, {"kernel_shape": [2] * rank})


def _pooled(x: Array, rank: int) -> Array:
    """The maxima of windows of 2 along each of the last `rank` axes."""
    axes = tuple(range(-rank, 0))
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (2,) * rank, axis=axes)
    return np.asarray(windows.max(axes))


def _softmax(x: Array) -> Array:
    x = x.astype(np.float64)
    exponentials = np.exp(x - x.max(1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(1, keepdims=True))


def _log_sum_exp(x: Array, _: Array) -> Array:
    return np.logaddexp.reduce(x.astype(np.float64), axis=1)


def accuracy_probes() -> Iterator[Probe]:
    """Precision of the element type."""
    x = np.linspace(-3, 3, 61).tolist()
    logistic = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
    functions: dict[str, Callable[[Array], Array]] = {
        "Exp": np.exp, "Sigmoid": logistic, "Tanh": np.tanh, "Sin": np.sin, "Cos": np.cos, "Atan": np.arctan,
        "Softplus": lambda v: np.log1p(np.exp(v)), "Sinh": np.sinh, "Cosh": np.cosh, "Erf": np.vectorize(math.erf),
        "Softsign": lambda v: v / (1 + np.abs(v)), "Mish": lambda v: v * np.tanh(np.log1p(np.exp(v))),
        "HardSwish": lambda v: v * np.clip(v / 6 + 0.5, 0, 1),
    }  # fmt: skip
    for name, function in functions.items():
        yield Probe(name, "accurate", [x], lambda v, f=function: f(v.astype(np.float64)))
    for how, of_x in {"tanh": _gelu_tanh, "none": _gelu_erf}.items():
        yield Probe("Gelu", "accurate", [x], lambda v, f=of_x: f(v.astype(np.float64)), {"approximate": how})
    yield Probe("Softmax", "accurate", [[x]], lambda v: _softmax(v))
    small = np.geomspace(1e-6, 0.1, 40).tolist()
    per_unit = lambda v: np.vectorize(math.erf)(v.astype(np.float64)) / v.astype(np.float64)  # noqa: E731
    yield Probe("Erf", "accurate", [small], per_unit, graph="e = Erf(x0)\ny = Div(e, x0)", ulps=16)
    for length in (6, 7, 100, 1000):
        signal = np.random.default_rng(0).standard_normal((1, length, 2)).tolist()
        yield Probe("DFT", "accurate", [signal, np.array(1)], _dft, ulps=32)
    yield from normalisation_probes()


def _gelu_tanh(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


def _gelu_erf(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))))


def _dft(x: Array, _: Array) -> Array:
    x = x.astype(np.float64)
    y = np.fft.fft(x[..., 0] + 1j * x[..., 1], axis=1)
    return np.stack([y.real, y.imag], -1)


#: The formula of RMSNormalization, which the runtime recognises.
RMS_NORM = """
   square = Pow(x0, x3)
   mean = ReduceMean(square, x4)
   moved = Add(mean, x2)
   root = Sqrt(moved)
   normal = Div(x0, root)
   y = Mul(normal, x1)
"""


def normalisation_probes() -> Iterator[Probe]:
    """Rows whose mean square is as small as epsilon, which is no float32."""
    epsilon = 1e-5
    rows = (np.random.default_rng(0).standard_normal((2, 8)) * 1e-3).tolist()
    operands: list[Operand] = [rows, [1.0] * 8, lambda d: np.array(epsilon, d), lambda d: np.array(2, d), ints(-1)]
    yield Probe("RMSNormalization", "accurate", operands, lambda x, *_: _rms_norm(x, epsilon), graph=RMS_NORM, ulps=16,
                dtypes=[ir.DataType.FLOAT, ir.DataType.DOUBLE])  # fmt: skip


def _rms_norm(x: Array, epsilon: float) -> Array:
    epsilon = float(np.array(epsilon, x.dtype))
    x = x.astype(np.float64)
    return np.asarray(x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon))


def order_probes() -> Iterator[Probe]:
    """Many updates of two rows. All reductions share one loop; writing and adding show best what it does."""
    rows, width = 2000, 1000
    indices = np.random.default_rng(0).integers(0, 2, rows)
    spread = np.broadcast_to(indices[:, None], (rows, width)).copy()
    values = lambda d: np.broadcast_to((np.arange(rows) % 100 + 1)[:, None], (rows, width)).astype(d)  # noqa: E731
    for name, shaped in {"ScatterElements": spread, "ScatterND": indices[:, None]}.items():
        operands: list[Operand] = [empty(2, width), shaped, values]
        yield Probe(name, "order", operands, lambda x, i, u: _in_order(lambda _, new: new, x, i, u), dtypes=SIMPLE)
        for reduction in ("add", "mul", "max", "min"):
            yield Probe(f"{name}_{reduction}", "order", operands, lambda x, i, u: _in_order(np.add, x, i, u),
                        {"reduction": "add"}, dtypes=SIMPLE)  # fmt: skip


def _in_order(function: Callable[[Array, Array], Array], data: Array, indices: Array, updates: Array) -> Array:
    """Rows of updates taken into rows of the data one after the other."""
    result = data.copy()
    for index, update in zip(indices[:, 0], updates, strict=True):
        result[index] = function(result[index], update)
    return result


def mask_probes() -> Iterator[Probe]:
    """Attention with a soft cap whose first key alone is seen, and attention without any key that is."""
    query, values, mask = [[[[1.0]]]], [[[[2.0], [3.0]]]], [[0.0, -1e4]]
    yield Probe("Attention", "softcap_mask", [query, [[[[1.0], [1.0]]]], values, mask], lambda *_: np.full((1, 1, 1, 1), 2.0),
                {"softcap": 1.0})  # fmt: skip
    none = [[-INF, -INF]]
    yield Probe("Attention", "inf", [query, [[[[1.0], [1.0]]]], values, none], lambda *_: np.full((1, 1, 1, 1), NAN))


def zero_probes() -> Iterator[Probe]:
    """Zeros with a sign."""
    zeros = [-0.0, 0.0] * 20
    same = lambda x, *_: x  # noqa: E731
    yes, no = np.ones(40, bool), np.zeros(40, bool)
    yield Probe("Where", "signed_zero", [yes, zeros, [1.0] * 40], lambda p, x, y: x)
    yield Probe("Where", "signed_zero", [no, [1.0] * 40, zeros], lambda p, x, y: y)
    yield Probe("Where", "signed_zero", [np.array([True, False] * 20), zeros, zeros], lambda p, x, y: x)
    for name in ("Ceil", "Floor", "Round", "Sqrt", "Identity"):
        yield Probe(name, "signed_zero", [zeros], same)
    yield Probe("Neg", "signed_zero", [zeros], lambda x: np.array([0.0, -0.0] * 20))
    yield Probe("Abs", "signed_zero", [zeros], lambda x: np.zeros(40))
    yield Probe("Reciprocal", "signed_zero", [zeros], lambda x: np.array([-INF, INF] * 20))
    yield Probe("Add", "signed_zero", [[-0.0] * 40, [-0.0] * 40], same)
    yield Probe("Mul", "signed_zero", [zeros, [1.0] * 40], same)
    yield from chosen_zero_probes(zeros)
    yield Probe("Cast", "signed_zero", [zeros], same, {"to": int(ir.DataType.DOUBLE)})
    yield Probe("Cast", "signed_zero", [zeros], lambda x: np.zeros(40), {"to": int(ir.DataType.BOOL)})


def chosen_zero_probes(zeros: Values) -> Iterator[Probe]:
    """Zeros of both signs of which one is chosen: that which is greater, or less, in the total order; and the sign of a zero."""
    positive, negative = [0.0] * 40, [-0.0] * 40
    for name, want in (("Max", 0.0), ("Min", -0.0)):
        chosen = lambda *_, w=want: np.full(40, w)  # noqa: E731
        yield Probe(name, "signed_zero", [positive, negative], chosen)
        yield Probe(name, "signed_zero", [negative, positive], chosen)
        reduced = lambda *_, w=want: np.array(w)  # noqa: E731
        yield Probe(f"Reduce{name}", "signed_zero", [zeros, ints(0)], reduced, {"keepdims": 0})
        yield Probe(f"Reduce{name}", "signed_zero", [list(reversed(zeros)), ints(0)], reduced, {"keepdims": 0})
    yield Probe("Relu", "signed_zero", [zeros], lambda x: np.zeros(40))
    bounds = [lambda d: np.array(0.0, d), lambda d: np.array(1.0, d)]
    yield Probe("Clip", "signed_zero", [zeros, *bounds], lambda *_: np.zeros(40))
    yield Probe("Sign", "signed_zero", [zeros], lambda x: x)
    yield Probe("ReduceSum", "signed_zero", [[negative], ints(1)], lambda *_: np.array([-0.0]), {"keepdims": 0})
    image = [[np.reshape(zeros, (5, 8)).tolist()]]
    yield Probe("MaxPool", "signed_zero", [image], lambda x: np.zeros((1, 1, 4, 7)), {"kernel_shape": [2, 2]})


def probes() -> Iterator[Probe]:
    for make in (nan_probes, wrap_probes, empty_probes, infinity_probes, hidden_probes, accuracy_probes, order_probes,
                 mask_probes, zero_probes):  # fmt: skip
        yield from make()


# -- running them ------------------------------------------------------------------------------------


def arguments(probe: Probe, dtype: np.dtype[Any]) -> list[Array]:
    """The operands in the measured type."""
    return [_argument(operand, dtype) for operand in probe.operands]


def _argument(operand: Operand, dtype: np.dtype[Any]) -> Array:
    if isinstance(operand, np.ndarray):
        return operand
    return operand(dtype) if callable(operand) else np.array(operand).astype(dtype)


def model_of(probe: Probe, operands: Sequence[Array]) -> onnx.ModelProto:
    """The model; scalars and lists of axes are constants, sizes are known where they are not 0."""
    given = [ir.DataType.from_numpy(a.dtype) for a in operands]
    inputs = [onnx.helper.make_tensor_value_info(f"x{i}", int(t), [size or None for size in a.shape])
              for i, (t, a) in enumerate(zip(given, operands, strict=True)) if not is_constant(a)]  # fmt: skip
    constants = []
    for i, array in enumerate(operands):
        if is_constant(array):
            constants.append(ir.to_proto(ir.tensor(array, name=f"x{i}")))
    nodes = [onnx.parser.parse_node(line) for line in probe.graph.strip().splitlines()] or [
        node_of(probe, len(operands))
    ]
    graph = onnx.helper.make_graph(nodes, "g", inputs, [onnx.ValueInfoProto(name="y")], constants)
    return onnx.helper.make_model(graph, opset_imports=[onnx.OperatorSetIdProto(version=OPSET)], ir_version=10)


def is_constant(array: Array) -> bool:
    return array.ndim == 0 or (array.dtype == np.int64 and array.ndim == 1 and array.size < 3)


def node_of(probe: Probe, count: int) -> onnx.NodeProto:
    name, _, reduction = probe.key.partition("_")
    attributes = {**({"reduction": reduction} if reduction else {}), **probe.attributes}
    outputs = ["y", "i"] if name == "TopK" else ["y"]
    return onnx.helper.make_node(name, [f"x{i}" for i in range(count)], outputs, **attributes)


def is_kept(probe: Probe, dtype: ir.DataType) -> bool | None:
    """Whether the property is kept at this type; None where the operator has no kernel for it."""
    operands = arguments(probe, dtype.numpy())
    try:
        run = load(model_of(probe, operands))
    except (errors.NotImplemented, errors.InvalidGraph):
        return None
    except REFUSALS as error:
        # What the runtime expands into others may lack a kernel; else a model that does not load is a loss.
        return None if "type" in str(error).lower() else False
    feeds = {f"x{i}": a for i, a in enumerate(operands) if not is_constant(a)}
    if probe.kept == "empty":
        soil(run, feeds)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        want = np.asarray(probe.expected(*operands))
    try:
        return all(agrees(probe, dtype, run(feeds)[0], want) for _ in range(25 if probe.kept == "order" else 1))
    except errors.NotImplemented:
        return None
    except REFUSALS as error:
        return None if "type is not supported" in str(error) else False


def soil(run: Callable[[Mapping[str, Array]], list[Array]], feeds: Mapping[str, Array]) -> None:
    """Run once on arrays with elements, so that a kernel that writes nothing returns the numbers of this run."""
    filled = {name: np.ones([size or 3 for size in a.shape], a.dtype) for name, a in feeds.items()}
    with contextlib.suppress(*REFUSALS):
        run(filled)


def agrees(probe: Probe, dtype: ir.DataType, got: Array, want: Array) -> bool:
    """Whether a result shows that the property was kept.

    Args:
      probe: the call, which names the property.
      dtype: the measured element type.
      got: the runtime's result.
      want: the right result.
    """
    if got.shape != want.shape:
        return False
    if probe.kept in ("wraps", "order") or want.dtype == np.bool_:
        return bool(np.array_equal(got, want.astype(got.dtype)))
    got, want = got.astype(np.float64), want.astype(np.float64)
    if probe.kept == "nan":
        return bool(np.array_equal(got, want)) if "Arg" in probe.key else bool(np.isnan(got)[np.isnan(want)].all())
    if probe.kept == "signed_zero":
        return bool(np.array_equal(got, want) and np.array_equal(np.signbit(got), np.signbit(want)))
    precision = float(ml_dtypes.finfo(dtype.numpy()).eps) if dtype.is_floating_point() else 0.0
    largest = float(np.abs(want[np.isfinite(want)]).max(initial=1))
    return bool(np.allclose(got, want, rtol=0, atol=probe.ulps * precision * largest, equal_nan=True))


def measure(
    keys: Iterable[str],
    keeps: Callable[[Probe, ir.DataType], bool | None] = is_kept,
    dtypes: Sequence[ir.DataType] = DTYPES,
) -> dict[str, dict[str, dict[str, str]]]:
    """Measure properties of operators.

    Args:
      keys: the operators, each with its reduction where it has one.
      keeps: whether the property of a probe is kept for an element type; None if the runtime refuses the call.
      dtypes: the element types to try.

    Returns:
      Operator → property → `kept` and `lost`, the short names of the element types.
    """
    wanted, found = set(keys), dict[str, dict[Property, dict[ir.DataType, bool]]]()
    for probe in probes():
        if probe.key not in wanted:
            continue
        measured = found.setdefault(probe.key, {}).setdefault(probe.kept, {})
        for dtype in [d for d in probe.dtypes or dtypes if d in dtypes and concerns(probe.kept, d)]:
            kept = keeps(probe, dtype)
            if kept is not None:
                is_lost = not kept or (probe.key, probe.kept) in ENDLESS
                measured[dtype] = measured.get(dtype, True) and not is_lost
    return {key: {kept: _names(kept, types) for kept, types in found[key].items()} for key in sorted(found)}


def _names(kept: Property, types: Mapping[ir.DataType, bool]) -> dict[str, str]:
    """The short names of the types; where one type shows that a kernel writes in parallel, it does so for all."""
    if kept == "order":
        types = dict.fromkeys(types, all(types.values()))
    return {name: " ".join(d.short_name() for d in DTYPES if types.get(d) is wanted)
            for name, wanted in (("kept", True), ("lost", False))}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", metavar="OPERATOR", help="measure one operator and print the result")
    options = parser.parse_args()
    table = measure([options.show] if options.show else {probe.key for probe in probes()})
    if options.show:
        sys.stdout.write(json.dumps(table, indent=1) + "\n")
        return
    data = {"onnxruntime": ort.__version__, "provider": "CPUExecutionProvider", "opset": OPSET, "guarantees": table}
    write(data, "guarantees")


if __name__ == "__main__":
    main()
