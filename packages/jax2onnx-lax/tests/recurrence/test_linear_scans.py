from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax2onnx_core import to_onnx
from jax2onnx_lax.recurrence import linear_scans
from recurrence_spellings import LOOK_ALIKES, SPELLINGS, C, H, K, V

#: A version of the runtime that has no kernel for linear attention; its models run in later versions, too.
_WITHOUT_KERNEL = "onnxruntime==1.23"

_NASTY = [np.nan, np.inf, -np.inf, 0.0, -0.0]


def _arguments(shapes, length, seed=0, *, nasty=False):
    random = np.random.default_rng(seed)
    arrays = [random.normal(size=(length, *shape)).astype(np.float32) for shape in shapes]
    for x in arrays if nasty else []:
        x.reshape(-1)[random.integers(x.size)] = random.choice(_NASTY)
    return arrays


def _operators(program):
    return [node.op_type for node in program.model.graph]


def _agree(program, function, arguments):
    expected = jax.tree.leaves(jax.jit(function)(*arguments))
    for y, result in zip(jax.tree.leaves(program(*arguments)), expected, strict=True):
        # Compiled JAX rounds half precision less often where the processor has instructions for it.
        relative = 4 * float(jnp.finfo(result.dtype).eps) if result.dtype.itemsize < 4 else 2e-5
        right = np.asarray(result, np.promote_types(result.dtype, np.float32))
        scale = np.nanmax(np.abs(np.where(np.isfinite(right), right, 0)), initial=1.0)
        np.testing.assert_allclose(np.asarray(y, right.dtype), right, rtol=max(1e-4, relative), atol=relative * scale)


#: The next state, of the state `s` [2, 3] and a row of `x` and `g` [2, 3], `a` [2] and `b` [3], of which the last three are gates.
_LINEAR = {
    "constant": lambda s, x, g, a, b: 0.5 * s + x,
    "below zero": lambda s, x, g, a, b: s * -0.5 + x,
    "gate": lambda s, x, g, a, b: s * g + x,
    "gate alone": lambda s, x, g, a, b: s * g,
    "gate of a sum": lambda s, x, g, a, b: g * (s + x),
    "gates of axes": lambda s, x, g, a, b: s * a[:, None] * b[None, :] + x,
    "power of a gate": lambda s, x, g, a, b: s * g**2 + x,
    "exponential": lambda s, x, g, a, b: s * jnp.exp(-jnp.exp(x)) + b,
    "difference": lambda s, x, g, a, b: s - 0.1 * (s - x),
    "negation": lambda s, x, g, a, b: -(x - s * 0.5),
    "quotient": lambda s, x, g, a, b: s / (1 + abs(x)) + g,
    "quotient by a number": lambda s, x, g, a, b: s / 4.0 + g,
    "two terms": lambda s, x, g, a, b: (s + s) * 0.25 * g + x,
    "several scales": lambda s, x, g, a, b: s * g * 0.5 * 2.0 - x * 3.0,
    "outer product": lambda s, x, g, a, b: 0.9 * s + a[:, None] * b[None, :],
    "transposes": lambda s, x, g, a, b: (s.T * g.T).T + x,
    "reshapes": lambda s, x, g, a, b: s.reshape(1, 2, 1, 3).reshape(2, 3) * g + x,
    "squeezed": lambda s, x, g, a, b: jnp.squeeze(s[None] * 0.5, 0) * g + x,
    "sum over a new axis": lambda s, x, g, a, b: 0.1 * jnp.broadcast_to(s[:, None], (2, 4, 3)).sum(1) + x,
}
_NOT_LINEAR = {
    "square": lambda s, x, g, a, b: s * s * 0.1 + x,
    "quotient by the state": lambda s, x, g, a, b: x / (2 + s * s),
    "rounded": lambda s, x, g, a, b: (s * 0.5).astype(jnp.float16).astype(jnp.float32) + x,
    "sum over a row": lambda s, x, g, a, b: 0.5 * s.sum(0)[None] + x,
    "delta": lambda s, x, g, a, b: s - 0.1 * a[:, None] * (a @ s)[None, :] + x,
    "mixed axes": lambda s, x, g, a, b: s.reshape(3, 2).T * g + x,
}
_READ = {
    "rows": lambda s, x, g, a, b: s.sum(1),
    "columns": lambda s, x, g, a, b: s.sum(0),
    "all": lambda s, x, g, a, b: s.sum(),
    "weighted": lambda s, x, g, a, b: (s * x).sum(1),
    "product with a row": lambda s, x, g, a, b: a @ s,
    "product with a column": lambda s, x, g, a, b: s @ b,
    "product with both": lambda s, x, g, a, b: a @ s @ b,
    "spread": lambda s, x, g, a, b: jnp.broadcast_to(s[:, None], (2, 4, 3)).sum(1),
    "difference": lambda s, x, g, a, b: x - s * 2.0,
    "no sum of products": lambda s, x, g, a, b: jnp.tanh(s),
}


def _scans(of, read):
    """The function that scans each of these bodies and each of these readings, by name."""

    def scan(function, read, rows):
        def step(s, row):
            new = function(s, *row)
            return new, (read(s, *row), read(new, *row))

        return lax.scan(step, jnp.ones((2, 3)), rows)

    def scans(x, *gates):
        rows = x, *map(jax.nn.sigmoid, gates)
        return {(one, other): scan(of[one], read[other], rows) for one in of for other in read}

    return scans


@pytest.mark.parametrize(
    ("of", "read", "is_linear"),
    [
        (_LINEAR, {"all": lambda s, *row: s}, True),
        (_NOT_LINEAR, {"all": lambda s, *row: s}, False),
        ({name: _LINEAR[name] for name in ("gate", "outer product")}, _READ, True),
    ],
    ids=["linear", "not linear", "readings"],
)
def test_bodies_equal_jax_and_are_no_loops_where_they_are_linear(of, read, is_linear):
    scans, shapes = _scans(of, read), [(2, 3), (2, 3), (2,), (3,)]
    program = to_onnx(scans, [(40, *shape) for shape in shapes])
    assert _operators(program).count("Scan") == (0 if is_linear else len(of))
    arguments = _arguments(shapes, 40)
    _assert_all_close(program(*arguments), jax.jit(scans)(*arguments))


_DECAYS = np.linspace(0.1, 0.9, 6, dtype=np.float32).reshape(2, 3)

#: What two carries become, of the first and second, and rows of `x` and `g`; whether the first is linear.
_CARRIES = {
    "a counter": (lambda s, i, x, g: (s * g + x * i.astype(x.dtype), i + 1), True),
    "the row before": (lambda s, p, x, g: (s * g + p, x), True),
    "the state before": (lambda s, p, x, g: (s * g + x, s), True),
    "a value that stays": (lambda s, c, x, g: (s * c * 0.1 + x, c), True),
    "a state that reads the one before": (lambda s, r, x, g: (s * g + x, r * 0.5 + s), True),
    "a state that reads the one after": (lambda s, r, x, g: (s * g + x, r * 0.5 + (s * g + x)), True),
    "a state as a gate": (lambda s, r, x, g: (s * r + x, r * g), True),
    "a constant": (lambda s, r, x, g: (s * _DECAYS + x, r * _DECAYS), True),
    "a state that is not linear": (lambda s, h, x, g: (s * jax.nn.sigmoid(h) + x, jnp.tanh(h * _DECAYS + g)), True),
    "two that read each other": (lambda s, r, x, g: (r * g + x, s * 0.5), False),
}


def test_carries_beside_a_linear_state():
    def scan(name, x, g):
        def step(carry, row):
            new = _CARRIES[name][0](*carry, *row)
            return new, (carry[0] + carry[1] * 2, new[0] * new[1])

        second = jnp.full((), 3, jnp.int32) if name == "a counter" else jnp.full((2, 3), 3.0)
        return lax.scan(step, (jnp.ones((2, 3)), second), (x, jax.nn.sigmoid(g)))

    def scans(x, g):
        return {name: scan(name, x, g) for name in _CARRIES}

    program = to_onnx(scans, [(40, 2, 3)] * 2)
    assert _operators(program).count("If") == sum(is_linear for _, is_linear in _CARRIES.values())
    arguments = _arguments([(2, 3)] * 2, 40)
    _assert_all_close(program(*arguments), jax.jit(scans)(*arguments))


def _assert_all_close(found, expected):
    for name, results in expected.items():
        for y, result in zip(jax.tree.leaves(found[name]), jax.tree.leaves(results), strict=True):
            np.testing.assert_allclose(y, result, rtol=1e-4, atol=1e-5, err_msg=f"{name}")


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_spelling_is_no_loop_and_equals_jax(name):
    spelling = SPELLINGS[name]
    program = to_onnx(spelling.function, [(61, *shape) for shape in spelling.shapes])
    operators = _operators(program)
    assert operators.count("LinearAttention") == spelling.kernel
    assert "Loop" not in operators
    if not spelling.kernel:
        assert "If" in operators
    for seed in range(3):
        _agree(program, spelling.function, _arguments(spelling.shapes, 61, seed, nasty=seed > 0))


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_spelling_equals_jax_at_every_length(name):
    spelling = SPELLINGS[name]
    program = to_onnx(spelling.function, [("T", *shape) for shape in spelling.shapes])
    for length in (1, 2, 37, 256):
        _agree(program, spelling.function, _arguments(spelling.shapes, length))
        _agree(program, spelling.function, _arguments(spelling.shapes, length, 1, nasty=True))


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_spelling_without_a_kernel_equals_jax(name):
    spelling = SPELLINGS[name]
    program = to_onnx(spelling.function, [(70, *shape) for shape in spelling.shapes], target=_WITHOUT_KERNEL)
    assert "If" in _operators(program)
    assert "LinearAttention" not in _operators(program)
    for seed in range(3):
        _agree(program, spelling.function, _arguments(spelling.shapes, 70, seed, nasty=seed > 0))


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_a_look_alike_stays_a_loop_and_equals_jax(name):
    spelling = LOOK_ALIKES[name]
    program = to_onnx(spelling.function, [(40, *shape) for shape in spelling.shapes])
    assert "Scan" in _operators(program)
    assert not {"If", "LinearAttention"} & set(_operators(program))
    for seed in range(2):
        _agree(program, spelling.function, _arguments(spelling.shapes, 40, seed, nasty=seed > 0))


@pytest.mark.parametrize("name", ["gated_delta", "rwkv6_with_a_bonus", "rwkv7", "min_gru"])
def test_the_gradient_equals_jax(name):
    spelling = SPELLINGS[name]

    def gradient(*arrays):
        return jax.grad(lambda x: sum(jnp.sin(y).sum() for y in jax.tree.leaves(spelling.function(*arrays[:-1], x))))(
            arrays[-1]
        )

    program = to_onnx(gradient, [(40, *shape) for shape in spelling.shapes])
    _agree(program, gradient, _arguments(spelling.shapes, 40))


@pytest.mark.parametrize("name", ["gated_delta", "gated_linear_by_mul_and_sum", "rwkv7", "rg_lru"])
def test_a_mapped_recurrence_equals_jax(name):
    spelling = SPELLINGS[name]
    mapped = jax.vmap(spelling.function)
    program = to_onnx(mapped, [("B", 35, *shape) for shape in spelling.shapes])
    assert not {"Scan", "Loop"} & set(_operators(program)) or name == "rwkv7"
    arguments = [np.stack([x, x[::-1]]) for x in _arguments(spelling.shapes, 35)]
    _agree(program, mapped, arguments)


def _decayed(q, k, v, state, *, reverse=False):
    def step(s, row):
        q, k, v = row
        s = 0.9 * s + k[:, :, None] * v[:, None, :]
        return s, jnp.einsum("hkv,hk->hv", s, q)

    return lax.scan(step, state, (q, k, v), reverse=reverse)


_QKV = [(37, H, K), (37, H, K), (37, H, V)]


@pytest.mark.parametrize("target", [None, _WITHOUT_KERNEL])
def test_a_recurrence_from_the_last_step_to_the_first_equals_jax(target):
    def backwards(*arrays):
        return _decayed(*arrays, reverse=True)

    program = to_onnx(backwards, [*_QKV, (H, K, V)], target=target)
    _agree(program, backwards, [*_arguments([(H, K), (H, K), (H, V)], 37), _arguments([(K, V)], H)[0]])


def test_a_state_goes_in_and_comes_out():
    program = to_onnx(_decayed, [("T", H, K), ("T", H, K), ("T", H, V), (H, K, V)])
    assert _operators(program).count("LinearAttention") == 1
    q, k, v = _arguments([(H, K), (H, K), (H, V)], 12)
    state = np.zeros((H, K, V), np.float32)
    last, whole = program(q, k, v, state)
    rows = []
    for t in range(12):
        state, y = program(q[t : t + 1], k[t : t + 1], v[t : t + 1], state)
        rows.append(y)
    np.testing.assert_allclose(np.concatenate(rows), whole, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(state, last, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["rwkv7", "min_gru", "mamba1", "diagonal_of_complex_numbers"])
def test_many_steps_in_segments_equal_jax(name):
    spelling = SPELLINGS[name]
    program = to_onnx(spelling.function, [("T", *shape) for shape in spelling.shapes])
    for length in (512, 1025):
        _agree(program, spelling.function, _arguments(spelling.shapes, length))
        _agree(program, spelling.function, _arguments(spelling.shapes, length, 1, nasty=True))


_CONVOLUTIONS = [name for name in SPELLINGS if name.startswith("constant_") and "all_steps" not in name]


@pytest.mark.parametrize("name", _CONVOLUTIONS)
def test_constant_decays_read_by_constants_are_products_of_matrices(name):
    """The loop that is left is in the branch for special values alone; 200 steps are more than two chunks."""
    spelling = SPELLINGS[name]
    program = to_onnx(spelling.function, [(200, *shape) for shape in spelling.shapes])
    assert "MatMul" in _operators(program)
    assert "Scan" not in _operators(program)
    _agree(program, spelling.function, _arguments(spelling.shapes, 200))
    _agree(program, spelling.function, _arguments(spelling.shapes, 200, 1, nasty=True))


def test_a_convolution_over_time_is_mapped_differentiated_and_long():
    spelling = SPELLINGS["constant_complex_decays_read_by_constants"]

    def gradient(x):
        return jax.vmap(jax.grad(lambda x: sum(jnp.sin(y).sum() for y in jax.tree.leaves(spelling.function(x)))))(x)

    mapped = jax.vmap(spelling.function)
    x = np.stack(_arguments([*spelling.shapes] * 2, 4096))
    _agree(to_onnx(mapped, [("B", "T", C)]), mapped, [x])
    _agree(to_onnx(gradient, [("B", 70, C)]), gradient, [x[:, :70]])


def _of_many_channels(x, dt, b, h):
    """A step on many elements is an operation of its own, without a bound on what comes out."""

    def step(h, row):
        x, dt, b = row
        h = jnp.exp(-jax.nn.softplus(dt))[:, None] * h + x[:, None] * b
        return h, h.sum(1)

    return lax.scan(step, h, (x, dt, b), reverse=True)


@pytest.mark.parametrize("length", [40, 48])
def test_a_large_state_needs_no_other_branch(length):
    shapes = [(length, 160), (length, 160), (length, 16), (160, 16)]
    program = to_onnx(_of_many_channels, shapes)
    assert "If" not in _operators(program)
    random = np.random.default_rng(0)
    arguments = [random.normal(size=shape).astype(np.float32) for shape in shapes]
    _agree(program, _of_many_channels, arguments)
    arguments[1][3, :4] = np.nan, np.inf, -np.inf, 200.0
    _agree(program, _of_many_channels, arguments)


@pytest.mark.parametrize("name", ["gated_delta", "gated_delta_of_features", "rwkv6_with_a_bonus", "min_gru", "rwkv7"])
def test_decays_of_zero_and_of_one_equal_jax(name):
    """Gates far from zero give decays that are exactly 0 or 1, and products of decays that underflow."""
    spelling = SPELLINGS[name]
    for target in (None, _WITHOUT_KERNEL):
        program = to_onnx(spelling.function, [(70, *shape) for shape in spelling.shapes], target=target)
        arguments = _arguments(spelling.shapes, 70)
        for gate in range(1 if len(arguments) == 2 else 3, len(arguments)):
            _agree(program, spelling.function, [300 * x if i == gate else x for i, x in enumerate(arguments)])


def test_rows_that_a_loop_with_a_counter_takes_are_taken_at_once():
    def function(x, g):
        def step(i, h):
            return h * jax.nn.sigmoid(g[i]) + x[i]

        return lax.fori_loop(0, 50, step, jnp.zeros(C))

    program = to_onnx(function, [(50, C), (50, C)])
    assert "If" in _operators(program)
    _agree(program, function, _arguments([(C,), (C,)], 50))


def test_rows_that_a_loop_writes_are_those_of_a_scan():
    def function(q, k, v, state):
        def step(t, carry):
            s, ys = carry
            s = 0.9 * s + k[t][:, :, None] * v[t][:, None, :]
            return s, ys.at[t].set(jnp.einsum("hkv,hk->hv", s, q[t]))

        return lax.fori_loop(0, q.shape[0], step, (state, jnp.zeros_like(v)))

    for length in (37, "T"):
        program = to_onnx(function, [(length, H, K), (length, H, K), (length, H, V), (H, K, V)])
        assert _operators(program).count("LinearAttention") == 1
        _agree(program, function, [*_arguments([(H, K), (H, K), (H, V)], 37), _arguments([(K, V)], H)[0]])


def test_an_older_runtime_gets_no_kernel_that_it_lacks():
    spelling = SPELLINGS["linear_by_broadcast"]
    program = to_onnx(spelling.function, [(61, *shape) for shape in spelling.shapes], target=_WITHOUT_KERNEL)
    assert "LinearAttention" not in _operators(program)


def test_no_doubles_are_made_for_a_target_without_them():
    spelling = SPELLINGS["two_states_and_a_counter"]
    program = to_onnx(spelling.function, [("T", *shape) for shape in spelling.shapes], target="web")
    _agree(program, spelling.function, _arguments(spelling.shapes, 40))


def test_long_sequences_are_as_accurate_as_the_loop():
    spelling = SPELLINGS["gated_delta"]
    for target in (None, _WITHOUT_KERNEL):
        program = to_onnx(spelling.function, [(4096, *shape) for shape in spelling.shapes], target=target)
        _agree(program, spelling.function, _arguments(spelling.shapes, 4096))


def _plain(decay, x, state):
    return lax.scan(lambda h, row: (decay * h + row,) * 2, state, x)


def _nodes(graph):
    return [node for inner in (graph, *graph.subgraphs()) for node in inner]


def test_a_plain_scan_of_symbolic_length_is_few_nodes_with_one_branch():
    program = to_onnx(_plain, [(C,), ("T", C), (C,)])
    operators = [node.op_type for node in _nodes(program.model.graph)]
    assert len(operators) <= 70
    assert operators.count("If") == 1
    for length in (1, 63, 64, 65, 300):
        decay, state = _arguments([(C,)] * 2, 1)
        _agree(program, _plain, [np.tanh(decay[0]), *_arguments([(C,)], length), state[0]])


@pytest.mark.parametrize("length", [64, "T"])
def test_a_plain_scan_of_negative_zeros_gives_these(length):
    program = to_onnx(_plain, [(C,), (length, C), (C,)])
    rows = np.full((97 if length == "T" else length, C), -0.0, np.float32)
    found = program(np.ones(C, np.float32), rows, rows[0])
    assert all(np.signbit(y).all() for y in jax.tree.leaves(found))


@pytest.mark.parametrize("first", [1, 8, 17, 33])
def test_decays_whose_product_underflows_and_comes_back_take_the_loop(first):
    def states(decays, rows, state):
        return jax.lax.scan(lambda h, row: (row[0] * h + row[1],) * 2, state, (decays, rows))[1]

    decays = np.ones((256, 8), np.float32)
    decays[first : first + 6] = np.array([[3.5e-16]] * 3 + [[1 / 3.5e-16]] * 3, np.float32)
    program = to_onnx(states, [(256, 8), (256, 8), (8,)])
    _agree(program, states, [decays, np.zeros_like(decays), np.full(8, 1e10, np.float32)])


@pytest.mark.parametrize("number", [*_NASTY, 3e38, 1e-40, 2.0])
@pytest.mark.parametrize("place", range(3))
def test_special_values_in_blocks_are_those_of_jax(place, number):
    arguments = [np.full(C, 0.5, np.float32), *_arguments([(C,)], 70), np.zeros(C, np.float32)]
    arguments[place].reshape(-1)[C // 2] = number
    for program in _plain_programs():
        _agree(program, _plain, arguments)


@functools.cache
def _plain_programs():
    return [to_onnx(_plain, [(C,), (length, C), (C,)]) for length in (70, "T")]


@pytest.mark.parametrize("length", [40, "T"])
def test_a_running_sum_is_one_operator_without_a_branch(length):
    def function(x, state):
        return lax.scan(lambda h, row: (h + row, h), state, x)

    program = to_onnx(function, [(length, C), (C,)])
    assert [op for op in _operators(program) if op in ("CumSum", "If", "Scan", "Loop")] == ["CumSum"]
    for number in _NASTY:
        x, state = _arguments([(C,), (C,)], 40)
        x[7, 2] = number
        _agree(program, function, [x, state[0]])


@pytest.mark.parametrize("start", [0.0])
@pytest.mark.parametrize("length", [40, "T"])
def test_the_remainder_of_a_counter_needs_no_loop(length, start):
    def function(x):
        def step(c, row):
            return c + 1, row * (c % 3).astype(row.dtype)

        return lax.scan(step, jnp.asarray(start), x)

    program = to_onnx(function, [(length, C)])
    assert not {"If", "Scan", "Loop"} & set(_operators(program))
    _agree(program, function, _arguments([(C,)], 40))


def test_the_report_says_why_a_scan_stays_a_loop():
    program = to_onnx(LOOK_ALIKES["a_state_through_tanh"].function, [(40, C)])
    assert "no value that its steps hand on is linear in itself" in str(program.report())


def test_equal_bodies_are_analysed_once_and_each_scan_reads_its_own_operands(monkeypatch):
    analysed, traced = [], linear_scans._Task.traced

    def counted(task, *given):
        analysed.append(task)
        return traced(task, *given)

    monkeypatch.setattr(linear_scans._Task, "traced", counted)
    decays = [np.full(3, decay, np.float32) for decay in (0.5, 0.25, 0.125)]

    def layer(x, decay):
        def step(state, row):
            state = state * decay[:, None] + row[:, None] * row
            return state, row @ state

        return lax.scan(step, jnp.zeros((3, 3)), x)[1]

    def model(x):
        return functools.reduce(layer, decays, x)

    x = np.random.default_rng(0).standard_normal((64, 3)).astype(np.float32) / 4
    program = to_onnx(model, [(64, 3)])
    assert len(analysed) == 1
    np.testing.assert_allclose(program(x), model(x), rtol=1e-4, atol=1e-5)


def _root(x):
    """Newton's method, which does not end below zero."""
    return lax.while_loop(lambda y: abs(y * y - x) > 1e-3, lambda y: (y + x / y) / 2, 1.0)


_OF_THE_ROW_BEFORE = {
    "a loop in a branch": lambda x: lax.cond(x[0] > 0, lambda: _root(x[0]), lambda: 0.0),
    "a loop": lambda x: _root(1 + abs(x[0])),
    "a branch": lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x[0]),
    "bits": lambda x: (lax.rng_bit_generator(lax.bitcast_convert_type(x, np.uint32), (), np.uint32)[1] >> 9) / 1e6,
}


@pytest.mark.parametrize("name", _OF_THE_ROW_BEFORE)
def test_what_is_not_computed_for_all_steps_at_once_stays_in_the_loop(name):
    def function(x):
        def step(carry, row):
            state, before = carry
            state = state * 0.5 + _OF_THE_ROW_BEFORE[name](before)
            return (state, row), state

        return lax.scan(step, (0.0, jnp.ones(4)), x)[1]

    program = to_onnx(function, [(40, 4)])
    assert _operators(program) == ["Scan"]
    (x,) = _arguments([(4,)], 40)
    _agree(program, function, [x])


@jax.custom_jvp
def _both_signs(x):
    return jnp.exp(-abs(x)), -jnp.exp(-abs(x))


_both_signs.defjvps(lambda t, y, x: y, lambda t, y, x: y)


@pytest.mark.parametrize("place", [0, 1])
def test_each_result_of_a_call_has_its_own_sign(place):
    def function(k, v, q, z):
        def step(carry, row):
            state, before = carry
            both = _both_signs(before.astype(np.float32))
            state = state * both[place] + row[0][:, None] * (both[1 - place] * row[1])
            return (state, row[3].astype(np.int32)), row[2] @ state

        return lax.scan(step, (jnp.zeros((128, 128)), np.int32(0)), (k, v, q, z))[1]

    shapes = [(128,), (128,), (128,), ()]
    program = to_onnx(function, [(40, *shape) for shape in shapes])
    assert "LinearAttention" in _operators(program)
    _agree(program, function, _arguments(shapes, 40))
