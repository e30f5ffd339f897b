"""Cases of `function`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jax2onnx_core import Case, construct, expect_graph
from jax2onnx_core.plugins.cases import ExpectGraph

from jax2onnx_functions.function import onnx_function

__all__ = ["cases"]


@onnx_function
def product(x: jax.Array, y: jax.Array | float) -> jax.Array:
    return jnp.sin(x) * y


@onnx_function(name="Symmetric", domain="cases.inner")
def symmetric(x: jax.Array, y: jax.Array) -> jax.Array:
    return product(x, y) + product(y, x)


@onnx_function
def rows(x: jax.Array) -> jax.Array:
    return x.reshape(x.shape[0] * 2, -1) + jnp.arange(x.shape[0] * 2, dtype=x.dtype)[:, None]


@onnx_function
def statistics(x: jax.Array, *, moments: int = 2, of: jax.Array | None = None) -> dict[str, object]:
    return {"mean": x.mean(-1), "others": [(x**k).sum(-1) for k in range(moments)], "none": of}


@onnx_function
class Layer:
    """A callable that is no module of any framework."""

    def __init__(self, features: int, scale: float = 1.0) -> None:
        self.weight = jnp.linspace(-1.0, 1.0, features * features).reshape(features, features)
        self.scale = scale

    def __call__(self, x: jax.Array) -> jax.Array:
        return jnp.tanh(x @ self.weight.astype(x.dtype)) * self.scale


class Stack:
    """Layers one after another."""

    def __init__(self, *scales: float) -> None:
        self.layers = [Layer(3, scale) for scale in scales]

    def __call__(self, x: jax.Array) -> jax.Array:
        for layer in self.layers:
            x = layer(x)
        return x


class Pair:
    """A method as a function."""

    def __init__(self) -> None:
        self.bias = jnp.arange(3.0)

    @onnx_function
    def shifted(self, x: jax.Array) -> jax.Array:
        return x + self.bias.astype(x.dtype)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.shifted(self.shifted(x) * 2)


_OUTER = ("jax2onnx.function",)


def _calls(**counts: int) -> ExpectGraph:
    """The expectation that there are so many calls of functions of the default domain."""
    return expect_graph(counts={f"jax2onnx.{name}": count for name, count in counts.items()})


_SYMMETRIC = expect_graph(counts={"cases.inner.Symmetric": 1})

cases = [
    Case("function", product, [("N", 3), ("N", 3)], covers=_OUTER, expect="jax2onnx.product"),
    Case("called_twice", lambda x: product(product(x, x), x), [("N", 3)], covers=_OUTER,
         expect="jax2onnx.product -> jax2onnx.product_1"),
    Case("nested", symmetric, [("N", 3), ("N", 3)], covers=_OUTER,
         expect="cases.inner.Symmetric"),
    Case("symbolic_dimensions_inside", rows, [("N", 4)], covers=_OUTER, expect=_calls(rows=1)),
    Case("pytrees", lambda x: statistics(x, moments=3), [("N", 3)], covers=_OUTER, expect=_calls(statistics=1)),
    Case("class", construct(Stack, 1.0, 1.0, 1.0), [("N", 3)], covers=_OUTER, expect=_calls(Layer=3)),
    Case("class_of_two_configurations", construct(Stack, 1.0, 2.0, 1.0), [("N", 3)], covers=_OUTER,
         expect=_calls(Layer=2, Layer_1=1)),
    Case("method", construct(Pair), [("N", 3)], covers=_OUTER, expect=_calls(Pair_shifted=2)),
    Case("vmapped", jax.vmap(symmetric), [("N", 3), ("N", 3)], covers=_OUTER, expect=_SYMMETRIC),
    Case("vmapped_over_one_argument", jax.vmap(symmetric, (0, None)), [("N", 3), (3,)], covers=_OUTER,
         expect=_SYMMETRIC),
    Case("vmapped_twice", jax.vmap(jax.vmap(product)), [("B", "N", 3), ("B", "N", 3)], covers=_OUTER,
         expect="jax2onnx.product:BxNx3"),
    # A derivative is of the operations inside: no call is left.
    Case("grad", jax.grad(lambda x, y: symmetric(x, y).sum()), [("N", 3), ("N", 3)], covers=_OUTER,
         expect=["Cos -> Mul -> Add:Nx3", "Sin -> Add"]),
    Case("jvp", lambda x, y: jax.jvp(symmetric, (x, y), (y, x)), [("N", 3), ("N", 3)], covers=_OUTER,
         expect=expect_graph("Sin -> Mul -> Add", "Cos -> Mul -> Mul -> Add -> Add",
                             counts={"Sin": 2, "Cos": 2, "Mul": 8, "Add": 4}, match="exact")),
    Case("in_scan", lambda x: lax.scan(lambda c, row: (symmetric(c, row), product(c, row)), jnp.ones_like(x[0]), x),
         [("T", 3)], covers=_OUTER, expect="Scan:3 -> jax2onnx.product_1:Tx3"),
    Case("in_cond", lambda x: lax.cond(x.sum() > 0, lambda x: symmetric(x, x), lambda x: product(x, x), x),
         [("N", 3)], covers=_OUTER, expect="ReduceSum -> Greater -> If:Nx3"),
    Case("in_while", lambda x: lax.while_loop(lambda v: jnp.abs(v).max() > 0.1, lambda v: product(v, 0.5), x),
         [("N", 3)], covers=_OUTER,
         expect=expect_graph("Abs -> ReduceMax -> Where -> Greater -> Loop:Nx3", counts={"Loop": 1})),
    Case("in_jit", jax.jit(lambda x: symmetric(x, x + 1)), [("N", 3)], covers=_OUTER, expect=_SYMMETRIC),
    Case("complex_inside", onnx_function(lambda x: jnp.abs(x + 1j * x)), [("N", 3)], covers=_OUTER,
         expect=expect_graph(counts={"jax2onnx.lambda": 1}, absent=["Mul", "Sqrt"])),
]  # fmt: skip
