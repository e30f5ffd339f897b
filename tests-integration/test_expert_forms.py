"""Mixtures of experts as several authors write them equal JAX, and compute the chosen experts alone."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import OnnxProgram, to_onnx

from examples.expert_forms import Weights, forms, random_weights

EXPERTS, WIDTH, HIDDEN, TOKENS = 8, 64, 512, 5
WEIGHTS = random_weights(EXPERTS, WIDTH, HIDDEN)
FORMS = {form.name: form for form in forms(WEIGHTS)}

#: Forms that select or gather, of which no promise is needed.
UNCONDITIONAL = [
    "`lax.switch` under `vmap`", "gpt-oss: gathered weights", "gathered weights, `vmap` over tokens",
    "capacity, tokens scattered to slots",
]  # fmt: skip
#: Forms whose gates are zero for most experts. (Others are in `test_experts`.)
PROMISED = [
    "tunix: masked tokens, stacked results", "`lax.scan` over experts", "`lax.map` over experts", "`fori_loop` over experts", "`while_loop` over experts",
    "GShard: capacity, two experts", "Switch: capacity, one expert", "capacity, gates scattered to places", "einsum, gates before the last product",
    "Python loop, gates before the last product",
]  # fmt: skip


def tokens(count: int = TOKENS) -> np.ndarray:
    return np.random.default_rng(count).standard_normal((count, WIDTH)).astype(np.float32)


@functools.cache
def exported(name: str, *assume: str) -> OnnxProgram:
    form = FORMS[name]
    return to_onnx(form.function, [(TOKENS if form.needs_size else "T", WIDTH)], assume=assume)


def assert_equal(program: OnnxProgram, function, *arrays: np.ndarray, tolerance: float = 1e-4) -> None:
    want = np.asarray(jax.jit(function)(*arrays))
    np.testing.assert_allclose(program(*arrays), want, rtol=tolerance, atol=tolerance)


def chooses(program: OnnxProgram) -> bool:
    return any(node.op_type == "Split" and len(node.outputs) == EXPERTS for node in program.model.graph)


@pytest.mark.parametrize("name", UNCONDITIONAL)
def test_selected_experts_need_no_promise(name):
    program = exported(name)
    assert chooses(program), program.report()
    x = tokens()
    x[1], x[3, 7], x[4, 0] = np.nan, np.inf, -np.inf
    assert_equal(program, FORMS[name].function, x)
    if not FORMS[name].needs_size:
        assert_equal(program, FORMS[name].function, tokens(1))


@pytest.mark.parametrize("name", PROMISED)
def test_gates_that_are_zero_need_the_promise(name):
    program = exported(name, "finite")
    assert chooses(program), program.report()
    assert_equal(program, FORMS[name].function, tokens())
    assert_equal(program, FORMS[name].function, np.repeat(tokens(1), TOKENS, 0))  # all choose the same experts
    if not FORMS[name].needs_size:
        assert_equal(program, FORMS[name].function, tokens(1))


@pytest.mark.parametrize(
    "name",
    [
        "einsum over all experts, gates by `one_hot`",
        "Mixtral in Flax: Python loop",
        "`where` in a loop",
        "`lax.switch` under `vmap`",
        "MaxText, sparse: `ragged_dot`",
        "einsum, gates before the last product",
        "Python loop, gates before the last product",
    ],
)
def test_each_expert_has_two_products_and_the_rest_is_computed_for_all_at_once(name):
    program = exported(name, "finite")
    operators = [node.op_type for node in program.model.graph]
    assert 2 * EXPERTS <= operators.count("MatMul") < 2 * EXPERTS + 4
    assert operators.count("Sigmoid") == 1
    shapes = [tuple(value.shape or ()) for value in program.model.graph.initializers.values()]
    hidden = WEIGHTS.up.shape[2]
    assert shapes.count((WIDTH, 2 * hidden)) == shapes.count((hidden, WIDTH)) == EXPERTS
    assert (WIDTH, hidden) not in shapes


@pytest.mark.parametrize(
    "name",
    [
        "tunix: masked tokens, stacked results",
        "`fori_loop` over experts",
        "`while_loop` over experts",
        "GShard: capacity, two experts",
        "einsum, gates before the last product",
        "Python loop, gates before the last product",
    ],
)
def test_without_the_promise_all_experts_count(name):
    program = exported(name)
    assert not chooses(program)
    assert "assume=['finite']" in str(program.report())
    x = tokens()
    x[3], x[2, 7] = np.nan, np.inf
    assert_equal(program, FORMS[name].function, x)


@pytest.mark.parametrize("name", ["`lax.switch` under `vmap`", "gpt-oss: gathered weights", "`fori_loop` over experts"])
def test_no_tokens(name):
    program = to_onnx(FORMS[name].function, [("T", WIDTH)], assume=["finite"], constraints=["T >= 0"])
    assert chooses(program), program.report()
    assert program(tokens(0)).shape == (0, WIDTH)
    assert_equal(program, FORMS[name].function, tokens(2))


def one_hot_gates(x: jax.Array) -> jax.Array:
    gates, chosen = jax.lax.top_k(jax.nn.softmax(x @ WEIGHTS.router), 2)
    return (jax.nn.one_hot(chosen, EXPERTS) * gates[..., None]).sum(-2)


def hidden_features(x: jax.Array) -> jax.Array:
    return jnp.tanh(jnp.einsum("...d,edf->...ef", x, WEIGHTS.up))


def transposed_hidden(x: jax.Array) -> jax.Array:
    return jnp.einsum("tfe,efd->td", hidden_features(x).swapaxes(1, 2) * one_hot_gates(x)[:, None], WEIGHTS.down)


def gated_tokens(x: jax.Array) -> jax.Array:
    hidden = jnp.einsum("ted,edf->tef", x[:, None] * one_hot_gates(x)[..., None], WEIGHTS.up)
    return jnp.einsum("tef,efd->td", jax.nn.relu(hidden), WEIGHTS.down)


def selected_hidden(x: jax.Array) -> jax.Array:
    hidden = jnp.where((one_hot_gates(x) > 0)[..., None], hidden_features(x), 0)
    return jnp.einsum("tef,efd->td", hidden, WEIGHTS.down)


def summed_after_the_product(x: jax.Array) -> jax.Array:
    return jnp.einsum("tef,efd->ted", hidden_features(x) * one_hot_gates(x)[..., None], WEIGHTS.down).sum(1)


def in_a_scan_over_experts(x: jax.Array) -> jax.Array:
    def add(total: jax.Array, expert: tuple[jax.Array, ...]) -> tuple[jax.Array, None]:
        up, down, gate = expert
        return total + (gate[:, None] * jnp.tanh(x @ up)) @ down, None

    return jax.lax.scan(add, x, (WEIGHTS.up, WEIGHTS.down, one_hot_gates(x).T))[0]


def in_sequences(x: jax.Array) -> jax.Array:
    y = x.reshape(-1, 1, WIDTH)
    return jnp.einsum("bsef,efd,bse->bsd", hidden_features(y), WEIGHTS.down, one_hot_gates(y)).reshape(x.shape)


def of_the_first_token(x: jax.Array) -> jax.Array:
    row = x[0]
    return jnp.einsum("ef,efd->d", hidden_features(row) * one_hot_gates(row)[:, None], WEIGHTS.down)


@pytest.mark.parametrize(
    "function",
    [
        transposed_hidden, gated_tokens, selected_hidden, summed_after_the_product, in_a_scan_over_experts, in_sequences, of_the_first_token,
    ],
)  # fmt: skip
def test_the_place_of_gates_does_not_matter(function):
    program = to_onnx(function, [("T", WIDTH)], assume=["finite"])
    assert chooses(program), program.report()
    for count in (1, 2, TOKENS):
        assert_equal(program, function, tokens(count))


def bias_between(x: jax.Array) -> jax.Array:
    """Gates are factors of the tokens, but a bias makes experts count whose gates are zero."""
    hidden = jnp.einsum("ted,edf->tef", x[:, None] * one_hot_gates(x)[..., None], WEIGHTS.up) + WEIGHTS.up[:, 0]
    return jnp.einsum("tef,efd->td", hidden, WEIGHTS.down)


def exponentials_between(x: jax.Array) -> jax.Array:
    return jnp.einsum("tef,efd->td", jnp.exp(hidden_features(x) * one_hot_gates(x)[..., None]), WEIGHTS.down)


def gates_of_other_tokens(x: jax.Array) -> jax.Array:
    """Each product is of the gates of the token and of the next one, of which neither expert may be the same."""
    gates = one_hot_gates(x)
    hidden = hidden_features(x) * (gates + jnp.roll(gates, 1, 0) + jnp.roll(gates, 2, 0))[..., None]
    return jnp.einsum("tef,efd->td", hidden, WEIGHTS.down)


def gates_by_feature(x: jax.Array) -> jax.Array:
    """Each hidden feature has gates of its own."""
    one_hot = jax.nn.one_hot((jnp.arange(HIDDEN) + x[:, :1].astype(int)) % EXPERTS, EXPERTS)
    return jnp.einsum("tef,efd->td", hidden_features(x) * one_hot.swapaxes(1, 2), WEIGHTS.down)


@pytest.mark.parametrize("function", [bias_between, exponentials_between, gates_of_other_tokens, gates_by_feature])
def test_gates_that_leave_no_expert_out(function):
    program = to_onnx(function, [("T", WIDTH)], assume=["finite"])
    assert not chooses(program)
    assert_equal(program, function, tokens())


def test_a_second_layer_and_a_residual():
    layer = FORMS["`lax.switch` under `vmap`"].function

    def layers(x: jax.Array) -> jax.Array:
        x = x + layer(x)
        return x + layer(x)

    program = to_onnx(layers, [("T", WIDTH)])
    assert sum(node.op_type == "Split" and len(node.outputs) == EXPERTS for node in program.model.graph) == 4
    assert_equal(program, layers, tokens())


def test_a_loop_that_starts_with_the_tokens_and_runs_backwards():
    def mixture(x: jax.Array) -> jax.Array:
        chosen = (x @ WEIGHTS.router).argmax(-1)

        def add(total: jax.Array, expert: tuple[jax.Array, ...]) -> tuple[jax.Array, None]:
            up, down, number = expert
            return total + jnp.where((chosen == number)[:, None], jnp.tanh(x @ up) @ down, 0), None

        return jax.lax.scan(add, x, (WEIGHTS.up, WEIGHTS.down, np.arange(EXPERTS)), reverse=True)[0]

    program = to_onnx(mixture, [("T", WIDTH)])
    assert chooses(program), program.report()
    assert_equal(program, mixture, tokens())


def gathered(x: jax.Array, numbers: jax.Array, mode: str | None = None) -> jax.Array:
    up = jnp.asarray(WEIGHTS.up).at[numbers].get(mode=mode)
    return jnp.einsum("td,tdf->tf", x, up)


@pytest.mark.parametrize("mode", [None, "clip", "fill"])
def test_numbers_of_matrices_out_of_range(mode):
    function = functools.partial(gathered, mode=mode)
    program = to_onnx(function, [("T", WIDTH), (("T",), np.int32)])
    assert chooses(program) == (mode != "fill"), program.report()
    for numbers in ([0, 7, 7, 3, 0], [-1, 8, 99, -9, 2]):
        assert_equal(program, function, tokens(), np.array(numbers, np.int32))


def test_weights_that_are_not_gathered_may_be_anything():
    up = WEIGHTS.up.copy()
    up[3], up[5, 0, 0] = np.nan, np.inf
    function = lambda x, n: jnp.einsum("td,tkdf->tkf", x, jnp.take(up, n, axis=0, mode="clip"))  # noqa: E731
    program = to_onnx(function, [("T", WIDTH), (("T", 2), np.int32)])
    assert chooses(program), program.report()
    assert_equal(program, function, tokens(), np.array([[0, 0], [3, 1], [5, 3], [7, 9], [2, 2]], np.int32))


@pytest.mark.parametrize(
    "equation",
    ["tsd,tdf->tsf", "tsd,tfd->tfs", "ds,tdf->tsf", "tsd,tdf->sf", "tsd,tdf->sft"],
)
def test_products_with_gathered_matrices(equation):
    left, right = equation.split("->")[0].split(",")
    first = {"t": "T", "s": 3, "d": WIDTH}

    def function(x: jax.Array, numbers: jax.Array) -> jax.Array:
        table = jnp.asarray(WEIGHTS.up if right == "tdf" else WEIGHTS.up.transpose(0, 2, 1))
        return jnp.einsum(equation, x, jnp.take(table, numbers, axis=0, mode="clip"))

    program = to_onnx(function, [tuple(first[axis] for axis in left), (("T",), np.int32)])
    assert chooses(program), program.report()
    shape = [{"t": TOKENS, "s": 3, "d": WIDTH}[axis] for axis in left]
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    assert_equal(program, function, x, np.array([1, 0, 7, 1, 2], np.int32))


def test_matrices_that_are_an_input_of_another_type():
    def function(x: jax.Array, table: jax.Array, numbers: jax.Array) -> jax.Array:
        return jnp.einsum("td,tdf->tf", x, jnp.take(table, numbers, axis=0, mode="clip"))

    program = to_onnx(function, [("T", WIDTH), ((EXPERTS, WIDTH, HIDDEN), jnp.float16), (("T",), np.int32)])
    assert chooses(program), program.report()
    assert_equal(program, function, tokens(), WEIGHTS.up.astype(np.float16), np.array([1, 0, 7, 1, 2], np.int32))


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_half_precision(dtype):
    half = Weights(*(jnp.asarray(one, dtype) for one in (WEIGHTS.router, WEIGHTS.gate, WEIGHTS.up, WEIGHTS.down)))
    function = next(form.function for form in forms(half) if form.name == "gpt-oss: gathered weights")
    outer = lambda x: function(x.astype(dtype)).astype(jnp.float32)  # noqa: E731
    program = to_onnx(outer, [("T", WIDTH)])
    assert chooses(program), program.report()
    assert_equal(program, outer, tokens(), tolerance=0.05)


def test_numbers_of_a_switch_out_of_range():
    branches = [lambda row, e=e: jnp.tanh(row @ WEIGHTS.up[e]) @ WEIGHTS.down[e] for e in range(EXPERTS)]

    def function(x: jax.Array, numbers: jax.Array) -> jax.Array:
        return jax.vmap(lambda row, n: jax.lax.switch(n, branches, row))(x, numbers)

    program = to_onnx(function, [("T", WIDTH), (("T",), np.int32)])
    assert chooses(program), program.report()
    assert_equal(program, function, tokens(), np.array([-5, 0, 7, 8, 3], np.int32))


@pytest.mark.parametrize(
    "name", ["MaxText, sparse: `ragged_dot`", "gpt-oss: gathered weights", "GShard: capacity, two experts"]
)
def test_weights_of_chosen_experts_are_quantised(name):
    quantized = exported(name, "finite").quantize("int8")
    assert sum(node.op_type == "MatMulNBits" for node in quantized.model.graph) >= 2 * EXPERTS
    expected = np.asarray(FORMS[name].function(jnp.asarray(tokens())))
    assert np.linalg.norm(quantized(tokens()) - expected) < 0.05 * np.linalg.norm(expected)
