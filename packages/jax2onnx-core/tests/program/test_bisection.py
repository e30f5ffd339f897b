"""`OnnxProgram.bisect`: the first value of a model that is not what JAX computes, and who is to blame."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax2onnx_core import Rules, hookimpl, to_onnx
from jax2onnx_core.plugins.errors import OptionError, VerificationError

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
WEIGHTS = [jnp.asarray(np.random.default_rng(i).normal(size=(32, 32)), np.float32) for i in range(2)]


def plugin(rules):
    class Acme:
        @hookimpl
        def jax2onnx_register(self, registry):
            registry.add(rules)

    return Acme()


def wrong_tanh(ctx, x, **_):
    return ctx.op.Sin(x)


def with_rule(fn, name="tanh"):
    rules = Rules(overrides=True)
    rules.lower(name)(fn)
    return [plugin(rules)]


def stack(x):
    y = x * 2
    z = jnp.tanh(y)
    return z + 1, y


def test_a_right_model_differs_nowhere():
    found = to_onnx(stack, [("B", 4)]).bisect()
    assert found.first is None
    assert [value.source.operation for value in found] == ["mul", "tanh", "add"]
    assert str(found) == "Nothing differs: 3 values agree, at B = 12."


def test_a_wrong_rule_is_found_with_its_line_and_its_distribution():
    found = to_onnx(stack, [("B", 4)], plugins=with_rule(wrong_tanh)).bisect(X)
    first = found.first
    assert first.source.operation == "tanh"
    assert first.source.line.endswith("test_bisection.py:38 (stack)")
    assert first.source.lowered_by == f"{__name__}:wrong_tanh"
    assert first.source.owner == "the inline plugin Acme"
    assert first.operator == "Sin"
    index = first.worst[0].index
    np.testing.assert_allclose(first.worst[0].got.item(), np.sin(2 * X)[index], rtol=1e-5)
    np.testing.assert_allclose(first.worst[0].want.item(), np.tanh(2 * X)[index], rtol=1e-5)
    assert [value.is_close for value in found] == [True, False, False]
    text = str(found)
    assert text.startswith("The first difference, at the given inputs: tanh\n  line        ")
    assert f"lowered by  {__name__}:wrong_tanh, the inline plugin Acme" in text
    assert "Compared before it: 1, all close. After it: 1, of which 1 differ." in text


def test_a_wrong_rule_for_a_callable_that_is_in_no_line_of_the_user_names_it():
    found = to_onnx(jnp.tanh, [(3,)], plugins=with_rule(wrong_tanh)).bisect(np.ones(3, np.float32))
    assert "  line        the exported callable, tanh\n" in str(found)


def test_a_call_that_computes_something_else_than_its_trace_is_found():
    factor = [2.0]
    program = to_onnx(lambda x: jnp.tanh(x) * factor[0], [(3, 4)])
    assert program.bisect(X).first is None
    factor[0] = 3.0
    with pytest.raises(VerificationError):
        program.verify(inputs=[X])
    found = program.bisect(X)
    assert [value.source.operation for value in found.differing] == ["the call of the function"]
    assert str(found).startswith(
        "All 2 values are what the traced equations give, at the given inputs, but for the output 'output' these give something else "
        "than a call of the function: "
    )


def test_random_arguments_find_it_too():
    assert to_onnx(stack, [("B", 4)], plugins=with_rule(wrong_tanh)).bisect(sizes=[{"B": 2}]).where == "B = 2"


def test_a_wrong_rule_in_calls_of_calls_is_found():
    @jax.jit
    def inner(x):
        return jnp.tanh(x) - 1

    @jax.checkpoint
    def outer(x):
        return inner(x * 2)

    found = to_onnx(lambda x: outer(x) + inner(x), [(3, 4)], plugins=with_rule(wrong_tanh)).bisect(X)
    assert [value.source.operation for value in found] == ["mul", "tanh", "sub", "tanh", "sub", "add"]
    assert [value.is_close for value in found] == [True, *5 * [False]]


def test_a_wrong_decomposition_is_found_as_a_whole():
    rules = Rules(overrides=True)
    rules.decompose("tanh", lambda x, **_: jnp.sin(x) * 2)
    found = to_onnx(stack, [("B", 4)], plugins=[plugin(rules)]).bisect(X)
    assert found.first.source.operation == "tanh"
    assert found.first.source.owner == "the inline plugin Acme"


def test_a_rule_that_declines_is_not_to_blame():
    def declining(ctx, x, **_):
        ctx.decline("never")

    found = to_onnx(stack, [("B", 4)], plugins=with_rule(declining)).bisect(X)
    assert [value.source.owner for value in found] == 3 * ["jax2onnx-lax"]


def test_a_rule_that_returns_its_operand_is_found():
    found = to_onnx(lambda x: jnp.tanh(x) * 2, [(3, 4)], plugins=with_rule(lambda ctx, x, **_: x)).bisect(X)
    assert found.first.source.operation == "tanh"
    assert found.first.name == "x"


def test_a_loop_is_compared_as_a_whole():
    def steps(x):
        return lax.scan(lambda carry, row: (carry + jnp.tanh(row), carry), jnp.zeros(4), x)

    found = to_onnx(steps, [("T", 4)], plugins=with_rule(wrong_tanh)).bisect(X)
    assert {value.source.operation for value in found.differing} == {"scan"}


def test_sizes_that_the_function_computes_with():
    found = to_onnx(lambda x: (x / x.shape[0]).sum(0) * x.shape[1], [("B", "N")]).bisect(X)
    assert found.first is None
    assert len(found) >= 2


def test_specialized_programs():
    program = to_onnx(lambda x: jnp.tanh(x / x.shape[0]), [("B", "N")], plugins=with_rule(wrong_tanh))
    assert program.specialize(B=3).bisect(X).first.source.operation == "tanh"


def test_double_precision():
    found = to_onnx(stack, [("B", 4)], x64=True, plugins=with_rule(wrong_tanh)).bisect(X.astype(np.float64))
    assert found.first.dtype == np.float64
    assert [value.is_close for value in found] == [True, False, False]


def test_single_precision_where_double_is_meant_is_found():
    def single(ctx, x, **_):
        return ctx.cast(ctx.op.Tanh(ctx.cast(x, np.float32)), np.float64)

    found = to_onnx(stack, [("B", 4)], x64=True, plugins=with_rule(single)).bisect(X.astype(np.float64))
    assert found.first.source.operation == "tanh"


def test_integers_and_booleans():
    program = to_onnx(
        lambda x: (x // 2, x > 1), [((3,), "int32")], plugins=with_rule(lambda ctx, a, b: ctx.op.Less(a, b), "gt")
    )
    found = program.bisect(np.array([1, 5, 0], np.int32))
    assert found.first.source.operation == "gt"
    assert found.first.dtype == np.bool_


def test_nan_equals_nan_and_no_number():
    with np.errstate(invalid="ignore"):
        assert to_onnx(lambda x: jnp.log(x) * 2, [(2,)]).bisect(np.array([-1.0, 1.0], np.float32)).first is None
    found = to_onnx(jnp.tanh, [(2,)], plugins=with_rule(lambda ctx, x, **_: ctx.op.Log(x))).bisect(
        np.array([0.5, -1.0], np.float32)
    )
    assert found.first.worst[0].index == (1,)
    assert np.isnan(found.first.worst[0].got.item())


def test_typed_keys_and_complex_numbers():
    def draw(key, x):
        return jax.random.uniform(jax.random.fold_in(key, 3), (4,)) + jnp.abs(lax.complex(x, 2 * x))

    assert to_onnx(draw, [jax.random.key(1), (4,)]).bisect().first is None


def test_keyword_arguments():
    program = to_onnx(
        lambda x, scale: jnp.tanh(x * scale), [(3, 4)], kwargs={"scale": ()}, plugins=with_rule(wrong_tanh)
    )
    assert program.bisect(X, kwargs={"scale": np.float32(2)}).first.source.operation == "tanh"


def test_constants_that_were_evaluated_at_export():
    assert to_onnx(lambda x: x + jnp.tanh(jnp.arange(4.0)), [(3, 4)]).bisect(X).first is None


def test_in_fewer_bits_the_errors_are_sorted_by_module():
    def layers(x):
        for i, weight in enumerate(WEIGHTS):
            with jax.named_scope(f"layer{i}"):
                x = jnp.tanh(x @ weight)
        return x

    program = to_onnx(layers, [("B", 32)])
    x = np.random.default_rng(3).normal(size=(5, 32)).astype(np.float32)
    found = program.quantize("int4").bisect(x)
    assert {value.source.module for value in found.by_module()} == {"layer0", "layer1"}
    noise = [value.error.snr for value in found.by_error()]
    assert noise == sorted(noise)
    assert found.first.source.operation == "dot_general"
    assert program.quantize("float16").bisect(x).first is None


def test_the_names_of_layers_with_a_bias_stay_in_fewer_bits():
    program = to_onnx(lambda x: jnp.tanh(x @ WEIGHTS[0] + WEIGHTS[1][0]), [("B", 32)])
    x = np.ones((5, 32), np.float32)
    assert [value.source.operation for value in program.quantize("int4").bisect(x)] == [
        value.source.operation for value in program.bisect(x)
    ]


def test_the_standard_as_a_target():
    program = to_onnx(stack, [("B", 4)], target="onnx", plugins=with_rule(wrong_tanh))
    assert program.bisect(X).first.source.operation == "tanh"


def test_arguments_or_sizes_are_given():
    with pytest.raises(OptionError, match="bisect takes either arguments, or sizes and ranges"):
        to_onnx(stack, [("B", 4)]).bisect(X, sizes=[{"B": 2}])


def test_the_error_of_verify_says_how_to_go_on():
    with pytest.raises(VerificationError, match=r"program\.bisect\(\.\.\.\) shows the operation"):
        to_onnx(stack, [("B", 4)], plugins=with_rule(wrong_tanh)).verify()
