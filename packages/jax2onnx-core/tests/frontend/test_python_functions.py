"""Python functions taken apart."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable

import jax.numpy as jnp
import pytest
from jax import lax
from jax2onnx_core.frontend.python_functions import (
    bound_parameters,
    closed_over,
    copied,
    dispatching_code,
    fill,
    function_behind,
    may_dispatch,
    name_of,
    parameter_names,
    rebuilt,
    used_globals,
)
from jax2onnx_graph.errors import InputError, PluginError

NUMBER = 3


class Layer:
    """A layer with a method that a decorator wraps."""

    def __call__(self, x: int) -> int:
        return x + NUMBER

    wrapped = functools.lru_cache(lambda self, x: x * NUMBER)
    number = 7


def _several(first: int, *rest: int, scale: int = 1) -> None: ...


def _without_name(x: int, /, **kwargs: int) -> None: ...


def _two(x: int, y: int = 2, *, scale: int = 1) -> None: ...


@pytest.mark.parametrize(
    ("fn", "count", "kwargs", "names"),
    [
        (lambda: None, 0, {}, []),
        (_two, 1, {}, ["x"]),
        (_two, 2, {"scale": 1}, ["x", "y"]),
        (_two, 1, {"y": 1}, ["x"]),
        (_without_name, 1, {"x": 1}, ["x"]),
        (_without_name, 1, {"kwargs": 1}, ["x"]),
        (_two, 0, {"x": 1, "y": 2}, []),
        (_several, 3, {}, ["first", "rest_0", "rest_1"]),
        (_several, 2, {"scale": 2}, ["first", "rest_0"]),
        (lambda *args: None, 1, {}, ["x"]),
        (lambda *args, **kwargs: None, 1, {"x": 1}, ["args_0"]),
        (lambda *args: None, 2, {}, ["args_0", "args_1"]),
        (Layer(), 1, {}, ["x"]),
        (max, 2, {}, ["arg0", "arg1"]),
    ],
)
def test_the_parameters_of_positional_arguments(
    fn: Callable[..., object], count: int, kwargs: dict[str, object], names: list[str]
) -> None:
    assert bound_parameters(fn, count, kwargs) == names


@pytest.mark.parametrize(
    ("count", "kwargs", "message"),
    [
        (
            3,
            {},
            r"The function _two\(x.*\).* cannot be called with 3 positional inputs: too many positional arguments\.",
        ),
        (1, {"x": 1}, r"cannot be called with 1 positional inputs and keywords x: multiple values for argument 'x'\."),
        (1, {"z": 1, "y": 1}, r"with 1 positional inputs and keywords z, y: got an unexpected keyword argument 'z'\."),
        (1, {1: 1}, r"kwargs has the key 1; the keys are names of parameters"),
    ],
)
def test_arguments_that_a_function_cannot_take(count: int, kwargs: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        bound_parameters(_two, count, kwargs)


@pytest.mark.parametrize(
    ("fn", "names"), [(_several, ["first", "rest", "scale"]), (Layer(), ["x"]), (max, []), (lambda: None, [])]
)
def test_the_names_of_parameters(fn: Callable[..., object], names: list[str]) -> None:
    assert parameter_names(fn) == names


@pytest.mark.parametrize(
    ("fn", "name"),
    [
        (_two, "_two"),
        (functools.partial(functools.partial(_two, 1), y=2), "_two"),
        (functools.wraps(_two)(lambda x: x), "_two"),
        (Layer, "Layer"),
        (Layer(), "Layer"),
        (Layer().__call__, "Layer.__call__"),
        (jnp.sin, "sin"),
        (max, "max"),
        (lax.sin_p.bind, "Primitive.bind of 'sin'"),
    ],
)
def test_the_name_of_a_callable(fn: Callable[..., object], name: str) -> None:
    assert name_of(fn) == name


def _function(fn: object) -> types.FunctionType:
    assert isinstance(fn, types.FunctionType)
    return fn


def _adding(number: int, other: int) -> types.FunctionType:
    def add(x: int, y: int = 1, *, times: int = 2) -> int:
        return (x + y + number + other + NUMBER) * times

    return _function(add)


def test_a_function_is_rebuilt_around_other_values() -> None:
    fn = _adding(10, 20)
    assert closed_over(fn) == {"number": 10, "other": 20}
    assert used_globals(fn) == {"NUMBER": 3}
    fn.__dict__["unit"] = "m"
    fresh = rebuilt(fn, {"number"})
    fill(fresh, {"number": 100}, {"NUMBER": 1000}, {"times": 2})
    assert (fn(0), fresh(0), fresh(0, times=1)) == (68, 2242, 1121)
    assert closed_over(fresh) == {"number": 100, "other": 20}
    assert (fresh.__qualname__, vars(fresh)) == (fn.__qualname__, {"unit": "m"})
    assert rebuilt(_function(parameter_names), {}).__closure__ is None


def test_a_value_that_is_not_there_yet_is_not_closed_over() -> None:
    def fn() -> object:
        return later

    assert closed_over(_function(fn)) == {}
    later = 1
    assert closed_over(_function(fn)) == {"later": 1}


def test_a_copy_keeps_its_code() -> None:
    fn = _adding(10, 20)
    copy = copied(fn)
    fn.__code__ = _adding(1, 1).__code__.replace(co_consts=(None,))
    assert copy(0, times=1) == 34


def test_calls_are_handed_to_a_receiver() -> None:
    class Receiver:
        def dispatch(self, /, *args: object, **kwargs: object) -> object:
            return args, kwargs

    fn = _adding(10, 20)
    code = dispatching_code(fn.__code__, Receiver())
    assert may_dispatch(code)
    assert not may_dispatch(fn.__code__)
    assert (code.co_name, code.co_firstlineno) == (fn.__code__.co_name, fn.__code__.co_firstlineno)
    fn.__code__ = code
    assert fn(1, y=2) == ((1,), {"y": 2})


def test_the_function_that_a_composite_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("acme")
    vars(module).update(Layer=Layer, act=_two, table={"a": 1})
    monkeypatch.setitem(sys.modules, "acme", module)
    assert function_behind("acme:Layer.__call__") is Layer.__call__
    assert function_behind("acme:act") is _two
    assert function_behind("acme:Layer.wrapped").__name__ == "<lambda>"
    with pytest.raises(
        PluginError,
        match=r"claims the function 'acme:Layer\.missing', which does not exist: acme has no 'missing' there",
    ):
        function_behind("acme:Layer.missing")
    with pytest.raises(PluginError, match=r"claims 'acme:Layer\.number', which is a int, not a Python function"):
        function_behind("acme:Layer.number")
    with pytest.raises(PluginError, match="claims 'acme:Layer', which is a type, not a Python function"):
        function_behind("acme:Layer")
