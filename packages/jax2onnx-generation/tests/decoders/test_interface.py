"""Decoders given as text with the inputs and outputs of Hugging Face's decoders: what they compute, and what is refused."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_generation.decoders.interface import DecoderInterface, decoder_interface
from jax2onnx_generation.decoders.signature import decoder_signature
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.metadata import StatePair, SymbolInfo, read_states, write_states, write_symbols
from jax2onnx_graph.targets import standard_target
from onnx.reference import ReferenceEvaluator
from onnx_ir.passes.common import ShapeInferencePass

#: The axes of the batch, heads, places and features by their sizes or symbols.
AXES = ("B", "2", "P", "4")
#: Orders of the axes of a cache, of which features are the last but one or the last.
ORDERS = [order for order in itertools.permutations(range(4)) if order.index(1) < order.index(3)]
RNG = np.random.default_rng(0)
TABLE = ", ".join(f"{number:.3f}" for number in RNG.normal(size=72))
TOKENS = np.array([[1, 5, 2], [8, 0, 3]])
PAST = {name: RNG.normal(size=(2, 2, 4, 4)).astype(np.float32) for name in ("k", "v")}


def turned(order: tuple[int, ...], back: bool = False) -> str:
    perm = sorted(range(4), key=order.__getitem__) if back else order
    return f"Transpose<perm = [{', '.join(map(str, perm))}]>"


def decoder(
    order: tuple[int, ...] = (0, 2, 1, 3), tokens: str = "int64[B,T] tokens", further: str = "", logits: str = "all",
    update: str = "nk = Concat<axis = {axis}>(k, row) nv = Concat<axis = {axis}>(v, other)", grows: bool = True, constraints: str = "",
) -> ir.Model:  # fmt: skip
    """A decoder with two caches, whose axes are in an order, and whose logits are of all tokens, of the last one, or of any number of words."""
    axis, dims = order.index(2), [AXES[a] for a in order]
    after = ",".join("K" if grows and d == "P" else d for d in dims)
    before = ",".join(dims)
    shown = "[B,9] logits" if logits == "last" else "[B,T,9] logits"
    last = "Identity(l)" if logits != "last" else "Gather<axis = 1>(l, minus)"
    body = f"""
        e = Gather(table, tokens) h = Reshape(e, split) heads = {turned((0, 2, 1, 3))}(h) row = {turned(order)}(heads) other = Neg(row)
        {update.replace("{axis}", str(axis))}
        kt = {turned(order, back=True)}(nk) vt = {turned(order, back=True)}(nv) m = Mul(kt, vt) s = ReduceSum<keepdims = 0>(m, inner)
        n = Shape<start = {axis}, end = {axis + 1}>(k) f = Cast<to = 1>(n) u = Add(s, f) w = Unsqueeze(u, inner2) o = OneHot(tokens, depth, pair)
        l = Add(o, w) logits = {last}
    """
    constants = (
        f"float[9,8] table = {{{TABLE}}}, int64[4] split = {{0, 0, 2, 4}}, int64[3] inner = {{1, 2, 3}}, int64[2] inner2 = {{1, 2}}, "
        "int64 depth = {9}, float[2] pair = {0, 1}, int64 minus = {-1}"
    )
    text = (
        f'<ir_version: 10, opset_import: ["" : 23]> main ({tokens}, float[{before}] k, float[{before}] v{further}) => '
        f"(float{shown}, float[{after}] nk, float[{after}] nv) <{constants}> {{ {body} }}"
    )
    model = ShapeInferencePass()(ir.from_onnx_text(text)).model
    if logits == "open":
        model.graph.outputs[0].shape = ir.Shape(["B", "T", "V"])
    write_states(model, [StatePair(name, f"n{name}", axis if grows else None) for name in ("k", "v")])
    symbols = {name: SymbolInfo(name, 0 if name == "P" else 1, None, ()) for name in ("B", "T", "P")}
    write_symbols(model, symbols, [constraints] if constraints else [])
    return model


def interface(model: ir.Model, *, positions: str | None = None) -> DecoderInterface:
    roles = {"tokens": "tokens", "positions": positions, "mask": None}
    return decoder_interface(model, decoder_signature(model, roles), standard_target)


def run(model: ir.Model, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    evaluator = ReferenceEvaluator(ir.to_proto(model))
    return dict(zip(evaluator.output_names, map(np.asarray, evaluator.run(None, feeds)), strict=True))


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_caches_that_grow_are_turned(order: tuple[int, ...]) -> None:
    model = decoder(order)
    back = np.argsort(order)
    old = run(model, {"tokens": TOKENS, **{name: array.transpose(order) for name, array in PAST.items()}})
    found = interface(model)
    assert (found.layers, found.heads, found.features, found.vocabulary) == (1, 2, 4, 9)
    assert (found.is_shared, found.capacity, found.takes_one_token, found.hides_padding) == (False, None, False, False)
    feeds = {f"past_key_values.0.{long}": PAST[short] for long, short in (("key", "k"), ("value", "v"))}
    given = {"input_ids": TOKENS, "attention_mask": np.ones((2, 7), np.int64), **feeds}
    assert [value.name for value in model.graph.inputs] == [*given]
    new = run(model, given)
    assert [*new] == ["logits", "present.0.key", "present.0.value"]
    np.testing.assert_allclose(new["logits"], old["logits"], rtol=1e-5)
    for one, other in (("present.0.key", "nk"), ("present.0.value", "nv")):
        np.testing.assert_array_equal(new[one], old[other].transpose(back))
    updates = [value.producer() for value in model.graph.outputs[1:]]
    assert [(node.op_type, node.inputs[0].name) for node in updates] == [("Concat", name) for name in feeds]
    assert [state.grows for state in read_states(model)] == [2, 2]


#: The update of a cache of a capacity, with its axis or without it, and the axis of the places for which that is right.
UPDATES = {
    "TensorScatter": ("TensorScatter{axis}({cache}, {new}, begin)", 2),
    "ScatterElements": ("ScatterElements{axis}({cache}, place, {new})", 0),
}


@pytest.mark.parametrize("is_default", [False, True])
@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("name", UPDATES)
def test_caches_of_a_capacity_are_turned(name: str, order: tuple[int, ...], is_default: bool) -> None:
    axis, (write, default) = order.index(2), UPDATES[name]
    if (is_default and axis != default) or (name == "TensorScatter" and axis == 0):
        return
    shown, steps = "" if is_default else f"<axis = {axis}>", [-1 if number == 2 else 1 for number in order]
    update = f"""
        count = Shape<start = 1, end = 2>(tokens) one = Constant<value = int64 {{1}}>() none = Constant<value = int64 {{0}}>()
        end = Squeeze(count) range = Range(none, end, one) along = Constant<value_ints = {steps}>() further = Reshape(range, along)
        places = Add(at, further) all = Shape(row) place = Expand(places, all) first = Shape<start = 0, end = 1>(row) begin = Expand(at, first)
        nk = {write.format(cache="k", new="row", axis=shown)} nv = {write.format(cache="v", new="other", axis=shown)}
    """
    model = decoder(order, further=", int64 at", update=update, grows=False)
    model.opset_imports[""] = 24
    tokens, places = np.array([[1, 5, 2], [8, 0, 3], [4, 4, 7]]), np.array(4)
    past = {name: RNG.normal(size=(3, 2, 9, 4)).astype(np.float32) for name in ("k", "v")}
    old = run(model, {"tokens": tokens, "at": places, **{name: array.transpose(order) for name, array in past.items()}})
    found = interface(model, positions="at")
    assert (found.heads, found.features, found.is_shared, found.capacity) == (2, 4, True, None)
    feeds = {f"past_key_values.0.{long}": past[short] for long, short in (("key", "k"), ("value", "v"))}
    new = run(model, {"input_ids": tokens, "attention_mask": np.ones((3, 7), np.int64), **feeds})
    np.testing.assert_allclose(new["logits"], old["logits"], rtol=1e-5)
    for one, other in (("present.0.key", "nk"), ("present.0.value", "nv")):
        np.testing.assert_array_equal(new[one], old[other].transpose(np.argsort(order)))
    updates = [value.producer() for value in model.graph.outputs[1:]]
    in_place = [(node.op_type, node.inputs[0].name) for node in updates] == [(name, past) for past in feeds]
    # The sums of this decoder take that order as well, and fewer transposes are left with it.
    assert in_place or (name, order) == ("ScatterElements", (0, 2, 1, 3))


def test_a_cache_with_a_place_for_each_head_is_turned_behind_its_update() -> None:
    order, write = (1, 0, 2, 3), "TensorScatter<axis = 2>({}, {}, of_heads)"
    update = f"of_heads = Constant<value = int64[2] {{4, 2}}>() nk = {write.format('k', 'row')} nv = {write.format('v', 'other')}"
    model = decoder(order, update=update, grows=False)
    model.opset_imports[""] = 24
    wide = {name: np.pad(array, [(0, 0), (0, 0), (0, 5), (0, 0)]) for name, array in PAST.items()}
    old = run(model, {"tokens": TOKENS, **{name: array.transpose(order) for name, array in wide.items()}})
    interface(model)
    feeds = {f"past_key_values.0.{long}": wide[short] for long, short in (("key", "k"), ("value", "v"))}
    new = run(model, {"input_ids": TOKENS, "attention_mask": np.ones((2, 7), np.int64), **feeds})
    for one, other in (("present.0.key", "nk"), ("present.0.value", "nv")):
        np.testing.assert_array_equal(new[one], old[other].transpose(np.argsort(order)))


def test_logits_of_the_last_token_stand_for_those_of_all() -> None:
    model = decoder(logits="last")
    old = run(model, {"tokens": TOKENS, **{name: array.transpose(0, 2, 1, 3) for name, array in PAST.items()}})
    interface(model)
    feeds = {f"past_key_values.0.{long}": PAST[short] for long, short in (("key", "k"), ("value", "v"))}
    new = run(model, {"input_ids": TOKENS, "attention_mask": np.ones((2, 7), np.int64), **feeds})
    np.testing.assert_allclose(new["logits"], np.repeat(old["logits"][:, None], 3, axis=1), rtol=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokens": "int64[B,3] tokens"}, r"The tokens tokens: int64\[B, 3\] are always 3; the runtime feeds a whole prompt"),
        ({"tokens": "int16[B,T] tokens"}, r"The tokens tokens: int16\[B, T\] are no int32 or int64 of shape \[B, T\]"),
        ({"further": ", float[B] style"}, "The runtime feeds the tokens, their positions, a mask and caches, but not style: export"),
        ({"logits": "open"}, r"The logits logits: float32\[B, T, V\] have no number of words as their last axis"),
        ({"constraints": "T >= 2"}, "one token after the other, but the model is for T >= 2. .* specialize={'T': 1}"),
        ({"constraints": "P >= 1"}, r"The cache k: .* is empty before the first step, .*: constraints=\['P >= 0'\]"),
    ],
)  # fmt: skip
def test_what_the_runtime_does_not_feed_is_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        interface(decoder(**changes))  # type: ignore[arg-type]


KNOWN = DecoderInterface(
    ir.Model(ir.Graph([], [], nodes=[], opset_imports={"": 20}), ir_version=10), batch=1, layers=1, heads=1, features=1, vocabulary=9,
    is_shared=True, capacity=8, positions=6, takes_one_token=False, hides_padding=False,
)  # fmt: skip


@pytest.mark.parametrize(
    ("capacity", "positions", "given", "stated", "length"),
    [
        (8, 6, None, 20, 6), (5, 6, None, 4, 5), (None, 6, None, 4, 6), (8, None, None, 4, 8), (None, None, None, 4, 4), (None, None, None, None, None),
        (8, 6, 6, 20, 6), (8, 6, 1, 20, 1), (None, None, 99, 4, 99), (8, 6, 7, 20, "is 7, and the model has 6 positions"), (5, None, 6, 20, "has 5"),
        (8, 6, 0, 20, "number of tokens, not 0"), (8, 6, True, 20, "not True"), (8, 6, 2.0, 20, "not 2.0"), (None, None, -1, None, "not -1"),
    ],
)  # fmt: skip
def test_a_text_has_as_many_tokens_as_there_are_places_and_positions(
    capacity: int | None, positions: int | None, given: int | None, stated: int | None, length: object
) -> None:
    decoder = dataclasses.replace(KNOWN, capacity=capacity, positions=positions)
    if isinstance(length, str):
        with pytest.raises(OptionError, match=length):
            decoder.context_length(given, stated)
    else:
        assert decoder.context_length(given, stated) == length
