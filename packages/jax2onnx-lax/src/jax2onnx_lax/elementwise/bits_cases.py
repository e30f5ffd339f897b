"""Cases of `bits`."""

from __future__ import annotations

import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax
from jax2onnx_core import Case
from jax2onnx_graph.build.builder import DtypeLike

from jax2onnx_lax._case_helpers import Expect, Fn, at_most, only_once

__all__ = ["cases"]

_FLOATS = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
_DTYPES = (*_FLOATS, np.uint8, np.int32, np.uint64)
_COVERS = ("bitcast_convert_type",)


def _to(dtype: DtypeLike) -> Fn:
    return lambda x: lax.bitcast_convert_type(x, dtype)


def _bits_and_back(dtype: DtypeLike) -> Fn:
    """Floats to bits and back; what is compared are floats, as the bits of a NaN may differ."""
    unsigned = np.dtype(f"uint{8 * np.dtype(dtype).itemsize}")
    return lambda x: lax.bitcast_convert_type(lax.bitcast_convert_type(x, unsigned), dtype)


def _expected(source: DtypeLike, target: DtypeLike) -> Expect:
    """The exponent is found by a logarithm, or looked up; integers are only shifted."""
    from_float, into_float = (np.dtype(d) in map(np.dtype, _FLOATS) for d in (source, target))
    if from_float:
        return at_most(70, Log=1)
    return at_most(60, Clip=0) if into_float else at_most(35, Mul=0, Where=0)


def _case(source: DtypeLike, target: DtypeLike, opset: int = 23, operators: str = "") -> Case:
    ratio = max(1, np.dtype(target).itemsize // np.dtype(source).itemsize)
    shape = ("N", 7) if ratio == 1 else ("N", 3, ratio)
    into_float = np.dtype(target) in map(np.dtype, _FLOATS)
    return Case(
        f"{np.dtype(source).name}_to_{np.dtype(target).name}" + (f"_opset_{opset}" if opset != 23 else ""),
        _to(target), [(shape, source)], covers=_COVERS, values="special" if not into_float else "finite",
        expect=operators or _expected(source, target),
        options={"opset": opset}, skip=only_once(source, target),
    )  # fmt: skip


def _uniform(dtype: type[np.float32 | np.float64]) -> Fn:
    """Random bits as a number in [1, 2), as `jax.random.uniform` makes it."""
    info, kind = np.finfo(dtype), np.dtype(f"uint{8 * np.dtype(dtype).itemsize}").type
    one = np.array(1, dtype).view(kind)
    return lambda x: lax.bitcast_convert_type((x >> kind(info.bits - info.nmant)) | one, dtype)


cases = [
    *(Case(f"random_bits_to_{np.dtype(d).name}", _uniform(d), [(("N", 7), np.dtype(f"uint{8 * np.dtype(d).itemsize}"))],
           covers=_COVERS, values="special", skip=only_once(d),
           expect="BitShift -> Cast -> Mul -> Add") for d in (np.float32, np.float64)),
    *(_case(s, t) for s in _DTYPES for t in _DTYPES if s != t and not (s in _FLOATS and t in _FLOATS)),
    *(_case(np.float32, t, 26, "BitCast") for t in (np.int32, np.uint32)),
    _case(np.uint32, np.float32, 26, "BitCast"),
    _case(np.uint32, np.int32, operators="Cast"),
    *(Case(f"bits_of_{np.dtype(d).name}_and_back", _bits_and_back(d), [((8, 9), d)], covers=_COVERS, values="special",
           skip=only_once(d), expect=at_most(80, Log=1, Gather=1)) for d in _FLOATS),
    *(Case(f"nextafter_of_{np.dtype(d).name}", lax.nextafter, [((8, 9), d), ((8, 9), d)], covers=("nextafter",),
           values="special", skip=only_once(d), expect=at_most(50, Log=0)) for d in _FLOATS),
    *(Case(f"spacing_of_{np.dtype(d).name}", jnp.spacing, [((8, 9), d)], covers=("nextafter",), skip=only_once(d),
           expect=at_most(110)) for d in _FLOATS),
]  # fmt: skip
