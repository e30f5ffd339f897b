"""Wrong results of rules, decompositions and composites are errors at export, with their name and the user's line."""

from __future__ import annotations

import functools
import re
import sys
import types

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_core import Call, Composites, Rules, errors, hookimpl, to_onnx


def plugin(*declared):
    class Acme:
        @hookimpl
        def jax2onnx_register(self, registry):
            registry.add(*declared)

    return Acme()


def with_rule(fn, name="tanh"):
    rules = Rules(overrides=True)
    rules.lower(name)(fn)
    return plugin(rules)


def two_axes(x):
    return jnp.tanh(x)


def export(fn, rule, **options):
    return to_onnx(fn, [("B", "T")], plugins=[with_rule(rule)], **options)


def test_an_elementwise_operator_is_for_operands_of_one_type():
    rules = Rules(overrides=True)
    rules.elementwise({"pow": "Pow"})
    program = to_onnx(jax.lax.pow, [(3,), ((3,), jnp.int32)], plugins=[plugin(rules)])
    assert ("pow", "the operands of Pow are of several types") in program.log.reasons
    program.verify()


WRONG = {
    "missing operand": (lambda ctx, x, **_: ctx.op.Add(x), "Add of opset 23 takes 2 operands, not 1."),
    "a number": (
        lambda ctx, x, **_: ctx.op.Add(x, 2.0),
        "Operand 1 of Add is 2.0, not a value of the graph; write ctx.constant(2.0, like=x) with another operand x.",
    ),
    "an unknown attribute": (
        lambda ctx, x, **_: ctx.op.Tanh(x, axis=1),
        "Tanh of opset 23 has no attribute 'axis'; it has: none.",
    ),
    "mixed types": (
        lambda ctx, x, **_: ctx.op.Add(x, ctx.constant(np.int32(1))),
        "Operand 1 (B) of Add is INT32, but it has to be FLOAT, as the one before it; convert one of them by ctx.cast(x, dtype).",
    ),
    "an array": (
        lambda ctx, x, **_: np.zeros(1),
        "The rule returned array([0.]), not a value of the graph (an onnx_ir.Value).",
    ),
    "nothing": (lambda ctx, x, **_: None, "The rule returned None, not a value of the graph (an onnx_ir.Value)."),
    "too much": (lambda ctx, x, **_: [x, x], "The rule returned 2 values for 1 results."),
    "another type": (
        lambda ctx, x, **_: ctx.op.IsNaN(x),
        "The rule returned BOOL, but JAX's result is float32[B, T].",
    ),
    "a foreign value": (
        lambda ctx, x, **_: ir.Value(name="y", type=x.type),
        "The rule returned 'y', which is no value of this graph: no node computes it.",
    ),
    "another rank": (
        lambda ctx, x, **_: ctx.unsqueeze(x, [0]),
        "The rule returned shape [1, B, T], but JAX's result has [B, T].",
    ),
    "other symbols": (
        lambda ctx, x, **_: ctx.transpose(x, (1, 0)),
        "The rule returned shape [T, B], but JAX's result has [B, T].",
    ),
    "an exception": (lambda ctx, x, **_: 1 / 0, "ZeroDivisionError: division by zero."),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_rule_is_named(wrong):
    rule, message = WRONG[wrong]
    with pytest.raises(errors.RuleError) as error:
        export(two_axes, rule)
    line = two_axes.__code__.co_firstlineno + 1
    expected = (
        f"Lowering 'tanh' failed: {message} The rule is by the inline plugin Acme ({__name__}:<lambda>), "
        f"for the equation at {__file__}:{line} (two_axes)."
    )
    assert str(error.value) == expected


def test_a_decomposition_that_fails_is_named():
    rules = Rules(overrides=True)
    rules.decompose("tanh", lambda x, **_: 1 / 0)
    with pytest.raises(errors.RuleError, match=r"ZeroDivisionError: .* by the inline plugin Acme \(.*<lambda>\)"):
        to_onnx(two_axes, [("B", "T")], plugins=[plugin(rules)])


def test_a_rule_declines_by_itself_where_the_target_has_no_kernel():
    rules = Rules(overrides=True)
    rules.decompose("tanh", lambda x, **_: 2 / (1 + jnp.exp(-2 * x)) - 1)
    rules.lower("tanh")(lambda ctx, x, **_: ctx.op.Asinh(x))
    program = to_onnx(two_axes, [("B", "T")], plugins=[plugin(rules)], x64=True)
    assert "declined: tanh (1×): onnxruntime has no Asinh for DOUBLE" in program.report()
    program.verify()


def test_an_operator_without_a_kernel_is_written_as_onnx_defines_it():
    softsign = Rules(overrides=True)
    softsign.lower("acme.act")(lambda ctx, x, **_: ctx.op.Softsign(x))
    composites = Composites()
    composites.call("acme:act", name="acme.act")(Call)
    program = to_onnx(acme_act, [(3,)], plugins=[plugin(softsign, composites)], x64=True)
    assert "Softsign" not in program.report()
    x = np.array([-2.0, 0.1, 5.0])
    np.testing.assert_allclose(program(x), x / (1 + np.abs(x)), rtol=1e-15)


def decline(ctx, *operands, **_):
    ctx.decline("the moon is full")


def test_the_report_keeps_the_reasons_of_rules_that_declined():
    program = export(two_axes, decline)
    assert "declined: tanh (1×): the moon is full" in program.report()


def test_the_error_of_what_is_missing_names_the_reasons_of_its_rules():
    orphan = jax.extend.core.Primitive("orphan")
    orphan.def_abstract_eval(lambda x: x)
    with pytest.raises(errors.UnsupportedError, match=r"orphan: once, at .*\. Its rules declined: the moon is full"):
        to_onnx(orphan.bind, [(3,)], plugins=[with_rule(decline, "orphan")])


@pytest.mark.parametrize("wrap", [lambda bind: bind, jax.jit, lambda bind: functools.partial(jax.jit(bind))])
def test_the_error_of_what_is_missing_names_a_callable_that_is_in_no_line_of_the_user(wrap):
    orphan = jax.extend.core.Primitive("orphan")
    orphan.def_abstract_eval(lambda x: x)
    place = "orphan: once, at the exported callable, Primitive.bind of 'orphan'\n"
    with pytest.raises(errors.UnsupportedError, match=place):
        to_onnx(wrap(orphan.bind), [(3,)])


def test_the_error_of_a_rule_names_a_callable_that_is_in_no_line_of_the_user():
    def fails(ctx, x, **_):
        raise ZeroDivisionError

    with pytest.raises(errors.RuleError, match=r"for the equation at the exported callable, tanh\.$"):
        to_onnx(jnp.tanh, [(3,)], plugins=[with_rule(fails, "tanh")])


def test_the_error_of_an_open_dimension_names_a_callable_that_is_in_no_line_of_the_user():
    reshape = functools.partial(jnp.reshape, shape=(4, -1))
    with pytest.raises(errors.UndecidedDimensionError, match="should be 0, at the exported callable, reshape"):
        to_onnx(reshape, [("B", 3)])


def test_a_decomposition_that_computes_with_a_symbolic_size_outside_of_the_model():
    rules = Rules(overrides=True)
    rules.decompose("tanh", lambda x, **_: x + np.arange(x.shape[0]))
    with pytest.raises(
        errors.UndecidedDimensionError, match=r"the number behind a symbolic dimension.*specialize={'B': …}"
    ):
        to_onnx(jnp.tanh, [("B",)], plugins=[plugin(rules)])
    to_onnx(jnp.tanh, [("B",)], plugins=[plugin(rules)], specialize={"B": 3})


# -- composites ------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _acme(monkeypatch):
    module = types.ModuleType("acme")
    exec("import jax.numpy as jnp\n\ndef act(x):\n    return jnp.tanh(x)", vars(module))
    monkeypatch.setitem(sys.modules, "acme", module)


def acme_act(x):
    return vars(sys.modules["acme"])["act"](x)


def with_composite(fn):
    composites = Composites()
    composites.call("acme:act", name="acme.act")(fn)
    return plugin(composites)


def test_a_composite_that_fails_is_named():
    with pytest.raises(errors.PluginError, match=r"The composite .*<lambda> of acme:act failed: ZeroDivisionError"):
        to_onnx(acme_act, [(3,)], plugins=[with_composite(lambda x: 1 / 0)])


def test_a_composite_that_returns_an_array_is_named():
    with pytest.raises(
        errors.PluginError, match=r"The composite .*<lambda> of acme:act returned .*, not a Call, a Replacement or None"
    ):
        to_onnx(acme_act, [(3,)], plugins=[with_composite(lambda x: x)])


def test_a_call_that_the_original_refuses_is_the_users_error():
    with pytest.raises(TypeError, match=re.escape("unexpected keyword argument 'sharp'")):
        to_onnx(lambda x: vars(sys.modules["acme"])["act"](x, sharp=True), [(3,)], plugins=[with_composite(Call)])


def test_a_decomposition_into_what_no_rule_lowers_is_an_error_with_the_reasons_of_the_rules():
    rules = Rules(overrides=True)

    @rules.lower("tanh")
    def tanh(ctx, x, **_):
        ctx.decline("there is no kernel")

    rules.decompose("tanh", lambda x, **_: -jnp.tanh(x))
    with pytest.raises(errors.UnsupportedError, match=r"(?s)tanh: .* Its rules declined: there is no kernel"):
        to_onnx(two_axes, [("B", "T")], plugins=[plugin(rules)])
