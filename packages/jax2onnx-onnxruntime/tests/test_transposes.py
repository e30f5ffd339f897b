"""Transposes by fast kernels: equal to NumPy's for each permutation, and few nodes."""

from __future__ import annotations

import itertools

import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_onnxruntime._transposes import TransposesPass
from jax2onnx_onnxruntime.loading import load


def _model(dims: str, perm: tuple[int, ...]) -> ir.Model:
    result = ",".join(dims.split(",")[axis] for axis in perm)
    return ir.from_onnx_text(
        f'<ir_version: 10, opset_import: ["" : 21]> g (float[{dims}] x) => (float[{result}] y) {{ y = Transpose<perm = {list(perm)}>(x) }}'
    )


@pytest.mark.parametrize("shape", [(6, 4, 20, 16), (1, 8, 32, 32), (16, 1, 20, 16)])
def test_every_permutation_is_the_same(shape):
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    operators = set()
    for perm in itertools.permutations(range(4)):
        model = _model(",".join(map(str, shape)), perm)
        TransposesPass()(model)
        operators.add(tuple(node.op_type for node in model.graph))
        np.testing.assert_array_equal(load(model)({"x": x})[0], x.transpose(perm))
    assert len(operators) > 1


def test_two_axes_are_moved_one_after_the_other():
    program = to_onnx(lambda x: jnp.transpose(x, (1, 3, 0, 2)), [("B", 4, 17, 16)])
    assert [node.op_type for node in program.model.graph] == ["Transpose", "Reshape", "Transpose", "Reshape"]
    program.verify()


def test_an_axis_of_size_1_is_in_the_way():
    program = to_onnx(lambda x: jnp.transpose(x, (1, 2, 4, 0, 3)), [(1, "B", 4, 17, 17)])
    assert [node.op_type for node in program.model.graph] == ["Reshape", "Transpose", "Reshape"]
    program.verify()


DECLINED = {
    "it moves more than two axes": ("4,4,4,4,16", (4, 3, 2, 1, 0)),
    "two axes are symbolic": ("B,T,16,16", (1, 3, 0, 2)),
}


@pytest.mark.parametrize("reason", DECLINED)
def test_why_others_stay(reason):
    graph_pass, model = TransposesPass(), _model(*DECLINED[reason])
    graph_pass(model)
    assert [declined.reason for declined in graph_pass.declined] == [reason]
    assert [node.op_type for node in model.graph] == ["Transpose"]
