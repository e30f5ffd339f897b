"""Integers whose kernels are wrong in some versions are computed by others, to the same numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_onnxruntime import LegalisePass, load

#: A version whose vectorised kernels compare 64-bit integers by halves.
BY_HALVES = "1.23"
EDGES = np.array([-(2**63), -(2**32) - 1, -(2**31), -1, 0, 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1])
X, Y, Z = (np.random.default_rng(seed).permutation(np.concatenate([EDGES, -EDGES[1:]])) for seed in range(3))

#: Calls of operators, and what NumPy computes.
CALLS: dict[str, Callable[[], np.ndarray]] = {
    "Max(x, z)": lambda: np.maximum(X, Z),
    "Min(x, z)": lambda: np.minimum(X, Z),
    "Max(x, z, one)": lambda: np.maximum(np.maximum(X, Z), 1),
    "Min(one, x, z)": lambda: np.minimum(np.minimum(X, Z), 1),
    "Max(x)": lambda: X,
    "Clip(x, one, many)": lambda: np.clip(X, 1, 2**40),
    "Clip(x, one)": lambda: np.maximum(X, 1),
    "Clip(x, , one)": lambda: np.minimum(X, 1),
    "Clip(x, many, one)": lambda: np.full_like(X, 1),
    "Clip(x)": lambda: X,
    "Sign(x)": lambda: np.sign(X),
}


@pytest.mark.parametrize("call", CALLS)
def test_integers_of_64_bits_are_compared_whole(call: str) -> None:
    constants = f"<int64 one = {{1}}, int64 many = {{{2**40}}}>"
    size = len(X)
    text = f'<ir_version: 8, opset_import: ["" : 18]> g (int64[{size}] x, int64[{size}] z) => (int64[{size}] y) {constants} {{ y = {call} }}'
    model = LegalisePass(version=BY_HALVES)(ir.from_onnx_text(text)).model
    assert not {"Max", "Min", "Clip", "Sign"} & {node.op_type for node in model.graph}
    (got,) = load(model)({"x": X, "z": Z})
    np.testing.assert_array_equal(got, CALLS[call]())


@pytest.mark.parametrize("call", CALLS)
def test_the_newest_version_has_its_own_kernels(call: str) -> None:
    text = f'<ir_version: 8, opset_import: ["" : 18]> g (int64[3] x, int64[3] z) => (int64[3] y) <int64 one = {{1}}, int64 many = {{9}}> {{ y = {call} }}'
    model = LegalisePass()(ir.from_onnx_text(text)).model
    assert [node.op_type for node in model.graph] == [call.partition("(")[0]]
