"""Long sums in two steps: which are written so, and that they have the digits of float32."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_onnxruntime._long_sums import LongSumsPass

COLUMN, ROW = 1 << 12, 1 << 15

#: Dimensions and axes → the shape of the first sums, or why there are none.
ROWS: dict[tuple[str, tuple[int, ...]], list[str | int | None] | str | None] = {
    (f"{COLUMN},3", (0,)): [64, 3],
    (f"{COLUMN - 1},3", (0,)): None,
    (f"{COLUMN},1", (0,)): [64, 1],
    (f"B,{COLUMN},3", (1,)): ["B", 64, 3],
    (f"{COLUMN},B", (0,)): [64, "B"],
    (f"B,{COLUMN},T", (1,)): "it cannot be divided",
    (f"{COLUMN},B,T", (0,)): "it cannot be divided",
    (f"B,T,{COLUMN},3", (2,)): ["B", "T", 64, 3],
    (f"0,{COLUMN},3", (1,)): None,
    ("4099,3", (0,)): "it cannot be divided",
    (f"B,{COLUMN},3", (0, 1)): "an axis that is summed is symbolic",
    ("64,56,56,8", (0, 1, 2)): [64, 1, 1, 8],
    (f"2,{COLUMN},8", (0, 1)): [2, 64, 8],
    (f"{ROW}", (0,)): [128],
    (f"{ROW - 4}", (0,)): None,
    (f"3,{ROW}", (1,)): [3, 128],
    (f"{COLUMN},3", (1,)): None,
    (f"3,{COLUMN}", (1,)): None,
}


def _model(dims: str, axes: Sequence[int], operator: str, dtype: str) -> ir.Model:
    text = f"""<ir_version: 8, opset_import: ["" : 18]> g ({dtype}[{dims}] x) => ({dtype} y)
    <int64[{len(axes)}] a = {{{",".join(map(str, axes))}}}> {{ y = {operator}(x, a) }}"""
    model = ir.from_onnx_text(text)
    model.graph.outputs[0].shape = None
    return model


@pytest.mark.parametrize("row", ROWS)
def test_what_is_summed_first(row: tuple[str, tuple[int, ...]]) -> None:
    model, graph_pass = _model(*row, "ReduceSum", "float"), LongSumsPass()
    graph_pass(model)
    sums = [node for node in model.graph if node.op_type == "ReduceSum"]
    told, shape = [one.reason for one in graph_pass.declined], sums[0].outputs[0].shape
    found = None if len(sums) == 1 or shape is None else [d if isinstance(d, int) else d.value for d in shape]
    assert (told[0] if told else found) == ROWS[row]


@pytest.mark.parametrize(
    ("operator", "dtype", "operators"),
    [
        ("ReduceSum", "float", ["Reshape", "ReduceSum", "ReduceSum"]),
        ("ReduceMean", "float", ["Reshape", "ReduceMean", "ReduceMean"]),
        ("ReduceSumSquare", "float", ["Reshape", "ReduceSumSquare", "ReduceSum"]),
        ("ReduceSum", "double", ["ReduceSum"]),
        ("ReduceMax", "float", ["ReduceMax"]),
    ],
)
def test_the_operators_of_both_steps(operator: str, dtype: str, operators: list[str]) -> None:
    model = _model(f"{COLUMN},3", (0,), operator, dtype)
    LongSumsPass()(model)
    assert [node.op_type for node in model.graph] == operators


@pytest.mark.parametrize(
    ("first", "second", "operators"),
    [
        (f"{COLUMN}", f"{COLUMN}", ["Mul", "Reshape", "ReduceSum", "ReduceSum"]),
        (f"{COLUMN - 1}", f"{COLUMN - 1}", ["MatMul"]),
        (f"1,{COLUMN}", f"{COLUMN}", ["MatMul"]),
        (f"{COLUMN}", f"{COLUMN},1", ["MatMul"]),
    ],
)
def test_products_of_long_vectors(first: str, second: str, operators: list[str]) -> None:
    model = ir.from_onnx_text(
        f'<ir_version: 8, opset_import: ["" : 18]> g (float[{first}] x, float[{second}] z) => (float y) {{ y = MatMul(x, z) }}'
    )
    LongSumsPass()(model)
    assert [node.op_type for node in model.graph] == operators


def test_products_of_vectors_have_the_digits_of_their_type() -> None:
    x, y = np.full(1 << 18, 0.1, np.float32), np.arange(1 << 18, dtype=np.float32)
    wanted = x.astype(np.float64) @ x.astype(np.float64), x.astype(np.float64) @ y.astype(np.float64)
    found = to_onnx(lambda x, y: (jnp.vdot(x, x), jnp.vdot(x, y)), [x, y])(x, y)
    np.testing.assert_allclose(found, wanted, rtol=3e-6)


def test_sums_of_equal_numbers_have_the_digits_of_their_type() -> None:
    x = np.full((60_000, 3), 0.1, np.float32)
    found = to_onnx(lambda x: (x.sum(), x.mean(), x.sum(0), x.mean(0), (x * x).sum()), [x])(x)
    total = np.float64(np.float32(0.1)) * len(x)
    wanted = 3 * total, total / len(x), np.full(3, total), np.full(3, total / len(x)), 3 * total * np.float32(0.1)
    for one, exact in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, exact, rtol=3e-6)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((1 << 20,), (0,)),
        ((1 << 20, 1), (0,)),
        ((1 << 18, 3), (0,)),
        ((2, 1 << 17, 3), (0, 1)),
        ((64, 60, 60, 2), (0, 1, 2)),
        ((3, 1 << 19), (0, 1)),
    ],
)
def test_sums_have_the_digits_of_their_type(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> None:
    def fn(x: jax.Array) -> list[jax.Array]:
        return [
            jnp.abs(x).sum(axes, keepdims=keepdims),
            (x * x).sum(axes, keepdims=keepdims),
            jnp.abs(x).mean(axes, keepdims=keepdims),
        ]

    x = (10 * np.random.default_rng(0).standard_normal(shape)).astype(np.float32)
    wide = np.abs(x.astype(np.float64))
    wanted = (
        wide.sum(axes, keepdims=keepdims),
        (wide * wide).sum(axes, keepdims=keepdims),
        wide.mean(axes, keepdims=keepdims),
    )
    for found, exact in zip(to_onnx(fn, [x])(x), wanted, strict=True):
        np.testing.assert_allclose(found, exact, rtol=3e-6)
