"""Whole models, exported with dynamic dimensions: equal to JAX at several sizes, and with no operator too many."""

from __future__ import annotations

import cProfile
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax2onnx_core import to_onnx
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_testing.reference import Reference

from examples.models import BiLstm, Gpt, HandWrittenGpt, ResNet, UNet, ViT, as_trained

DTYPES = {"f32": jnp.float32, "f64": jnp.float64}

# What a block needs: two norms, four projections with biases around one attention, two dense layers with biases
# around the gelu, two residual additions.
BLOCK = Counter({"LayerNormalization": 2, "MatMul": 6, "Add": 8, "Attention": 1, "Gelu": 1})


@pytest.fixture(params=["f32", "f64"])
def precision(request: pytest.FixtureRequest) -> Any:
    """The precision, "f32" or "f64", with JAX's 64-bit types enabled for the latter alone."""
    with jax.enable_x64(request.param == "f64"):
        yield request.param


def trained(model: Callable[..., nnx.Module], precision: str, **options: Any) -> nnx.Module:
    """A model of the precision, with its parameters as after training."""
    return as_trained(model(rngs=nnx.Rngs(0), param_dtype=DTYPES[precision], **options), seed=1)


def operators(program: Any) -> Counter[str]:
    return Counter(node.op_type for node in program.model.graph)


def assert_equal(program: Any, model: nnx.Module, inputs: list[np.ndarray]) -> None:
    """At each size the result is JAX's, and so is its type."""
    results = Reference(model).of_calls([((x,), {}) for x in inputs])
    for x, (expected,) in zip(inputs, results, strict=True):
        computed = np.asarray(program(x))
        assert computed.dtype == expected.dtype
        scale = np.abs(expected).max()
        np.testing.assert_allclose(computed, expected, rtol=1e-4, atol=2e-5 * scale)


def images(precision: str, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    noise = np.random.default_rng(2)
    return [noise.normal(size=shape).astype(DTYPES[precision]) for shape in shapes]


def test_vit(precision: str) -> None:
    model = trained(ViT, precision)
    program = to_onnx(model, [(("B", 32, 32, 3), DTYPES[precision])])
    assert_equal(program, model, images(precision, (1, 32, 32, 3), (3, 32, 32, 3), (8, 32, 32, 3)))
    if precision == "f32":
        # Around the blocks: the patches (a convolution in NCHW, flattened), the class token, the positions, the head. The
        # class token is taken before the last layers, of the residual stream and of the attention.
        around = Counter({"Transpose": 2, "Conv": 1, "Reshape": 1, "Shape": 1, "Concat": 2, "Expand": 1, "Add": 2,
                          "LayerNormalization": 1, "Gather": 2, "Squeeze": 1, "MatMul": 1})  # fmt: skip
        assert operators(program) == around + Counter({op: 12 * count for op, count in BLOCK.items()})


def test_gpt(precision: str) -> None:
    model = trained(Gpt, precision)
    program = to_onnx(model, [(("B", "T"), np.int32)])
    noise = np.random.default_rng(3)
    sizes = [(1, 1), (3, 17), (2, 64)]
    assert_equal(program, model, [noise.integers(0, 101, size).astype(np.int32) for size in sizes])
    found = operators(program)
    assert found["Gemm"] == 1
    assert not found["Einsum"]
    if precision == "f32":
        blocks = Counter({op: 4 * count for op, count in BLOCK.items()})
        assert blocks <= found
        assert found["Attention"] == 4
        assert found["LayerNormalization"] == 9
        assert found["Transpose"] == 0
        # The unembedding works on rows, so the last two reshapes are its own.
        assert found["Reshape"] == 2


def test_gpt_stores_its_table_once() -> None:
    model = trained(Gpt, "f32")
    program = to_onnx(model, [(("B", "T"), np.int32)])
    tables = [value for value in program.model.graph.initializers.values() if value.const_value.size == 101 * 96]
    assert [value.name for value in tables] == ["tokens.embedding"]


def test_weights_are_called_by_their_paths() -> None:
    program = to_onnx(trained(Gpt, "f32"), [(("B", "T"), np.int32)])
    names = set(program.model.graph.initializers)
    assert {"blocks.0.mlp.up.kernel", "blocks.3.attn.query.kernel", "norm.scale", "positions.embedding"} <= names


def test_lstm_in_both_directions(precision: str) -> None:
    model = trained(BiLstm, precision)
    program = to_onnx(model, [(("B", "T", 12), DTYPES[precision])])
    assert_equal(program, model, images(precision, (1, 1, 12), (3, 7, 12), (2, 50, 12)))


def test_resnet(precision: str) -> None:
    model = trained(ResNet, precision)
    program = to_onnx(model, [(("B", "16*H", "16*W", 3), DTYPES[precision])])
    assert_equal(program, model, images(precision, (1, 32, 32, 3), (3, 48, 64, 3), (2, 16, 80, 3)))
    if precision == "f32":
        found = operators(program)
        # Batch norm is in the weights, and images are transposed once, on their way in.
        assert found["Transpose"] == 1
        assert found["Mul"] == 0
        assert found["Add"] == 4
        assert found["Conv"] == 9


def test_unet(precision: str) -> None:
    model = trained(UNet, precision)
    program = to_onnx(model, [(("B", "4*H", "4*W", 3), DTYPES[precision])])
    assert_equal(program, model, images(precision, (1, 32, 32, 3), (3, 44, 64, 3), (2, 8, 16, 3)))
    if precision == "f32":
        assert operators(program)["Transpose"] == 2


def test_formulas_become_operators(precision: str) -> None:
    model = trained(HandWrittenGpt, precision)
    program = to_onnx(model, [(("B", "T", 32), DTYPES[precision])])
    assert_equal(program, model, images(precision, (1, 1, 32), (3, 7, 32), (2, 40, 32)))
    if precision == "f32":
        found = operators(program)
        assert (found["LayerNormalization"], found["Attention"], found["Gelu"], found["Transpose"]) == (2, 1, 1, 0)


def exported_step(decoders: Any, writing: str, new: int) -> tuple[Counter[str], Sequence[tuple[object, ...]]]:
    """The operators of a step of so many tokens, and the dims of the queries and keys of its first attention; its results are JAX's."""
    decoder = decoders.DECODERS["qwen"][writing]
    arguments = decoder.arguments(new, 7, 12)
    program = to_onnx(decoder.step, [(x.shape, x.dtype) for x in arguments])
    [expected] = Reference(decoder.step).of_calls([(arguments, {})])
    for computed, wanted in zip(program(*arguments), expected, strict=True):
        np.testing.assert_allclose(computed, wanted, rtol=1e-4, atol=2e-5 * np.abs(wanted).max())
    attention = next(node for node in program.model.graph if node.op_type == "Attention")
    return operators(program), [dims_of(value) or () for value in attention.inputs[:2]]


@pytest.mark.parametrize(
    ("writing", "queries"),
    [
        ("einsum of grouped heads", (1, 4, 2 * 16)),
        ("repeated keys", (1, 4, 2 * 16)),
        ("dot_product_attention", (1, 4, 2 * 16)),
        ("dot_product_attention, caches of heads first", (1, 2, 4, 16)),
    ],
)
def test_four_heads_that_share_keys_are_four_queries_of_a_step(
    small_decoders: Any, writing: str, queries: tuple[int, ...]
) -> None:
    _, found = exported_step(small_decoders, writing, 1)
    assert found[0] == queries


@pytest.mark.parametrize(("new", "transposes"), [(1, 0), (3, 7)])
def test_caches_of_heads_first_are_not_transposed(small_decoders: Any, new: int, transposes: int) -> None:
    found, (_, keys) = exported_step(small_decoders, "dot_product_attention, caches of heads first", new)
    assert keys == (1, 2, 12, 16)
    assert found["Transpose"] == transposes  # new queries, keys and values of two layers, the result of the first


def test_a_stack_converts_in_linear_time_beside_jax() -> None:
    """Equal blocks are traced once: a deep model costs little more than JAX's own trace."""
    model = trained(ViT, "f32", width=32, depth=20, heads=2)
    shape = jax.ShapeDtypeStruct((2, 32, 32, 3), np.float32)
    graph, state = nnx.split(model)
    inputs = [("B", 32, 32, 3)]
    to_onnx(model, inputs)  # what is imported and cached once is no cost of the model
    tracing = number_of_calls(jax.make_jaxpr(lambda x: nnx.merge(graph, state)(x)), shape)
    assert number_of_calls(to_onnx, model, inputs) < 4 * tracing


def number_of_calls(function: Callable[..., object], *args: object) -> int:
    """Number of function calls within a call: a measure of time that does not depend on the load of the machine."""
    profile = cProfile.Profile()
    profile.runcall(function, *args)
    return sum(entry.callcount for entry in profile.getstats())
