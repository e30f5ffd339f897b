"""The normalisations of `flax.nnx`: statistics as one operator, batch norm as `Mul` and `Add`."""

from __future__ import annotations

__all__ = ["composites", "rules"]

import math
from typing import Any

import numpy as np
from jax2onnx_core import Call, Composites, Rules
from jax2onnx_lax.nn.activations import needs

from jax2onnx_nnx.layer import axes_from_end, parameter, promoted

composites = Composites()
rules = Rules()


@composites.call("flax.nnx:BatchNorm.__call__", name="nnx.batch_norm")
def batch_norm(self: Any, x: Any, use_running_average: bool | None = None, *, mask: Any = None) -> Call | None:
    inference = self.use_running_average if use_running_average is None else use_running_average
    statistics = (parameter(self.mean), parameter(self.var))
    arrays = promoted(self, x, *statistics, parameter(self.scale), parameter(self.bias)) if inference else None
    if arrays is None or not isinstance(self.axis, int):
        return None
    return Call(*arrays, axis=self.axis, epsilon=float(self.epsilon))


@composites.call("flax.nnx:LayerNorm.__call__", name="nnx.layer_norm")
def layer_norm(self: Any, x: Any, *, mask: Any = None) -> Call | None:
    return _over_last_axis(self, x, mask, parameter(self.bias))


@composites.call("flax.nnx:RMSNorm.__call__", name="nnx.rms_norm")
def rms_norm(self: Any, x: Any, mask: Any = None) -> Call | None:
    return _over_last_axis(self, x, mask)


@composites.call("flax.nnx:GroupNorm.__call__", name="nnx.group_norm")
def group_norm(self: Any, x: Any, *, mask: Any = None) -> Call | None:
    arrays = promoted(self, x, parameter(self.scale), parameter(self.bias))
    if arrays is None or mask is not None or self.axis_name is not None or self.reduction_axes is not None:
        return None
    return Call(*arrays, groups=self.num_groups, epsilon=float(self.epsilon)) if x.ndim >= 2 else None


@composites.call("flax.nnx:InstanceNorm.__call__", name="nnx.group_norm")
def instance_norm(self: Any, x: Any, *, mask: Any = None) -> Call | None:
    arrays = promoted(self, x, parameter(self.scale), parameter(self.bias))
    if arrays is None or mask is not None or self.axis_name is not None or x.ndim < 3:
        return None
    if axes_from_end(self.feature_axes, x.ndim) != (-1,):
        return None
    return Call(*arrays, groups=x.shape[-1], epsilon=float(self.epsilon))


def _over_last_axis(layer: Any, x: Any, mask: Any, *bias: Any) -> Call | None:
    arrays = promoted(layer, x, parameter(layer.scale), *bias)
    if arrays is None or mask is not None or layer.axis_name is not None:
        return None
    if axes_from_end(layer.reduction_axes, x.ndim) != (-1,) or axes_from_end(layer.feature_axes, x.ndim) != (-1,):
        return None
    return Call(*arrays, epsilon=float(layer.epsilon))


@rules.lower("nnx.layer_norm")
def lower_layer_norm(ctx: Any, x: Any, scale: Any, bias: Any, *, epsilon: float) -> Any:
    """x [..., C], scale and bias [C] or None."""
    needs(ctx, "LayerNormalization", x)
    scale = _ones(ctx, x) if scale is None else scale
    return ctx.op.LayerNormalization(x, scale, *([] if bias is None else [bias]), axis=-1, epsilon=epsilon)


@rules.lower("nnx.rms_norm")
def lower_rms_norm(ctx: Any, x: Any, scale: Any, *, epsilon: float) -> Any:
    """x [..., C], scale [C] or None."""
    needs(ctx, "RMSNormalization", x, opset=23)
    return ctx.op.RMSNormalization(x, _ones(ctx, x) if scale is None else scale, axis=-1, epsilon=epsilon)


@rules.lower("nnx.rms_norm")
def lower_rms_norm_before_23(ctx: Any, x: Any, scale: Any, *, epsilon: float) -> Any:
    """The form that ONNX Runtime fuses; in float64 one that it does not, as its fusion then loses the epsilon."""
    if ctx.opset >= 23 or ctx.dtype(x).itemsize < 4:
        ctx.decline("there is an operator, or half precision needs float32 statistics")
    square = ctx.op.Pow(x, ctx.constant(2.0, like=x)) if ctx.dtype(x) == np.float32 else ctx.op.Mul(x, x)
    mean = ctx.op.ReduceMean(square, ctx.ints([-1]))
    y = ctx.op.Div(x, ctx.op.Sqrt(ctx.op.Add(mean, ctx.constant(epsilon, like=x))))
    return y if scale is None else ctx.op.Mul(y, scale)


def _ones(ctx: Any, x: Any) -> Any:
    return ctx.constant(np.ones(int(ctx.dims(x)[-1])), like=x)


@rules.lower("nnx.batch_norm")
def lower_batch_norm(
    ctx: Any, x: Any, mean: Any, variance: Any, scale: Any, bias: Any, *, axis: int, epsilon: float
) -> Any:
    """x [..., C, ...] with C at `axis`, all others [C]. The statistics are folded into one factor and one
    summand, which a convolution before it takes into its weights."""
    known: list[Any] = [None if value is None else ctx.known(value) for value in (mean, variance, scale, bias)]
    if any(array is None and value is not None for array, value in zip(known, (mean, variance, scale, bias), strict=True)):
        ctx.decline("the statistics are not constants")
    factor = 1 / np.sqrt(known[1].astype(np.float64) + epsilon)
    factor = factor if scale is None else factor * known[2]
    summand = -known[0] * factor
    summand = summand if bias is None else summand + known[3]
    trailing = (1,) * (-axis - 1 if axis < 0 else len(ctx.dims(x)) - axis - 1)
    factor, summand = (v.reshape(-1, *trailing) for v in (factor, summand))
    return ctx.op.Add(ctx.op.Mul(x, ctx.constant(factor, like=x)), ctx.constant(summand, like=x))


@rules.lower("nnx.group_norm")
def lower_group_norm(ctx: Any, x: Any, scale: Any, bias: Any, *, groups: int, epsilon: float) -> Any:
    """x [B, *space, C], scale and bias [C] or None. `InstanceNormalization` of [B, groups, ·] takes two thirds
    of the time of `GroupNormalization`, which ONNX Runtime expands."""
    needs(ctx, "InstanceNormalization", x)
    dims = ctx.dims(x)
    rank, channels = len(dims), int(dims[-1])
    y = ctx.transpose(x, (0, rank - 1, *range(1, rank - 1)))
    if groups == channels and rank > 2:
        weights = (_ones(ctx, x) if scale is None else scale, _zeros(ctx, x, channels) if bias is None else bias)
        y = ctx.op.InstanceNormalization(y, *weights, epsilon=epsilon, dims=ctx.dims(y))
        return ctx.transpose(y, (0, *range(2, rank), 1))
    before = y
    y = ctx.reshape(y, (dims[0], groups, math.prod(dims[1:-1]) * (channels // groups)))
    ones, zeros = ctx.constant(np.ones(groups), like=x), _zeros(ctx, x, groups)
    y = ctx.op.InstanceNormalization(y, ones, zeros, epsilon=epsilon, dims=ctx.dims(y))
    y = _shaped_like(ctx, y, before, (dims[0], channels, *dims[1:-1]))
    y = ctx.transpose(y, (0, *range(2, rank), 1))
    y = y if scale is None else ctx.op.Mul(y, scale)
    return y if bias is None else ctx.op.Add(y, bias)


def _shaped_like(ctx: Any, y: Any, like: Any, dims: tuple[Any, ...]) -> Any:
    """`y` reshaped to `dims`, which are those of `like`: with several symbols its `Shape` is one node, where the
    expressions themselves may be many."""
    if sum(not isinstance(d, int) for d in dims[1:]) < 2:
        return ctx.reshape(y, dims)
    return ctx.op.Reshape(y, ctx.op.Shape(like), dims=dims)


def _zeros(ctx: Any, x: Any, size: int) -> Any:
    return ctx.constant(np.zeros(size), like=x)
