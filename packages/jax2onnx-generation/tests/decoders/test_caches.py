"""The caches of a decoder: their axes, and the pairs of keys and values that they are."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from jax2onnx_generation.decoders.caches import Cache, layers_of, states_of
from jax2onnx_generation.decoders.signature import DecoderSignature, decoder_signature
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.metadata import StatePair, write_states
from onnx_ir.passes.common import ShapeInferencePass


def cache(name: str, heads: int = 2, features: int = 4, capacity: int | None = 16) -> Cache:
    return Cache(StatePair(name, f"new_{name}"), 1, 0, 2, heads, features, capacity)


@pytest.mark.parametrize(
    ("names", "pairs"),
    [
        ("k v", "k/v"),
        ("v k", "k/v"),
        ("key value", "key/value"),
        ("keys values", "keys/values"),
        ("cached_key cached_value", "cached_key/cached_value"),
        ("past_values past_keys", "past_keys/past_values"),
        ("KEY VALUE", "KEY/VALUE"),
        ("K_cache V_cache", "K_cache/V_cache"),
        ("layers.10.k layers.10.v layers.2.k layers.2.v", "layers.2.k/layers.2.v layers.10.k/layers.10.v"),
        ("0/value 0/key 1/value 1/key", "0/key/0/value 1/key/1/value"),
        ("k.0 k.1 v.0 v.1", "k.0/v.0 k.1/v.1"),
        # The last part of a name says more than the others.
        ("key.layer.v key.layer.k", "key.layer.k/key.layer.v"),
        # Where names do not tell all of them, they take turns.
        ("a b", "a/b"),
        ("b.1 a.1 b.0 a.0", "a.0/a.1 b.0/b.1"),
        ("monkey value", "monkey/value"),
        ("monkey a", "a/monkey"),
        ("k0 k1", "k0/k1"),
        ("k other", "k/other"),
        ("a.k a.other b.v b.other", "a.k/a.other b.other/b.v"),
        ("k v w x", "k/v w/x"),
    ],
)
def test_keys_and_values_are_paired_by_their_names(names, pairs):
    layers = layers_of([cache(name) for name in names.split()])
    assert " ".join(f"{layer.key.pair.input}/{layer.value.pair.input}" for layer in layers) == pairs


@pytest.mark.parametrize(
    ("caches", "message"),
    [
        ([], "The decoder has no caches"),
        ([cache("k")], "no pairs of keys and values with the same heads and features: k with 2 heads of 4"),
        ([cache("k"), cache("v"), cache("w")], "no pairs"),
        ([cache("k"), cache("v", heads=3)], "k with 2 heads of 4, v with 3 heads of 4"),
        ([cache("k"), cache("v", features=8)], "k with 2 heads of 4, v with 2 heads of 8"),
        ([cache("k"), cache("v", capacity=None)], "no pairs"),
    ],
)
def test_what_is_no_pairs_is_refused(caches, message):
    with pytest.raises(OptionError, match=message):
        layers_of(caches)


def test_the_number_of_places_may_differ():
    assert len(layers_of([cache("k"), cache("v", capacity=32)])) == 1


def model(state: str, body: str, grows: int | None = None, inputs: str = "") -> ir.Model:
    """A decoder with one state, whose new value the body computes."""
    shape, name = state.split()
    text = (
        f'<ir_version: 10, opset_import: ["" : 24]> main (int64[B,T] tokens{inputs}, {state}) '
        f"=> (float[B,T,9] logits, {shape} next) {{ depth = Constant<value = int64 {{9}}>() "
        f"pair = Constant<value = float[2] {{0, 1}}>() logits = OneHot(tokens, depth, pair) {body} }}"
    )
    made = ShapeInferencePass()(ir.from_onnx_text(text)).model
    write_states(made, [StatePair(name, "next", grows)])
    return made


def signature(found: ir.Model) -> DecoderSignature:
    return decoder_signature(found, {"tokens": "tokens", "positions": None, "mask": None})


@pytest.mark.parametrize(
    ("shape", "new", "axis", "perm", "capacity"),
    [
        ("[B,2,16,4]", "[B,2,T,4]", 2, (0, 1, 2, 3), 16),
        ("[B,16,2,4]", "[B,T,2,4]", 1, (0, 2, 1, 3), 16),
        ("[2,B,4,16]", "[2,B,4,T]", 3, (1, 0, 3, 2), 16),
        ("[B,2,C,4]", "[B,2,T,4]", 2, (0, 1, 2, 3), "C"),
    ],
)
@pytest.mark.parametrize("grows", [False, True])
def test_the_axes_of_a_cache(shape, new, axis, perm, capacity, grows):
    body = f"next = Concat<axis={axis}>(state, new)" if grows else "next = ScatterElements<axis={axis}>(state, i, new)"
    shown = shape if not grows else shape.replace("16", "S").replace("C", "S")
    inputs = f", float{new} new, int64{new} i"
    found = model(f"float{shown} state", body.format(axis=axis), axis if grows else None, inputs)
    [one], counters = states_of(found, signature(found))
    assert (one.perm, one.heads, one.features) == (perm, 2, 4)
    assert one.capacity == (None if grows else capacity)
    assert not counters


@pytest.mark.parametrize(
    ("state", "new", "message"),
    [
        ("float[B,16,2] state", "float[B,T,2]", r"The state state: float32\[B, 16, 2\] is no cache"),
        ("int64[B,16,2,4] state", "int64[B,T,2,4]", "is no cache of keys or values"),
        ("float[A,16,2,4] state", "float[A,T,2,4]", r"has no axes of the batch \(B as the tokens\)"),
        (
            "float[B,C,H,4] state",
            "float[B,T,H,4]",
            "of the places, and of heads and features, whose sizes are numbers",
        ),
    ],
)
def test_a_state_of_another_form_is_refused(state, new, message):
    inputs = f", {new} new, int64{new[new.index('[') :]} i"
    found = model(state, "next = ScatterElements<axis=1>(state, i, new)", inputs=inputs)
    with pytest.raises(OptionError, match=message):
        states_of(found, signature(found))


def test_a_number_that_grows_by_the_tokens_is_a_counter():
    found = model("int64 state", "n = Shape<start=1, end=2>(tokens) m = Squeeze(n) next = Add(state, m)")
    caches, [counter] = states_of(found, signature(found))
    assert (caches, counter.pair.input) == ([], "state")


def test_a_recurrent_state_is_refused():
    found = model("float[B,8] state", "next = Tanh(state)")
    with pytest.raises(OptionError, match="Recurrent states, which have no places, are none of them"):
        states_of(found, signature(found))
