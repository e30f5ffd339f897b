"""Tests that the rules of layer operations ask the target which form it prefers and what its kernels keep."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import Call, bind_composite, to_onnx
from jax2onnx_lax.nn.linear import contracted_axes


def operators(fn, *inputs, **options):
    program = to_onnx(fn, inputs, **options)
    return [node.op_type for node in program.model.graph]


@pytest.mark.parametrize(
    ("fn", "plain", "fast"),
    [
        (functools.partial(jax.nn.softmax, axis=0), ["Softmax"], None),
        (functools.partial(jax.nn.log_softmax, axis=0), ["LogSoftmax"], None),
        (functools.partial(jnp.mean, axis=(1, 2)), ["ReduceMean"], ["Transpose", "GlobalAveragePool", "Flatten"]),
    ],
)
def test_the_form_is_the_one_that_the_target_prefers(fn, plain, fast):
    x = ("B", 4, 5, 3)
    assert operators(fn, x, target="onnx") == plain
    default = operators(fn, x)
    assert default == fast if fast else plain[0] not in default


def test_doubles_have_an_operator_where_its_kernel_is_as_precise():
    x = (("B", 4), np.float64)
    with jax.enable_x64(True):
        assert operators(jax.nn.gelu, x, target="onnx") == ["Gelu"]
        assert operators(jax.nn.log_softmax, x, target="onnx") == ["LogSoftmax"]
        assert "Gelu" not in operators(jax.nn.gelu, x)
        assert "LogSoftmax" not in operators(jax.nn.log_softmax, x)


def test_an_empty_array_is_reduced_by_an_operator_where_the_target_keeps_its_meaning():
    mean = functools.partial(jnp.mean, axis=1)
    assert operators(mean, ("B", 0), target="onnx") == ["ReduceMean"]
    assert "ReduceMean" not in operators(mean, ("B", 0))


def test_what_an_operation_does_not_do_is_lowered_from_the_layer_itself():
    def pooled(x: jax.Array) -> jax.Array:
        call = Call(x, window=(2,), strides=(1,), padding="SAME_LOWER")
        return bind_composite("nn.max_pool", call, lambda: x + 1)

    program = to_onnx(pooled, [(2, 5, 3)])
    assert [node.op_type for node in program.model.graph] == ["Add"]
    assert "SAME_LOWER" in str(program.report())


@pytest.mark.parametrize(
    ("equation", "rank", "count"),
    [
        ("bi,io->bo", 2, 1),
        ("...nh,nhd->...d", 4, 2),
        ("b t d, d n h -> b t n h", 3, 1),
        ("bi,oi->bo", 2, None),
        ("bti,io->bot", 3, None),
        ("bi,bi->b", 2, None),
        ("bi,io", 2, None),
        ("ii,io->o", 2, None),
        ("bi,ij,jo->bo", 2, None),
        ("b,o->bo", 1, None),
    ],
)
def test_an_einsum_is_a_linear_map_where_it_contracts_the_last_axes_with_the_first(equation, rank, count):
    assert contracted_axes(equation, rank) == count
