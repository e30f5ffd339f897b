"""A composite stands for the call that its plugin was written for, not for one of changed classes, objects or functions."""

from __future__ import annotations

import sys
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import Call, Composites, Rules, hookimpl, to_onnx
from jax2onnx_core.frontend.claims import Claim

_CODE = """
import dataclasses
import jax.numpy as jnp

def shifted(x):
    return x + 1

class Base:
    def scale(self):
        return 2.0

class Layer(Base):
    act: object = jnp.tanh

    def __init__(self):
        self.weight = jnp.arange(3.0)

    @property
    def gain(self):
        return 3.0

    @property
    def hidden(self):
        return 1.0

    def unused(self):
        return 0

    def inner(self, x):
        return shifted(x) * self.scale()

    def __call__(self, x):
        return helped(self, self.inner(x) * self.weight) * self.gain * self.hidden

def helped(layer, x):
    return x + layer.offset()

def _offset(self):
    return 5.0

Layer.offset = _offset

class Known(Layer):
    def scale(self):
        return super().scale()

def doubled(x):
    return shifted(x) * 2

class Cell:
    rate = 2.0

    def gate(self, x):
        return shifted(x)

    def step(self, x):
        return self.gate(x) * self.rate

    def __call__(self, x):
        return self.step(x)

class Recurrent:
    def __init__(self, cell):
        self.cell = cell

    def __call__(self, x):
        return self.cell(x)
"""


@pytest.fixture
def library():
    """A library of a layer, whose call uses methods, properties, inherited methods, and functions that are handed the layer."""
    module = types.ModuleType("claimed")
    sys.modules["claimed"] = module
    exec(_CODE, vars(module))
    yield module
    del sys.modules["claimed"]


class _Plugin:
    """Claims the layer and the function of the library."""

    @hookimpl
    def jax2onnx_register(self, registry):
        composites, rules = Composites(), Rules()

        @composites.call("claimed:Layer.__call__", name="claimed.layer")
        def layer(self, x):
            return Call(x, self.weight, gain=self.gain)

        @composites.call("claimed:doubled", name="claimed.doubled")
        def doubled(x):
            return Call(x)

        @rules.lower("claimed.layer")
        def lower_layer(ctx, x, weight, *, gain):
            y = ctx.op.Mul(ctx.op.Mul(ctx.op.Add(x, ctx.constant(1, like=x)), ctx.constant(2, like=x)), weight)
            return ctx.op.Mul(ctx.op.Add(y, ctx.constant(5, like=x)), ctx.constant(gain, like=x))

        @rules.lower("claimed.doubled")
        def lower_doubled(ctx, x):
            return ctx.op.Mul(ctx.op.Add(x, ctx.constant(1, like=x)), ctx.constant(2, like=x))

        registry.add(composites)
        registry.add(rules)


_X = np.array([1.0, -2.0, 3.0], np.float32)


def _export(fn, name="claimed.layer"):
    """Whether a call of a function is claimed; its values are compared with JAX."""
    program = to_onnx(fn, [_X], plugins=[_Plugin()])
    np.testing.assert_allclose(program(_X), fn(_X), rtol=1e-6)
    reasons = [reason for operation, reason in program.log.reasons if operation == name]
    return (name, "rule") in program.log.ways, reasons


def test_an_unchanged_layer_is_claimed(library: Any):
    assert _export(library.Layer()) == (True, [])


def test_a_subclass_that_changes_nothing_is_claimed(library: Any):
    class Plain(library.Layer):
        def __init__(self):
            super().__init__()
            self.more = 1

        def __call__(self, x):
            return super().__call__(x) * 2

        def unused(self):
            return 1

    assert _export(Plain()) == (True, [])


@pytest.mark.parametrize("name", ["inner", "scale", "offset"])
def test_a_subclass_that_overrides_a_used_method_is_not_claimed(library: Any, name):
    base = vars(library.Layer).get(name) or vars(library.Base)[name]
    changed = type("Changed", (library.Layer,), {name: lambda self, *args: base(self, *args) * 7})
    claimed, reasons = _export(changed())
    assert not claimed
    assert reasons == [f"Changed overrides {name}, which Layer.__call__ uses"]


def test_a_class_beside_the_layer_counts_too(library: Any):
    class Mixin(library.Base):
        def scale(self):
            return 9.0

    class Mixed(library.Layer, Mixin):
        pass

    assert _export(Mixed())[0] is False


@pytest.mark.parametrize("name", ["gain", "hidden"])
def test_a_subclass_that_overrides_a_used_property_is_not_claimed(library: Any, name):
    changed = type("Changed", (library.Layer,), {name: property(lambda self: 11.0)})
    assert _export(changed())[1] == [f"Changed overrides {name}, which Layer.__call__ uses"]


def test_a_subclass_that_intercepts_attributes_is_not_claimed(library: Any):
    class Intercepting(library.Layer):
        def __getattribute__(self, name):
            value = super().__getattribute__(name)
            return value * 2 if name == "weight" else value

    assert _export(Intercepting())[0] is False


def test_a_subclass_that_is_changed_after_an_export_is_not_claimed_any_more(library: Any):
    changed: Any = type("Changed", (library.Layer,), {})
    assert _export(changed())[0] is True
    changed.scale = lambda self: 4.0
    assert _export(changed())[0] is False


def test_an_object_with_a_replaced_method_is_not_claimed(library: Any):
    layer = library.Layer()
    layer.scale = lambda: 8.0
    claimed, reasons = _export(layer)
    assert not claimed
    assert reasons == ["scale of an object of Layer was replaced, which Layer.__call__ uses"]


def test_a_library_patched_from_outside_is_not_claimed(library: Any, monkeypatch):
    original = library.shifted
    monkeypatch.setattr(library, "shifted", lambda x: original(x) * 3)
    claimed, reasons = _export(library.Layer())
    assert not claimed
    assert reasons == ["claimed.shifted was replaced, which Layer.__call__ uses"]
    assert _export(lambda x: library.doubled(x), "claimed.doubled")[0] is False


def test_a_patched_method_behind_that_of_a_subclass_of_the_library_is_not_claimed(library: Any, monkeypatch):
    assert _export(library.Known())[0] is True
    monkeypatch.setattr(library.Base, "scale", lambda self: 6.0)
    assert _export(library.Known())[0] is False


def test_a_method_patched_from_outside_is_not_claimed(library: Any, monkeypatch):
    monkeypatch.setattr(library.Base, "scale", lambda self: 6.0)
    assert _export(library.Layer())[0] is False


def test_a_claimed_function_that_was_patched_itself_is_not_claimed(library: Any, monkeypatch):
    monkeypatch.setattr(library, "doubled", lambda x: x * 3)
    assert _export(lambda x: library.doubled(x), "claimed.doubled")[0] is False


def test_functions_of_the_library_in_each_others_place_are_not_claimed(library: Any, monkeypatch):
    plugin = _Plugin()
    assert ("claimed.doubled", "rule") in to_onnx(library.doubled, [_X], plugins=[plugin]).log.ways
    monkeypatch.setattr(library, "shifted", library.jnp.negative)
    program = to_onnx(lambda x: library.doubled(x), [_X], plugins=[plugin])
    np.testing.assert_allclose(program(_X), -_X * 2)


def test_a_patched_function_of_jax_is_not_claimed_for_what_uses_it(library: Any, monkeypatch):
    vars(library)["scaled"] = None
    exec("def doubled(x): return jnp.add(x, 1) * 2", vars(library))
    assert _export(lambda x: library.doubled(x), "claimed.doubled")[0] is True
    monkeypatch.setattr(jnp, "add", lambda x, y: x - y)
    assert _export(lambda x: library.doubled(x), "claimed.doubled")[0] is False
    monkeypatch.undo()
    assert _export(lambda x: library.doubled(x), "claimed.doubled")[0] is True


def test_a_module_is_followed_for_each_function_that_names_it(library: Any, monkeypatch):
    exec("def shifted(x): return jnp.add(x, 1)", vars(library))
    exec("def doubled(x): return jnp.multiply(shifted(x), 2)", vars(library))
    assert _export(lambda x: library.doubled(x), "claimed.doubled")[0] is True
    monkeypatch.setattr(jnp, "add", lambda x, y: x - y)
    assert _export(lambda x: library.doubled(x), "claimed.doubled")[0] is False


def test_a_method_borrowed_by_another_class_is_not_claimed(library: Any):
    class Other:
        weight, gain, hidden = jnp.ones(3), 1.0, 1.0
        inner = staticmethod(lambda x: x)
        offset = staticmethod(lambda: 0.0)
        call = library.Layer.__call__

    assert _export(lambda x: Other().call(x))[0] is False


def test_code_that_is_replaced_between_exports_is_that_which_is_traced(library: Any):
    fn = library.shifted
    assert _export(lambda x: library.doubled(x), "claimed.doubled")[0] is True
    fn.__code__ = (lambda x: x - 1).__code__
    assert _export(lambda x: library.doubled(x), "claimed.doubled")[0] is False


def test_other_code_in_a_function_of_jax_is_not_claimed_away(library: Any, monkeypatch):
    """Libraries that add adapters to layers, or quantise them, put their code into JAX's functions during a call."""

    def doubled_by_another(x: jax.Array) -> jax.Array:
        monkeypatch.setattr(jax.lax.dot_general, "__code__", (lambda *args, **kwargs: 0).__code__)
        try:
            return library.doubled(x)
        finally:
            monkeypatch.undo()

    claimed, reasons = _export(doubled_by_another, "claimed.doubled")
    assert (claimed, reasons) == (False, ["the code of jax's dot_general was replaced, by which layers compute"])


def _read_cell(layer, x):
    """The function of a composite that reads the cell in place of calling it."""
    return layer.cell.rate


def _replacing(cell, name):
    vars(cell)[name] = lambda x: x
    return cell


def _subclass(library, **changes):
    return type("Mine", (library.Cell,), changes)()


#: What is held as the cell, and the change of it that is named.
CELLS = {
    "plain": (lambda lib: lib.Cell(), None),
    "a subclass that changes nothing": (lambda lib: _subclass(lib), None),
    "a subclass with a field": (lambda lib: _subclass(lib, other=1), None),
    "a subclass that overrides what is called": (
        lambda lib: _subclass(lib, __call__=lambda self, x: x),
        "Mine overrides __call__",
    ),
    "a subclass that overrides what is used": (
        lambda lib: _subclass(lib, gate=lambda self, x: x),
        "Mine overrides gate",
    ),
    "a subclass with another method": (lambda lib: _subclass(lib, unused=lambda self, x: x), None),
    "an object that replaces what is used": (
        lambda lib: _replacing(lib.Cell(), "gate"),
        "gate of an object of Cell was replaced",
    ),
    "an object that replaces something else": (lambda lib: _replacing(lib.Cell(), "unused"), None),
    "a class": (lambda lib: type(_subclass(lib, gate=lambda self, x: x)), None),
    "a function": (lambda lib: lambda x: x, None),
    "a number": (lambda lib: 3, None),
    "an object of another library": (lambda lib: jax.tree_util.Partial(jnp.tanh), None),
    "one of several": (
        lambda lib: [lib.Cell(), (lib.Cell(), _subclass(lib, gate=lambda self, x: x))],
        "Mine overrides gate",
    ),
}


@pytest.mark.parametrize("is_argument", [False, True])
@pytest.mark.parametrize("name", CELLS)
def test_a_change_of_what_a_composite_reads_in_place_of_calling_it(library, name, is_argument):
    make, change = CELLS[name]
    claim = Claim(
        "claimed:Recurrent.__call__", library.Recurrent.__call__, _read_cell, lambda function: function.__code__
    )
    args = (library.Recurrent(library.Cell()), make(library)) if is_argument else (library.Recurrent(make(library)),)
    expected = None if change is None else f"{change}, which Recurrent.__call__ uses"
    assert claim.change_of_parts(args) == expected
    assert claim.change(args) is None


def test_a_function_that_a_cell_uses_may_be_replaced(library):
    claim = Claim(
        "claimed:Recurrent.__call__", library.Recurrent.__call__, _read_cell, lambda function: function.__code__
    )
    assert claim.change_of_parts((library.Recurrent(library.Cell()),)) is None
    library.shifted = lambda x: x
    assert (
        claim.change_of_parts((library.Recurrent(library.Cell()),))
        == "claimed.shifted was replaced, which Recurrent.__call__ uses"
    )


def test_what_a_call_may_use(library):
    layer = Claim("claimed:Layer.__call__", library.Layer.__call__, _read_cell, lambda function: function.__code__)
    assert {"gain", "hidden", "inner", "scale", "offset"} <= layer.methods
    assert not {"unused", "weight", "act"} & layer.methods
    assert {binding.name for binding in layer.bindings} >= {"shifted", "helped"}
    function = Claim("claimed:doubled", library.doubled, _read_cell, lambda function: function.__code__)
    assert function.owner is None
    assert function.methods == frozenset()
    assert function.change_of_parts(()) is None
