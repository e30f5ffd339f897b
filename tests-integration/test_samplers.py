"""A whole sampler in one model: its loop computes what changes from token to token, once, and nothing else."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import pytest
from jax import lax
from jax2onnx_core import OnnxProgram, to_onnx
from jax2onnx_graph.passes.structural.eliminate_common_subexpressions import node_key

from examples.samplers import CACHE_SIZE, VOCABULARY, beam_search, generate, greedy, parameters, top_k_top_p

KEY = np.array([3, 7], np.uint32)
PICKERS = {"greedy": greedy, "top_k_top_p": top_k_top_p}
# Per layer 7 matrix products, 2 norms, an Attention, 2 rotations, 2 updates of the cache; besides the head, the last norm, and
# the update of the tokens.
PER_STEP = {
    "MatMul": 14,
    "Gemm": 1,
    "RMSNormalization": 5,
    "Attention": 2,
    "RotaryEmbedding": 4,
    "ScatterElements": 5,
    "Sin": 1,
    "Cos": 1,
}


@functools.cache
def exported(picker: str) -> OnnxProgram:
    fn = functools.partial(generate, parameters(), pick=PICKERS[picker])
    return to_onnx(fn, [(("B", "T"), np.int32), KEY, ((), np.int32)], constraints=[f"T <= {CACHE_SIZE}"])


@functools.cache
def exported_beams() -> OnnxProgram:
    fn = functools.partial(beam_search, parameters())
    return to_onnx(fn, [(("T",), np.int32), ((), np.int32)], constraints=[f"T <= {CACHE_SIZE}"])


def largest(logits: jax.Array) -> jax.Array:
    return logits < lax.top_k(logits, 1)[0]


def nucleus(logits: jax.Array) -> jax.Array:
    ordered = jnp.sort(logits)[:, ::-1]
    count = jnp.sum(jnp.cumsum(jax.nn.softmax(ordered), -1) < 0.6, -1, keepdims=True)
    return logits < jnp.take_along_axis(ordered, count, -1)


@pytest.mark.parametrize("left_out", [largest, nucleus])
@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_the_least_logit_that_is_kept_is_not_less_than_itself(
    left_out: Callable[[jax.Array], jax.Array], dtype: jnp.dtype
) -> None:
    noise = np.random.default_rng(0)
    weight = jnp.asarray(noise.standard_normal((8, 50)), dtype)
    hidden = np.asarray(noise.standard_normal((16, 8))).astype(dtype)

    def fn(x: jax.Array) -> jax.Array:
        return left_out(x @ weight / 0.7)

    np.testing.assert_array_equal(np.asarray(to_onnx(fn, [hidden])(hidden)).sum(-1), fn(jnp.asarray(hidden)).sum(-1))


def body_of(program: OnnxProgram) -> ir.Graph:
    (loop,) = (node for node in program.model.graph if node.op_type == "Loop")
    return loop.attributes["body"].as_graph()


@pytest.mark.parametrize("picker", PICKERS)
@pytest.mark.parametrize(("batch", "length", "steps"), [(1, 3, 5), (2, 5, 0), (3, 1, 100)])
def test_tokens_are_those_of_jax(picker: str, batch: int, length: int, steps: int) -> None:
    prompt = np.random.default_rng(length).integers(2, VOCABULARY, (batch, length)).astype(np.int32)
    reference = jax.jit(functools.partial(generate, pick=PICKERS[picker]))
    expected = reference(parameters(), prompt, KEY, np.int32(steps))
    np.testing.assert_array_equal(exported(picker)(prompt, KEY, np.int32(steps)), expected)


@pytest.mark.parametrize(("length", "steps"), [(1, 0), (5, 1), (3, 100)])
def test_beams_are_those_of_jax(length: int, steps: int) -> None:
    prompt = np.random.default_rng(length).integers(2, VOCABULARY, length).astype(np.int32)
    written, scores = jax.jit(beam_search)(parameters(), prompt, np.int32(steps))
    found, found_scores = exported_beams()(prompt, np.int32(steps))
    np.testing.assert_array_equal(found, written)
    np.testing.assert_allclose(found_scores, scores, rtol=1e-5)


def test_operators_of_a_step_of_a_beam_search() -> None:
    counts = Counter(node.op_type for node in body_of(exported_beams()))
    assert {name: counts[name] for name in PER_STEP} == PER_STEP


@pytest.mark.parametrize("picker", PICKERS)
def test_operators_of_a_step(picker: str) -> None:
    counts = Counter(node.op_type for node in body_of(exported(picker)))
    assert {name: counts[name] for name in PER_STEP} == PER_STEP


@pytest.mark.parametrize(("picker", "most"), [("greedy", 101), ("top_k_top_p", 142)])
def test_nodes_of_a_step(picker: str, most: int) -> None:
    assert len(body_of(exported(picker))) <= most


@pytest.mark.parametrize("picker", PICKERS)
def test_no_two_nodes_of_a_step_compute_the_same(picker: str) -> None:
    keys = [key for node in body_of(exported(picker)) if (key := node_key(node, node.inputs)) is not None]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("picker", PICKERS)
def test_every_node_of_a_step_reads_what_the_loop_changes(picker: str) -> None:
    body = body_of(exported(picker))
    changing = set(body.inputs)
    for node in body:
        assert node.op_type == "If" or changing & set(node.inputs), node.name
        changing.update(node.outputs)


def test_layers_share_the_end_of_their_caches() -> None:
    states = body_of(exported("greedy")).inputs[2:]
    assert [state.dtype for state in states if state.shape is not None and not len(state.shape)] == [ir.DataType.INT32]


def test_weights_keep_their_names() -> None:
    paths = jax.tree_util.tree_flatten_with_path(parameters())[0]
    names = {".".join(str(key.key) for key in path) for path, _ in paths}
    named = set(exported("greedy").model.graph.initializers)
    assert {name for name in names if not any(name in held for held in named)} == set()
