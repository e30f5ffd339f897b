"""States that are stacked, as one cache for all layers, become states of their own, and stay one for whoever runs the model."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.metadata import StatePair, read_states, write_states
from jax2onnx_graph.traversal import all_values
from jax2onnx_runtime.bundles.bundle import _unstacked as loadable_programs
from jax2onnx_runtime.program import program_of
from jax2onnx_runtime.runtimes import reference_runtime
from jax2onnx_runtime.states import RuntimeOptions, StatefulModel
from jax2onnx_runtime.unstacking import Stack, StackedStates, open_unstacked, unstacked

HEAD = """<ir_version: 10, opset_import: ["" : 21]>
g (float[2,S,3] cache, float[S,3] x) => (float[2,S,3] new, float[S,3] y)
<float[S,3] a, float[S,3] b, float[S,3] c, float[S,3] d, float[1,S,3] e, float[1,S,3] f>
{ zero = Constant<value = int64 {0}>() one = Constant<value = int64 {1}>()
  zeros = Constant<value = int64[1] {0}>() ones = Constant<value = int64[1] {1}>() twos = Constant<value = int64[1] {2}>() """
RESTACKED = """c = Add(a, x) d = Mul(b, x) e = Unsqueeze(c, zeros) f = Unsqueeze(d, zeros)
  new = Concat<axis = 0>(e, f) y = Add(c, d) }"""
GATHERED = "a = Gather<axis = 0>(cache, zero) b = Gather<axis = 0>(cache, one) "

STACKED = {
    "gathered": GATHERED + RESTACKED,
    "gathered from the end": "last = Constant<value = int64 {-1}>() a = Gather<axis = 0>(cache, zero) b = Gather<axis = 0>(cache, last) "
    + RESTACKED,
    "in another order": "a = Gather<axis = 0>(cache, one) b = Gather<axis = 0>(cache, zero) " + RESTACKED,
    "split": "<float[1,S,3] g, float[1,S,3] h> g, h = Split<axis = 0, num_outputs = 2>(cache) a = Squeeze(g, zeros) b = Squeeze(h, zeros) "
    + RESTACKED,
    "sliced": """g = Slice(cache, zeros, ones, zeros) h = Slice(cache, ones, twos, zeros, ones)
        a = Squeeze(g, zeros) b = Squeeze(h, zeros) """ + RESTACKED,
    "with its shape": GATHERED + """c = Add(a, x) d = Mul(b, x) e = Unsqueeze(c, zeros) f = Unsqueeze(d, zeros)
        new = Concat<axis = 0>(e, f) whole = Shape(cache) last = Shape<start = -2>(cache) first = Shape<end = 1>(cache)
        some = Concat<axis = 0>(whole, last, first) real = Cast<to = 1>(some) sum = ReduceSum<keepdims = 0>(real) y = Mul(c, sum) }""",
    "one entry unchanged": GATHERED + """c = Add(a, x) e = Unsqueeze(c, zeros) f = Unsqueeze(b, zeros)
        new = Concat<axis = 0>(e, f) y = Add(c, b) }""",
    "entries that change places": GATHERED + """e = Unsqueeze(b, zeros) f = Unsqueeze(a, zeros)
        new = Concat<axis = 0>(e, f) y = Add(a, b) }""",
    "one entry twice": GATHERED + """c = Add(a, x) e = Unsqueeze(c, zeros) f = Unsqueeze(c, zeros)
        new = Concat<axis = 0>(e, f) y = Add(a, b) }""",
    "an entry that is a result": GATHERED + """y = Add(a, x) d = Mul(b, x) e = Unsqueeze(y, zeros) f = Unsqueeze(d, zeros)
        new = Concat<axis = 0>(e, f) }""",
}  # fmt: skip

AS_IT_IS = {
    "read as a whole": GATHERED + """c = Add(a, x) d = ReduceSum<keepdims = 0>(cache, zeros) e = Unsqueeze(c, zeros) f = Unsqueeze(d, zeros)
        new = Concat<axis = 0>(e, f) y = Add(c, d) }""",
    "read along another axis": """a = Gather<axis = 1>(cache, zero) b = Expand(a, ones) c = Add(x, x) d = Mul(x, x) e = Unsqueeze(c, zeros)
        f = Unsqueeze(d, zeros) new = Concat<axis = 0>(e, f) y = Add(c, d) }""",
    "read at a place that is computed": """n = Shape<start = 1, end = 2>(cache) m = Sub(n, n) i = Squeeze(m) a = Gather<axis = 0>(cache, i)
        b = Gather<axis = 0>(cache, one) """ + RESTACKED,
    "not stacked again": GATHERED + "c = Add(a, b) new = Add(cache, x) y = Add(c, x) }",
    "kept with its axis": "g = Slice(cache, zeros, ones, zeros) b = Gather<axis = 0>(cache, one) e = Add(g, x) f = Unsqueeze(b, zeros) "
    "new = Concat<axis = 0>(e, f) y = Add(b, x) }",
}  # fmt: skip


def model_of(body: str, grows: int | None = None) -> ir.Model:
    declared, head = "", HEAD
    if body.startswith("<"):
        declared, _, body = body[1:].partition(">")
        head = HEAD.replace("<float[S,3] a", f"<{declared}, float[S,3] a")
    model = ir.from_onnx_text(head + body)
    for node in model.graph:  # what Squeeze gives in the slices and splits is declared; their own shapes follow from it
        if node.op_type in ("Slice", "Split"):
            for output in node.outputs:
                output.shape = ir.Shape([1, "S", 3])
    write_states(model, [StatePair("cache", "new", grows)])
    return model


def run(loaded: StatefulModel, steps: int = 3) -> tuple[list[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(0)
    loaded.write("cache", rng.standard_normal((2, 4, 3)).astype(np.float32))
    results = [loaded.run({"x": rng.standard_normal((4, 3)).astype(np.float32)})[0] for _ in range(steps)]
    return results, loaded.read("cache")


@pytest.mark.parametrize("form", STACKED)
def test_a_stacked_state_is_several_states(form):
    found = unstacked(model_of(STACKED[form]))
    assert found.stacks == {"cache": Stack(0, ("cache.0", "cache.1"))}
    assert [pair.input for pair in read_states(found.model)] == ["cache.0", "cache.1"]
    assert "Concat" not in {node.op_type for node in found.model.graph} or form == "with its shape"
    assert [v.name for v in found.model.graph.inputs] == ["cache.0", "cache.1", "x"]


@pytest.mark.parametrize("form", STACKED)
def test_the_states_compute_what_the_stack_did(form):
    model = model_of(STACKED[form])
    whole = reference_runtime.open(model, read_states(model), RuntimeOptions())
    apart = open_unstacked(reference_runtime, model, model, RuntimeOptions())
    assert isinstance(apart, StackedStates)
    (expected, last), (found, state) = run(whole), run(apart)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(state, last)


@pytest.mark.parametrize(
    "range_", ["", "start = 1", "start = -1", "start = -2", "start = -9", "end = 1", "end = 2", "end = 9", "end = -1", "start = -9, end = 1",
               "start = 1, end = 2", "start = 2, end = -1", "start = 1, end = -2", "start = 0, end = 0"],
)  # fmt: skip
def test_a_part_of_the_shape_of_a_stacked_state(range_):
    shape = f"n = Shape{f'<{range_}>' if range_ else ''}(cache)"
    weigh = "r = Cast<to = 1>(n) s = ReduceSum<keepdims = 0>(r) c = Mul(a, s)"
    body = RESTACKED.replace("c = Add(a, x)", f"{shape} {weigh}")
    model = model_of(GATHERED + body)
    apart = open_unstacked(reference_runtime, model, model, RuntimeOptions())
    assert isinstance(apart, StackedStates)
    expected = reference_runtime.open(model, read_states(model), RuntimeOptions())
    np.testing.assert_array_equal(run(apart, 2)[1], run(expected, 2)[1])


@pytest.mark.parametrize("form", AS_IT_IS)
def test_another_state_stays_as_it_is(form):
    assert unstacked(model_of(AS_IT_IS[form])) is None


def test_a_state_that_grows_along_the_axis_stays_as_it_is():
    assert unstacked(model_of(STACKED["gathered"], grows=0)) is None


GROWING = """<ir_version: 10, opset_import: ["" : 21]>
g (float[2,S,3] cache, float[T,3] x) => (float[2,U,3] new)
<float[S,3] a, float[S,3] b, float[U,3] c, float[U,3] d, float[1,U,3] e, float[1,U,3] f>
{ zero = Constant<value = int64 {0}>() one = Constant<value = int64 {1}>() zeros = Constant<value = int64[1] {0}>()
  a = Gather<axis = 0>(cache, zero) b = Gather<axis = 0>(cache, one) c = Concat<axis = 0>(a, x) d = Concat<axis = 0>(b, x)
  e = Unsqueeze(c, zeros) f = Unsqueeze(d, zeros) new = Concat<axis = 0>(e, f) }"""


def test_a_stacked_state_that_grows_along_another_axis():
    model = ir.from_onnx_text(GROWING)
    write_states(model, [StatePair("cache", "new", 1)])
    found = unstacked(model)
    assert [(pair.input, pair.grows) for pair in read_states(found.model)] == [("cache.0", 0), ("cache.1", 0)]
    loaded = open_unstacked(reference_runtime, model, model, RuntimeOptions())
    numbers = np.arange(18, dtype=np.float32).reshape(6, 3)
    loaded.write("cache", np.zeros((2, 0, 3), np.float32))
    for begin, end in ((0, 3), (3, 4), (4, 6)):
        loaded.run({"x": numbers[begin:end]})
    assert loaded.shape("cache") == (2, 6, 3)
    loaded.keep_last("cache", 1, 4)
    np.testing.assert_array_equal(loaded.read("cache"), np.stack([numbers[2:], numbers[2:]]))


def test_a_state_that_is_not_among_those_that_may_be_stays_as_it_is():
    assert unstacked(model_of(STACKED["gathered"]), among=[]) is None


def test_the_model_itself_stays_as_it_is():
    model = model_of(STACKED["gathered"])
    before = ir.to_proto(model).SerializeToString()
    unstacked(model)
    assert ir.to_proto(model).SerializeToString() == before


WEIGHTED = GATHERED.replace("a = Gather", "old = Gather") + "a = Add(old, weight) " + RESTACKED
BRANCHED = GATHERED + RESTACKED.replace(
    "y = Add(c, d)",
    """no = Constant<value = int64 {0}>() is = Cast<to = 9>(no)
    y = If(is) <then_branch = t () => (float[S,3] inner) { inner = Neg(c) }, else_branch = e () => (float[S,3] other) { other = Add(c, d) }>""",
)


@pytest.mark.parametrize("name", ["cache.0", "cache.1", "new.0"])
@pytest.mark.parametrize(("body", "old"), [(STACKED["gathered"], "c"), (WEIGHTED, "weight"), (BRANCHED, "inner")])
def test_a_name_that_is_taken_is_given_to_no_part(name, body, old):
    model = model_of(body if old != "weight" else body.replace("weight", "pair"))
    if old == "weight":
        pair = next(node for node in model.graph if node.op_type == "Add").inputs[1]
        weight = ir.Value(name=name, const_value=ir.Tensor(np.full(3, 100, np.float32), name=name))
        weight.shape, weight.type = ir.Shape([3]), ir.TensorType(ir.DataType.FLOAT)
        pair.replace_all_uses_with(weight)
        model.graph.register_initializer(weight)
    else:
        next(value for value in all_values(model) if value.name == old).name = name
    found = unstacked(model)
    assert found is not None
    names = [value.name for value in all_values(found.model)]
    assert len(names) == len(set(names))
    apart = open_unstacked(reference_runtime, model, model, RuntimeOptions())
    whole = reference_runtime.open(model, read_states(model), RuntimeOptions())
    for one, other in zip(run(apart), run(whole), strict=True):
        np.testing.assert_array_equal(one, other)


NESTED = """<ir_version: 10, opset_import: ["" : 21]>
g (float[B,2,2,S] cache, float[B,S] x) => (float[B,2,2,S] new)
<float[B,2,S] p, float[B,2,S] q, float[B,S] a, float[B,S] b, float[B,S] c, float[B,S] d, float[B,S] r, float[B,S] t, float[B,1,S] u,
 float[B,1,S] v, float[B,1,S] w, float[B,1,S] z, float[B,2,S] k, float[B,2,S] l, float[B,1,2,S] m, float[B,1,2,S] n>
{ zero = Constant<value = int64 {0}>() one = Constant<value = int64 {1}>() ones = Constant<value_ints = [1]>()
  p = Gather<axis = 1>(cache, zero) q = Gather<axis = 1>(cache, one)
  a = Gather<axis = 1>(p, zero) b = Gather<axis = 1>(p, one) c = Gather<axis = 1>(q, zero) d = Gather<axis = 1>(q, one)
  r = Add(a, x) t = Mul(d, x) u = Unsqueeze(r, ones) v = Unsqueeze(b, ones) w = Unsqueeze(c, ones) z = Unsqueeze(t, ones)
  k = Concat<axis = 1>(u, v) l = Concat<axis = 1>(w, z) m = Unsqueeze(k, ones) n = Unsqueeze(l, ones)
  new = Concat<axis = 1>(m, n) }"""


def test_stacks_of_stacks():
    model = ir.from_onnx_text(NESTED)
    write_states(model, [StatePair("cache", "new")])
    found = unstacked(model)
    layers = tuple(Stack(1, (f"cache.{i}.0", f"cache.{i}.1")) for i in range(2))
    assert found.stacks == {"cache": Stack(1, layers)}
    apart = StackedStates(reference_runtime.open(found.model, read_states(found.model), RuntimeOptions()), found.stacks)
    cache, x = np.arange(24, dtype=np.float32).reshape(3, 2, 2, 2), np.full((3, 2), 2, np.float32)
    apart.write("cache", cache)
    apart.run({"x": x})
    expected = cache.copy()
    expected[:, 0, 0] += 2
    expected[:, 1, 1] *= 2
    np.testing.assert_array_equal(apart.read("cache"), expected)
    assert apart.shape("cache") == cache.shape


@pytest.mark.parametrize(
    ("others", "is_unstacked"),
    [((), True), (("split",), True), (("read as a whole",), False), (("split", "not stacked again"), False)],
)
def test_programs_of_a_bundle_agree_on_what_is_unstacked(others, is_unstacked):
    bodies = STACKED | AS_IT_IS
    programs = {name: program_of(model_of(bodies[name]), reference_runtime) for name in ("gathered", *others)}
    loaded = loadable_programs(programs)
    assert list(loaded) == list(programs)
    assert [one.unstacked is not None for one in loaded.values()] == [is_unstacked] * len(programs)
