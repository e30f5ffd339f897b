"""Adapters: which objects they find in a callable, and how they are rebuilt."""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import functools
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import Adapted, AdaptedStates, hookimpl, to_onnx
from jax2onnx_core.frontend._adapters import adapt_callable
from jax2onnx_core.plugins.adapted import Adapter
from jax2onnx_core.plugins.errors import OptionError


class Model:
    """A model that is not callable without its variables."""

    def apply(self, variables, x):
        return (x @ variables["first"]["kernel"]) @ variables["second"]["kernel"]


VARIABLES = {"first": {"kernel": jnp.ones((3, 2))}, "second": {"kernel": jnp.ones((2, 4))}}


def is_pair(value):
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], Model)


class Plugin:
    @hookimpl
    def jax2onnx_register(self, registry):
        registry.adapter(f"{__name__}:Model", adapt_pair, claims=is_pair)


def adapt_pair(pair):
    model, variables = pair
    weights = {f"{name}.kernel": layer["kernel"] for name, layer in variables.items()}
    return Adapted(fresh=lambda _: functools.partial(model.apply, variables), weights=weights)


def test_an_object_that_an_adapter_claims_need_not_be_callable():
    program = to_onnx((Model(), VARIABLES), [("B", 3)], plugins=[Plugin()])
    assert set(program.model.graph.initializers) == {"first.kernel", "second.kernel"}
    program.verify()


class Doubling:
    def __call__(self, x):
        return 2 * x


def test_the_parameters_of_a_callable_like_its_copies_are_read_without_a_copy():
    made = []

    def fresh(_):
        made.append(Doubling())
        return made[-1]

    def adapt(model):
        return Adapted(fresh=fresh, weights={}, callable_like=model)

    model = Doubling()
    adapted = adapt_callable(model, [Adapter(f"{__name__}:Doubling", adapt, "test")])
    assert adapted.called is model
    assert not made


def test_what_nobody_claims_has_to_be_callable():
    with pytest.raises(OptionError, match=r"needs a callable, not tuple"):
        to_onnx((Model(), VARIABLES), [("B", 3)])


def test_what_an_adapter_claims_has_to_be_callable():
    adapter = Adapter(
        f"{__name__}:Doubling", lambda model: Adapted(fresh=lambda _: {}, weights={}, callable_like=model), "test"
    )
    swapped: Any = ({}, Doubling())
    adapted = adapt_callable(swapped, [adapter])
    with pytest.raises(OptionError, match=r"not tuple \(dict, Doubling\).*the model stands first"):
        adapted.fresh({}, {})


def test_parameters_bound_to_a_function_have_the_names_of_their_keys():
    program = to_onnx(functools.partial(Model().apply, VARIABLES), [("B", 3)])
    assert set(program.model.graph.initializers) == {"first.kernel", "second.kernel"}


def test_what_is_put_around_a_model_is_around_its_calls():
    entered = []

    def around(fn):
        def call(*args):
            entered.append(len(args))
            return fn(*args)

        return call

    class Surrounding:
        @hookimpl
        def jax2onnx_register(self, registry):
            registry.adapter(
                f"{__name__}:Model", lambda pair: dataclasses.replace(adapt_pair(pair), around=around), claims=is_pair
            )

    program = to_onnx((Model(), VARIABLES), [("B", 3)], plugins=[Surrounding()])
    assert entered == [1]
    program.verify(sizes=[{"B": 2}])
    assert entered == [1, 1]


def test_a_library_whose_package_is_not_installed_is_named():
    class Supplier:
        @hookimpl
        def jax2onnx_register(self, registry):
            registry.suppliers[__name__] = "acme-models"

    program = to_onnx(functools.partial(Model().apply, VARIABLES), [("B", 3)], plugins=[Supplier()])
    hint = f"{__name__} is in use: pip install acme-models names its weights and recognises its layers."
    assert hint in program.report()
    assert hint in repr(program)


def test_what_nobody_claims_names_the_package_that_may():
    class Supplier:
        @hookimpl
        def jax2onnx_register(self, registry):
            registry.suppliers[__name__] = "acme-models"

    with pytest.raises(OptionError, match=r"needs a callable, not tuple.*pip install acme-models"):
        to_onnx((Model(), VARIABLES), [("B", 3)], plugins=[Supplier()])
    with pytest.raises(KeyError) as caught:
        to_onnx(functools.partial(Model().apply, {}), [("B", 3)], plugins=[Supplier()])
    assert any("pip install acme-models" in note for note in caught.value.__notes__)


def test_the_repr_is_a_summary():
    program = to_onnx(functools.partial(Model().apply, VARIABLES), [("B", 3)])
    assert "input      x  float32[B, 3]" in repr(program)
    assert "pip install" not in repr(program)


class Counter:
    """A model whose state every call changes."""

    def __init__(self, count):
        self.count = count

    def __call__(self, x):
        self.count = self.count + 1
        return x + self.count


def adapt_counter(counter):
    states = AdaptedStates({"count": counter.count}, lambda v: Counter(v["count"]), lambda made: {"count": made.count})
    return Adapted(
        fresh=lambda _: Counter(counter.count),
        weights={"count": counter.count},
        states=lambda wanted: states if wanted == "count" else None,
    )


COUNTER = Adapter(f"{__name__}:Counter", adapt_counter, "tests")


def test_selected_states_make_another_callable():
    adapted = adapt_callable(Counter(jnp.zeros(())), [COUNTER])
    stateful = adapted.with_states("count", ["x", "state"])
    assert (adapted.states, adapted.state_inputs) == ({}, {})
    assert list(stateful.states) == ["count"]
    assert list(stateful.state_inputs) == [stateful.state_keyword]
    assert stateful.state_keyword not in ("x", "state")


def test_each_call_has_copies_of_its_own():
    counter = Counter(jnp.zeros(()))
    call = adapt_callable(counter, [COUNTER]).with_weights({})
    assert [float(call(1.0)), float(call(1.0))] == [2.0, 2.0]
    assert float(counter.count) == 0


def test_new_states_come_back_beside_the_result():
    stateful = adapt_callable(Counter(jnp.zeros(())), [COUNTER]).with_states("count", ["x"])
    result, states = stateful.with_weights({})(1.0, **{stateful.state_keyword: {"count": jnp.ones(())}})
    assert (float(result), {name: float(array) for name, array in states.items()}) == (3.0, {"count": 2.0})


def test_calls_of_several_threads_do_not_meet():
    call = adapt_callable(Counter(jnp.zeros(())), [COUNTER]).with_weights({})
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        assert set(map(float, threads.map(call, [1.0] * 40))) == {2.0}


class Holder:
    """An object of the user that holds models as he likes, itself among them."""

    def __init__(self, counters=None, more=None, counter=None):
        self.counters, self.more, self.counter = counters, more, counter
        self.itself = self

    def __call__(self, x):
        return self.counters["first"](self.more[0].counter(x))


def holder():
    one, other = Counter(jnp.zeros(())), Counter(jnp.zeros(()))
    return Holder(counters={"first": one}, more=[Holder(counter=other)])


def of_parts(holds):
    counters, more = holds.counters, holds.more
    return lambda x: counters["first"](more[0].counter(x))


#: As `COUNTER`, of a library that this module does not belong to.
FOREIGN = Adapter("builtins:object", adapt_counter, "tests", claims=lambda value: isinstance(value, Counter))
MAKERS: dict[str, Callable[..., Callable[..., object]]] = {
    "object": lambda holds: holds,
    "bound method": lambda holds: holds.__call__,
    "closure over containers": of_parts,
    "partial": functools.partial,
}


@pytest.mark.parametrize("kind", MAKERS)
def test_models_in_containers_and_objects_are_copied_and_named_after_their_places(kind):
    holds = holder()
    one, other = holds.counters["first"], holds.more[0].counter
    adapted = adapt_callable(MAKERS[kind](holds), [FOREIGN])
    assert sorted(adapted.names.values()) == ["counters.first.count", "more.0.counter.count"]
    assert adapted.fresh({}, {})(jnp.ones(2)).tolist() == [3, 3]
    assert (int(one.count), int(other.count)) == (0, 0)
    assert holds.counters["first"] is one
    assert holds.itself is holds


def test_models_that_are_bound_by_keywords_are_copied():
    counter = Counter(jnp.zeros(()))
    bound = functools.partial(lambda x, scale, held: scale * held(x), scale=2.0, held=counter)
    adapted = adapt_callable(bound, [FOREIGN])
    assert [*adapted.names.values()] == ["count"]
    assert adapted.fresh({}, {})(jnp.ones(2)).tolist() == [4, 4]
    assert int(counter.count) == 0


class Copying(Counter):
    """A model whose calls change a copy of its state."""

    def __call__(self, x):
        return Counter(self.count)(x)


@pytest.mark.parametrize(("kind", "is_warned_of"), [(Counter, False), (Copying, True)])
def test_states_that_no_call_changes_are_warned_of(kind, is_warned_of):
    class Counters:
        @hookimpl
        def jax2onnx_register(self, registry):
            registry.adapter(f"{__name__}:Counter", adapt)

    def adapt(counter):
        made = adapt_counter(counter)
        states = dataclasses.replace(made.states("count"), fresh=lambda v: kind(v["count"]))
        return dataclasses.replace(made, states=lambda wanted: states)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        to_onnx(kind(jnp.zeros(())), [("B",)], states="count", plugins=[Counters()])
    messages = [str(one.message) for one in caught]
    assert any("A call returns these states as they were: count." in text for text in messages) == is_warned_of


def test_states_of_a_model_in_a_container_are_called_after_its_place():
    counters = [Counter(jnp.zeros(())), Counter(jnp.ones(()))]
    stateful = adapt_callable(lambda x: counters[1](counters[0](x)), [FOREIGN]).with_states("count", ["x"])
    assert {path: float(array) for path, array in stateful.states.items()} == {
        "counters.0.count": 0,
        "counters.1.count": 1,
    }
    given = {path: array + 5 for path, array in stateful.states.items()}
    result, new = stateful.fresh({}, given)(jnp.zeros(()))
    assert (float(result), {path: float(x) for path, x in new.items()}) == (
        13, {"counters.0.count": 6, "counters.1.count": 7},
    )  # fmt: skip


def test_states_of_models_with_equal_paths_are_apart():
    first, second = Counter(jnp.zeros(())), Counter(jnp.full((), 10.0))
    stateful = adapt_callable(lambda x: second(first(x)), [FOREIGN]).with_states("count", ["x"])
    assert {path: float(array) for path, array in stateful.states.items()} == {"count": 0, "second.count": 10}
    result, new = stateful.fresh({}, dict(stateful.states))(jnp.zeros(()))
    assert float(result) == 12
    assert {path: float(array) for path, array in new.items()} == {"count": 1, "second.count": 11}


class Counters:
    @hookimpl
    def jax2onnx_register(self, registry):
        registry.adapter(f"{__name__}:Counter", adapt_counter)


@pytest.mark.parametrize(
    "result", [lambda y: {"new_state": y}, lambda y: {"new_state": {"count": y}}, lambda y: {"new_state.count": y}]
)
def test_results_that_are_called_as_new_states_are_none(result):
    counter = Counter(jnp.zeros(()))
    session = to_onnx(lambda x: result(counter(x)), [()], states="count", plugins=[Counters()]).session()
    steps = [session.step(np.float32(5)) for _ in range(2)]
    assert [jax.tree.leaves(step) for step in steps] == [[6], [7]]
    assert jax.tree.structure(steps[0]) == jax.tree.structure(result(0))


def test_states_at_places_of_odd_names_are_kept():
    held = {"a\nb": Counter(jnp.zeros(())), "a\\nb": Counter(jnp.full((), 10.0))}
    program = to_onnx(
        lambda x: x + 100 * held["a\nb"](x) + held["a\\nb"](x), [()], states="count", plugins=[Counters()]
    )
    session = program.session()
    assert [float(session.step(np.float32(0))) for _ in range(2)] == [111, 212]


GLOBAL = Counter(jnp.zeros(()))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: next(GLOBAL(row) for row in [x]),
        lambda x, held=GLOBAL: held(x),
        lambda x, *, scale=1, held=GLOBAL: scale * held(x),
    ],
    ids=["a function inside", "a default", "a default of a keyword"],
)
def test_models_are_found_wherever_a_function_names_them(fn):
    adapted = adapt_callable(fn, [FOREIGN])
    assert [*adapted.names.values()] == ["count"]
    assert adapted.fresh({}, {})(jnp.ones(2)).tolist() == [2, 2]
    assert int(GLOBAL.count) == 0


BY_TYPE: dict[type, Any] = {int: 2.0, str: functools.partial(Model().apply, VARIABLES), float: {bytes: [jnp.ones(3)]}}


def test_a_global_dict_whose_keys_cannot_be_sorted_is_no_pytree_and_its_models_are_found():
    def fn(x):
        return BY_TYPE[str](x) * BY_TYPE[int] + BY_TYPE[float][bytes][0].sum()

    program = to_onnx(fn, [("B", 3)])
    assert {"first.kernel", "second.kernel"} <= {*program.model.graph.initializers}
    assert to_onnx(lambda x: x * len(BY_TYPE), [(3,)]).output_names == ["output"]


def again(x, times=2):
    return x if times == 0 else again(GLOBAL(x), times - 1)


def even(x, times=2):
    return x if times == 0 else odd(x, times - 1)


def odd(x, times):
    return GLOBAL(even(GLOBAL(x), times - 1))


def inner_again():
    def call(x, times=2):
        return x if times == 0 else call(counter(x), times - 1)

    counter = GLOBAL
    return call


class Net:
    """A model whose part knows it."""

    def __init__(self):
        self.counter, self.part = GLOBAL, Part(self)
        self.call = self.part.call

    def __call__(self, x):
        return self.call(x)


class Part:
    __slots__ = ("net", "unset")

    def __init__(self, net):
        self.net = net

    def call(self, x):
        return self.net.counter(self.net.counter(x))


def keyed_twice(x):
    return KEYED["a.b"](KEYED["a"]["b"](x))


class Registry(dict[str, object]):
    """A dict that is no pytree."""


class Rows(list[object]):
    """A list that is no pytree."""


@dataclasses.dataclass(slots=True, frozen=True)
class Slotted:
    counter: Counter


KEYED: dict[str, Any] = {"a.b": GLOBAL, "a": {"b": Counter(jnp.zeros(()))}}
CYCLES = {
    "a function that calls itself": again,
    "functions that call each other": even,
    "a function in a function": inner_again(),
    "objects that hold each other": Net(),
    "a part of such an object": Net().part.call,
}
HELD: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "a dict of another class": (Registry(a=GLOBAL), lambda held: held["a"]),
    "a list of another class": (Rows([GLOBAL]), lambda held: held[0]),
    "a list in a dict of another class": (Registry(a=[GLOBAL]), lambda held: held["a"][0]),
    "a deque": (collections.deque([GLOBAL]), lambda held: held[0]),
    "a slot": (Slotted(GLOBAL), lambda held: held.counter),
}


def through(held, counter_in):
    return lambda x: counter_in(held)(counter_in(held)(x))


@pytest.mark.parametrize("fn", [*CYCLES.values(), *(through(*held) for held in HELD.values())], ids=[*CYCLES, *HELD])
def test_models_are_found_in(fn):
    adapted = adapt_callable(fn, [FOREIGN]).with_states("count", ["x"])
    assert adapted.fresh({}, dict(adapted.states))(jnp.ones(2))[0].tolist() == [4, 4]
    assert int(GLOBAL.count) == 0


def test_models_under_keys_of_one_text_are_apart():
    adapted = adapt_callable(keyed_twice, [FOREIGN]).with_states("count", ["x"])
    result, new = adapted.fresh({}, dict(adapted.states))(jnp.ones(2))
    assert (result.tolist(), [float(count) for count in new.values()]) == ([3, 3], [1, 1])


def plain_again(x):
    return plain_again(x[1:]) if len(x) > 1 else (2 * x, PLAIN)


PLAIN = Holder()


def test_functions_and_objects_without_models_are_left_as_they_are():
    adapted = adapt_callable(plain_again, [FOREIGN])
    result, held = adapted.fresh({}, {})(jnp.ones(3))
    assert (result.tolist(), held) == ([2], PLAIN)
