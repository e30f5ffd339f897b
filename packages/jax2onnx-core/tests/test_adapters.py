"""What adapters take apart."""

from __future__ import annotations

import dataclasses
import functools

import jax.numpy as jnp
import pytest
from jax2onnx_core import Adapted, hookimpl, to_onnx
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


def test_what_nobody_claims_has_to_be_callable():
    with pytest.raises(OptionError, match="needs a callable, not tuple"):
        to_onnx((Model(), VARIABLES), [("B", 3)])


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


def test_the_repr_is_a_summary():
    program = to_onnx(functools.partial(Model().apply, VARIABLES), [("B", 3)])
    assert "input      x  float32[B, 3]" in repr(program)
    assert "pip install" not in repr(program)
