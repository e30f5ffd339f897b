"""States: arguments that come back as results, and sessions that keep them."""

from __future__ import annotations

import dataclasses
import functools
import json
import resource
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax2onnx_core import errors, to_onnx
from jax2onnx_graph.metadata import STATES_KEY

X = np.random.default_rng(0).standard_normal((200, 2, 4)).astype(np.float32)


def extend(cache, x):
    """A cache that grows: [B, S, 4] and [B, T, 4] → [B, S + T, 4], and a result of [B, 4]."""
    longer = jnp.concatenate([cache, x], axis=1)
    return longer, jnp.tanh(longer).sum(1)


def write(state, x):
    """A cache of a fixed capacity, written at a position."""
    keys = jax.lax.dynamic_update_slice_in_dim(state["keys"], x[:, None], state["at"], 1)
    return {"mean": keys.mean(1), "state": {"keys": keys, "at": state["at"] + 1}}


def recur(state, x):
    hidden, count = state
    hidden = jnp.tanh(0.5 * hidden + x)
    return hidden.sum(), (hidden, count + 1)


@pytest.fixture(scope="module")
def growing():
    return to_onnx(extend, [("B", "S", 4), ("B", "T", 4)], constraints=["S >= 0"], states={0: 0})


@pytest.fixture(scope="module")
def fixed():
    return to_onnx(write, [{"keys": (2, "C", 4), "at": ((), "int32")}, (2, 4)], states={"state": "state"})


@pytest.fixture(scope="module")
def recurrent():
    return to_onnx(recur, [((2, 4), ((), "int32")), (2, 4)], states={0: 1})


def pairs(program):
    return [tuple(entry.values()) for entry in json.loads(program.model.metadata_props[STATES_KEY])]


# -- what is a state ------------------------------------------------------------------------


def test_the_pairs_are_in_the_metadata(growing, fixed, recurrent):
    assert pairs(growing) == [("cache", "output_0", 1)]
    assert pairs(fixed) == [("state.at", "state.at_1", None), ("state.keys", "state.keys_1", None)]
    assert pairs(recurrent) == [("state.0", "output_1.0", None), ("state.1", "output_1.1", None)]


def test_names_that_the_user_gave():
    given: dict[str, Any] = {
        "input_names": ["past", "new"],
        "output_names": ["present", "y"],
        "constraints": ["S >= 0"],
    }
    for states in ({"past": "present"}, {"cache": "output_0"}, {0: "present"}):
        program = to_onnx(extend, [("B", "S", 4), ("B", "T", 4)], states=states, **given)
        assert pairs(program) == [("past", "present", 1)]


def test_a_result_that_is_no_tuple_is_the_first_of_one():
    program = to_onnx(lambda total, x: total + x, [(3,), (3,)], states={0: 0})
    session = program.session()
    assert session.step(np.ones(3, np.float32)) is None
    assert session.state["total"].tolist() == [1, 1, 1]


def test_variants_keep_their_states(growing):
    assert pairs(growing.specialize(B=2, S=5, T=1)) == [("cache", "output_0", 1)]


SPEC = [("B", "S", 4), ("B", "T", 4)]


@pytest.mark.parametrize(
    ("fn", "inputs", "states", "message"),
    [
        (lambda c, x: (c.astype("bfloat16"), x), SPEC, {0: 0},
         "the input 'c', float32[B, S, 4] comes back as the output 'output_0', bfloat16[B, S, 4]. The dtypes differ"),
        (lambda c, x: (c.sum(0), x), SPEC, {0: 0}, "The ranks differ"),
        (lambda c, x: (jnp.concatenate([c, x], 1), x), [(2, 3, 4), (2, 1, 4)], {0: 0},
         "'c', float32[2, 3, 4] comes back as the output 'output_0', float32[2, 4, 4]. Axis 1 does not return with its size"),
        (lambda c, x: (c[:, 1:], x), SPEC, {0: 0}, "Axis 1 may come back shorter than S"),
        (lambda c, x: (jnp.concatenate([c, c, c], 1)[:, : x.shape[1]], x), SPEC, {0: 0}, "Axis 1 may come back shorter"),
        (lambda c, x: (jnp.tile(c, (2, 2, 1)), x), SPEC, {0: 0}, "It grows along the axes 0, 1; one is possible"),
        (extend, SPEC, {2: 0}, "there is no input 2; the inputs are 0: cache, 1: x"),
        (extend, SPEC, {0: "kv"}, "there is no output 'kv'; the outputs are 0: output_0, 1: output_1"),
        (extend, SPEC, {0.5: 0}, "0.5 is neither a position nor a name"),
        (lambda a, b: (a, b), [(3,), (3,)], {0: 0, 1: 0}, "the output 'output_0' is in several pairs"),
        (lambda a: ({"k": a["k"], "v": a["k"]}, 1.0 * a["k"]), [{"k": (3,), "w": (3,)}], {0: 0},
         "0 and 0 are different pytrees; 'w' of the input, 'v' of the output has no counterpart"),
        (extend, SPEC, object, "means no state of a model here"),
    ],
)  # fmt: skip
def test_bad_pairs(fn, inputs, states, message):
    with pytest.raises(errors.OptionError) as raised:
        to_onnx(fn, inputs, states=states)
    assert message in str(raised.value)


# -- running --------------------------------------------------------------------------------


def test_a_growing_state_is_that_of_the_loop(growing):
    session, cache = growing.session(sizes={"B": 2}, threads=1), jnp.zeros((2, 0, 4))
    for start, length in ((0, 3), (3, 1), (4, 1), (5, 7)):
        x = X[start : start + length].swapaxes(0, 1)
        cache, expected = extend(cache, x)
        np.testing.assert_allclose(session.step(x), expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(session.state["cache"], cache)
    session.reset()
    assert session.state["cache"].shape == (2, 0, 4)


def test_a_fixed_state_is_that_of_the_loop(fixed):
    session = fixed.session(sizes={"C": 100}, threads=1)
    state = {"keys": jnp.zeros((2, 100, 4)), "at": jnp.int32(0)}
    for x in X[:100]:
        expected = write(state, x)
        state = expected["state"]
        assert session.step(x).keys() == {"mean"}
    np.testing.assert_allclose(session.state["state.keys"], state["keys"], rtol=1e-5)
    assert session.state["state.at"] == 100


def test_states_after_a_hundred_steps(recurrent):
    session, state = recurrent.session(), (jnp.zeros((2, 4)), jnp.int32(0))
    loop = jax.jit(recur)
    for x in X[:100]:
        expected, state = loop(state, x)
        actual = session.step(x)
    np.testing.assert_allclose(actual, expected, rtol=1e-5)
    np.testing.assert_allclose(session.state["state.0"], state[0], rtol=1e-5)
    assert session.state["state.1"] == 100


def test_memory_does_not_grow(recurrent, fixed):
    for session in (recurrent.session(threads=1), fixed.session(sizes={"C": 20000}, threads=1)):
        for _ in range(50):
            session.step(X[0])
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(1000):
            session.step(X[0])
        # A copy of the larger state in each step would be 600 MB.
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


def test_the_plain_standard_has_sessions_too():
    program = to_onnx(recur, [((2, 4), ((), "int32")), (2, 4)], states={0: 1}, target="onnx")
    session = program.session(initial={0: (np.ones((2, 4), np.float32), 7)})
    np.testing.assert_allclose(session.step(X[0]), np.tanh(0.5 + X[0]).sum(), rtol=1e-5)
    assert session.state["state.1"] == 8
    with pytest.raises(errors.OptionError, match="runs models without options; it has no threads"):
        program.session(threads=1)


def test_a_program_without_states_has_sessions_too():
    session = to_onnx(lambda x, y: {"sum": x + y}, [(3,), (3,)]).session(threads=1)
    assert session.step(np.ones(3, np.float32), np.ones(3, np.float32))["sum"].tolist() == [2, 2, 2]
    assert dict(session.state) == {}


def test_states_within_larger_arguments():
    def fn(batch):
        return {"new": {"total": batch["total"] + batch["x"]}, "y": 2 * batch["x"]}

    program = to_onnx(fn, [{"x": (3,), "total": (3,)}], states={"batch.total": "new.total"})
    session = program.session()
    assert session.step({"x": np.ones(3, np.float32)})["y"].tolist() == [2, 2, 2]
    assert session.state["batch.total"].tolist() == [1, 1, 1]


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class LayerCache:
    keys: jax.Array
    values: jax.Array
    length: jax.Array

    def append(self, k, v):
        put = functools.partial(jax.lax.dynamic_update_slice_in_dim, start_index=self.length, axis=1)
        return LayerCache(put(self.keys, k[:, None]), put(self.values, v[:, None]), self.length + 1)


def test_a_result_that_is_a_tuple_of_one_stays_one():
    x = np.ones(3, np.float32)
    (y,) = to_onnx(lambda x: (2 * x,), [(3,)]).session().step(x)
    np.testing.assert_array_equal(y, 2 * x)
    alone = to_onnx(lambda s, x: (s + x, 2 * x), [(3,), (3,)], states={0: 0}).session().step(x)
    np.testing.assert_array_equal(alone, 2 * x)
    assert to_onnx(lambda s, x: (s + x,), [(3,), (3,)], states={0: 0}).session().step(x) == ()


def test_a_state_by_keyword_is_named_by_it_whatever_its_inputs_are_called():
    program = to_onnx(
        lambda x, *, s: (x + s["a"], {"a": s["a"] + 1}), [((), "float32")], kwargs={"s": {"a": ((), "float32")}},
        states={"s": 1}, output_names=["s.a", "t"],
    )  # fmt: skip
    assert [program.session().step(np.float32(5)) for _ in range(1)] == [5]
    assert pairs(program) == [("s.a_1", "t", None)]


def test_states_under_keys_that_are_one_text_are_all_kept():
    def step(cache, x):
        new = {"a.b": cache["a.b"] + x, "a": {"b": 2 * cache["a"]["b"] + x}}
        return new, new["a.b"] - new["a"]["b"]

    program = to_onnx(step, [{"a.b": (3,), "a": {"b": (3,)}}, (3,)], states={0: 0})
    cache = {"a.b": np.full(3, 7, np.float32), "a": {"b": np.ones(3, np.float32)}}
    session, x = program.session(initial={0: cache}), np.ones(3, np.float32)
    for _ in range(3):
        cache, expected = step(cache, x)
        np.testing.assert_array_equal(session.step(x), expected)


def test_caches_of_several_layers():
    def step(x, caches):
        new = []
        for i, cache in enumerate(caches):
            new.append(cache.append(x + i, x * (i + 1)))
            mask = jnp.arange(16) < new[-1].length
            weights = jax.nn.softmax(jnp.where(mask, jnp.einsum("bsd,bd->bs", new[-1].keys, x), -jnp.inf))
            x = jnp.einsum("bs,bsd->bd", weights, new[-1].values)
        return x, new

    empty = [LayerCache(jnp.zeros((2, 16, 4)), jnp.zeros((2, 16, 4)), jnp.int32(0)) for _ in range(3)]
    program = to_onnx(step, [(2, 4), empty], states={"caches": 1})
    assert program.input_names[:4] == ["x", "caches.0.keys", "caches.0.values", "caches.0.length"]
    session, caches, loop = program.session(threads=1), empty, jax.jit(step)
    for x in X[:12]:
        expected, caches = loop(x, caches)
        np.testing.assert_allclose(session.step(x), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(session.state["caches.2.values"], caches[2].values, rtol=1e-5, atol=1e-5)


# -- first values, sizes, limits -------------------------------------------------------------


def test_first_values(fixed):
    keys = X[:5].swapaxes(0, 1)
    for initial in (
        {"state": {"keys": keys, "at": 5}},
        {"state.keys": keys, "state.at": 5},
        {0: {"keys": keys, "at": 5}},
    ):
        session = fixed.session(initial=initial)
        np.testing.assert_array_equal(session.state["state.keys"], keys)
        assert session.state["state.at"] == 5


@pytest.mark.parametrize(
    ("given", "first"),
    [
        (jnp.float32(3), np.float32(3)), (np.array(3, np.float32), np.float32(3)), (np.float32(3), np.float32(3)),
        (np.float64(3), np.float32(3)), (3.0, np.float32(3)), (3, np.int32(3)), (True, np.bool_(True)), (np.int64(3), np.int32(3)),
        (np.float32(-0.0), np.float32(-0.0)), ((), np.float32(0)), (((), "int32"), np.int32(0)),
    ],
    ids=repr,
)  # fmt: skip
def test_a_state_begins_with_the_example_that_is_given(given, first):
    found = (
        to_onnx(lambda x, state: {"y": x, "state": state}, [(2,), given], states={"state": "state"})
        .session()
        .state["state"]
    )
    assert (found.tobytes(), found.dtype, found.shape) == (first.tobytes(), first.dtype, ())


def test_a_state_begins_with_the_complex_number_that_is_given():
    session = to_onnx(lambda x, state: {"y": x, "state": state}, [(2,), 1 + 2j], states={"state": "state"}).session()
    np.testing.assert_array_equal(session.state["state"], [1, 2])


def test_first_values_of_complex_numbers_and_keys():
    def fn(state, x):
        number, key = state
        key, sub = jax.random.split(key)
        return (number * (1 + 2j), key), x + jax.random.normal(sub, (3,))

    first = np.complex64(3 - 1j), jax.random.key(7)
    session = to_onnx(fn, [first, (3,)], states={0: 0}).session(initial={0: first})
    state = first
    for _ in range(3):
        state, expected = fn(state, 0.0)
        np.testing.assert_allclose(session.step(np.zeros(3, np.float32)), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(session.state["state.0"].view(np.complex64)[0], state[0], rtol=1e-6)
    np.testing.assert_array_equal(session.state["state.1"], jax.random.key_data(state[1]))


def test_a_window_keeps_the_last_entries(growing):
    session = growing.session(sizes={"B": 2}, window={"S": 3})
    for x in X[:8]:
        session.step(x[:, None])
    np.testing.assert_array_equal(session.state["cache"], X[5:8].swapaxes(0, 1))


def test_a_variant_of_fixed_sizes_needs_a_window(growing):
    variant = growing.specialize(B=2, S=3, T=1)
    with pytest.raises(
        errors.OptionError, match=r"returns it with 4 entries along axis 1\. window=.'S': 3. keeps the last 3"
    ):
        variant.session()
    session = variant.session(window={"S": 3}, initial={0: X[:3].swapaxes(0, 1)})
    expected = extend(X[:3].swapaxes(0, 1), X[3][:, None])
    np.testing.assert_allclose(session.step(X[3][:, None]), expected[1], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(session.state["cache"], X[1:4].swapaxes(0, 1))


def test_a_full_state_is_an_error_and_stays(growing):
    session = growing.session(sizes={"B": 2}, limits={"S": 3})
    session.step(X[:3].swapaxes(0, 1))
    with pytest.raises(
        errors.RuntimeInputError,
        match="is full: axis 1 would have 4 entries after this step, more than the limit S = 3",
    ):
        session.step(X[3][:, None])
    assert session.state["cache"].shape == (2, 3, 4)


def test_a_larger_capacity(fixed):
    session = fixed.session(sizes={"C": 2})
    for x in X[:2]:
        session.step(x)
    session.resize(C=4)
    for x in X[2:4]:
        session.step(x)
    np.testing.assert_array_equal(session.state["state.keys"], X[:4].swapaxes(0, 1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {},
            "The state 'cache', float32[B, S, 4] has no first value: the size of axis 0 is not known. Give sizes={'B': …}",
        ),
        ({"sizes": {"K": 3}}, "sizes: no axis of a state that it can be about is 'K'; there are: B, S"),
        ({"sizes": {"B": -1}}, "sizes: B = -1, but a size is a whole number from 0 on"),
        (
            {"sizes": {"B": 2}, "limits": {"B": 3}},
            "limits: no axis of a state that it can be about is 'B'; there are: S",
        ),
        ({"initial": {5: 0}}, "there is no input 5"),
        ({"initial": {1: X[0]}}, "initial: there is no state 'x'; the states are cache"),
        ({"initial": {0: {"k": X[0]}}}, "initial: the value of 0 needs the arrays '', but has 'k'"),
    ],
)
def test_bad_options(growing, options, message):
    with pytest.raises(errors.OptionError) as raised:
        growing.session(**options)
    assert message in str(raised.value)


def test_a_state_that_cannot_be_empty():
    program = to_onnx(extend, SPEC, states={0: 0})
    with pytest.raises(
        errors.OptionError, match=r"it cannot be empty; to_onnx\(…, constraints=\['S >= 0'\]\) would allow it"
    ):
        program.session(sizes={"B": 2})
    assert program.session(sizes={"B": 2, "S": 1}).step(X[:1].swapaxes(0, 1)).shape == (2, 4)


def test_one_of_several_sequences_begins_anew(growing):
    program = to_onnx(lambda s, x: (s + x, s.sum()), [("B", 4), ("B", 4)], states={0: 0})
    session = program.session(sizes={"B": 3})
    for _ in range(2):
        session.step(np.ones((3, 4), np.float32))
    session.reset(B=[1])
    assert session.state["s"][:, 0].tolist() == [2, 0, 2]
    with pytest.raises(errors.OptionError, match="reset: no axis of a state that it can be about is 'K'"):
        session.reset(K=[0])
    longer = growing.session(sizes={"B": 2})
    longer.step(X[:1].swapaxes(0, 1))
    with pytest.raises(errors.OptionError, match="it can be reset as a whole only"):
        longer.reset(B=[0])


def test_the_file_says_how_to_run_it(growing, tmp_path):
    """A loop that knows the file alone, as a program in another language would have it."""
    path = growing.save(tmp_path / "model.onnx")
    (entry,) = json.loads({p.key: p.value for p in onnx.load(path).metadata_props}[STATES_KEY])
    run, cache = growing.runtime.load(path), np.zeros((2, 0, 4), np.float32)
    for x in X[:3]:
        outputs = dict(zip(growing.output_names, run({entry["input"]: cache, "x": x[:, None]}), strict=True))
        cache = outputs[entry["output"]]
    np.testing.assert_array_equal(cache, X[:3].swapaxes(0, 1))


def test_bad_steps(growing):
    session = growing.session(sizes={"B": 2})
    with pytest.raises(errors.RuntimeInputError, match="Input 'x' has size 3 on axis 0, but it should be B = 2"):
        session.step(np.zeros((3, 1, 4), np.float32))
    with pytest.raises(errors.RuntimeInputError, match="not those of a step, which has none for the states"):
        session.step(np.zeros((2, 0, 4), np.float32), np.zeros((2, 1, 4), np.float32))
    assert session.state["cache"].shape == (2, 0, 4)


# -- reading, writing, files ----------------------------------------------------------------


def test_states_can_be_read_and_set(recurrent):
    session = recurrent.session()
    session.state["state.0"] = np.ones((2, 4), np.float32)
    session.step(np.zeros((2, 4), np.float32))
    np.testing.assert_allclose(session.state["state.0"], np.tanh(np.full((2, 4), 0.5)), rtol=1e-6)
    with pytest.raises(
        errors.RuntimeInputError, match=r"The state 'state.0', float32\[2, 4\] cannot be float64\[2, 4\]"
    ):
        session.state["state.0"] = np.ones((2, 4))
    with pytest.raises(KeyError, match="There is no state 'h'"):
        session.state["h"]


def test_what_is_read_is_a_copy(recurrent):
    session = recurrent.session()
    session.state["state.0"] = given = np.ones((2, 4), np.float32)
    given[:] = 5
    session.state["state.0"][:] = 7
    assert session.state["state.0"].tolist() == np.ones((2, 4)).tolist()


def test_saved_states(recurrent, tmp_path):
    session = recurrent.session()
    session.step(X[0])
    path = session.state.save(tmp_path / "state.npz")
    kept = dict(session.state)
    session.step(X[1])
    session.state.load(path)
    for name, array in kept.items():
        np.testing.assert_array_equal(session.state[name], array)
    assert [file.name for file in tmp_path.iterdir()] == ["state.npz"]


def test_states_of_another_model(recurrent, growing, tmp_path):
    path = growing.session(sizes={"B": 2}).state.save(tmp_path / "state.npz")
    with pytest.raises(errors.RuntimeInputError, match="holds the states cache, but those of the model are"):
        recurrent.session().state.load(path)


def test_half_precision_in_files(tmp_path):
    session = to_onnx(lambda s, x: (s + x, s.sum()), [((3,), "bfloat16"), ((3,), "bfloat16")], states={0: 0}).session()
    session.step(jnp.arange(3, dtype=jnp.bfloat16))
    path = session.state.save(tmp_path / "state.npz")
    session.reset()
    session.state.load(path)
    assert session.state["s"].dtype == jnp.bfloat16
    assert session.state["s"].tolist() == [0, 1, 2]


def test_a_growing_state_of_a_fixed_size_that_is_set_to_another_size_is_named():
    program = to_onnx(lambda s, x: (jnp.concatenate([s, x]), s.sum() + x), [("S",), (1,)], states={0: 0})
    session = program.specialize(S=4).session(window={"S": 4})
    session.step(np.ones(1, np.float32))
    session.state["s"] = np.ones(2, np.float32)
    with pytest.raises(errors.RuntimeInputError, match="Input 's' has size 2 on axis 0"):
        session.step(np.ones(1, np.float32))
