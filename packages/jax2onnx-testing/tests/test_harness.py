"""Comparing results with those of JAX's primitive harness."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import pytest
from jax2onnx_testing.harness import compare_harness


@dataclasses.dataclass(frozen=True)
class Harness:
    group_name: str
    params: Mapping[str, object] = dataclasses.field(default_factory=dict)


MATRIX = np.array([[2.0, 1.0], [1.0, 3.0]], np.float32)


def test_equal_results_agree():
    assert compare_harness(Harness("sin"), [], [MATRIX], [MATRIX * np.float32(1 + 1e-6)]) is None


@pytest.mark.parametrize("dtype", ["float32", "complex64", "int32", "bool", "bfloat16"])
def test_different_results_are_located(dtype):
    want = np.array([0, 1, 1]).astype(
        np.dtype(dtype) if dtype != "bfloat16" else pytest.importorskip("ml_dtypes").bfloat16
    )
    got = want.copy()
    got[2] = 0
    problem = compare_harness(Harness("sin"), [], want, got)
    assert problem is not None
    assert problem.startswith("result 0: 1 of 3 elements")
    assert "(2,)" in problem


def test_other_dtypes_and_shapes_are_told():
    assert compare_harness(Harness("sin"), [], MATRIX, MATRIX[0]) == "result 0 is float32(2,) instead of float32(2, 2)"
    assert compare_harness(Harness("sin"), [], MATRIX, [MATRIX, MATRIX]) == "2 results instead of 1"


def test_eigenvectors_may_have_another_sign():
    values, vectors = np.linalg.eigh(MATRIX)
    assert compare_harness(Harness("eigh"), [MATRIX], [vectors, values], [-vectors, values]) is None


def test_eigenvectors_must_be_orthonormal():
    values, vectors = np.linalg.eigh(MATRIX)
    problem = compare_harness(Harness("eigh"), [MATRIX], [vectors, values], [2 * vectors, values])
    assert problem == "the eigenvectors are not orthonormal"


def test_eigenvectors_must_satisfy_their_equation():
    values, vectors = np.linalg.eigh(MATRIX)
    problem = compare_harness(Harness("eigh"), [MATRIX], [vectors, values], [vectors[:, ::-1], values])
    assert problem == "the eigenvectors satisfy neither A v = v λ nor vᴴ A = λ vᴴ"


def test_factors_of_qr_may_have_another_sign():
    q, r = np.linalg.qr(MATRIX)
    assert compare_harness(Harness("qr"), [MATRIX], [q, r], [-q, -r]) is None
    assert compare_harness(Harness("qr"), [MATRIX], [q, r], [-q, r]) is not None


@pytest.mark.parametrize(("is_stable", "agrees"), [(False, True), (True, False)])
def test_rows_with_equal_keys_have_an_order_in_stable_sorts_only(is_stable, agrees):
    keys = np.array([0.0, 0.0, 1.0], np.float32)
    want, got = [keys, np.array([1.0, 2.0, 3.0], np.float32)], [keys, np.array([2.0, 1.0, 3.0], np.float32)]
    assert (compare_harness(Harness("sort", {"is_stable": is_stable}), [], want, got) is None) is agrees
