"""What a function stores in the user's lists, dicts and objects is put back to what it was; what it returns keeps its parts."""

from __future__ import annotations

import collections

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_core.plugins.errors import ExportWarning


class Model:
    def __init__(self):
        self.cache = [jnp.zeros(3)]
        self.seen = {"inner": {"last": None}}
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        self.cache[0] = self.cache[0] + x
        self.seen["inner"]["last"] = x
        self.added = 2 * x
        return self.cache[0] * 2


@pytest.fixture
def model():
    return Model()


@pytest.mark.parametrize("wrapped", [lambda m: m, lambda m: lambda x: m(x), lambda m: m.__call__])
def test_objects_hold_the_arrays_that_they_held(model, wrapped):
    before = model.cache[0]
    with pytest.warns(ExportWarning, match=r"cache\.0"):
        program = to_onnx(wrapped(model), [(3,)])
    program.verify()
    assert model.cache[0] is before
    assert model.seen == {"inner": {"last": None}}
    assert "added" not in vars(model)
    np.testing.assert_array_equal(program(np.ones(3, np.float32)), np.full(3, 2, np.float32))


class Slotted:
    """A model with slots, one of which is empty at first."""

    __slots__ = ("cache", "last")

    def __init__(self):
        self.cache = jnp.zeros(3)

    def __call__(self, x):
        self.cache, self.last = self.cache + x, x
        return self.cache * 2


def test_slots_and_deques_hold_the_arrays_that_they_held():
    model, rows = Slotted(), collections.deque([jnp.zeros(3)])
    before = model.cache, rows[0]

    def call(x):
        rows[0] = rows[0] + model(x)
        return rows[0] * 2

    with pytest.warns(ExportWarning, match=r"rows\.0.*model\.cache|model\.cache.*rows\.0"):
        program = to_onnx(call, [(3,)])
    program.verify()
    assert (model.cache is before[0], rows[0] is before[1]) == (True, True)
    assert not hasattr(model, "last")


def test_what_is_no_array_stays_stored(model):
    with pytest.warns(ExportWarning):
        to_onnx(model, [(3,)])
    assert model.calls > 0


def test_a_failing_function_leaves_nothing_either(model):
    def fail(x):
        model(x)
        raise ValueError("no")

    before = model.cache[0]
    with pytest.raises(ValueError, match="no"):
        to_onnx(fail, [(3,)])
    assert model.cache[0] is before


def test_lists_of_closures_hold_what_they_held():
    kept: list[object] = []

    def f(x):
        kept.append(x + 1)
        return x

    with pytest.warns(ExportWarning, match=r"kept\.0"):
        to_onnx(f, [(3,)])
    assert kept == []


@jax.tree_util.register_pytree_with_keys_class
class Arrays:
    """A container whose leaves are those attributes that are arrays."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)

    def tree_flatten_with_keys(self):
        leaves = {k: v for k, v in vars(self).items() if isinstance(v, jax.Array | np.ndarray)}
        keys = [(jax.tree_util.GetAttrKey(name), array) for name, array in leaves.items()]
        return keys, (tuple(leaves), tuple((k, v) for k, v in vars(self).items() if k not in leaves))

    @classmethod
    def tree_unflatten(cls, static, arrays):
        return cls(**dict(zip(static[0], arrays, strict=True)), **dict(static[1]))


def test_results_in_containers_that_ask_what_is_an_array_are_all_there():
    program = to_onnx(lambda x: (x + 1, Arrays(total=x.sum(), size=7)), [("B", 3)])
    plus_one, kept = program(np.ones((2, 3), np.float32))
    np.testing.assert_array_equal(plus_one, np.full((2, 3), 2))
    assert kept.size == 7
    np.testing.assert_array_equal(kept.total, 6)


class _Loading:
    """A proxy that puts what it stands for beside itself when it is asked for its class."""

    def __init__(self, place: dict[str, object]) -> None:
        self._place = place

    @property  # type: ignore[misc]
    def __class__(self):
        self._place[f"loaded {len(self._place)}"] = 0
        return float


@pytest.mark.parametrize("kind", [dict, type("Holder", (), {})])
def test_a_container_that_grows_while_it_is_searched_is_searched(kind):
    held = kind()
    place = held if isinstance(held, dict) else vars(held)
    place["scale"] = 2.0
    place["proxy"] = _Loading(place)
    scale = (lambda: held["scale"]) if isinstance(held, dict) else (lambda: held.scale)
    program = to_onnx(lambda x: scale() * x, [(3,)])
    np.testing.assert_array_equal(program(np.ones(3, np.float32)), [2, 2, 2])


class _Hooked:
    """A model whose class makes its own of what it is asked for."""

    def __init__(self):
        self.scale = jnp.full(3, 2.0)

    def __call__(self, x):
        return x * vars(self)["scale"]


def _failing(*_):
    raise KeyError("asked")


@pytest.mark.parametrize(
    "hooks",
    [{"__dir__": _failing}, {"__getattr__": _failing}, {"__getattr__": lambda self, _: self}, {"__module__": None}],
    ids=["dir", "getattr", "getattr_self", "module"],
)
@pytest.mark.parametrize("called", [lambda m: lambda x: m(x), lambda m: m.__call__], ids=["closed_over", "method"])
def test_objects_that_answer_or_refuse_what_they_are_asked_are_exported(hooks, called):
    program = to_onnx(called(type("Hooked", (_Hooked,), hooks)()), [(3,)])
    np.testing.assert_array_equal(program(np.ones(3, np.float32)), np.full(3, 2, np.float32))
