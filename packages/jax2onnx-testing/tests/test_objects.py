"""The objects that a callable holds, and changes of them that are taken back."""

from __future__ import annotations

import functools

import pytest
from jax2onnx_testing._objects import changes_of, objects_of, restored


class Layer:
    def __init__(self, scale=2.0):
        self.scale = scale
        self.bias = True

    @property
    def doubled(self):
        return self.scale * 2

    def helper(self, x):
        return x * self.doubled

    def __call__(self, x):
        return self.helper(x)


class Model:
    def __init__(self):
        self.layers = [Layer(), {"last": Layer()}]


def _closure(layer):
    return lambda x: layer(x)


@pytest.mark.parametrize(
    "make", [lambda x: x, lambda x: [x], lambda x: functools.partial(x, 1), lambda x: x.helper, _closure]
)
def test_an_object_is_found_in_what_holds_it(make):
    layer = Layer()
    assert objects_of(make(layer), Layer) == [layer]


def test_objects_in_fields_and_containers_are_found():
    assert len(objects_of(Model(), Layer)) == 2


def test_every_kind_of_change_is_made():
    names = {change.what for change in changes_of(Layer(), "module:Layer.__call__")}
    assert names == {
        "a subclass that overrides helper", "an object that replaces helper", "a subclass that overrides the property doubled",
        "an object with another scale", "an object with another bias",
    }  # fmt: skip


def test_a_change_is_met_where_the_object_uses_it():
    layer = Layer()
    change = next(c for c in changes_of(layer, "module:Layer.__call__") if "property" in c.what)
    met = change.apply(layer)
    assert met is not None
    assert not met()
    layer(1.0)
    assert met()


def test_a_changed_object_is_restored():
    layer = Layer()
    for change in list(changes_of(layer, "module:Layer.__call__")):
        with restored(layer):
            change.apply(layer)
        assert type(layer) is Layer
        assert vars(layer) == {"scale": 2.0, "bias": True}
