"""Caches of all layers in one array, as caches of single layers."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from jax2onnx_generation.decoders.declaration import declared_states, decoder_metadata
from jax2onnx_generation.decoders.kinds import Kind, StateKind
from jax2onnx_generation.decoders.signature import decoder_signature
from jax2onnx_generation.decoders.stacked_caches import with_separate_caches
from jax2onnx_graph.metadata import StatePair, read_states, write_states
from jax2onnx_graph.targets import standard_target
from jax2onnx_graph.traversal import all_values
from onnx_ir.passes.common import ShapeInferencePass

STACKED = """
<ir_version: 10, opset_import: ["": 18]>
main (int64[B,T] x, float[2,B,16,2,8] cache) => (float[B,T,8] y, float[2,B,16,2,8] new_cache) {
  new_cache = Neg(cache)
  d = Constant<value = int64 {8}>() p = Constant<value = float[2] {0, 1}>()
  y = OneHot(x, d, p)
}
"""


@pytest.mark.parametrize(
    ("dims", "axis", "of_part"),
    [
        ("2,B,16,2,8", 2, 1),
        ("16,2,B,2,8", 0, 0),
        ("B,C,2,3,8", 1, 1),
        ("B,C,2,3,8", 3, 2),
        ("2,2,B,16,2,8", 3, 1),
        ("B,C,2,2,3,8", 1, 1),
    ],
)
def test_what_is_declared_of_the_cache_of_all_layers_holds_for_that_of_each(dims, axis, of_part):
    model = ShapeInferencePass()(ir.from_onnx_text(STACKED.replace("2,B,16,2,8", dims))).model
    write_states(model, [StatePair("cache", "new_cache")])
    decoder_metadata(states={"cache": StateKind(Kind.CACHE, axis, rolls=True)}).write(model)
    made = with_separate_caches(model, standard_target, decoder_signature(model))
    parts = [pair.input for pair in read_states(made)]
    assert parts == (
        ["cache.0", "cache.1"] if dims.count(",") == 4 else [f"cache.{i}.{j}" for i in range(2) for j in range(2)]
    )
    assert declared_states(made) == dict.fromkeys(parts, StateKind(Kind.CACHE, of_part, rolls=True))


WRITTEN = """
<ir_version: 10, opset_import: ["": 18]>
main (int64[1,T] tokens, int64[DIMS] at, float[NEW] new, float[DIMS] cache) => (float[1,T,8] logits, float[DIMS] new_cache) {
  new_cache = ScatterElements<axis = AXIS>(cache, at, new)
  depth = Constant<value = int64 {8}>()
  pair = Constant<value = float[2] {0, 1}>()
  logits = OneHot(tokens, depth, pair)
}
"""


@pytest.mark.parametrize(
    ("dims", "places", "batch", "of_part", "part_places"),
    [
        ("3,1,16,2,8", 2, 1, "1,16,2,8", 1),
        ("1,3,16,2,8", 2, 1, "1,16,2,8", 1),
        ("1,16,3,2,8", 1, 1, "1,16,2,8", 1),
        ("16,3,1,2,8", 0, 1, "16,1,2,8", 0),
        ("16,1,3,2,8", 0, 1, "16,1,2,8", 0),
        ("2,3,16,2,8", 2, 2, "2,16,2,8", 1),
        ("3,2,16,2,8", 2, 2, "2,16,2,8", 1),
        ("2,2,16,2,8", 2, 2, "2,16,2,8", 1),
        ("3,2,1,16,2,8", 3, 1, "1,16,2,8", 1),
        ("1,3,2,16,2,8", 3, 1, "1,16,2,8", 1),
    ],
)
@pytest.mark.parametrize("is_declared", [False, True])
def test_neither_places_nor_batch_are_taken_for_the_layers(dims, places, batch, of_part, part_places, is_declared):
    text = WRITTEN.replace("DIMS", dims).replace("NEW", dims).replace("AXIS", str(places)).replace("1,T", f"{batch},T")
    model = ShapeInferencePass()(ir.from_onnx_text(text)).model
    write_states(model, [StatePair("cache", "new_cache")])
    if is_declared:
        decoder_metadata(states={"cache": StateKind(Kind.CACHE, places)}).write(model)
    made = with_separate_caches(model, standard_target, decoder_signature(model))
    parts = {pair.input for pair in read_states(made)}
    shapes = {",".join(map(str, value.shape or ())) for value in made.graph.inputs if value.name in parts}
    assert shapes == {of_part}
    assert set(declared_states(made).values()) == {StateKind(Kind.CACHE, part_places)}


BY_ENTRIES = """
<ir_version: 10, opset_import: ["": 18]>
main (int64[B,T] x, float[1,16,2,2,8] cache) => (float[B,T,8] y, float[1,16,2,2,8] new_cache) {
  i = Constant<value = int64 {0}>() j = Constant<value = int64 {1}>() two = Constant<value = int64[1] {2}>()
  a = Gather<axis = 2>(cache, i) b = Gather<axis = 2>(cache, j)
  c = Neg(a) d = Neg(b)
  e = Unsqueeze(c, two) f = Unsqueeze(d, two)
  new_cache = Concat<axis = 2>(e, f)
  n = Constant<value = int64 {8}>() p = Constant<value = float[2] {0, 1}>()
  y = OneHot(x, n, p)
}
"""


def test_what_is_declared_holds_for_the_entries_along_an_inner_axis():
    model = ShapeInferencePass()(ir.from_onnx_text(BY_ENTRIES)).model
    write_states(model, [StatePair("cache", "new_cache")])
    decoder_metadata(states={"cache": StateKind(Kind.CACHE, 1)}).write(model)
    made = with_separate_caches(model, standard_target, decoder_signature(model))
    assert declared_states(made) == dict.fromkeys(("cache.0", "cache.1"), StateKind(Kind.CACHE, 1))


def test_the_cache_of_a_layer_has_no_name_of_another_value():
    text = (
        STACKED.replace("y = OneHot(x, d, p)", "h = OneHot(x, d, p) y = Identity(h)")
        .replace("h ", '"cache.1" ')
        .replace("(h)", '("cache.1")')
    )
    model = ShapeInferencePass()(ir.from_onnx_text(text)).model
    write_states(model, [StatePair("cache", "new_cache")])
    made = with_separate_caches(model, standard_target, decoder_signature(model))
    names = [value.name for value in all_values(made)]
    assert len(names) == len(set(names))
    assert [pair.input for pair in read_states(made)] == ["cache.0", "cache.1_1"]
