"""Recurrences that are linear in their state: exported models beside `jax.jit`, one thread, interleaved in one process.

python tools/bench_recurrences.py [steps] [target]
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import onnxruntime as ort
from jax import lax
from jax2onnx_core import to_onnx

HEADS, FEATURES, CHANNELS = 8, 64, 512
Rows = tuple[jax.Array, ...]
Step = Callable[[jax.Array, Rows], tuple[jax.Array, jax.Array]]
_QKV = ((HEADS, FEATURES),) * 3


def _unit(k: jax.Array) -> jax.Array:
    return k / jnp.sqrt((k * k).sum(-1, keepdims=True) + 1e-6)


def _read(s: jax.Array, q: jax.Array) -> jax.Array:
    return jnp.einsum("hkv,hk->hv", s, q)


def linear_attention(s: jax.Array, row: Rows) -> tuple[jax.Array, jax.Array]:
    q, k, v = row
    s = s + k[:, :, None] * v[:, None, :]
    return s, _read(s, q)


def gated_linear_attention(s: jax.Array, row: Rows) -> tuple[jax.Array, jax.Array]:
    q, k, v, g = row
    s = jnp.exp(-jax.nn.softplus(g))[:, :, None] * s + k[:, :, None] * v[:, None, :]
    return s, _read(s, q)


def gated_delta_rule(s: jax.Array, row: Rows) -> tuple[jax.Array, jax.Array]:
    q, k, v, g, b = row
    k, s = _unit(k), s * jnp.exp(-jax.nn.softplus(g))[:, None, None]
    s = s + k[:, :, None] * ((v - _read(s, k)) * jax.nn.sigmoid(b)[:, None])[:, None, :]
    return s, _read(s, q)


def rwkv6(s: jax.Array, row: Rows) -> tuple[jax.Array, jax.Array]:
    r, k, v, w = row
    kv = k[:, :, None] * v[:, None, :]
    return jnp.exp(-jnp.exp(w / 2 - 2))[:, :, None] * s + kv, _read(s + 0.5 * kv, r)


def rwkv7(s: jax.Array, row: Rows) -> tuple[jax.Array, jax.Array]:
    r, k, v, w, a = row
    key, a = _unit(k), jax.nn.sigmoid(a)
    decay = jnp.exp(-0.606531 * jax.nn.sigmoid(w))
    s = s * decay[:, :, None] - (key * a)[:, :, None] * _read(s, key)[:, None, :] + k[:, :, None] * v[:, None, :]
    return s, _read(s, r)


def min_gru(h: jax.Array, row: Rows) -> tuple[jax.Array, jax.Array]:
    x, z = row[0], jax.nn.sigmoid(row[1])
    h = (1 - z) * h + z * x
    return h, h


def mamba1(h: jax.Array, row: Rows) -> tuple[jax.Array, jax.Array]:
    x, b, c, dt = row
    dt = jax.nn.softplus(dt)
    h = jnp.exp(-dt[:, None] * jnp.arange(1.0, 17.0)) * h + (dt * x)[:, None] * b
    return h, h @ c


#: Name → (step, shape of the state, shapes of the rows).
FAMILIES: dict[str, tuple[Step, tuple[int, ...], Sequence[tuple[int, ...]]]] = {
    "linear attention": (linear_attention, (HEADS, FEATURES, FEATURES), _QKV),
    "gated linear attention": (gated_linear_attention, (HEADS, FEATURES, FEATURES), (*_QKV, _QKV[0])),
    "gated delta rule": (gated_delta_rule, (HEADS, FEATURES, FEATURES), (*_QKV, (HEADS,), (HEADS,))),
    "RWKV-6": (rwkv6, (HEADS, FEATURES, FEATURES), (*_QKV, _QKV[0])),
    "RWKV-7": (rwkv7, (HEADS, FEATURES, FEATURES), (*_QKV, _QKV[0], _QKV[0])),
    "minGRU": (min_gru, (CHANNELS,), ((CHANNELS,), (CHANNELS,))),
    "Mamba 1": (mamba1, (CHANNELS // 2, 16), ((CHANNELS // 2,), (16,), (16,), (CHANNELS // 2,))),
}


def _session(path: Path) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _compare(name: str, steps: int, target: str | None) -> None:
    """Print the shortest times of JAX and of the model."""
    step, state, shapes = FAMILIES[name]

    def function(*rows: jax.Array) -> tuple[jax.Array, jax.Array]:
        return lax.scan(step, jnp.zeros(state), rows)

    random = np.random.default_rng(0)
    arrays: list[npt.NDArray[np.float32]] = [random.normal(size=(steps, *s)).astype(np.float32) for s in shapes]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        to_onnx(function, [x.shape for x in arrays], target=target).save(path)
        session = _session(path)
    feeds = {x.name: array for x, array in zip(session.get_inputs(), arrays, strict=True)}
    compiled, operands = jax.jit(function), [jnp.asarray(x) for x in arrays]
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(15):
        start = time.perf_counter()
        jax.block_until_ready(compiled(*operands))
        middle = time.perf_counter()
        session.run(None, feeds)
        times[0].append(middle - start)
        times[1].append(time.perf_counter() - middle)
    by_jax, by_model = (1e3 * min(times[i][2:]) for i in (0, 1))
    print(f"{name:24} jax.jit {by_jax:8.2f} ms   model {by_model:8.2f} ms   ratio {by_model / by_jax:5.2f}", flush=True)


def main(arguments: Sequence[str]) -> None:
    """Compare all families."""
    steps = int(arguments[0]) if arguments else 256
    target = arguments[1] if len(arguments) > 1 else None
    for name in FAMILIES:
        _compare(name, steps, target)


if __name__ == "__main__":
    main(sys.argv[1:])
