"""Cases of `arithmetic`: the f32 variant computes in complex64, the f64 variant in complex128."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Case, expect_graph
from jax2onnx_graph.build.builder import DtypeLike

from jax2onnx_lax._case_helpers import Expect, Fn, Values, at_most

__all__ = ["cases"]


def _unary(fn: Fn) -> Fn:
    return lambda x, y: fn(lax.complex(x, y))


def _binary(fn: Fn) -> Fn:
    return lambda x, y: fn(lax.complex(x, y), lax.complex(y + 1, -x))


def _one(name: str, fn: Fn, values: Values = "finite", *, expect: Expect) -> Case:
    return Case(name, _unary(fn), [("B", 5), ("B", 5)], (name,), expect, values)


def _two(name: str, fn: Fn, values: Values = "finite", *, expect: Expect) -> Case:
    return Case(name, _binary(fn), [("B", 5), ("B", 5)], (name,), expect, values)


def _without_imaginary_part(dtype: DtypeLike) -> Fn:
    """A conversion of complex numbers to a real dtype, of which JAX warns."""

    def convert(z: jax.Array) -> jax.Array:
        with warnings.catch_warnings(action="ignore", category=np.exceptions.ComplexWarning):
            return lax.convert_element_type(z, dtype)

    return _unary(convert)


_pair = [(4, 5), (4, 5)]

cases = [
    Case("real", lambda z: lax.real(z), [(("B", 3), np.complex64)], ("real",), "Gather"),
    Case("imag", lambda z: lax.imag(z), [(("B", 3), np.complex64)], ("imag",), "Gather"),
    Case("complex", lax.complex, _pair, ("complex",), expect_graph("Unsqueeze -> Concat", counts={"Concat": 1})),
    _one("conj", lax.conj, "special", expect=["Neg -> Unsqueeze -> Concat", "Unsqueeze -> Concat"]),
    _one("abs", jnp.abs, expect=at_most(20)),
    _one("sign", lax.sign, expect=at_most(30)),
    _one("neg", lax.neg, "special", expect=["Neg -> Unsqueeze -> Concat", "Neg -> Unsqueeze -> Concat"]),
    _one("square", lax.square, expect=at_most(20)),
    _two("add", lax.add, "special", expect=["Add -> Add -> Unsqueeze -> Concat", "Neg -> Add -> Unsqueeze -> Concat"]),
    _two("sub", lax.sub, "special", expect=["Add -> Sub -> Unsqueeze -> Concat", "Neg -> Sub -> Unsqueeze -> Concat"]),
    _two("mul", lax.mul, expect=at_most(20)),
    _two("div", lax.div, expect=at_most(110)),
    _two("max", lax.max, expect=at_most(20)),
    _two("min", lax.min, expect=at_most(20)),
    _two("eq", lax.eq, "special", expect=["Add -> Equal -> And", "Neg -> Equal -> And"]),
    _two("ne", lax.ne, "special", expect=["Add -> Equal -> And -> Not", "Neg -> Equal -> And"]),
    Case("mul_into_complex", lambda x, y: lax.mul(x, y, out_dtype=np.complex64), _pair, ("mul",),
         expect=["Mul -> Sub -> Unsqueeze -> Concat", "Mul -> Add -> Unsqueeze -> Concat", "Mul -> Add"]),
    Case("mul_of_complex_into_real", _binary(lambda z, w: lax.mul(z, w, out_dtype=np.float32)), _pair, ("mul",),
         expect="Add -> Mul"),
    Case("real_vjp", lambda x, y: jax.vjp(jnp.real, lax.complex(x, y))[1](x), [("B", 3)] * 2, ("complex",),
         expect=["Shape -> Concat -> Expand -> Unsqueeze -> Concat", "Unsqueeze -> Concat"]),
    Case(
        "imag_vjp_of_rows", jax.grad(lambda x, y: jnp.imag(lax.complex(x, y)[0]).sum(), 1), [("B", 3)] * 2, ("complex",),
        expect=at_most(8, ScatterElements=0),
    ),
    Case(
        "complex_of_a_scalar",
        lambda x: (lax.complex(x, x.dtype.type(2))[0], lax.complex(x.dtype.type(2), x)[:, 0]),
        [("B", 3)],
        ("complex",),
        expect=at_most(20, Gather=2),
    ),
    *[
        Case(
            f"integer_pow_{n}".replace("-", "minus_"),
            _unary(lambda z, n=n: lax.integer_pow(z, n)),
            _pair,
            ("integer_pow",),
            at_most(90),
            rtol={"f32": 1e-3},
        )
        for n in (-3, -1, 0, 1, 2, 3, 7)
    ],
    Case("clamp", _unary(lambda z: lax.clamp(z.dtype.type(-0.5 - 1j), z, z.dtype.type(0.5 + 1j))), _pair, ("clamp",),
         expect=at_most(30)),
    Case("abs_huge", lambda x: jnp.abs(lax.complex(x * 1e37, x * 1e38)), [(9,)], ("abs",), expect=at_most(20)),
    Case("division_by_zero", lambda x, y: lax.complex(x, y) / lax.complex(x * 0, x * 0), _pair, ("div",),
         expect=at_most(100)),
    Case("division_by_infinity", lambda x, y: lax.complex(x, y) / lax.complex(x * np.inf, y), _pair, ("div",),
         expect=at_most(100)),
    Case("to_complex", lambda x: x.astype(jnp.complex64), [("B", 3)], ("convert_element_type",),
         expect=["Shape -> Concat -> Expand -> Unsqueeze -> Concat", "Unsqueeze -> Concat"]),
    Case("between_complex", _unary(lambda z: z.astype(jnp.complex64)), _pair, ("convert_element_type",),
         expect=["Unsqueeze -> Concat", "Unsqueeze -> Concat"]),
    Case("to_real", _without_imaginary_part(np.float32), _pair, ("convert_element_type",), expect="Identity"),
    Case("to_integer", _without_imaginary_part(np.int16), _pair, ("convert_element_type",),
         expect="IsNaN -> Where -> Clip -> Cast"),
    Case("to_boolean", _unary(lambda z: (z * 0).astype(bool)), _pair, ("convert_element_type",),
         expect=["Mul -> Sub -> Equal -> And -> Not", "Mul -> Add -> Equal -> And"]),
    Case("bitcast", _unary(lambda z: lax.bitcast_convert_type(z, z.dtype)), _pair, ("bitcast_convert_type",),
         expect=["Unsqueeze -> Concat", "Unsqueeze -> Concat"]),
    Case("select", lambda x, y: jnp.where(x > y, lax.complex(x, y), 1j), _pair, ("select_n",),
         expect=["Greater -> Where -> Unsqueeze -> Concat", "Where -> Unsqueeze -> Concat"]),
    Case("sum", _unary(lambda z: z.sum(0)), [("B", 5), ("B", 5)], ("reduce_sum", "cumsum"),
         expect=["ReduceSum -> Unsqueeze -> Concat", "ReduceSum -> Unsqueeze -> Concat"]),
    Case("abs_gradient", jax.grad(lambda x, y: jnp.abs(lax.complex(x, y)).sum()), _pair, ("abs",), expect=at_most(120)),
    Case(
        "holomorphic_gradient",
        lambda x, y: jax.vmap(jax.grad(lambda z: z * z / (z + 3), holomorphic=True))(lax.complex(x, y)),
        [(7,), (7,)],
        ("div", "mul"),
        expect=at_most(190),
    ),
    Case("constants", lambda z: z * (2 + 1j) - 1j, [(("B",), np.complex64)], ("mul", "sub"),
         expect=at_most(20, Gather=2)),
    Case("empty", _binary(lax.mul), [(0, 3), (0, 3)], ("mul",), expect="Identity"),
]  # fmt: skip
