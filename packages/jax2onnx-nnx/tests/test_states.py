"""Variables that calls change, as states of the model."""

from __future__ import annotations

import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax2onnx_core import errors, to_onnx
from jax2onnx_runtime.bundles.bundle import Bundle, load_bundle

X = np.random.default_rng(0).standard_normal((8, 2, 1, 16)).astype(np.float32)


class Decoder(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.attention = nnx.MultiHeadAttention(4, 16, decode=True, rngs=rngs)
        self.out = nnx.Linear(16, 3, rngs=rngs)
        self.attention.init_cache((2, 8, 16), dtype=jnp.float32)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.out(self.attention(x))


class Counter(nnx.Variable[jax.Array]):
    pass


class Smoothed(nnx.Module):
    """An exponential mean, whose first value is not zero, and the number of calls."""

    def __init__(self) -> None:
        self.mean = nnx.BatchStat(jnp.full(3, 10.0))
        self.calls = Counter(jnp.int32(0))

    def __call__(self, x: jax.Array) -> jax.Array:
        self.mean[...] = 0.9 * self.mean[...] + 0.1 * x
        self.calls[...] += 1
        return self.mean[...] * 1.0


@pytest.fixture(scope="module")
def decoder():
    return Decoder(nnx.Rngs(0))


@pytest.mark.parametrize("states", [nnx.Cache, "cache", (nnx.Cache, nnx.RngState), lambda path, _: path[-1] in (
    "cached_key", "cached_value", "cache_index")], ids=["type", "name", "types", "predicate"])  # fmt: skip
def test_a_decoding_cache_is_a_state(decoder, states):
    program = to_onnx(decoder, [(2, 1, 16)], states=states)
    names = ["attention.cache_index", "attention.cached_key", "attention.cached_value"]
    assert program.input_names == ["x", *(f"state.{name}" for name in names)]
    assert program.output_names == ["output", *(f"new_state.{name}" for name in names)]


def test_decoding_is_that_of_the_module(decoder):
    session, loop = to_onnx(decoder, [(2, 1, 16)], states=nnx.Cache).session(threads=1), nnx.clone(decoder)
    for x in X:
        np.testing.assert_allclose(session.step(x), loop(x), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        session.state["state.attention.cached_key"], loop.attention.cached_key[...], rtol=1e-4, atol=1e-5
    )
    assert session.state["state.attention.cache_index"] == 8
    assert decoder.attention.cache_index[...] == 0


def test_a_cache_may_be_held_in_another_layout(decoder):
    program = to_onnx(decoder, [(2, 1, 16)], states=nnx.Cache, input_layouts={"state.attention.cached_*": "BSKH->BKSH"})
    assert "Transpose" not in [node.op_type for node in program.model.graph]
    session, loop = program.session(threads=1), nnx.clone(decoder)
    for x in X:
        np.testing.assert_allclose(session.step(x), loop(x), rtol=1e-4, atol=1e-5)
    keys = loop.attention.cached_key[...]
    np.testing.assert_allclose(session.state["state.attention.cached_key"], keys.swapaxes(1, 2), rtol=1e-4, atol=1e-5)


SHAPES = {"cached_*": ("B", "C", ...)}


@pytest.fixture(scope="module")
def for_every_size(decoder):
    return to_onnx(decoder, [("B", 1, 16)], states=nnx.Cache, state_shapes=SHAPES)


@pytest.mark.parametrize(("batch", "capacity"), [(1, 4), (2, 8), (3, 5)])
def test_one_decoder_runs_for_every_batch_and_capacity(decoder, for_every_size, batch, capacity):
    loop = nnx.clone(decoder)
    loop.attention.init_cache((batch, capacity, 16), dtype=jnp.float32)
    session = for_every_size.session(sizes={"B": batch, "C": capacity}, threads=1)
    for x in np.random.default_rng(batch).standard_normal((4, batch, 1, 16)).astype(np.float32):
        np.testing.assert_allclose(session.step(x), loop(x), rtol=1e-4, atol=1e-5)


def test_without_sizes_a_cache_begins_as_it_is_in_the_module(for_every_size):
    assert for_every_size.session().state["state.attention.cached_key"].shape == (2, 8, 4, 4)


def test_a_pickled_program_begins_with_sizes_too(for_every_size):
    session = pickle.loads(pickle.dumps(for_every_size)).session(sizes={"B": 1, "C": 3})
    assert session.state["state.attention.cached_key"].shape == (1, 3, 4, 4)


def test_a_specialized_program_begins_with_its_sizes(for_every_size):
    session = for_every_size.specialize(B=1, C=6).session()
    assert session.state["state.attention.cached_value"].shape == (1, 6, 4, 4)


def test_a_cache_that_is_full_is_resized(decoder, for_every_size):
    loop, session = nnx.clone(decoder), for_every_size.session(sizes={"B": 2, "C": 2}, threads=1)
    for number, x in enumerate(X):
        if number == session.state["state.attention.cached_key"].shape[1]:
            session.resize(C=2 * number)
        np.testing.assert_allclose(session.step(x), loop(x), rtol=1e-4, atol=1e-5)


def test_states_are_saved_and_loaded_with_their_sizes(for_every_size, tmp_path):
    first, other = (for_every_size.session(sizes=s, threads=1) for s in ({"B": 2, "C": 5}, {"B": 1, "C": 9}))
    first.step(X[0])
    first.state.save(tmp_path / "states.npz")
    other.state.load(tmp_path / "states.npz")
    np.testing.assert_array_equal(first.step(X[1]), other.step(X[1]))


class Ring(nnx.Module):
    """A cache whose places are marked as empty by -1, as the positions of keys are."""

    def __init__(self) -> None:
        self.positions = nnx.Cache(jnp.full((1, 4), -1, jnp.int32))
        self.count = nnx.Cache(jnp.int32(0))

    def __call__(self, x: jax.Array) -> jax.Array:
        places = jnp.arange(self.positions.shape[1]) == self.count[...]
        self.positions[...] = jnp.where(places, x[:, None], self.positions[...])
        self.count[...] += 1
        return self.positions[...]


def test_a_value_that_is_the_same_everywhere_fills_other_sizes():
    session = to_onnx(Ring(), [(("B",), "int32")], states=nnx.Cache, state_shapes={"positions": ("B", "C")}).session(
        sizes={"B": 2, "C": 2}
    )
    assert session.step(np.array([5, 6], np.int32)).tolist() == [[5, -1], [6, -1]]
    session.resize(C=3)
    assert session.step(np.array([7, 8], np.int32)).tolist() == [[5, 7, -1], [6, 8, -1]]
    session.reset(B=[1])
    assert session.state["state.positions"].tolist() == [[5, 7, -1], [-1, -1, -1]]


@pytest.mark.parametrize("used", [False, True])
def test_values_of_a_module_come_back_from_a_folder(used, tmp_path):
    ring = Ring()
    if used:
        ring(jnp.array([3], jnp.int32))
    program = to_onnx(ring, [(("B",), "int32")], states=nnx.Cache, state_shapes={"positions": ("B", "C")})
    session = load_bundle(Bundle({"ring": program}).save(tmp_path / "out")).session(sizes={"B": 2})
    assert session.state["state.positions"].tolist() == [[3 if used else -1, -1, -1, -1]] * 2
    assert session.step("ring", np.array([5, 6], np.int32))[:, int(used)].tolist() == [5, 6]


def test_a_cache_that_was_used_has_no_other_size():
    ring = Ring()
    ring(jnp.array([3], jnp.int32))
    program = to_onnx(ring, [(("B",), "int32")], states=nnx.Cache, state_shapes={"positions": ("B", "C")})
    assert program.session().state["state.positions"].tolist() == [[3, -1, -1, -1]]
    assert program.session(sizes={"B": 2}).state["state.positions"].tolist() == [[3, -1, -1, -1]] * 2
    with pytest.raises(errors.OptionError, match="not the same everywhere along the axes that change"):
        program.session(sizes={"C": 8})


def test_a_random_key_keeps_its_shape():
    dropout = nnx.Dropout(0.5, rngs=nnx.Rngs(0))
    with pytest.raises(errors.OptionError, match="is a random key"):
        to_onnx(dropout, [(64,)], states=nnx.RngState, state_shapes={"*key*": ("B", ...)})


def test_the_program_is_a_function_of_the_state(decoder):
    program = to_onnx(decoder, [(2, 1, 16)], states=nnx.Cache)
    program.verify(ranges={"state.attention.cache_index": (0, 8)})
    state = {name.removeprefix("state."): value for name, value in program.session().state.items()}
    result, new = program(X[0], state=state)
    np.testing.assert_allclose(result, nnx.clone(decoder)(X[0]), rtol=1e-4, atol=1e-5)
    assert new["attention.cache_index"] == 1


def test_states_begin_as_the_module_is():
    module = Smoothed()
    session = to_onnx(module, [(3,)], states=(nnx.BatchStat, Counter)).session()
    for _ in range(3):
        actual, expected = session.step(np.ones(3, np.float32)), module(jnp.ones(3))
    np.testing.assert_allclose(actual, expected, rtol=1e-6)
    assert session.state["state.calls"] == 3
    session.reset()
    assert session.state["state.mean"].tolist() == [10, 10, 10]


def test_state_that_stays_behind_is_warned_of():
    with pytest.warns(errors.ExportWarning, match="Smoothed changes calls") as caught:
        to_onnx(Smoothed(), [(3,)], states=nnx.BatchStat)
    assert "mean" not in str(caught[0].message)


def test_a_function_around_a_module(decoder):
    def generate(state, x, temperature):
        return decoder(x) / temperature + state

    program = to_onnx(generate, [(), (2, 1, 16), ()], states=nnx.Cache)
    assert program.input_names[:3] == ["state", "x", "temperature"]
    session = program.session()
    step = session.step(np.float32(1), X[0], np.float32(2))
    np.testing.assert_allclose(step, nnx.clone(decoder)(X[0]) / 2 + 1, rtol=1e-4, atol=1e-5)


def test_one_module_in_several_places_is_one_state():
    module = Smoothed()

    def caller(part):
        return lambda x: part(x)

    first, second = caller(module), caller(module)
    session = to_onnx(lambda x: first(x) + second(x), [(3,)], states=(nnx.BatchStat, Counter)).session()
    np.testing.assert_allclose(
        session.step(np.ones(3, np.float32)), module(jnp.ones(3)) + module(jnp.ones(3)), rtol=1e-6
    )
    assert session.state["state.calls"] == 2


def test_the_carry_of_a_cell():
    cell, rng = nnx.LSTMCell(3, 4, rngs=nnx.Rngs(0)), np.random.default_rng(1)
    program = to_onnx(cell, [(("B", 4), ("B", 4)), ("B", 3)], states={0: 0})
    session, carry = program.session(sizes={"B": 2}), (jnp.zeros((2, 4)), jnp.zeros((2, 4)))
    for _ in range(5):
        x = rng.standard_normal((2, 3)).astype(np.float32)
        carry, expected = cell(carry, jnp.asarray(x))
        np.testing.assert_allclose(session.step(x), expected, rtol=1e-5, atol=1e-6)


def test_random_streams_are_states_too():
    dropout = nnx.Dropout(0.5, rngs=nnx.Rngs(3))
    session = to_onnx(dropout, [(64,)], states=nnx.RngState).session()
    for _ in range(2):
        np.testing.assert_array_equal(session.step(np.ones(64, np.float32)), dropout(jnp.ones(64)))


def test_names_that_the_user_gave():
    names: dict[str, Any] = {"input_names": ["x", "n", "m"], "output_names": ["y", "new_n", "new_m"]}
    session = to_onnx(Smoothed(), [(3,)], states=(nnx.BatchStat, Counter), **names).session()
    session.step(np.ones(3, np.float32))
    assert session.state["n"] == 1


@pytest.mark.parametrize("states", [nnx.Intermediate, "no_such_tag", 3])
def test_no_such_state(decoder, states):
    with pytest.raises(errors.OptionError, match="states="):
        to_onnx(decoder, [(2, 1, 16)], states=states)


class Copying(nnx.Module):
    """Changes a copy of its cache, since the inner module comes back from `jax.jit` as another object."""

    def __init__(self) -> None:
        self.cache = nnx.Cache(jnp.zeros(3))

    def __call__(self, x: jax.Array) -> jax.Array:
        graph, state = nnx.split(self)

        def step(state, x):
            copy = nnx.merge(graph, state)
            copy.cache[...] = copy.cache[...] + x
            return copy.cache[...]

        return jax.jit(step)(state, x)


class Cell(nnx.Module):
    """A running sum."""

    def __init__(self) -> None:
        self.total = nnx.Cache(jnp.zeros((1, 4)))

    def __call__(self, x: jax.Array) -> jax.Array:
        self.total[...] += x
        return self.total[...]


class InList(nnx.Module, pytree=False):
    def __init__(self) -> None:
        self.cells = [Cell(), Cell()]

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.cells[1](self.cells[0](x))


class InDict(nnx.Module, pytree=False):
    def __init__(self) -> None:
        self.cells = {"first": Cell()}

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.cells["first"](x)


class InObject:
    """No module, but an object of the user that holds some."""

    def __init__(self) -> None:
        self.cells = [Cell(), Cell()]

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.cells[1](self.cells[0](x))


class Jitted(nnx.Module):
    def __init__(self) -> None:
        self.cell = Cell()

    def __call__(self, x: jax.Array) -> jax.Array:
        found: jax.Array = nnx.jit(lambda cell, x: cell(x))(self.cell, x)
        return found


class Updated(nnx.Module):
    """Takes the state through `jax.jit`, and puts it back."""

    def __init__(self) -> None:
        self.cell = Cell()

    def __call__(self, x: jax.Array) -> jax.Array:
        graph, state = nnx.split(self.cell)

        def call(state: Any, x: jax.Array) -> tuple[jax.Array, Any]:
            cell = nnx.merge(graph, state)
            return cell(x), nnx.state(cell)

        y, new = jax.jit(call)(state, x)
        nnx.update(self.cell, new)
        return y


HOLDERS: list[Any] = [InList, InDict, InObject, Jitted, Updated]


@pytest.mark.parametrize("holder", HOLDERS)
def test_caches_are_found_wherever_they_are_held(holder):
    program = to_onnx(holder(), [("B", 4)], states=nnx.Cache, state_shapes={"total": ("B", ...)})
    session, loop = program.session(sizes={"B": 2}), holder()
    for x in np.random.default_rng(0).standard_normal((3, 1, 4)).astype(np.float32):
        np.testing.assert_allclose(session.step(np.repeat(x, 2, 0))[1:], loop(x), rtol=1e-5, atol=1e-6)


def test_states_that_no_call_changes_are_warned_of():
    with pytest.warns(errors.ExportWarning, match="A call returns these states as they were: cache"):
        to_onnx(Copying(), [(3,)], states=nnx.Cache)
