"""Model objects taken apart: at a place of another object, and by the adapter that takes them."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np
import pytest
from jax2onnx_core.plugins.adapted import Adapted, AdaptedStates, Adapter, adapter_of, entry_of, imported_adapters


def adapted() -> Adapted:
    states = AdaptedStates({"count": 1, "": 2}, dict, lambda made: {"count": made["count"] + 1})
    return Adapted(
        fresh=lambda values: dict(values), weights={"norm.scale": 1, "kernel": 2}, written=lambda made: {"norm.scale": made},
        modules=lambda made: {"norm": made, "": made}, owners={"norm.scale": "norm (BatchNorm)", "kernel": "Dense"},
        states=lambda wanted: states if wanted == "yes" else None,
    )  # fmt: skip


def test_paths_begin_with_the_place():
    at = adapted().at("encoder")
    assert at.weights == {"encoder.norm.scale": 1, "encoder.kernel": 2}
    assert at.fresh({"encoder.kernel": 3, "encoder": 4}) == {"kernel": 3, "": 4}
    assert at.written("x") == {"encoder.norm.scale": "x"}
    assert at.modules("x") == {"encoder.norm": "x", "encoder": "x"}
    assert dict(at.owners) == {"encoder.norm.scale": "encoder.norm (BatchNorm)", "encoder.kernel": "encoder (Dense)"}
    assert len(at.owners) == 2
    states = at.states("yes")
    assert states is not None
    assert states.arrays == {"encoder.count": 1, "encoder": 2}
    assert states.fresh({"encoder.count": 5, "encoder": 6}) == {"count": 5, "": 6}
    assert states.read({"count": 5}) == {"encoder.count": 6}
    assert at.states("no") is None


def test_the_same_at_no_place():
    one = adapted()
    assert one.at("") is one


class Base:
    pass


class Derived(Base):
    pass


def _adapter(claimed: str, owner: str, claims: Any = None) -> Adapter:
    return Adapter(claimed, lambda value: adapted(), owner, claims)


@pytest.mark.parametrize(
    ("value", "owner"),
    [(Base(), "base"), (Derived(), "base"), ((1, 2), "pairs"), ((1,), None), (3, None), (Base, None)],
)
def test_the_first_adapter_that_takes_an_object(value, owner):
    adapters = [
        _adapter("no_such_library:Model", "absent"),
        _adapter(f"{__name__}:Base", "base"),
        _adapter(f"{__name__}:Derived", "derived"),
        _adapter(f"{__name__}:Base", "pairs", lambda one: isinstance(one, tuple) and len(one) == 2),
    ]
    imported = imported_adapters(adapters)
    assert [one.owner for one, _ in imported] == ["base", "derived", "pairs"]
    found = adapter_of(value, imported)
    assert (None if found is None else found.owner) == owner


class Picky(Mapping[int, int]):
    """A mapping that refuses keys of other kinds than its own."""

    def __getitem__(self, key: int) -> int:
        return {1: 2}[int(key)]

    def __iter__(self) -> Iterator[int]:
        return iter([1])

    def __len__(self) -> int:
        return 1


class Overriding(dict[str, int]):
    def get(self, key: str, default: object = None) -> Any:
        raise RuntimeError("it is not asked")


@pytest.mark.parametrize(
    ("value", "entry"),
    [
        ({"params": 1}, 1), ({"other": 1}, None), (collections.OrderedDict(params=2), 2), (collections.ChainMap({"params": 3}), 3),
        (Picky(), None), (Overriding(params=4), 4), ([1], None), ("params", None), (np.ones(2), None), (jax.numpy.ones(2), None), (None, None),
    ],
)  # fmt: skip
def test_the_entry_of_what_may_be_a_mapping(value, entry):
    assert entry_of(value, "params") == entry
