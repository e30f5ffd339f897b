"""An optional rule or composite that fails leaves the export to the next way, and is named in the report."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable

import jax.extend.core
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import Call, Composites, Rules, errors, hookimpl, to_onnx
from jax2onnx_graph import optional_forms


def _plugin(*declared):
    class Acme:
        @hookimpl
        def jax2onnx_register(self, registry):
            registry.add(*declared)

    return Acme()


def _overriding(fn):
    rules = Rules(overrides=True)
    rules.lower("tanh")(fn)
    return _plugin(rules)


@pytest.fixture
def _as_users(monkeypatch):
    """As a user's process is, in which no test runs."""
    monkeypatch.setattr(optional_forms, "_SETTING", optional_forms._Setting())


@pytest.fixture(autouse=True)
def _acme(monkeypatch):
    module = types.ModuleType("acme")
    exec("import jax.numpy as jnp\n\ndef act(x):\n    return jnp.tanh(x)", vars(module))
    monkeypatch.setitem(sys.modules, "acme", module)


def _act(x):
    return vars(sys.modules["acme"])["act"](x)


def _recursive(ctx, x, **_):
    return _without_end(x)


def _without_end(x):  # Python 3.13.0 does not count the calls of functions that take further keywords
    return _without_end(x)


def _undecided(ctx, x, **_):
    return x if ctx.avals_in[0].shape[0] < 2 else ctx.op.Tanh(x)


def _assertion(ctx, x, **_):
    ctx.op.Neg(x)
    raise AssertionError


_FAILING: dict[str, tuple[Callable[..., object], str]] = {
    "an assertion": (_assertion, "AssertionError"),
    "a recursion without end": (_recursive, "RecursionError"),
    "a comparison of symbols": (_undecided, "InconclusiveDimensionOperation"),
    "a dtype that is none": (lambda ctx, x, **_: np.dtype("key<fry>"), "TypeError"),
    "a wrong result": (lambda ctx, x, **_: ctx.op.IsNaN(x), "RuleError"),
    "a wrong node": (lambda ctx, x, **_: ctx.op.Add(x), "RuleError"),
}


@pytest.mark.usefixtures("_as_users")
@pytest.mark.parametrize("name", _FAILING)
def test_an_overriding_rule_that_fails_is_named_and_replaced(name):
    rule, error = _FAILING[name]
    program = to_onnx(jnp.tanh, [("B", 3)], plugins=[_overriding(rule)])
    assert [node.op_type for node in program.model.graph] == ["Tanh"]
    reason = f"declined: tanh (1×): the rule {__name__}:{rule.__qualname__} by the inline plugin Acme failed: {error}"
    assert reason in program.report()


@pytest.mark.parametrize("name", _FAILING)
def test_an_optional_rule_that_fails_raises_in_tests(name):
    with pytest.raises(errors.Jax2OnnxError):
        to_onnx(jnp.tanh, [("B", 3)], plugins=[_overriding(_FAILING[name][0])])


@pytest.mark.usefixtures("_as_users")
def test_the_last_rule_that_fails_is_the_error_of_the_export():
    own = jax.extend.core.Primitive("acme_last")
    own.def_abstract_eval(lambda x: jax.core.ShapedArray(x.shape, x.dtype))
    rules = Rules()
    rules.lower("acme_last")(_assertion)
    with pytest.raises(errors.RuleError, match=r"Lowering 'acme_last' failed: AssertionError.*Acme"):
        to_onnx(own.bind, [(3,)], plugins=[_plugin(rules)])


@pytest.mark.usefixtures("_as_users")
def test_a_rule_of_a_composite_that_fails_leaves_the_original_call():
    rules, composites = Rules(), Composites()
    rules.lower("acme.act")(_assertion)
    composites.call("acme:act", name="acme.act")(Call)
    program = to_onnx(_act, [(3,)], plugins=[_plugin(rules, composites)])
    assert "declined: acme.act (1×): the rule" in program.report()
    program.verify()


@pytest.mark.usefixtures("_as_users")
@pytest.mark.parametrize("claim", [lambda x: 1 / 0, lambda x: x], ids=["an exception", "an array"])
def test_a_composite_that_fails_leaves_the_original_call(claim):
    composites = Composites()
    composites.call("acme:act", name="acme.act")(claim)
    program = to_onnx(_act, [(3,)], plugins=[_plugin(composites)])
    assert f"declined: acme.act (1×): The composite {__name__}:<lambda> of acme:act" in program.report()
    program.verify()


def test_an_optional_rule_gives_way_where_it_takes_what_nobody_lowers():
    unknown = jax.extend.core.Primitive("acme_unknown")
    unknown.def_abstract_eval(lambda x: jax.core.ShapedArray(x.shape, x.dtype))
    program = to_onnx(jnp.tanh, [(3,)], plugins=[_overriding(lambda ctx, x, **_: ctx.jax(unknown.bind, x))])
    assert "declined: tanh (1×): it takes acme_unknown, which nobody lowers" in program.report()


@pytest.mark.usefixtures("_as_users")
def test_primitives_that_nobody_lowers_are_collected_from_bodies_of_optional_forms():
    unknown = jax.extend.core.Primitive("acme_unknown")
    unknown.def_abstract_eval(lambda x: jax.core.ShapedArray(x.shape, x.dtype))

    def function(x):
        return jax.lax.scan(lambda c, r: (0.5 * c + unknown.bind(r), c), x[0], x)

    with pytest.raises(errors.UnsupportedError, match="acme_unknown: once, at"):
        to_onnx(function, [(6, 3)])
