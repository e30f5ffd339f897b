"""A fixed sample of JAX's own primitive harness, stratified by group and dtype, in ONNX Runtime.

`tools/conformance_sample.py` wrote the list; `nox -s conformance` runs all harnesses.
"""

from __future__ import annotations

import functools
import pathlib

import jax
import numpy as np
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_testing.harness import compare_harness

pytestmark = pytest.mark.sampled(40)

NAMES = pathlib.Path(__file__).with_name("conformance_sample.txt").read_text().split()


@functools.cache
def harnesses():
    """By name. Which ones there are depends on x64 at the time of the module's import."""
    with jax.enable_x64(True):
        from jax._src.internal_test_util import test_harnesses
    return {harness.fullname: harness for harness in test_harnesses.all_harnesses}


@pytest.mark.parametrize("name", NAMES)
def test_harness(name):
    harness = harnesses().get(name)
    if harness is None:
        pytest.skip("this JAX has no such harness")
    with jax.enable_x64(True):
        args = tuple(harness.dyn_args_maker(np.random.RandomState(42)))
        expected = jax.jit(harness.dyn_fun)(*args)
        actual = to_onnx(harness.dyn_fun, list(args), x64=True)(*args)
        problem = compare_harness(harness, args, expected, actual)
    assert problem is None, problem
