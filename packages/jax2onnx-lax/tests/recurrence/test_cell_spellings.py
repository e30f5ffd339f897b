"""One recurrent layer in many spellings: whichever is chosen, the exported graph has the same operator."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_testing.checks import check_at_sizes

H, F = 4, 3
GATES = {"LSTM": "ifgo", "GRU": "zrn", "RNN": "n"}

Gates = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Spelling:
    """How a layer is written; the choices are the keys of the functions below."""

    operator: str
    kernels: str
    parts: str
    sigmoid: str
    update: str
    layout: str
    start: str
    results: str
    reverse: bool

    def __str__(self) -> str:
        return "-".join(str(value) for value in dataclasses.astuple(self))


# -- products: x [..., F], h [..., H] and weights [., gates · H] → [..., gates · H] ---------------------


def _by_einsum(v: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.einsum("...i,ij->...j", v, w)


def _by_transposed_kernel(v: jax.Array, w: jax.Array) -> jax.Array:
    return jax.lax.dot_general(v, np.asarray(w).T, (((v.ndim - 1,), (1,)), ((), ())))


def _from_the_left(v: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.matmul(np.asarray(w).T, v.T).T


def _gate_by_gate(v: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.concatenate([v @ part for part in np.split(np.asarray(w), w.shape[1] // H, 1)], -1)


PRODUCTS = {
    "plain": jnp.matmul,
    "einsum": _by_einsum,
    "transposed": _by_transposed_kernel,
    "left": _from_the_left,
    "apart": _gate_by_gate,
}

# -- parts: [..., gates · H] → the gates ------------------------------------------------------------


def _by_slices(v: jax.Array, count: int) -> Sequence[jax.Array]:
    return [v[..., i * H : (i + 1) * H] for i in range(count)]


def _by_an_axis(v: jax.Array, count: int) -> Sequence[jax.Array]:
    return list(jnp.moveaxis(v.reshape(*v.shape[:-1], count, H), -2, 0))


PARTS: dict[str, Callable[[jax.Array, int], Sequence[jax.Array]]] = {
    "split": lambda v, count: jnp.split(v, count, -1),
    "slices": _by_slices,
    "axis": _by_an_axis,
}

SIGMOIDS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "nn": jax.nn.sigmoid,
    "exp": lambda x: 1 / (1 + jnp.exp(-x)),
    "expit": jax.scipy.special.expit,
}

# -- the next state of a GRU, and of an LSTM's cell ---------------------------------------------------

MIXED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "of both": lambda z, n, h: (1 - z) * n + z * h,
    "from old": lambda z, n, h: h - (1 - z) * (h - n),
    "from new": lambda z, n, h: n + z * (h - n),
}


def _cell(spelling: Spelling, weights: Sequence[jax.Array]) -> Callable[[Any, jax.Array], tuple[Any, jax.Array]]:
    w, r, b = weights
    product: Any = PRODUCTS[spelling.kernels]
    sigmoid = SIGMOIDS[spelling.sigmoid]
    parts: Any = PARTS[spelling.parts]
    count, mix = len(GATES[spelling.operator]), MIXED[spelling.update]

    def lstm(state: Any, x: jax.Array) -> tuple[Any, jax.Array]:
        h, c = state
        i, f, g, o = parts(product(x, w) + product(h, r) + b, count)
        c = sigmoid(f + 1.0) * c + sigmoid(i) * jnp.tanh(g)
        h = sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    def joined_lstm(state: Any, x: jax.Array) -> tuple[Any, jax.Array]:
        h, c = state
        both = jnp.concatenate([x, h], -1) @ jnp.concatenate([w, r])
        i, f, g, o = parts(both + b, count)
        c = jnp.tanh(g) * sigmoid(i) + c * sigmoid(f)
        h = jnp.tanh(c) * sigmoid(o)
        return (h, c), h

    def gru(h: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        (zx, rx, nx), (zh, rh, nh) = parts(product(x, w), count), parts(product(h, r) + b, count)
        h = mix(sigmoid(zx + zh), jnp.tanh(nx + sigmoid(rx + rh) * nh), h)
        return h, h

    def classic_gru(h: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        zr, n = (jnp.concatenate([w, r])[:, at] for at in (slice(2 * H), slice(2 * H, None)))
        z, reset = parts(sigmoid(jnp.concatenate([x, h], -1) @ zr + b[: 2 * H]), 2)
        h = mix(z, jnp.tanh(jnp.concatenate([x, reset * h], -1) @ n + b[2 * H :]), h)
        return h, h

    def simple(h: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        total = product(x, w) + b + product(h, r)
        h = jax.nn.relu(total) if spelling.update == "from old" else jnp.tanh(total)
        return h, h

    if spelling.parts == "axis" and spelling.sigmoid == "expit":  # as good a place as any for the joined kernels
        return {"LSTM": joined_lstm, "GRU": classic_gru, "RNN": simple}[spelling.operator]
    return {"LSTM": lstm, "GRU": gru, "RNN": simple}[spelling.operator]


def layer(spelling: Spelling, weights: Sequence[jax.Array]) -> Callable[[jax.Array], Any]:
    """The layer as a function of [T, B, F], or of what its layout says."""
    cell, is_lstm = _cell(spelling, weights), spelling.operator == "LSTM"

    def run(x: jax.Array) -> Any:
        shape = (*x.shape[1:-1], H)
        h = jnp.zeros(shape) if spelling.start == "zeros" else jnp.tanh(x[0, ..., :1] + jnp.arange(H) / 3)
        last, y = jax.lax.scan(
            cell, (h, h if spelling.start == "zeros" else h / 2) if is_lstm else h, x, reverse=spelling.reverse
        )
        return {"y": y, "last": last, "both": (last, y)}[spelling.results]

    return {
        "time major": run,
        "batch major": lambda x: run(x.swapaxes(0, 1)),
        "vmapped": jax.vmap(run),
        "vmapped in the middle": jax.vmap(run, 1),
        "single": run,
    }[spelling.layout]


DIMS = {
    "time major": ("T", "B", F),
    "vmapped in the middle": ("T", "B", F),
    "batch major": ("B", "T", F),
    "vmapped": ("B", "T", F),
    "single": ("T", F),
}


def spellings(count: int) -> list[Spelling]:
    """Random ones, each choice of each field among them."""
    choose = random.Random(1)
    fields = [list(GATES), list(PRODUCTS), list(PARTS), list(SIGMOIDS), list(MIXED), list(DIMS)]
    fields += [["zeros", "given"], ["y", "last", "both"]]
    columns = [(choose.sample(field, len(field)) * count)[:count] for field in fields]
    for column in columns:
        choose.shuffle(column)
    names = [field.name for field in dataclasses.fields(Spelling)][:-1]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return [Spelling(**row, reverse=choose.random() < 0.5) for row in rows]


def _weights(operator: str, dtype: Any = np.float32) -> list[jax.Array]:
    rng, width = np.random.default_rng(0), len(GATES[operator]) * H
    return [jnp.asarray(rng.normal(0, 0.4, shape), dtype) for shape in ((F, width), (H, width), (width,))]


@pytest.mark.parametrize("spelling", spellings(36), ids=str)
def test_the_operator_is_found(spelling: Spelling) -> None:
    program = to_onnx(layer(spelling, _weights(spelling.operator)), [DIMS[spelling.layout]], assume=["finite"])
    operators = [node.op_type for node in program.model.graph]
    assert operators.count(spelling.operator) == 1
    assert not {"Scan", "Loop", "MatMul", "Gemm"} & set(operators)
    check_at_sizes(program)


@pytest.mark.parametrize("spelling", spellings(36)[:6], ids=str)
def test_sizes_that_are_alike(spelling: Spelling) -> None:
    dims = [F if isinstance(size, str) else size for size in DIMS[spelling.layout]]
    program = to_onnx(layer(spelling, _weights(spelling.operator)), [tuple(dims)], assume=["finite"])
    assert [node.op_type for node in program.model.graph].count(spelling.operator) == 1
    check_at_sizes(program)


def _flipped(run: Callable[[jax.Array], jax.Array], spelling: Spelling) -> Callable[[jax.Array], jax.Array]:
    return lambda x: jnp.flip(run(jnp.flip(x, DIMS[spelling.layout].index("T"))), _time(spelling))


def _time(spelling: Spelling) -> int:
    """The axis of time in the results."""
    return 1 if spelling.layout.startswith("vmapped") else 0


def _step(y: jax.Array, spelling: Spelling, index: int) -> jax.Array:
    return y[:, index] if _time(spelling) else y[index]


@pytest.mark.parametrize(
    ("spelling", "steps"),
    [
        *((spelling, "all") for spelling in spellings(36)[::6]),
        *((spelling, "last") for spelling in spellings(36)[::5] if spelling.layout != "single"),
    ],
    ids=str,
)
@pytest.mark.parametrize("backwards", ["reverse", "flipped"])
def test_two_directions_are_one_operator(spelling: Spelling, backwards: str, steps: str) -> None:
    weights = _weights(spelling.operator)
    plain = dataclasses.replace(spelling, results="y", start="zeros", reverse=False)
    forward = layer(plain, weights)
    other = dataclasses.replace(plain, reverse=backwards == "reverse")
    backward = layer(other, [2 * array[::-1] for array in weights])
    backward = _flipped(backward, spelling) if backwards == "flipped" else backward

    def both(x: jax.Array) -> jax.Array:
        if steps == "all":
            return jnp.concatenate([forward(x), backward(x)], -1)
        return jnp.concatenate([_step(forward(x), spelling, -1), _step(backward(x), spelling, 0)], -1)

    program = to_onnx(both, [DIMS[spelling.layout]], assume=["finite"])
    operators = [node.op_type for node in program.model.graph]
    assert operators.count(spelling.operator) == 1
    assert not {"Scan", "Slice", "Gather", "Concat", "Split"} & set(operators)
    check_at_sizes(program)
