"""Pytrees without JAX."""

import collections
import datetime as dt
from typing import NamedTuple

import pytest
from jax2onnx_graph.errors import RuntimeInputError
from jax2onnx_runtime.pytrees import Foreign, Record, Template, build, consists_of, leaves, without


class Pair(NamedTuple):
    first: object
    second: object


PAIR = Record(__name__, "Pair", {"first": 2, "second": None})
TEMPLATE: Template = ({"b": 1, "a": [0]}, PAIR)


def test_leaves_are_found_by_their_numbers():
    assert dict(leaves(TEMPLATE, ({"a": ["x"], "b": "y"}, Pair("z", None)), "args")) == {0: "x", 1: "y", 2: "z"}


def test_a_value_is_built_of_leaves():
    assert build(TEMPLATE, {0: "x", 1: "y", 2: "z"}) == ({"a": ["x"], "b": "y"}, Pair("z", None))
    assert type(build(PAIR, {2: "z"})) is Pair


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([{"a": ["x"], "b": "y"}, Pair("z", None)], "args is a list, but it should be a tuple"),
        (({"a": ("x",), "b": "y"}, Pair("z", None)), r"args\[0\]\['a'\] is a tuple, but it should be a list"),
        (({"a": ["x"]}, Pair("z", None)), r"args\[0\] has other keys: missing 'b'"),
        (({"a": ["x"], "b": "y", "c": 1}, Pair("z", None)), r"args\[0\] has other keys: unknown 'c'"),
        (({"a": ["x", "x"], "b": "y"}, Pair("z", None)), r"args\[0\]\['a'\] has other keys: unknown 1"),
        (({"a": ["x"], "b": "y"}, ("z", None)), r"args\[1\] is a tuple, but it should be a Pair"),
        (({"a": ["x"], "b": "y"}, Pair("z", 1)), r"args\[1\]\['second'\] is a int, but it should be None"),
        (({"a": ["x"], "b": None}, Pair("z", None)), r"args\[0\]\['b'\] is None, but it should be an array"),
        ((collections.OrderedDict(a=["x"], b="y"), Pair("z", None)), r"args\[0\] is a OrderedDict"),
    ],
)
def test_other_containers_are_refused(value, message):
    with pytest.raises(RuntimeInputError, match=message):
        list(leaves(TEMPLATE, value, "args"))


def pair(*fields: str) -> type:
    return collections.namedtuple("Pair", fields)  # noqa: PYI024


SWAPPED, LONGER, OTHER = pair("second", "first"), pair("first", "second", "third"), pair("first", "other")
PLAIN = type("Pair", (tuple,), {})


@pytest.mark.parametrize("value", [SWAPPED(None, "z"), LONGER("z", None, None), OTHER("z", None), PLAIN(("z", None))])
def test_a_named_tuple_has_its_fields_in_their_order(value):
    with pytest.raises(RuntimeInputError, match="it should be a Pair of first, second"):
        list(leaves(PAIR, value, "args"))
    assert dict(leaves(PAIR, pair("first", "second")("z", None), "args")) == {2: "z"}


def test_a_class_with_other_fields_makes_no_result(monkeypatch):
    monkeypatch.setitem(globals(), "Pair", SWAPPED)
    with pytest.raises(
        RuntimeInputError, match=r"with a Pair of the fields first, second, and that of .*test_pytrees has others"
    ):
        build(PAIR, {2: "z"})


def test_containers_that_jax_alone_knows_are_named():
    with pytest.raises(
        RuntimeInputError, match=r"args\[0\] is a Params, a container that JAX alone opens.*program.run"
    ):
        list(leaves((Foreign("Params"),), (dt.date(2000, 1, 1),), "args"))
    with pytest.raises(RuntimeInputError, match="The result has a Params"):
        build([Foreign("Params")], {})


ARGUMENTS: Template = ({"cache": {"k": 0, "v": 1}, "x": 2}, [3, 4], 5)


@pytest.mark.parametrize(
    ("left_out", "expected"),
    [
        ([], ARGUMENTS),
        ([0, 1], ({"x": 2}, [3, 4], 5)),
        ([1], ({"cache": {"k": 0}, "x": 2}, [3, 4], 5)),
        ([3], ({"cache": {"k": 0, "v": 1}, "x": 2}, [None, 4], 5)),
        ([5], ({"cache": {"k": 0, "v": 1}, "x": 2}, [3, 4], None)),
    ],
)
def test_containers_without_some_leaves(left_out, expected):
    assert without(ARGUMENTS, left_out) == expected


@pytest.mark.parametrize(
    ("template", "consists"), [(0, True), (2, False), ({"a": 0, "b": [1]}, True), ({"a": 0, "b": 2}, False), (None, False), ([], False), (Foreign("Box"), False)]
)  # fmt: skip
def test_what_consists_of_some_leaves(template, consists):
    assert consists_of(template, {0, 1}) is consists
