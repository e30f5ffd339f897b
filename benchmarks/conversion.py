"""Benchmarks; each prints ratios measured side by side in one run.

Usage: nox -s tables -- conversion [startup] [models] [linear] [large] [memory] [dynamic]
"""

from __future__ import annotations

import functools
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jax

GIB = 1 << 30


def in_fresh_process(code: str) -> float:
    """The number that `code` prints last, the median of three processes."""
    outputs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        for _ in range(3)
    ]
    return statistics.median(float(out.split()[-1]) for out in outputs)


def startup() -> None:
    """Importing core beside importing jax; import plus first export beside importing jax and flax."""
    clock = "import time; t = time.perf_counter(); "
    done = "; print(time.perf_counter() - t)"
    core = in_fresh_process("import jax; " + clock + "import jax2onnx_core" + done)
    print(f"import jax2onnx_core after jax: {core:.3f} s (at most 0.1)")
    model = (
        "import jax; from flax import nnx\n"
        "class MLP(nnx.Module):\n"
        "    def __init__(self, rngs):\n"
        "        self.first, self.second = nnx.Linear(8, 32, rngs=rngs), nnx.Linear(32, 4, rngs=rngs)\n"
        "    def __call__(self, x): return self.second(nnx.relu(self.first(x)))\n"
        "model = MLP(nnx.Rngs(0))\n"
    )
    first = in_fresh_process(model + clock + "from jax2onnx_core import to_onnx; to_onnx(model, [('B', 8)])" + done)
    print(f"import and first export of an MLP after jax and flax: {first:.3f} s (at most 0.5)")


def blocks(count: int) -> Callable[[jax.Array], jax.Array]:
    """A stack of pre-norm transformer blocks of width 64."""
    from flax import nnx

    class Block(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.norm1, self.norm2 = nnx.LayerNorm(64, rngs=rngs), nnx.LayerNorm(64, rngs=rngs)
            self.attention = nnx.MultiHeadAttention(4, 64, decode=False, rngs=rngs)
            self.up, self.down = nnx.Linear(64, 256, rngs=rngs), nnx.Linear(256, 64, rngs=rngs)

        def __call__(self, x: jax.Array) -> jax.Array:
            x = x + self.attention(self.norm1(x))
            return x + self.down(nnx.gelu(self.up(self.norm2(x))))

    return nnx.Sequential(*(Block(nnx.Rngs(i)) for i in range(count)))


def seconds(fn: Callable[[], object], repeats: int = 3) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        fn()
        times.append(time.perf_counter() - start)
    return min(times)


def models() -> None:
    """Conversion of ResNet-50 and GPT-2, in layers and in formulas, beside tracing the same function."""
    import jax
    from jax2onnx_core import to_onnx
    from timing import in_turns

    from examples.full_size_models import MODELS

    for name, (make, example) in MODELS.items():
        model = make()
        actions = {
            "trace": lambda: jax.make_jaxpr(lambda x: model(x))(example),  # noqa: B023
            "convert": lambda: to_onnx(model, [example]),  # noqa: B023
        }
        spent = dict(zip(actions, map(min, in_turns(list(actions.values()), rounds=5)), strict=True))
        ratio = spent["convert"] / spent["trace"]
        print(f"{name}: {spent['convert'] * 1e3:.0f} ms, {ratio:.1f} times jax.make_jaxpr (at most 3)")


def linear() -> None:
    """Conversion of 50 to 400 transformer blocks, beside tracing the same function."""
    import jax
    from jax2onnx_core import to_onnx

    converted: dict[int, float] = {}
    for count in (50, 100, 200, 400):
        model = blocks(count)
        example = jax.ShapeDtypeStruct((2, 16, 64), "float32")
        converted[count] = seconds(lambda: to_onnx(model, [example]), 2)  # noqa: B023
        traced = seconds(lambda: jax.make_jaxpr(lambda x: model(x))(example), 2)  # noqa: B023
        print(f"{count} blocks: {converted[count]:.2f} s, {converted[count] / traced:.2f} times jax.make_jaxpr")
    print(f"400 blocks / 100 blocks: {converted[400] / converted[100]:.2f} (at most 4.4)")


def chain(x: jax.Array, count: int) -> jax.Array:
    """`count` elementwise operations, one after another."""
    import jax.numpy as jnp

    for _ in range(count // 2):
        x = jnp.tanh(x) + x
    return x


def wide_concatenate(x: jax.Array, count: int) -> jax.Array:
    """One concatenation of `count` operands, all different."""
    import jax.numpy as jnp

    return jnp.concatenate([x * (k + 2.0) for k in range(count)])


def wide_fan_out(x: jax.Array, count: int) -> jax.Array:
    """One value that `count` operations read."""
    import jax

    result = hub = 2 * x
    for _ in range(count // 2):
        result = jax.nn.sigmoid(result) * hub
    return result


def unrolled_scan(x: jax.Array, count: int) -> tuple[jax.Array, jax.Array]:
    """A scan whose body, of two operations, is written out `count / 2` times."""
    import jax
    import jax.numpy as jnp

    return jax.lax.scan(lambda c, _: (jnp.tanh(c) + x, c), x, None, length=count // 2, unroll=True)


def alternating_transposes(x: jax.Array, count: int) -> jax.Array:
    """`count / 2` elementwise operations, each of which is transposed."""
    import jax.numpy as jnp

    x = x[None]
    for _ in range(count // 2):
        x = jnp.tanh(x).T
    return x


def large() -> None:
    """Conversion of graphs of 1,000 to 8,000 operations of one shape."""
    import jax
    from jax2onnx_core import to_onnx

    example = jax.ShapeDtypeStruct((4,), "float32")
    to_onnx(functools.partial(chain, count=2), [example])
    for shape in (chain, wide_concatenate, wide_fan_out, unrolled_scan, alternating_transposes):
        converted = {
            count: seconds(lambda: to_onnx(functools.partial(shape, count=count), [example]), 2)  # noqa: B023
            for count in (1000, 2000, 4000, 8000)
        }
        times = ", ".join(f"{count}: {time:.2f} s" for count, time in converted.items())
        print(f"{shape.__name__}: {times}; 8000 / 1000: {converted[8000] / converted[1000]:.1f} (at most 10)")


def memory() -> None:
    """Resident memory while 2 GiB of weights are saved."""
    import jax.numpy as jnp
    from jax2onnx_core import to_onnx

    weights = [jnp.full((8192, 8192), i, jnp.float32) for i in range(8)]

    def model(x: jax.Array) -> jax.Array:
        for w in weights:
            x = x @ w
        return x

    [w.block_until_ready() for w in weights]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    with tempfile.TemporaryDirectory() as directory:
        to_onnx(model, [("B", 8192)]).save(Path(directory) / "big.onnx")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    size = 8 * weights[0].nbytes
    print(
        f"saving {size / GIB:.1f} GiB: resident memory grows by {grown / 1e6:.0f} MB (at most {(0.05 * size + 2e8) / 1e6:.0f})"
    )


def dynamic() -> None:
    """Exporting with symbols beside static export; running the dynamic model beside the static one."""
    import numpy as np
    from jax2onnx_core import to_onnx
    from timing import in_turns

    model = blocks(12)
    shapes: dict[str, list[Any]] = {"static": [(2, 128, 64)], "dynamic": [("B", "T", 64)]}
    export = {name: seconds(lambda: to_onnx(model, spec), 3) for name, spec in shapes.items()}  # noqa: B023
    print(f"dynamic export / static export: {export['dynamic'] / export['static']:.2f} (at most 1.5)")
    x = np.random.default_rng(0).standard_normal((2, 128, 64)).astype(np.float32)
    programs = {name: to_onnx(model, spec) for name, spec in shapes.items()}
    feeds = {name: program.feeds(x) for name, program in programs.items()}
    runs = [functools.partial(program.loaded, feeds[name]) for name, program in programs.items()]
    static_run, dynamic_run = map(statistics.median, in_turns(runs, rounds=40, clock=time.perf_counter))
    ratio = dynamic_run / static_run
    print(f"dynamic run / static run at the same size: {ratio:.2f} (at most 1.1)")


BENCHMARKS = {f.__name__: f for f in (startup, models, linear, large, memory, dynamic)}


def main() -> None:
    chosen = sys.argv[1:] or list(BENCHMARKS)
    for name in chosen:
        print(f"== {name}")
        # Each in a process of its own, so that none sees the caches and the memory of another.
        if len(chosen) > 1:
            subprocess.run([sys.executable, __file__, name], check=True)
        else:
            BENCHMARKS[name]()


if __name__ == "__main__":
    main()
