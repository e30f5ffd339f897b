"""Values between operands and results are labelled too, and one that is not is reported."""

from __future__ import annotations

import operator

import jax.export
import jax.extend.core
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.core import max_dim, min_dim
from jax2onnx_core import Rules, hookimpl, to_onnx
from jax2onnx_core.symbols.symbols import evaluate_dim
from jax2onnx_graph.facts.expressions import evaluate

primitive = jax.extend.core.Primitive("labelled")
primitive.def_abstract_eval(lambda x: x)


def exported(rule):
    """`rule(ctx, x)` for x of shape [A, B, 4], whose result is x again."""
    rules = Rules()
    rules.lower("labelled")(rule)

    class Plugin:
        @hookimpl
        def jax2onnx_register(self, registry):
            registry.add(rules)

    return to_onnx(primitive.bind, [("A", "B", 4)], plugins=[Plugin()])


@pytest.mark.parametrize(
    ("emit", "dims"),
    [
        (lambda ctx, x: ctx.op.Transpose(x, perm=[2, 0, 1]), "4, A, B"),
        (lambda ctx, x: ctx.op.Gather(x, ctx.constant(np.array([1, 2])), axis=1), "A, 2, 4"),
        (lambda ctx, x: ctx.op.Concat(x, x, axis=-2), "A, 2*B, 4"),
        (lambda ctx, x: ctx.op.MatMul(x, ctx.constant(np.ones((4, 3), np.float32))), "A, B, 3"),
        (lambda ctx, x: ctx.op.ReduceMax(x, ctx.ints([1]), keepdims=0), "A, 4"),
        (lambda ctx, x: ctx.op.ReduceMax(x, ctx.ints([1])), "A, 1, 4"),
        (lambda ctx, x: ctx.op.ArgMax(x, axis=1, keepdims=0), "A, 4"),
        (lambda ctx, x: ctx.op.Unsqueeze(x, ctx.ints([0, -1])), "1, A, B, 4, 1"),
        (lambda ctx, x: ctx.op.several("Split", x, axis=2, num_outputs=2, outputs=2)[1], "A, B, 2"),
        (lambda ctx, x: ctx.op.Shape(x, start=1), "2"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_follows_from_the_operands(emit, dims):
    found = []

    def rule(ctx, x):
        found.append(ctx.dims(emit(ctx, x)))
        return ctx.op.Identity(x)

    exported(rule)
    assert ", ".join(map(str, found[0])) == dims


def test_a_value_of_unknown_shape_is_reported():
    def rule(ctx, x):
        everywhere = ctx.op.NonZero(x)
        return ctx.op.Add(x, ctx.op.Cast(ctx.op.ReduceSum(everywhere, keepdims=0), to=np.float32))

    problems = exported(rule).check_symbols()
    sentence = "NonZero: its shape is not known; the rule that emits it should give dims=… to ctx.op."
    assert any(problem.endswith(sentence) for problem in problems)


def test_a_dimension_that_differs_from_a_symbol_only_where_that_is_zero_has_a_label_of_its_own():
    def padded(x):
        missing = max_dim(x.shape[0], 1) - x.shape[0]
        return jnp.pad(x, (0, missing))

    program = to_onnx(padded, [("S",)], constraints=["S >= 0"])
    assert [str(d) for d in program.model.graph.outputs[0].shape] == ["max(S, 1)"]
    program.verify(sizes=[{"S": 0}, {"S": 1}, {"S": 5}])


EXPRESSIONS = st.recursive(
    st.sampled_from(["A", "B", "2", "7"]),
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*"), inner),
        st.builds("{}({}, {})".format, st.sampled_from(["max", "min"]), inner, inner),
        st.builds(
            "{}({}, {})".format, st.sampled_from(["floordiv", "mod"]), inner, st.sampled_from(["2", "3", "A + 1"])
        ),
    ),
    max_leaves=6,
)


@given(EXPRESSIONS, st.integers(1, 9), st.integers(1, 9))
def test_a_label_says_to_other_tools_what_the_dimension_is(text, a, b):
    symbols = dict(zip("AB", jax.export.symbolic_shape("A, B"), strict=True))
    dim = eval(text, {**symbols, "max": max_dim, "min": min_dim, "floordiv": operator.floordiv, "mod": operator.mod})
    sizes = {"A": a, "B": b}
    assert evaluate(str(dim), sizes) == evaluate(text, sizes) == evaluate_dim(dim, sizes)
