"""`conv_general_dilated` as Conv, ConvTranspose or ConvInteger, whatever its layout and padding.

Operands are brought to ONNX's layout by transposes (those of a constant kernel are done at export).
Element types without a kernel in the target are convolved as a matrix product, see `im2col`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import cast

import jax.numpy as jnp
import jax.scipy.signal  # which jax.scipy loads where it is used first: too late to replace its functions
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike
from jax2onnx_core import Complex, Composites, Context, Dim, Replacement, Rules, Value
from jax2onnx_core.jaxprs import Dims, is_positive, is_static
from jax2onnx_graph.build.builder import DtypeLike
from jax2onnx_graph.build.final_names import common_name
from jax2onnx_graph.facts.values import constant_tensor
from jax2onnx_graph.forms import Form

from jax2onnx_lax._compat import max_dim, min_dim
from jax2onnx_lax.contract._im2col import batch_groups_as_channels, conv_by_patches, conv_by_windows
from jax2onnx_lax.dtypes import Dtype, is_float
from jax2onnx_lax.padding import (
    Pairs,
    dilated_size,
    fit_windows,
    is_same_padding,
    static_pairs,
    surely_fits,
    unchanged_padding,
)

__all__ = ["composites", "rules"]

composites = Composites()
rules = Rules()

_BYTES = (np.dtype(np.int8), np.dtype(np.uint8))


@dataclasses.dataclass(frozen=True)
class _Window:
    """The movement of the kernel over the spatial axes, one entry per axis."""

    kernel: Dims
    strides: tuple[int, ...]
    padding: tuple[tuple[Dim, Dim], ...]
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]

    @property
    def extents(self) -> Dims:
        """The sizes of the kernel with its dilation."""
        return dilated_size(self.kernel, self.rhs_dilation)

    def is_same(self, space: Dims) -> bool:
        """Whether the padding is that of "SAME" for an operand of this size."""
        is_undilated = all(d == 1 for d in (*self.lhs_dilation, *self.rhs_dilation))
        return is_undilated and is_same_padding(self.padding, space, self.kernel, self.strides)


@dataclasses.dataclass(frozen=True)
class _Kernel:
    """The kernel in ONNX's layout, [O, I / groups, *window].

    Attributes:
      value: it, or, if `is_reverse`, the same in reverse along its spatial axes.
      is_reverse: whether the program reverses `value`, as the derivative of a convolution by its operand does.
    """

    value: Value
    is_reverse: bool = False

    @classmethod
    def of(cls, ctx: Context, rhs: Value, dtype: Dtype, spec: Sequence[int]) -> _Kernel:
        """The kernel `rhs`, whose axes `spec` names in ONNX's order."""
        made = ctx.definition(rhs) if constant_tensor(rhs) is None else None
        is_reverse = (
            made is not None and made.equation is not None and made.equation.primitive is lax.rev_p
            and sorted(made.equation.params["dimensions"]) == sorted(spec[2:])
        )  # fmt: skip
        given = made.operands[0] if made is not None and is_reverse else rhs
        return cls(ctx.transpose(ctx.cast(given, dtype), spec), is_reverse)

    def turned(self, ctx: Context, *, reverse: bool) -> Value:
        """The kernel, or the same in reverse."""
        return self.value if self.is_reverse is reverse else _reversed(ctx, self.value)


@composites.call("jax.lax:conv_general_dilated", name="jax.lax.conv_general_dilated")
def conv_of_symbolic_parameters(
    lhs: Array, rhs: Array, window_strides: Sequence[int], padding: str | Sequence[tuple[Dim, Dim]],
    lhs_dilation: Sequence[int] | None = None, rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: lax.ConvGeneralDilatedDimensionNumbers = None, feature_group_count: Dim = 1,
    batch_group_count: Dim = 1, precision: object = None, preferred_element_type: DtypeLike | None = None,
    **_: object,
) -> Replacement | None:  # fmt: skip
    """JAX asks whether there is more than one group, here and for the derivative; a symbolic number, as of `vmap`, need not be known.

    It takes numbers only as the pairs of a padding, though its own derivatives along symbolic axes give it others.
    """
    several = [groups for groups in (feature_group_count, batch_group_count) if not is_static(groups) or groups != 1]
    is_grouped = len(several) == 1 and not is_static(several[0])
    if not is_grouped and (isinstance(padding, str) or static_pairs(padding) is not None):
        return None
    rank = lhs.ndim - 2
    numbers = lax.conv_dimension_numbers(lhs.shape, rhs.shape, dimension_numbers)
    rhs_dilation = (1,) * rank if rhs_dilation is None else rhs_dilation
    lhs_dilation = (1,) * rank if lhs_dilation is None else lhs_dilation
    extents = dilated_size([rhs.shape[i] for i in numbers.rhs_spec[2:]], rhs_dilation)
    pairs = _pairs(padding, tuple(lhs.shape[i] for i in numbers.lhs_spec[2:]), extents, window_strides)
    if not is_grouped:
        x, pairs, lhs_dilation = _padded_symbolic_axes(lhs, pairs, lhs_dilation, numbers.lhs_spec[2:])
        return Replacement(
            lax.conv_general_dilated(
                x, rhs, window_strides, pairs, lhs_dilation, rhs_dilation, numbers,
                cast("int", feature_group_count), cast("int", batch_group_count),
                preferred_element_type=preferred_element_type,
            )
        )  # fmt: skip
    made = conv_by_patches(
        lhs, rhs, window_strides=window_strides, padding=pairs, lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation, dimension_numbers=numbers, feature_group_count=feature_group_count,
        batch_group_count=batch_group_count, preferred_element_type=preferred_element_type,
    )  # fmt: skip
    return Replacement(made)


def _padded_symbolic_axes(
    x: Array, padding: Sequence[tuple[Dim, Dim]], dilations: Sequence[int], space: Sequence[int]
) -> tuple[Array, Pairs, tuple[int, ...]]:
    """An operand that is dilated and padded along the spatial axes whose padding is no number, and what is left to do."""
    config: list[tuple[Dim, Dim, int]] = [(0, 0, 0)] * x.ndim
    pairs, left = [], []
    for axis, (low, high), dilation in zip(space, padding, dilations, strict=True):
        if is_static(low) and is_static(high):
            pairs.append((int(low), int(high)))
            left.append(dilation)
        else:
            config[axis] = (low, high, dilation - 1)
            pairs.append((0, 0))
            left.append(1)
    return lax.pad(x, jnp.zeros((), x.dtype), config), tuple(pairs), tuple(left)


@composites.call("jax.numpy:convolve", name="jax.numpy.convolve", is_required=True)
def convolve(
    a: ArrayLike, v: ArrayLike, mode: str = "full", *, precision: lax.PrecisionLike = None,
    preferred_element_type: DtypeLike | None = None,
) -> Replacement | None:  # fmt: skip
    """JAX asks for the `len` of both, which a symbolic size is none of."""
    return _slid(a, v, mode, precision, preferred_element_type, correlates=False)


@composites.call("jax.numpy:correlate", name="jax.numpy.correlate", is_required=True)
def correlate(
    a: ArrayLike, v: ArrayLike, mode: str = "valid", *, precision: lax.PrecisionLike = None,
    preferred_element_type: DtypeLike | None = None,
) -> Replacement | None:  # fmt: skip
    """As `convolve`."""
    return _slid(a, v, mode, precision, preferred_element_type, correlates=True)


def _slid(
    a: ArrayLike, v: ArrayLike, mode: str, precision: lax.PrecisionLike, dtype: DtypeLike | None, *, correlates: bool
) -> Replacement | None:
    """The products of the shorter array with what is below it, at all its places that a mode has; whole numbers become real ones."""
    x, kernel = jnp.asarray(a), jnp.asarray(v)
    if x.ndim != 1 or kernel.ndim != 1 or all(map(is_static, (*x.shape, *kernel.shape))):
        return None
    kind = jnp.result_type(x, kernel)
    kind = kind if dtype is not None or jnp.issubdtype(kind, jnp.inexact) else jnp.result_type(kind, 1.0)
    x, kernel = x.astype(kind), (jnp.conj(kernel) if correlates else kernel).astype(kind)
    exchanged = _is_longer(kernel.shape[0], x.shape[0], is_certain=mode != "full")
    if mode in ("same", "valid") and not exchanged and not is_positive(x.shape[0] - kernel.shape[0] + 1):
        return Replacement(_part_of_all(x, kernel, mode, precision, dtype, correlates=correlates))
    if exchanged:
        x, kernel = kernel, x
    size = kernel.shape[0]
    padding = _paddings(size)
    if mode not in padding:
        raise ValueError(f"mode must be one of ['full', 'same', 'valid'], not {mode!r}.")
    low, high = padding[mode]
    if not is_static(size):  # of convolutions, JAX takes known paddings only
        x, low, high = lax.pad(x, jnp.zeros((), kind), [(low, high, 0)]), 0, 0
    kernel = kernel if correlates else jnp.flip(kernel)
    made = lax.conv_general_dilated(
        x[None, None], kernel[None, None], (1,), [(low, high)], precision=precision, preferred_element_type=dtype
    )[0, 0]
    return Replacement(jnp.flip(made) if correlates and exchanged else made)


def _is_longer(one: Dim, other: Dim, *, is_certain: bool) -> bool:
    """Whether an array has more elements than another, or is taken to have more, as one of symbolic length may.

    The longer one is what is padded, so that its NaN and infinite elements stay where they are.
    """
    if is_certain or is_static(one) or not is_static(other) or is_positive(other - one + 1):
        return is_positive(one - other)
    return True


def _paddings(size: Dim) -> dict[str, tuple[Dim, Dim]]:
    """The padding with which a kernel of this size slides over all its places that a mode has."""
    return {"valid": (0, 0), "same": (size // 2, (size - 1) // 2), "full": (size - 1, size - 1)}


def _part_of_all(
    x: Array, kernel: Array, mode: str, precision: lax.PrecisionLike, dtype: DtypeLike | None, *, correlates: bool
) -> Array:
    """The part that a mode has of the products at all places, where either array may be the longer one."""
    function = jnp.correlate if correlates else jnp.convolve
    kernel = jnp.conj(kernel) if correlates else kernel  # as it was given
    made = function(x, kernel, "full", precision=precision, preferred_element_type=dtype)
    shorter, longer = (of(x.shape[0], kernel.shape[0]) for of in (min_dim, max_dim))
    if mode == "valid":
        return _part(made, shorter - 1, longer - shorter + 1)
    is_reversed = correlates & (jnp.asarray(x.shape[0]) < jnp.asarray(kernel.shape[0]))
    return _part(made, (shorter - 1 + is_reversed) // 2, longer)


def _part(x: Array, start: ArrayLike | Dim, size: Dim, axis: int = 0) -> Array:
    """So many elements along an axis."""
    return jnp.take(x, start + jnp.arange(size), axis, mode="clip")


@composites.call("jax._src.scipy.signal:_convolve_nd", name="jax.scipy.signal.convolve", is_required=True)
def convolve_nd(in1: Array, in2: Array, mode: str, *, precision: lax.PrecisionLike) -> Replacement | None:
    """The part that a mode has of the products at all places; JAX asks which array is the smaller one along all axes."""
    pairs = list(zip(in1.shape, in2.shape, strict=False))
    if in1.ndim != in2.ndim or all(map(is_static, (*in1.shape, *in2.shape))):
        return None
    if mode == "full" and all(_is_longer(m, n, is_certain=False) for n, m in pairs):
        in1, in2, pairs = in2, in1, [(m, n) for n, m in pairs]
    kind = jnp.result_type(in1, in2, 0.0)
    x, kernel, steps = in1.astype(kind), jnp.flip(in2).astype(kind), (1,) * in1.ndim
    if all(is_static(m) and is_positive(n - m + 1) for n, m in pairs):
        padding = [_paddings(m)[mode] for _, m in pairs]
        return Replacement(
            lax.conv_general_dilated(x[None, None], kernel[None, None], steps, padding, precision=precision)[0, 0]
        )
    x = lax.pad(x, jnp.zeros((), kind), [(m - 1, m - 1, 0) for _, m in pairs])
    made = lax.conv_general_dilated(x[None, None], kernel[None, None], steps, "VALID", precision=precision)[0, 0]
    for axis, (n, m) in enumerate(pairs):
        if mode == "same":
            made = _part(made, (m - 1) // 2, n, axis)
        elif mode == "valid":
            shorter = min_dim(n, m)
            made = _part(made, shorter - 1, max_dim(n, m) - shorter + 1, axis)
    return Replacement(made)


@composites.call("jax.scipy.signal:correlate2d", name="jax.scipy.signal.correlate2d", is_required=True)
def correlate2d(
    in1: Array, in2: Array, mode: str = "full", boundary: str = "fill", fillvalue: float = 0,
    precision: lax.PrecisionLike = None,
) -> Replacement | None:  # fmt: skip
    """JAX's own formula, which is for either order of sizes but where only parts of complex products are wanted."""
    if all(map(is_static, (*in1.shape, *in2.shape))) or (
        mode == "valid" and jnp.issubdtype(jnp.result_type(in1, in2), jnp.complexfloating)
    ):
        return None
    made = jax.scipy.signal.convolve2d(jnp.flip(in1), jnp.conj(in2), mode, boundary, fillvalue, precision)
    return Replacement(jnp.flip(made))


def _pairs(
    padding: str | Sequence[tuple[Dim, Dim]], space: Dims, extents: Dims, strides: Sequence[int]
) -> Sequence[tuple[Dim, Dim]]:
    """The padding of windows with these extents as (low, high) for each spatial axis."""
    if not isinstance(padding, str):
        return padding
    # JAX takes symbolic sizes too, which its annotations do not say.
    return cast(
        "Sequence[tuple[Dim, Dim]]",
        lax.padtype_to_pads(cast("Sequence[int]", space), cast("Sequence[int]", extents), strides, padding),
    )


@rules.lower("conv_general_dilated")
def conv_general_dilated(
    ctx: Context, lhs: Value, rhs: Value, *, window_strides: Sequence[int], padding: Sequence[tuple[Dim, Dim]],
    lhs_dilation: Sequence[int], rhs_dilation: Sequence[int], dimension_numbers: lax.ConvDimensionNumbers,
    feature_group_count: int, batch_group_count: int, **_: object,
) -> Value:  # fmt: skip
    """A convolution by one operator between transposes."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    out, groups = ctx.avals_out[0], feature_group_count * batch_group_count
    if any(is_static(d) and d == 0 for aval in (*ctx.avals_in, out) for d in aval.shape):
        return ctx.broadcast(ctx.constant(0, dtype=out.dtype), out.shape)
    if len(lhs_spec) == 2:
        ctx.pass_on("a convolution without spatial axes is a matrix product")
    if not is_static(groups):
        ctx.decline("the number of groups is an attribute of Conv, which is no number here")
    if all(d == 1 for d in lhs_dilation):
        lhs, padding = _unpadded(ctx, lhs, lhs_spec, padding)
    op_type, types = _operator(ctx)
    if not is_positive(ctx.avals_in[1].shape[rhs_spec[1]]) and not ctx.guarantees(op_type, types[0], "empty"):
        ctx.decline("there may be no channels")
    x = ctx.transpose(ctx.cast(lhs, types[0]), lhs_spec)
    kernel = _Kernel.of(ctx, rhs, types[1], rhs_spec)
    window = _Window(
        tuple(ctx.avals_in[1].shape[i] for i in rhs_spec[2:]), tuple(window_strides),
        tuple((low, high) for low, high in padding), tuple(lhs_dilation), tuple(rhs_dilation),
    )  # fmt: skip
    if batch_group_count > 1:
        x = ctx.jax(batch_groups_as_channels, x, groups=batch_group_count)
    dims = tuple(out.shape[i] for i in out_spec)
    result = _convolved(ctx, x, kernel, window, groups, dims, op_type=op_type)
    return ctx.transpose(ctx.cast(result, out.dtype), [out_spec.index(i) for i in range(len(out_spec))])


@rules.lower("conv_general_dilated")
def depthwise_conv_of_one_axis(
    ctx: Context, lhs: Value, rhs: Value, *, window_strides: Sequence[int], padding: Sequence[tuple[Dim, Dim]],
    lhs_dilation: Sequence[int], rhs_dilation: Sequence[int], dimension_numbers: lax.ConvDimensionNumbers,
    feature_group_count: int, batch_group_count: int, **_: object,
) -> Value:  # fmt: skip
    """One along time with a filter for each channel, as before a state space model, with a second axis of size 1, where that is faster."""
    channels = ctx.avals_in[0].shape[dimension_numbers.lhs_spec[1]]
    if not is_static(feature_group_count) or not is_static(batch_group_count):
        ctx.decline("the number of groups is not known")
    if len(window_strides) != 1 or feature_group_count < 2 or channels != feature_group_count or batch_group_count != 1:
        ctx.pass_on("it is no depthwise convolution along one axis")
    if ctx.dtype(lhs) != np.float32 or ctx.dtype(rhs) != np.float32 or lhs_dilation != (1,):
        ctx.pass_on("only Conv of float32 was measured")
    if ctx.prefers(Form.DEPTHWISE_CONV_OF_ONE_AXIS, Form.DEPTHWISE_CONV_OF_TWO_AXES) is Form.DEPTHWISE_CONV_OF_ONE_AXIS:
        ctx.pass_on("one axis is as fast")
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    lhs, padding = _unpadded(ctx, lhs, lhs_spec, padding)

    def with_two_axes(x: Array, kernel: Array) -> Array:
        rows, kernel = x.transpose(lhs_spec)[:, :, None], kernel.transpose(rhs_spec)[:, :, None]
        y = lax.conv_general_dilated(
            rows, kernel, (1, *window_strides), [(0, 0), *padding], rhs_dilation=(1, *rhs_dilation),
            feature_group_count=feature_group_count,
        )  # fmt: skip
        return y[:, :, 0].transpose([out_spec.index(i) for i in range(3)])

    return ctx.jax(with_two_axes, lhs, rhs)


# A convolution is taken apart if its kernel has so many times more elements along the spatial axes than there are outputs, few at any rate.
_LARGE, _FEW = 4, 49


@rules.lower("conv_general_dilated")
def conv_of_large_windows(
    ctx: Context, lhs: Value, rhs: Value, *, lhs_dilation: Sequence[int], dimension_numbers: lax.ConvDimensionNumbers,
    window_strides: Sequence[int], padding: Sequence[tuple[Dim, Dim]], rhs_dilation: Sequence[int], feature_group_count: int,
    batch_group_count: int, **_: object,
) -> Value:  # fmt: skip
    """One with few outputs and large windows, as the gradient of a kernel is: a product for each output, where that is faster."""
    _, rhs_spec, out_spec = dimension_numbers
    spaces = [ctx.avals_in[1].shape[i] for i in rhs_spec[2:]], [ctx.avals_out[0].shape[i] for i in out_spec[2:]]
    kernel, space = ([d for d in dims if is_static(d)] for dims in spaces)
    if (len(kernel), len(space)) != (len(window_strides),) * 2:
        ctx.pass_on("the sizes of its windows are not known")
    window, outputs = math.prod(kernel), math.prod(space)
    if not 1 < outputs <= min(_FEW, window // _LARGE) or constant_tensor(rhs) is not None:
        ctx.pass_on("its windows are not large, or it has many outputs")
    if feature_group_count != 1 or batch_group_count != 1 or {*lhs_dilation, *window_strides} != {1}:
        ctx.pass_on("only convolutions without groups, strides and dilated operands were measured")
    if not all(aval.dtype == np.float32 for aval in (*ctx.avals_in, *ctx.avals_out)):
        ctx.pass_on("only Conv of float32 was measured")
    if ctx.prefers(Form.CONV_OF_LARGE_WINDOWS, Form.PRODUCTS_OF_WINDOWS) is Form.CONV_OF_LARGE_WINDOWS:
        ctx.pass_on("Conv is as fast")
    made = functools.partial(
        conv_by_windows, window_strides=window_strides, padding=padding, rhs_dilation=rhs_dilation,
        dimension_numbers=dimension_numbers, outputs=space,
    )  # fmt: skip
    return ctx.jax(made, lhs, rhs)


def _operator(ctx: Context) -> tuple[str, tuple[Dtype, Dtype]]:
    """The operator and the element types of its operands; declines where none is exact."""
    lhs, rhs = (aval.dtype for aval in ctx.avals_in)
    out = ctx.avals_out[0].dtype
    if lhs in _BYTES and rhs in _BYTES and not is_float(out) and out.itemsize <= 4:
        ctx.require("ConvInteger", lhs)
        return "ConvInteger", (lhs, rhs)
    types = (lhs, rhs, out)
    if not all(map(is_float, types)):
        ctx.decline("there is no Conv of integers other than bytes")
    if lhs == rhs == out and out.itemsize > 1:
        common = out
    else:
        common = np.dtype(np.float64 if np.float64 in types else np.float32)
    ctx.require("Conv", common)
    return "Conv", (common, common)


def _convolved(
    ctx: Context, x: Value, kernel: _Kernel, window: _Window, groups: int, dims: Dims, op_type: str
) -> Value:
    """The convolution of an operand in ONNX's layout, by Conv or ConvTranspose.

    Args:
      ctx: the context of the rule. It declines windows that may be larger than their axis by an unknown number of elements.
      x: [B, I, *space].
      kernel: the kernel.
      window: the movement of the kernel.
      groups: the number of groups that the channels are divided into.
      dims: the dimensions of the result, [B, O, *space'].
      op_type: "Conv", or "ConvInteger" for bytes.
    """
    sizes, pairs = [k for k in window.kernel if is_static(k)], static_pairs(window.padding)
    if op_type == "Conv" and pairs is not None and len(sizes) == len(window.kernel):
        is_derivative = kernel.is_reverse and groups == 1 and math.prod(sizes) > 1
        if _is_transposed(ctx, window, x, is_derivative=is_derivative):
            flipped = _flipped_kernel(ctx, kernel, groups)
            return _conv_transpose(ctx, x, flipped, window, sizes, pairs, groups, dims)
    if any(d != 1 for d in window.lhs_dilation):
        x, window = _insert_zeros(ctx, x, window)
    space = ctx.known_dims(x)[2:]
    fitted = unchanged_padding(window.padding)
    if static_pairs(window.padding) is not None or not window.is_same(space):
        fitted = fit_windows(ctx, space, window.padding, window.extents, window.strides)
    x, pads, auto_pad = _padding(ctx, x, dataclasses.replace(window, padding=fitted.padding))
    result = ctx.op(
        op_type, x, kernel.turned(ctx, reverse=False), dims=fitted.dims(dims), group=_unless_one(groups),
        strides=_unless_ones(window.strides), dilations=_unless_ones(window.rhs_dilation), pads=pads, auto_pad=auto_pad,
    )  # fmt: skip
    return fitted.cut(ctx, result, dims)


def _unless_one(value: int) -> int | None:
    """An attribute whose default is 1."""
    return None if value == 1 else value


def _unless_ones(values: Sequence[int]) -> Sequence[int] | None:
    """An attribute whose default is 1 on every axis."""
    return None if all(v == 1 for v in values) else values


def _unless_zeros(padding: Sequence[tuple[int, int]]) -> list[int] | None:
    """The attribute `pads` for (low, high) of every axis, None (its default) where there is no padding."""
    pads = [low for low, _ in padding] + [high for _, high in padding]
    return pads if any(pads) else None


# -- padding --------------------------------------------------------------------------------


def _padding(ctx: Context, x: Value, window: _Window) -> tuple[Value, list[int] | None, str | None]:
    """The padding of an undilated operand: the operand, cut or padded, and the attributes `pads` and `auto_pad`."""
    pairs = static_pairs(window.padding)
    if pairs is not None:
        return _crop(ctx, x, pairs), _unless_zeros([(max(0, low), max(0, high)) for low, high in pairs]), None
    if window.is_same(ctx.known_dims(x)[2:]):
        return x, None, "SAME_UPPER"
    return _pad_by_expression(ctx, x, window.padding), None, None


def _pad_by_expression(ctx: Context, x: Value, padding: Sequence[tuple[Dim, Dim]]) -> Value:
    """Padding that depends on symbolic dimensions, positive or negative, as an operator of its own."""
    batch, channels, *space = ctx.known_dims(x)
    low, high = zip(*padding, strict=True)
    padded = [d + a + b for d, a, b in zip(space, low, high, strict=True)]
    return ctx.op.Pad(x, ctx.shape((0, 0, *low, 0, 0, *high)), dims=(batch, channels, *padded))


def _crop(ctx: Context, x: Value, padding: Pairs) -> Value:
    """The operand without the elements that negative padding cuts off."""
    dims = list(ctx.known_dims(x))
    cut = [i for i, pair in enumerate(padding) if min(pair) < 0]
    if not cut:
        return x
    starts = [max(0, -padding[i][0]) for i in cut]
    ends = [dims[2 + i] - max(0, -padding[i][1]) for i in cut]
    for i, start, end in zip(cut, starts, ends, strict=True):
        dims[2 + i] = end - start
    return ctx.slice(x, starts, ends, [2 + i for i in cut], dims=dims)


def _unpadded(
    ctx: Context, x: Value, spec: Sequence[int], padding: Sequence[tuple[Dim, Dim]]
) -> tuple[Value, Sequence[tuple[Dim, Dim]]]:
    """The operand before zeros were put around its spatial axes, as before a causal convolution, and the padding with these."""
    made = ctx.definition(x)
    if made is None or made.primitive != "pad" or (filler := ctx.known(made.operands[1])) is None or filler.any():
        return x, padding
    pairs = static_pairs([(low, high) for low, high, _ in made.params["padding_config"]])
    is_empty = any(is_static(d) and d == 0 for d in made.avals_in[0].shape)
    if pairs is None or is_empty or any(interior for *_, interior in made.params["padding_config"]):
        return x, padding
    if any(min(pair) < 0 for pair in pairs) or any(any(pairs[axis]) for axis in spec[:2]):
        return x, padding
    border = [pairs[axis] for axis in spec[2:]]
    return made.operands[0], [(a + low, b + high) for (a, b), (low, high) in zip(padding, border, strict=True)]


def _insert_zeros(ctx: Context, x: Value, window: _Window) -> tuple[Value, _Window]:
    """The operand spread by its dilation and padded, and the window without these."""
    space = [(low, high, d - 1) for (low, high), d in zip(window.padding, window.lhs_dilation, strict=True)]
    # JAX pads by symbolic amounts too, which its annotations do not say.
    config = [(0, 0, 0), (0, 0, 0), *cast("list[tuple[int, int, int]]", space)]
    zero, rank = np.zeros((), ctx.dtype(x)), len(space)
    spread = ctx.jax(lambda y: lax.pad(y, zero, config), x)
    return spread, dataclasses.replace(window, padding=((0, 0),) * rank, lhs_dilation=(1,) * rank)


# -- transposed convolution -----------------------------------------------------------------


def _is_transposed(ctx: Context, window: _Window, x: Value, *, is_derivative: bool) -> bool:
    """Whether ConvTranspose computes it: the input is dilated, or it is a derivative, and the kernel moves in steps of one."""
    is_undilated = all(d == 1 for d in window.lhs_dilation)
    if (is_undilated and not is_derivative) or any(s != 1 for s in window.strides) or len(window.strides) > 3:
        return False
    spread = dilated_size(ctx.known_dims(x)[2:], window.lhs_dilation)
    if not all(map(surely_fits, spread, window.padding, window.extents)):
        return False
    return ctx.supports("ConvTranspose", ctx.dtype(x))


def _conv_transpose(
    ctx: Context, x: Value, flipped: Value, window: _Window, sizes: Sequence[int], padding: Pairs, groups: int, dims: Dims
) -> Value:  # fmt: skip
    """Each input element adds the flipped kernel to the output; borders that JAX does not pad are cut off."""
    full = [(size - 1) * dilation for size, dilation in zip(sizes, window.rhs_dilation, strict=True)]
    cuts = [(overlap - low, overlap - high) for overlap, (low, high) in zip(full, padding, strict=True)]
    missing = [(max(0, -low), max(0, -high)) for low, high in cuts]
    steps = map(max, window.lhs_dilation, window.rhs_dilation)
    extra = [high if high < step else 0 for (_, high), step in zip(missing, steps, strict=True)]
    rest = [(low, high - more) for (low, high), more in zip(missing, extra, strict=True)]
    batch, channels, *space = dims
    inner = tuple(d - low - high for d, (low, high) in zip(space, rest, strict=True))
    result = ctx.op.ConvTranspose(
        x, flipped, dims=(batch, channels, *inner), group=_unless_one(groups),
        strides=_unless_ones(window.lhs_dilation), dilations=_unless_ones(window.rhs_dilation),
        pads=_unless_zeros([(max(0, low), max(0, high)) for low, high in cuts]),
        output_padding=extra if any(extra) else None,
    )  # fmt: skip
    if not any(map(any, rest)):
        return result
    low, high = zip(*rest, strict=True)
    return ctx.op.Pad(result, ctx.ints([0, 0, *low, 0, 0, *high]), dims=dims)


def _flipped_kernel(ctx: Context, kernel: _Kernel, groups: int) -> Value:
    """[groups·out, in, …] → [groups·in, out, …] with the spatial axes reversed."""
    features, inputs, *space = ctx.known_dims(kernel.value)
    value = kernel.turned(ctx, reverse=True)
    if groups == 1:
        return ctx.transpose(value, (1, 0, *range(2, len(space) + 2)))
    value = ctx.reshape(value, (groups, features // groups, inputs, *space))
    value = ctx.transpose(value, (0, 2, 1, *range(3, len(space) + 3)))
    return ctx.reshape(value, (groups * inputs, features // groups, *space))


def _reversed(ctx: Context, kernel: Value) -> Value:
    """A kernel in ONNX's layout with its spatial axes reversed."""
    spatial = tuple(i + 2 for i, size in enumerate(ctx.known_dims(kernel)[2:]) if size != 1)
    sizes = [int(d) for d in ctx.known_dims(kernel) if is_static(d)]
    folded = ctx.fold(lambda w: np.flip(w, spatial), kernel, dims=sizes, name=common_name([kernel]))
    if folded is not None or not spatial:
        return kernel if folded is None else folded
    return ctx.jax(lambda w: lax.rev(w, spatial), kernel)


# -- otherwise ------------------------------------------------------------------------------

rules.decompose("conv_general_dilated", conv_by_patches)


@rules.complex("conv_general_dilated")
def complex_conv(
    lhs: Complex, rhs: Complex, *, preferred_element_type: DtypeLike | None = None, **params: object
) -> Complex:
    """Three real convolutions by Gauss's trick, which is also how JAX rounds."""
    preferred = None if preferred_element_type is None else np.zeros((), preferred_element_type).real.dtype

    def convolution(x: Array, w: Array) -> Array:
        return lax.conv_general_dilated_p.bind(x, w, preferred_element_type=preferred, **params)

    both = convolution(lhs.real + lhs.imag, rhs.real)
    first = convolution(lhs.real, rhs.imag - rhs.real)
    second = convolution(lhs.imag, rhs.real + rhs.imag)
    return Complex(both - second, both + first)
