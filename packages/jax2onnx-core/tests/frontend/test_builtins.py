"""Python's `len`, `max` and `min` in JAX's modules while a function is traced."""

from __future__ import annotations

import sys

import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import errors, to_onnx

polynomial, reductions = (sys.modules[f"jax._src.numpy.{name}"] for name in ("polynomial", "reductions"))


def test_the_length_of_a_traced_array_is_its_size():
    program = to_onnx(lambda x: jnp.polyint(x), [("N",)])
    assert str(program.model.graph.outputs[0].shape) == "[N + 1]"
    program.verify()


def test_jax_s_modules_have_them_while_a_function_is_traced_only():
    def fn(x):
        inside.append(polynomial.len)
        return x

    inside: list[object] = []
    to_onnx(fn, [("N",)])
    assert inside != [len]
    assert not {"len", "max", "min"} & vars(polynomial).keys()


def test_functions_of_these_names_stay():
    own = reductions.max
    to_onnx(lambda x: x if reductions.max is own else -x, [("N",)])(np.ones(2, np.float32))
    assert reductions.max is own


def test_an_export_inside_of_an_export_leaves_them():
    def fn(x):
        to_onnx(jnp.sin, [("M",)])
        return jnp.polyint(x)

    assert str(to_onnx(fn, [("N",)]).model.graph.outputs[0].shape) == "[N + 1]"


def test_known_sizes_are_numbers():
    lengths: list[object] = []

    def fn(x):
        lengths.extend((polynomial.len(x), polynomial.len([x, x, x]), polynomial.max(1, 4), polynomial.min([3, 2])))
        return x

    to_onnx(fn, [(5, "N")])
    assert lengths == [5, 3, 4, 2]


def test_the_user_s_len_is_python_s():
    with pytest.raises(errors.UndecidedDimensionError, match=r"write x\.shape\[0\] in the place of len\(x\)"):
        to_onnx(lambda x: x * len(x), [("N",)])
