"""A whole sampler in one model: its loop computes what changes from token to token, once, and nothing else."""

from __future__ import annotations

import functools
from collections import Counter

import jax
import numpy as np
import onnx_ir as ir
import pytest
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


@pytest.mark.parametrize(("picker", "most"), [("greedy", 100), ("top_k_top_p", 142)])
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
