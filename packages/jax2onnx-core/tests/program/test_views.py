"""Functions whose outputs are inputs, or one value, by way of views: an Identity each, with symbolic sizes, `jit` and bodies."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_graph.traversal import subgraphs


def nodes(program):
    return [f"{node.op_type}({', '.join(str(v and v.name) for v in node.inputs)})" for node in program.model.graph]


@pytest.mark.parametrize("shape", [("A", "B", "C"), (2, 1, 3)], ids=["symbolic", "static"])
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.T.T,
        lambda x: x.reshape(-1).reshape(x.shape),
        lambda x: x[None].squeeze(0),
        lambda x: jnp.moveaxis(jnp.moveaxis(x, 0, -1), -1, 0),
        lambda x: x.transpose(1, 0, 2).reshape(-1).reshape(x.shape[1], x.shape[0], x.shape[2]).swapaxes(0, 1),
        jax.jit(lambda x: jax.jit(jnp.ravel)(x).reshape(x.shape)),
        jax.vmap(lambda x: x.T.T),
    ],
    ids=["transpose", "reshape", "squeeze", "moveaxis", "both", "jit", "vmap"],
)
def test_there_and_back_is_an_identity(fn, shape):
    program = to_onnx(fn, [shape])
    assert nodes(program) == ["Identity(x)"]
    program.verify()


def test_several_outputs_of_one_value():
    program = to_onnx(lambda x: (x.T.T, x.T.T, x, x.reshape(-1).reshape(x.shape)), [("A", "B")])
    assert nodes(program) == ["Identity(x)"] * 4
    program.verify()


def test_several_outputs_of_a_computed_value():
    def fn(x):
        y = jnp.tanh(x)
        return y, y.T.T, y.reshape(-1).reshape(y.shape), y.T

    program = to_onnx(fn, [("A", "B")])
    assert nodes(program) == [
        "Tanh(x)", "Transpose(output_0)", "Identity(output_0)", "Identity(output_0)",
    ]  # fmt: skip
    program.verify()


def test_an_output_beside_its_view():
    program = to_onnx(lambda x: (x.T, x.T.T), [("A", "B")])
    assert nodes(program) == ["Transpose(x)", "Identity(x)"]
    program.verify()


def test_in_branches_and_loops():
    def fn(x):
        y = jax.lax.cond(x.sum() > 0, lambda x: x.T.T, lambda x: x.reshape(-1).reshape(x.shape) * 2, x)
        return jax.lax.scan(lambda c, row: (jnp.sin(c + row), row.reshape(3, 1).reshape(3)), jnp.zeros(3), y)

    program = to_onnx(fn, [("A", 3)])
    bodies = [body for node in program.model.graph for body in subgraphs(node)]
    assert [[node.op_type for node in body] for body in bodies] == [["Identity"], ["Mul"], ["Add", "Sin"]]
    program.verify()
