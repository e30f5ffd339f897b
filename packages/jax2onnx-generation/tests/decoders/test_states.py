"""How states are used, read from models given as text."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir
import pytest
from jax2onnx_generation.decoders.declaration import decoder_metadata
from jax2onnx_generation.decoders.kinds import Kind, StateKind
from jax2onnx_generation.decoders.signature import decoder_signature
from jax2onnx_generation.decoders.states import StateUse, state_uses
from jax2onnx_graph.errors import OptionError, ReadError
from jax2onnx_graph.metadata import StatePair, write_states
from onnx_ir.passes.common import ShapeInferencePass

CACHE = "float[B,16,2,4] state"


def model(state: str, body: str, *, inputs: str = "", grows: int | None = None) -> ir.Model:
    """A decoder with one state, whose new value the body computes."""
    shape, name = state.split()
    further = f", {inputs}" if inputs else ""
    text = (
        f'<ir_version: 10, opset_import: ["" : 24]> main (int64[B,T] tokens, float[B,T,2,4] new{further}, {state}) '
        f"=> (float[B,T,9] logits, {shape} next) {{ depth = Constant<value = int64 {{9}}>() "
        f"pair = Constant<value = float[2] {{0, 1}}>() logits = OneHot(tokens, depth, pair) {body} }}"
    )
    made = ShapeInferencePass()(ir.from_onnx_text(text)).model
    write_states(made, [StatePair(name, "next", grows)])
    return made


def use(found: ir.Model, declared: Mapping[str, StateKind] | None = None) -> StateUse:
    roles = {"tokens": "tokens", "logits": "logits", "positions": None, "mask": None}
    (one,) = state_uses(found, decoder_signature(found, roles), declared)
    return one


ROOM = (
    "z = Constant<value = int64[1] {0}>() o = Constant<value = int64[1] {1}>() m = Constant<value = int64[1] {-1}>() "
    "e = Constant<value = int64[1] {99}>() zeros = Constant<value = float[1,1,2,4] {0, 0, 0, 0, 0, 0, 0, 0}>() "
    "b = Shape<start=0, end=1>(tokens) rest = Constant<value = int64[3] {1, 2, 4}>() sizes = Concat<axis=0>(b, rest) "
    "flat = Constant<value = int64[3] {-1, 2, 4}>() whole = Constant<value = int64[4] {-1, 16, 2, 4}>() "
    "tab = Constant<value = float[1,2,4] {0, 0, 0, 0, 0, 0, 0, 0}>() "
)
KINDS: dict[str, tuple[ir.Model, StateKind]] = {
    "grown": (model("float[B,S,2,4] state", "next = Concat<axis=1>(state, new)", grows=1), StateKind(Kind.GROWS, 1)),
    "counted": (
        model("int64 state", "n = Shape<start=1, end=2>(tokens) m = Squeeze(n) next = Add(state, m)"), StateKind(Kind.COUNTER),
    ),
    "a number that something else is added to": (
        model("int64[B] state", "a = Constant<value = int64[1] {1}>() s = ReduceSum<keepdims=0>(tokens, a) next = Add(state, s)"),
        StateKind(Kind.OTHER),
    ),
    "a capacity that is a symbol": (
        model("float[B,C,2,4] state", "next = Where(c, state, state)", inputs="bool[B,C,1,1] c"), StateKind(Kind.CACHE, 1),
    ),
    "written along an axis": (
        model(CACHE, "next = ScatterElements<axis=1>(state, i, new)", inputs="int64[B,T,2,4] i"), StateKind(Kind.CACHE, 1),
    ),
    "written at points": (
        model(CACHE, "next = ScatterND(state, i, new)", inputs="int64[B,T,2] i"), StateKind(Kind.CACHE, 1),
    ),
    "written with other axes": (
        model(
            CACHE, "t = Transpose<perm=[0,2,1,3]>(state) u = Transpose<perm=[0,2,1,3]>(new) "
            "w = TensorScatter<axis=2>(t, u, i) next = Transpose<perm=[0,2,1,3]>(w)", inputs="int64[B] i",
        ), StateKind(Kind.CACHE, 1),
    ),
    "computed anew, of a size that is a symbol": (model("float[B,W] state", "next = Tanh(state)"), StateKind(Kind.OTHER)),
    "chosen in a branch": (
        model(
            "float[B,C,2,4] state", "next = If(c) <then_branch = t () => (float[B,C,2,4] a) { a = Identity(state) }, "
            "else_branch = e () => (float[B,C,2,4] b) { b = Neg(state) }>", inputs="bool c",
        ), StateKind(Kind.CACHE, 1),
    ),
    "computed anew": (model("float[B,8] state", "next = Tanh(state)"), StateKind(Kind.OTHER)),
    "moved along an axis of a size that is a symbol": (
        model(
            "float[B,C,2,4] state", "n = Shape<start=1, end=2>(tokens) e = Constant<value = int64[1] {999}>() "
            "a = Constant<value = int64[1] {1}>() x = Concat<axis=1>(state, new) next = Slice(x, n, e, a)",
        ), StateKind(Kind.OTHER),
    ),
    "turned along an axis, and written": (
        model(
            CACHE, "n = Shape<start=1, end=2>(tokens) e = Constant<value = int64[1] {999}>() a = Constant<value = int64[1] {1}>() "
            "o = Constant<value = int64[1] {0}>() x = Slice(state, n, e, a) y = Slice(state, o, n, a) z = Concat<axis=1>(x, y) "
            "next = ScatterElements<axis=1>(z, i, new)", inputs="int64[B,T,2,4] i",
        ), StateKind(Kind.OTHER),
    ),
    "read beside other numbers": (
        model(
            "float[B,C,2,4] state", "next = Where(c, state, state) k = Concat<axis=1>(state, new) s = ReduceSum(k)",
            inputs="bool[B,C,1,1] c",
        ), StateKind(Kind.CACHE, 1),
    ),
    "stacked with another": (
        model(
            "float[B,C,2,4] state", "z = Constant<value = int64[1] {0}>() w = Where(c, state, state) u = Unsqueeze(w, z) v = Neg(u) "
            "k = Concat<axis=0>(u, v) s, t = Split<axis=0, num_outputs=2>(k) next = Squeeze(s, z)", inputs="bool[B,C,1,1] c",
        ), StateKind(Kind.CACHE, 1),
    ),
    "with room for what is written nowhere": (
        model(
            "float[1,C,2,4] state", "z = Constant<value = int64[1] {0}>() o = Constant<value = int64[1] {1}>() m = Constant<value = int64[1] {-1}>() "
            "r = Constant<value = float[1,1,2,4] {0, 0, 0, 0, 0, 0, 0, 0}>() x = Concat<axis=1>(state, r) y = ScatterElements<axis=1>(x, i, new) "
            "next = Slice(y, z, m, o)", inputs="int64[1,T,2,4] i",
        ), StateKind(Kind.CACHE, 1),
    ),
    "with room that is repeated for each sequence": (
        model(
            CACHE, f"{ROOM} r = Expand(zeros, sizes) x = Concat<axis=1>(state, r) y = ScatterElements<axis=1>(x, i, new) "
            "next = Slice(y, z, m, o)", inputs="int64[B,T,2,4] i",
        ), StateKind(Kind.CACHE, 1),
    ),
    "with room behind what is moved": (
        model(
            CACHE, f"{ROOM} r = Expand(zeros, sizes) s = Slice(state, o, e, o) x = Concat<axis=1>(s, r) "
            "next = ScatterElements<axis=1>(x, i, new)", inputs="int64[B,T,2,4] i",
        ), StateKind(Kind.OTHER),
    ),
    "with room behind another order": (
        model(
            CACHE, f"{ROOM} r = Expand(zeros, sizes) n = Constant<value = int64[15] {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}}>() "
            "s = Gather<axis=1>(state, n) x = Concat<axis=1>(s, r) next = ScatterElements<axis=1>(x, i, new)", inputs="int64[B,T,2,4] i",
        ), StateKind(Kind.OTHER),
    ),
    "with room behind the beginning of a part": (
        model(
            CACHE, f"{ROOM} r = Expand(zeros, sizes) s = Slice(state, o, e, o) t = Slice(s, z, m, o) x = Concat<axis=1>(t, r, r) "
            "next = ScatterElements<axis=1>(x, i, new)", inputs="int64[B,T,2,4] i",
        ), StateKind(Kind.OTHER),
    ),
    "with room twice": (
        model(
            CACHE, f"{ROOM} r = Expand(zeros, sizes) x = Concat<axis=1>(state, r) y = ScatterElements<axis=1>(x, i, new) "
            "w = Slice(y, z, m, o) q = Concat<axis=1>(w, r) v = ScatterElements<axis=1>(q, i, new) next = Slice(v, z, m, o)",
            inputs="int64[B,T,2,4] i",
        ), StateKind(Kind.CACHE, 1),
    ),
    "with room in front": (
        model(
            CACHE, f"{ROOM} r = Expand(zeros, sizes) x = Concat<axis=1>(r, state) y = Slice(x, z, m, o) "
            "next = ScatterElements<axis=1>(y, i, new)", inputs="int64[B,T,2,4] i",
        ), StateKind(Kind.OTHER),
    ),
    "with tokens behind it": (
        model(
            CACHE, f"{ROOM} k = Gather(tab, tokens) w = Slice(k, z, o, o) x = Concat<axis=1>(state, w) y = Slice(x, o, e, o) "
            "next = ScatterElements<axis=1>(y, i, new)", inputs="int64[B,T,2,4] i",
        ), StateKind(Kind.OTHER),
    ),
    "written in the rows of all sequences": (
        model(
            CACHE, f"{ROOM} x = Reshape(state, flat) f = Reshape(new, flat) y = ScatterElements<axis=0>(x, i, f) next = Reshape(y, whole)",
            inputs="int64[N,2,4] i",
        ), StateKind(Kind.CACHE, 1),
    ),
    "written in the rows of all sequences, with room behind them": (
        model(
            CACHE, f"{ROOM} x = Reshape(state, flat) f = Reshape(new, flat) p = Constant<value = float[1,2,4] {{0, 0, 0, 0, 0, 0, 0, 0}}>() "
            "q = Concat<axis=0>(x, p) y = ScatterElements<axis=0>(q, i, f) w = Slice(y, z, m, z) next = Reshape(w, whole)",
            inputs="int64[N,2,4] i",
        ), StateKind(Kind.CACHE, 1),
    ),
    "written with other axes of one size": (
        model(
            "float[B,4,2,4] state", "t = Transpose<perm=[0,2,1,3]>(state) u = Transpose<perm=[0,2,1,3]>(new) "
            "w = ScatterElements<axis=2>(t, i, u) next = Transpose<perm=[0,2,1,3]>(w)", inputs="int64[B,2,T,4] i",
        ), StateKind(Kind.CACHE, 1),
    ),
    "with new numbers between two parts": (
        model(
            "float[B,C,2,4] state", "e = Constant<value = int64[1] {999}>() a = Constant<value = int64[1] {1}>() "
            "o = Constant<value = int64[1] {0}>() n = Shape<start=1, end=2>(tokens) q = Add(p, n) x = Slice(state, o, p, a) "
            "y = Slice(state, q, e, a) next = Concat<axis=1>(x, new, y)", inputs="int64[1] p",
        ), StateKind(Kind.CACHE, 1),
    ),
    "moved along an axis": (
        model(
            "float[B,4,2,4] state", "a = Constant<value = int64[1] {1}>() e = Constant<value = int64[1] {9}>() "
            "s = Slice(state, a, e, a) next = Concat<axis=1>(s, x)", inputs="float[B,1,2,4] x",
        ), StateKind(Kind.OTHER),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_the_graph_shows_how_a_run_changes_a_state(name):
    found, expected = KINDS[name]
    assert use(found).kind == expected


CHOSEN = model(CACHE, "next = Where(c, state, state)", inputs="bool[B,16,1,1] c")


UNKNOWN = {
    "chosen": CHOSEN,
    "written along two axes at once": model(
        CACHE, f"{ROOM} x = Reshape(state, flat) f = Reshape(new, flat) y = ScatterElements<axis=0>(x, i, f) next = Reshape(y, whole)".replace(
            "{-1, 2, 4}", "{-1, 4, 1}").replace("[-1,2,4]", "[-1,4,1]"), inputs="int64[N,4,1] i",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_state_of_which_a_part_is_kept_in_an_unknown_way_is_refused(name):
    with pytest.raises(OptionError, match=r"Declare it: states=\{'state': StateKind"):
        use(UNKNOWN[name])


def test_a_kind_that_is_declared_counts():
    assert use(CHOSEN, {"state": StateKind(Kind.CACHE, 1, rolls=True)}).kind == StateKind(Kind.CACHE, 1, rolls=True)


def test_the_metadata_declare_a_kind():
    found = CHOSEN.clone()
    decoder_metadata(states={"state": StateKind(Kind.OTHER)}).write(found)
    assert use(found).kind == StateKind(Kind.OTHER)


def test_the_metadata_declare_roles():
    found = model("float[B,8] state", "next = Tanh(state)", inputs="int64[B,T] x")
    decoder_metadata(roles={"positions": "x"}).write(found)
    assert decoder_signature(found).positions == "x"


def test_metadata_of_another_form_are_refused():
    found = CHOSEN.clone()
    found.metadata_props["jax2onnx-generation.decoder"] = '{"states": {"state": 3}}'
    with pytest.raises(ReadError, match="is not what decoder_metadata makes"):
        use(found)


@pytest.mark.parametrize(
    ("declared", "message"), [({"cache": 1}, "there is no state 'cache'"), ({"state": 4}, "no axis 4")]
)
def test_a_declaration_that_fits_no_state_is_refused(declared, message):
    with pytest.raises(OptionError, match=message):
        use(CHOSEN, {name: StateKind(Kind.CACHE, axis) for name, axis in declared.items()})


# -- places -----------------------------------------------------------------------------------

AT = "next = TensorScatter<axis=1>(state, new, i)"
ZERO = "zero = Constant<value = int64 {0}>() "
PLACES: dict[str, tuple[str, str, frozenset[str], bool, bool]] = {
    "each row's own": (f"{ZERO} i = Gather<axis=1>(p, zero) {AT}", "int64[B,T] p", frozenset({"p"}), True, False),
    "those of the first row": (
        f"{ZERO} r = Gather<axis=0>(p, zero) q = Gather<axis=0>(r, zero) n = Shape<start=0, end=1>(tokens) i = Expand(q, n) {AT}",
        "int64[B,T] p", frozenset({"p"}), False, False,
    ),
    "modulo the capacity": (
        f"m = Constant<value = int64 {{16}}>() i = Mod(p, m) {AT}", "int64[B] p", frozenset({"p"}), True, True,
    ),
    "modulo another number": (
        f"m = Constant<value = int64 {{7}}>() i = Mod(p, m) {AT}", "int64[B] p", frozenset({"p"}), True, False,
    ),
    "with an operand left out": (
        f"h = Constant<value = int64 {{15}}>() i = Clip(p, , h) {AT}", "int64[B] p", frozenset({"p"}), True, False,
    ),
    "of one input twice": (f"q = Neg(p) a = Abs(q) i = Add(p, a) {AT}", "int64[B] p", frozenset({"p"}), True, False),
    "of two inputs": (f"i = Add(p, q) {AT}", "int64[B] p, int64[B] q", frozenset({"p", "q"}), True, False),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_the_graph_shows_where_a_cache_is_written(name):
    body, inputs, places, by_row, rolls = PLACES[name]
    found = use(model(CACHE, body, inputs=inputs))
    assert (found.places, found.by_row, found.kind.rolls) == (places, by_row, rolls)
