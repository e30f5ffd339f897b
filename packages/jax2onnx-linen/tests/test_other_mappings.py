"""Mappings of other libraries that a program reaches: they hold no model, whatever they answer to a foreign key."""

from __future__ import annotations

import collections
import functools
import types
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import flax.linen as nn
import jax
import numpy as np
import pytest
from jax2onnx_core import entry_of, to_onnx


class Key:
    """A key that can be referred to weakly."""


class OwnKeys(Mapping[Key, int]):
    """A mapping that raises TypeError for keys of another kind."""

    def __init__(self) -> None:
        self.key = Key()

    def __getitem__(self, key: object) -> int:
        if not isinstance(key, Key):
            raise TypeError("not a key of this mapping")
        return 3

    def __iter__(self) -> Iterator[Key]:
        return iter([self.key])

    def __len__(self) -> int:
        return 1


class Closed(OwnKeys):
    def __iter__(self) -> NoReturn:
        raise RuntimeError("nobody looks through this mapping")


class Growing(dict[str, int]):
    def __missing__(self, key: str) -> int:
        self[key] = 0
        return 0


class Refusing(dict[str, int]):
    def refused(self, *_: object) -> NoReturn:
        raise RuntimeError("nobody looks into this dict")

    get = items = values = keys = __getitem__ = __iter__ = refused


KEPT = Key()
MAPPINGS: dict[str, Mapping[Any, Any]] = {
    "WeakKeyDictionary": weakref.WeakKeyDictionary({KEPT: 1}),
    "WeakValueDictionary": weakref.WeakValueDictionary({"a": KEPT}),
    "OwnKeys": OwnKeys(),
    "Closed": Closed(),
    "Growing": Growing(a=1),
    "Refusing": Refusing(a=1),
    "ChainMap": collections.ChainMap({"a": 1}),
    "ChainMap of weak keys": collections.ChainMap(weakref.WeakKeyDictionary({KEPT: 1}), {"a": 1}),
    "MappingProxyType": types.MappingProxyType({"a": 1}),
    "dict of weak keys": {"a": weakref.WeakKeyDictionary({KEPT: 1})},
}


class Holder:
    def __init__(self, held: object) -> None:
        self.held = held

    def __call__(self, x: jax.Array) -> jax.Array:
        assert self.held is not None
        return x + 1


def closing(held: object) -> Callable[[jax.Array], jax.Array]:
    def add(x: jax.Array) -> jax.Array:
        assert held is not None
        return x + 1

    return add


def with_default(held: object) -> Callable[..., jax.Array]:
    def add(x: jax.Array, *, held: object = held) -> jax.Array:
        assert held is not None
        return x + 1

    return add


def with_argument(held: object) -> Callable[[jax.Array], jax.Array]:
    return functools.partial(lambda held, x: x + 1 if held is not None else x, held)


@pytest.mark.parametrize("place", [closing, with_argument, Holder, with_default])
@pytest.mark.parametrize("name", MAPPINGS)
def test_a_program_may_reach_any_mapping(name, place):
    program = to_onnx(place(MAPPINGS[name]), [(3,)])
    assert [node.op_type for node in program.model.graph] == ["Add"]


def test_a_dict_that_makes_its_entries_gets_none_of_an_export():
    growing = Growing(a=1)
    to_onnx(closing(growing), [(3,)])
    assert dict(growing) == {"a": 1}


def test_a_model_beside_such_a_mapping_keeps_the_names_of_its_weights():
    dense = nn.Dense(2)
    bound = dense.bind(dense.init(jax.random.key(0), np.ones((1, 3), np.float32)))
    held = {"cache": weakref.WeakKeyDictionary({KEPT: 1}), "model": bound}
    program = to_onnx(lambda x: held["model"](x), [(4, 3)])
    assert {name.rpartition(".")[2] for name in program.model.graph.initializers} == {"kernel", "bias"}
    program.verify()


@pytest.mark.parametrize("name", MAPPINGS)
def test_a_key_that_a_mapping_does_not_have_is_not_there(name):
    assert entry_of(MAPPINGS[name], "params") is None


def test_an_entry_of_a_mapping_is_found():
    assert entry_of(types.MappingProxyType({"params": 3}), "params") == entry_of({"params": 3}, "params") == 3
    assert entry_of([("params", 3)], "params") is None
