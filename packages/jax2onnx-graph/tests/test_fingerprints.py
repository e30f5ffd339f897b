import collections
import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
from jax2onnx_graph.fingerprints import ByIdentity, fingerprint


@dataclasses.dataclass(frozen=True)
class Options:
    scale: object


@dataclasses.dataclass
class Mutable:
    scale: object


# Two types of one name.
_Point, _Other = (vars(collections)["namedtuple"]("N", "a") for _ in range(2))


class Unhashable:
    __hash__ = None  # type: ignore[assignment]


def _array(middle):
    array = np.zeros(2000)
    array[1000] = middle
    return array


def _nan(bits):
    return np.array([bits], np.uint32).view(np.float32)


def print_of(value):
    return fingerprint(value, lambda _: None)


_DIFFERENT: list[Any] = [
    0.0, -0.0, 0, False, 1, True, 1.0, complex(0, 0.0), complex(0, -0.0), "1", b"1", None, float("nan"), -float("nan"),
    np.float32(0), np.float32(-0.0), np.float64(0), np.int32(1), np.int64(1), _nan(0x7FC00000), _nan(0x7FC00001),
    (), [], (0.0,), (-0.0,), (0,), [0.0], {"a": 0.0}, {"a": -0.0}, {1: 2}, {True: 2}, frozenset([0.0]), frozenset([-0.0]),
    slice(0, 1), slice(0.0, 1), Options(0.0), Options(-0.0), Options(_array(0)), Options(_array(1)), Mutable(0.0), Mutable(-0.0),
    _Point(0), _Other(0),
    Unhashable(), Unhashable(), np.zeros((0, 3)),
    np.zeros((3, 0)), np.array(["a"], object), np.array(["b"], object), np.dtype(np.float32), np.float32, "float32",
]  # fmt: skip


def test_values_that_mean_different_things_have_different_fingerprints():
    prints = [print_of(value) for value in _DIFFERENT]
    equal = [
        (_DIFFERENT[i], _DIFFERENT[j])
        for i, j in itertools.combinations(range(len(prints)), 2)
        if prints[i] == prints[j]
    ]
    assert not equal


@pytest.mark.parametrize(
    "make",
    [
        lambda: 0.5,
        lambda: np.array([1.0, np.nan]),
        lambda: {"a": [1, (2.0, None)]},
        lambda: Options(np.ones(3)),
        lambda: Mutable({1, 2}),
        lambda: np.array(["a", 2], object),
    ],
)
def test_equal_values_have_equal_fingerprints(make):
    assert print_of(make()) == print_of(make())
    assert hash(print_of(make())) == hash(print_of(make()))


def test_an_object_that_is_not_hashable_is_compared_by_identity():
    value = Unhashable()
    assert print_of(value) == print_of(value)
    assert ByIdentity(value) != ByIdentity(Unhashable())
    assert ByIdentity(value) != value
