"""`conv_general_dilated` as Conv, ConvTranspose or ConvInteger, whatever its layout and padding.

Operands are brought to ONNX's layout by transposes (those of a constant kernel are done at export).
Element types without a kernel in the target are convolved as a matrix product, see `conv_patches`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import lax
from jax2onnx_core import Complex, Rules

from jax2onnx_lax.contract.im2col import conv_by_patches
from jax2onnx_lax.reduce.ordering import is_float

__all__ = ["rules"]

rules = Rules()

Dims = tuple[Any, ...]

_BYTES = (np.dtype(np.int8), np.dtype(np.uint8))


@dataclasses.dataclass(frozen=True)
class Window:
    """How the kernel moves over the spatial axes, one entry per axis."""

    kernel: Dims
    strides: tuple[int, ...]
    padding: tuple[tuple[Any, Any], ...]
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]

    @property
    def extent(self) -> Dims:
        """What the dilated kernel covers."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.rhs_dilation, strict=True))

    @property
    def static_padding(self) -> bool:
        return all(isinstance(amount, int) for pair in self.padding for amount in pair)


@rules.lower("conv_general_dilated")
def conv_general_dilated(
    ctx: Any, lhs: Any, rhs: Any, *, window_strides: Sequence[int], padding: Sequence[Any],
    lhs_dilation: Sequence[int], rhs_dilation: Sequence[int], dimension_numbers: Any,
    feature_group_count: int, batch_group_count: int, **_: Any,
) -> Any:  # fmt: skip
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    out = ctx.avals_out[0]
    if any(isinstance(d, int) and d == 0 for aval in (*ctx.avals_in, out) for d in aval.shape):
        return ctx.broadcast(ctx.constant(0, dtype=np.dtype(out.dtype)), out.shape)
    if len(lhs_spec) == 2:
        ctx.decline("a convolution without spatial axes is a matrix product")
    if not isinstance(feature_group_count * batch_group_count, int):
        ctx.decline("the number of groups is an attribute of Conv, which is no number here")
    op_type, types = _operator(ctx)
    x = ctx.transpose(ctx.cast(lhs, types[0]), lhs_spec)
    kernel = ctx.transpose(ctx.cast(rhs, types[1]), rhs_spec)
    window = Window(
        tuple(ctx.avals_in[1].shape[i] for i in rhs_spec[2:]), tuple(window_strides),
        tuple((low, high) for low, high in padding), tuple(lhs_dilation), tuple(rhs_dilation),
    )  # fmt: skip
    if batch_group_count > 1:
        x = _batch_groups_as_channels(ctx, x, batch_group_count)
    dims = tuple(out.shape[i] for i in out_spec)
    result = _convolve(ctx, op_type, x, kernel, window, feature_group_count * batch_group_count, dims)
    return ctx.transpose(ctx.cast(result, np.dtype(out.dtype)), np.argsort(out_spec))


def _operator(ctx: Any) -> tuple[str, Sequence[Any]]:
    """The operator and the element types of its operands; declines where none is exact."""
    types = [np.dtype(aval.dtype) for aval in ctx.avals_in]
    out = np.dtype(ctx.avals_out[0].dtype)
    if all(dtype in _BYTES for dtype in types) and not is_float(out) and out.itemsize <= 4:
        return "ConvInteger", types
    if not all(is_float(dtype) for dtype in (*types, out)):
        ctx.decline("there is no Conv of integers other than bytes")
    common = out if types[0] == types[1] == out and out.itemsize > 1 else np.dtype(np.float32)
    if np.dtype(np.float64) in (*types, out) or not ctx.supports("Conv", common):
        ctx.decline(f"{ctx.target} has no exact Conv of {out}")
    return "Conv", [common, common]


def _batch_groups_as_channels(ctx: Any, x: Any, groups: int) -> Any:
    """[groups·n, channels, …] → [n, groups·channels, …]: each group of the batch meets its own kernels."""
    batch, channels, *space = ctx.dims(x)
    x = ctx.reshape(x, (groups, batch // groups, channels, *space))
    x = ctx.transpose(x, (1, 0, *range(2, len(space) + 3)))
    return ctx.reshape(x, (batch // groups, groups * channels, *space))


def _convolve(ctx: Any, op_type: str, x: Any, kernel: Any, window: Window, groups: int, dims: Dims) -> Any:
    if op_type == "Conv" and _is_transposed(ctx, window, x):
        return _conv_transpose(ctx, x, kernel, window, groups, dims)
    if any(d != 1 for d in window.lhs_dilation):
        x, window = _insert_zeros(ctx, x, window)
    if not window.static_padding and not _is_same(ctx.dims(x)[2:], window):
        x, window = _pad_by_expression(ctx, x, window)
    if not window.static_padding:
        attributes: dict[str, Any] = {"auto_pad": "SAME_UPPER"}
    else:
        x, window = _crop(ctx, x, window)
        attributes = {"pads": _pads(window.padding)}
    return ctx.op(op_type, x, kernel, dims=dims, group=_unless_one([groups], groups),
                  strides=_unless_one(window.strides), dilations=_unless_one(window.rhs_dilation), **attributes)  # fmt: skip


def _unless_one(values: Sequence[int], attribute: Any = None) -> Any:
    """An attribute, or None (its default) where every value is 1."""
    if all(v == 1 for v in values):
        return None
    return list(values) if attribute is None else attribute


def _pads(padding: Sequence[tuple[int, int]]) -> list[int] | None:
    pads = [low for low, _ in padding] + [high for _, high in padding]
    return pads if any(pads) else None


# -- padding --------------------------------------------------------------------------------


def _is_same(space: Dims, window: Window) -> bool:
    """Whether the padding is what ONNX calls SAME_UPPER, for every size of the input."""
    if any(d != 1 for d in window.rhs_dilation) or any(d != 1 for d in window.lhs_dilation):
        return False
    return tuple(map(tuple, lax.padtype_to_pads(space, window.kernel, window.strides, "SAME"))) == window.padding


def _without_padding(window: Window) -> Window:
    ones = (1,) * len(window.strides)
    return dataclasses.replace(window, padding=((0, 0),) * len(window.strides), lhs_dilation=ones)


def _pad_by_expression(ctx: Any, x: Any, window: Window) -> tuple[Any, Window]:
    """Padding that depends on symbolic dimensions, positive or negative, as an operator of its own."""
    batch, channels, *space = ctx.dims(x)
    low, high = zip(*window.padding, strict=True)
    padded = tuple(d + a + b for d, a, b in zip(space, low, high, strict=True))
    x = ctx.op.Pad(x, ctx.shape((0, 0, *low, 0, 0, *high)), dims=(batch, channels, *padded))
    return x, _without_padding(window)


def _crop(ctx: Any, x: Any, window: Window) -> tuple[Any, Window]:
    """Negative padding cuts the operand; the rest is an attribute of the operator."""
    dims = list(ctx.dims(x))
    cut = [i for i, pair in enumerate(window.padding) if min(pair) < 0]
    if not cut:
        return x, window
    starts = [max(0, -window.padding[i][0]) for i in cut]
    ends = [dims[2 + i] - max(0, -window.padding[i][1]) for i in cut]
    for i, start, end in zip(cut, starts, ends, strict=True):
        dims[2 + i] = end - start
    x = ctx.slice(x, starts, ends, [2 + i for i in cut], dims=tuple(dims))
    return x, dataclasses.replace(window, padding=tuple((max(0, a), max(0, b)) for a, b in window.padding))


def _insert_zeros(ctx: Any, x: Any, window: Window) -> tuple[Any, Window]:
    config = [(0, 0, 0), (0, 0, 0)]
    config += [(low, high, d - 1) for (low, high), d in zip(window.padding, window.lhs_dilation, strict=True)]
    zero = np.zeros((), ctx.dtype(x))
    return ctx.jax(lambda y: lax.pad(y, zero, config), x), _without_padding(window)


# -- transposed convolution -----------------------------------------------------------------


def _is_transposed(ctx: Any, window: Window, x: Any) -> bool:
    """Whether ConvTranspose computes it: the input is dilated, the kernel moves in steps of one."""
    if all(d == 1 for d in window.lhs_dilation) or any(s != 1 for s in window.strides):
        return False
    if len(window.strides) > 3 or not window.static_padding or not all(isinstance(k, int) for k in window.kernel):
        return False
    return bool(ctx.supports("ConvTranspose", ctx.dtype(x)))


def _conv_transpose(ctx: Any, x: Any, kernel: Any, window: Window, groups: int, dims: Dims) -> Any:
    """Each input element adds the flipped kernel to the output; what JAX does not pad is cut off."""
    cuts = [(size - 1 - low, size - 1 - high) for size, (low, high) in zip(window.extent, window.padding, strict=True)]
    missing = [(max(0, -low), max(0, -high)) for low, high in cuts]
    extra = [high if high < step else 0 for (_, high), step in zip(missing, window.lhs_dilation, strict=True)]
    rest = [(low, high - more) for (low, high), more in zip(missing, extra, strict=True)]
    batch, channels, *space = dims
    inner = tuple(d - low - high for d, (low, high) in zip(space, rest, strict=True))
    result = ctx.op.ConvTranspose(
        x, _flipped_kernel(ctx, kernel, groups), dims=(batch, channels, *inner), group=_unless_one([groups], groups),
        strides=_unless_one(window.lhs_dilation), dilations=_unless_one(window.rhs_dilation),
        pads=_pads([(max(0, low), max(0, high)) for low, high in cuts]), output_padding=extra if any(extra) else None,
    )  # fmt: skip
    pads = _pads(rest)
    if pads is None:
        return result
    half = len(pads) // 2
    return ctx.op.Pad(result, ctx.ints([0, 0, *pads[:half], 0, 0, *pads[half:]]), dims=dims)


def _flipped_kernel(ctx: Any, kernel: Any, groups: int) -> Any:
    """[groups·out, in, …] → [groups·in, out, …] with the spatial axes reversed."""
    features, inputs, *space = ctx.dims(kernel)
    spatial = tuple(i + 2 for i, k in enumerate(space) if k != 1)
    known = ctx.known(kernel)
    if known is not None:
        kernel = ctx.constant(np.flip(known, spatial))
    elif spatial:
        kernel = ctx.jax(lambda w: lax.rev(w, spatial), kernel)
    if groups == 1:
        return ctx.transpose(kernel, (1, 0, *range(2, len(space) + 2)))
    kernel = ctx.reshape(kernel, (groups, features // groups, inputs, *space))
    kernel = ctx.transpose(kernel, (0, 2, 1, *range(3, len(space) + 3)))
    return ctx.reshape(kernel, (groups * inputs, features // groups, *space))


# -- otherwise ------------------------------------------------------------------------------

rules.decompose("conv_general_dilated", conv_by_patches)


@rules.complex("conv_general_dilated")
def complex_conv(lhs: Complex, rhs: Complex, *, preferred_element_type: Any = None, **params: Any) -> Complex:
    """Three real convolutions by Gauss's trick, which is also how JAX rounds."""
    preferred = None if preferred_element_type is None else np.zeros((), preferred_element_type).real.dtype

    def convolution(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated_p.bind(x, w, preferred_element_type=preferred, **params)

    both = convolution(lhs.real + lhs.imag, rhs.real)
    first = convolution(lhs.real, rhs.imag - rhs.real)
    second = convolution(lhs.imag, rhs.real + rhs.imag)
    return Complex(both - second, both + first)
