"""Names of values and nodes: unique, printable, and after the place in the function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import pytest
from jax2onnx_graph.build.names import Names, Origin, new_names, title, unwrapped
from jax2onnx_graph.errors import OptionError


def test_a_taken_name_gets_the_next_free_number():
    names = Names(["x", "x_2"])
    assert [names.unique(base) for base in ("x", "x", "y", "x_1")] == ["x_1", "x_3", "y", "x_1_1"]


def test_reserved_names_are_taken():
    names = Names()
    names.reserve(["x"])
    assert names.unique("x") == "x_1"


def test_unprintable_characters_are_escaped():
    assert Names().unique("a\nb") == "a\\nb"


def test_nodes_are_named_after_their_scope_or_else_the_operation():
    inner = Origin(stack="block").within("norm", "add", "model.py:3")
    assert (inner.node_name("Add"), inner.line) == ("block.norm/Add", "model.py:3")
    plain = Origin(line="model.py:2").within("", "add", None)
    assert (plain.node_name("Add"), plain.line) == ("add.Add", "model.py:2")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            "ab",
            r"names needs a list of names, each a text of printable characters; got 'ab'\.",
        ),
        (["a", ""], r"needs a list of names"),
        (["a"], r"names needs 2 different names, one for each of \['x', 'y'\]; got \['a'\]\."),
        (["a", "a"], r"needs 2 different names"),
        (["a", "z"], r"An input and an output cannot share a name; both are called 'z'\."),
        (("y", "x"), r"names are in the order \['x', 'y'\], but .* \['y', 'x'\].*; names=\{'x': 'y', 'y': 'x'\} says"),
        ({"x": ""}, r"names needs a list of names"),
        ({"w": "a"}, r"names has 'w', which is none of the own names: \['x', 'y'\]\."),
        ({"x": "y"}, r"names needs different names; several would be called 'y'\."),
        ({"x": "z"}, r"An input and an output cannot share a name; both are called 'z'\."),
    ],
)
def test_names_that_do_not_fit_are_an_error(names, message):
    with pytest.raises(OptionError, match=message):
        new_names("names", names, ["x", "y"], apart_from=["z"])


@pytest.mark.parametrize(
    ("given", "new"),
    [
        (None, {}),
        (["a", "x"], {"x": "a", "y": "x"}),
        (["x", "y"], {"x": "x", "y": "y"}),
        ({"y": "a"}, {"y": "a"}),
        ({"x": "y", "y": "x"}, {"x": "y", "y": "x"}),
    ],
)
def test_names_replace_own_names(given, new):
    assert new_names("names", given, ["x", "y"]) == new


def test_the_title_of_a_model_is_the_name_of_its_function_or_class():
    class Model:
        def __call__(self):
            """Nothing."""

    class Transformed(NamedTuple):
        init: object
        apply: object

    functions = [new_names, Model(), Model().__call__, lambda: 0, (Model(), {}), (Transformed(new_names, abs), {})]
    assert [title(fn) for fn in functions] == ["new_names", "Model", "Model", "main", "Model", "Transformed"]


class _Answering:
    """An object whose `__getattr__` answers whatever name it is asked for."""

    def __getattr__(self, name: str) -> _Answering:
        return self

    def __call__(self) -> None:
        """Nothing."""


class _Refusing:
    """An object whose `__getattr__` fails with another error than AttributeError."""

    def __getattr__(self, name: str) -> object:
        raise KeyError(name)

    def __call__(self) -> None:
        """Nothing."""


class _Jitted:
    """A wrapper whose class says what it is around."""

    def __call__(self) -> None:
        """Nothing."""

    @property
    def __wrapped__(self) -> Callable[..., object]:
        return functools.wraps(new_names)(lambda: None)


def _around_itself() -> Callable[..., object]:
    def fn() -> None:
        """Nothing."""

    return functools.update_wrapper(fn, fn)


@pytest.mark.parametrize("make", [_Answering, _Refusing, lambda: new_names, _around_itself])
def test_what_wraps_nothing_else_is_unwrapped_to_itself(make: Callable[[], Callable[..., object]]) -> None:
    fn = make()
    assert unwrapped(fn) is fn


def test_wrappers_of_wrappers_are_unwrapped_to_the_function() -> None:
    assert unwrapped(_Jitted()) is new_names
