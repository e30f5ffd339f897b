"""Cases of `elementary`; where the target has the function in single precision, only the f64 variant needs our rules."""

from __future__ import annotations

import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax
from jax2onnx_core import Case
from jax2onnx_graph.build.builder import DtypeLike

from jax2onnx_lax._case_helpers import Expect, Fn, Values, at_most, only_once
from jax2onnx_lax._compat import lax_function

__all__ = ["cases"]

_X = ("N", 5)
# These have no operator, but formulas; each other function is its operator, which some targets run in float32 only.
_FORMULAS = ("cbrt", "expm1", "log1p", "log2")


def _expected(name: str, dtype: DtypeLike | None, *, scaled: bool) -> Expect:
    if name in _FORMULAS:
        return at_most(20)
    operators = ["Mul"] * scaled + [name.capitalize()]
    return " -> ".join(["Cast", *operators, "Cast"] if dtype == ml_dtypes.bfloat16 else operators)


def _case(
    name: str, fn: Fn, values: Values = "special", scale: float = 1.0, suffix: str = "", dtype: DtypeLike | None = None
) -> Case:
    """The function of `scale` times the input, in the variant's dtype or a fixed one."""
    shape = _X if dtype is None else (_X, dtype)
    return Case(f"{name}{suffix}", lambda x: fn(x * scale), [shape], covers=(name,), values=values,
                expect=_expected(name, dtype, scaled=scale != 1), skip={} if dtype is None else only_once(dtype))  # fmt: skip


_FUNCTIONS = {
    "expm1": lax.expm1, "log1p": lax.log1p, "log2": lax_function("log2", jnp.log2), "cbrt": lax.cbrt, "tan": lax.tan,
    "atan": lax.atan, "asin": lax.asin, "acos": lax.acos, "sinh": lax.sinh, "cosh": lax.cosh, "asinh": lax.asinh,
    "acosh": lax.acosh, "atanh": lax.atanh,
}  # fmt: skip

cases = [
    *(_case(name, fn) for name, fn in _FUNCTIONS.items() if name != "tan"),
    _case("tan", lax.tan, "finite"),
    *(_case(name, fn, "unit", suffix="_of_unit") for name, fn in _FUNCTIONS.items()),
    *(_case(name, fn, "finite", 1e-6, "_of_small") for name, fn in _FUNCTIONS.items() if name not in ("log2", "acosh")),
    *(_case(name, fn, "finite", 1e4, "_of_large") for name, fn in _FUNCTIONS.items() if name in ("asinh", "atan")),
    *(_case(name, fn, suffix="_of_bfloat16", dtype=ml_dtypes.bfloat16) for name, fn in _FUNCTIONS.items()),
    *(_case(name, fn, suffix="_of_float16", dtype=np.float16) for name, fn in _FUNCTIONS.items()),
    Case("atan2", lax.atan2, [("N", 7), ("N", 7)], covers=("atan2",), values="special", expect=at_most(30)),
    Case("atan2_of_float16", lax.atan2, [(("N", 7), np.float16)] * 2, covers=("atan2",), values="special",
         expect=at_most(30)),
]  # fmt: skip
