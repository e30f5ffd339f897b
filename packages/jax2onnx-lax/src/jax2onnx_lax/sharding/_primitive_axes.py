"""`primitive_axes`: for each primitive of JAX, from which axes of which operands each axis of a result comes.

The table of `jax2onnx_graph.facts.axis_maps`, for equations in place of nodes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence

from jax2onnx_core.jax_types import Equation, Params
from jax2onnx_core.jaxprs import Dim, Dims, is_static
from jax2onnx_graph import ir
from jax2onnx_graph.facts.axis_maps import Axes, AxisMaps, Iteration, IterationAxis, aligned, unmerged, view_axes
from jax2onnx_graph.facts.sizes import size_of
from jax2onnx_graph.facts.values import LabelledDim

__all__ = ["ELEMENTWISE", "PRIMITIVES", "primitive_axes"]

_Shapes = Sequence[Dims]
_Rule = Callable[[Params, _Shapes, _Shapes], AxisMaps | None]

#: The primitives that compute each element from those of the operands at the same place.
ELEMENTWISE = (
    "abs", "acos", "acosh", "add", "add_any", "and", "asin", "asinh", "atan", "atan2", "atanh", "bessel_i0e", "bessel_i1e",
    "cbrt", "ceil", "clamp", "clz", "complex", "conj", "convert_element_type", "copy", "cos", "cosh",
    "digamma", "div", "eq", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "floor", "ge", "gt", "igamma", "igammac", "imag",
    "integer_pow", "is_finite", "le", "lgamma", "log", "log1p", "logistic", "lt", "max", "min", "mul", "ne", "neg", "nextafter",
    "not", "or", "population_count", "pow", "real", "reduce_precision", "regularized_incomplete_beta", "rem", "round", "rsqrt",
    "select_n", "shift_left", "shift_right_arithmetic", "shift_right_logical", "sign", "sin", "sinh", "sqrt", "square", "sub", "tan",
    "tanh", "xor",
)  # fmt: skip


def primitive_axes(eqn: Equation, shapes: _Shapes) -> AxisMaps | None:
    """Find the axes of the operands and results of an equation.

    Args:
      eqn: the equation.
      shapes: the shapes of its operands.

    Returns:
      The axes; None where nothing is known of them.
    """
    rule = _RULES.get(eqn.primitive.name)
    return None if rule is None else rule(eqn.params, shapes, [v.aval.shape for v in eqn.outvars])


def _labelled(dim: Dim) -> LabelledDim:
    return dim if is_static(dim) else ir.SymbolicDim(str(dim))


def _axis(dim: Dim, iteration: Iteration = Iteration.SAME) -> IterationAxis:
    return IterationAxis(size_of([_labelled(dim)]), iteration)


def _axes(shape: Dims, named: Iterable[int] = (), iteration: Iteration = Iteration.OTHER) -> list[IterationAxis]:
    """New axes of a shape, those at the places `named` of another relation."""
    places = set(named)
    return [_axis(dim, iteration if d in places else Iteration.SAME) for d, dim in enumerate(shape)]


def _places(value: int | Sequence[int]) -> Sequence[int]:
    return value if isinstance(value, (tuple, list)) else (value,)


# -- elementwise, and what moves axes -------------------------------------------------------------------


def _elementwise(params: Params, shapes: _Shapes, results: _Shapes) -> AxisMaps:
    """Scalars, and dimensions of size 1, are repeated."""
    axes = _axes(results[0])
    return AxisMaps([_repeated(own, results[0], axes) for own in shapes], [unmerged(axes)])


def _repeated(own: Dims, shape: Sequence[Dim], axes: Sequence[IterationAxis]) -> Axes:
    """The axes of an operand that is repeated to get another shape."""
    return aligned(list(map(_labelled, own)), list(map(_labelled, shape)), axes)


def _bitcast(params: Params, shapes: _Shapes, results: _Shapes) -> AxisMaps:
    """A last axis of parts comes or goes where the dtypes have different widths."""
    longest = max(shapes[0], results[0], key=len)
    axes = unmerged(_axes(longest, range(min(len(shapes[0]), len(results[0])), len(longest))))
    return AxisMaps([axes[: len(shapes[0])]], [axes[: len(results[0])]])


def _broadcast_in_dim(params: Params, shapes: _Shapes, results: _Shapes) -> AxisMaps:
    axes, places = _axes(results[0]), params["broadcast_dimensions"]
    source = _repeated(shapes[0], [results[0][d] for d in places], [axes[d] for d in places])
    return AxisMaps([source, *[None] * (len(shapes) - 1)], [unmerged(axes)])


def _iota(params: Params, shapes: _Shapes, results: _Shapes) -> AxisMaps:
    return AxisMaps([None] * len(shapes), [unmerged(_axes(results[0], [params["dimension"]]))])


def _transpose(params: Params, shapes: _Shapes, results: _Shapes) -> AxisMaps:
    axes = unmerged(_axes(shapes[0]))
    return AxisMaps([axes], [tuple(axes[d] for d in params["permutation"])])


def _reshape(params: Params, shapes: _Shapes, results: _Shapes) -> AxisMaps | None:
    """An axis of size 0 hides the others."""
    if params.get("dimensions") is not None or 0 in shapes[0] or 0 in results[0]:
        return None
    source, target = view_axes(list(map(_labelled, shapes[0])), list(map(_labelled, results[0])))
    return AxisMaps([source, *[None] * (len(shapes) - 1)], [target])


# -- axes that parameters name -----------------------------------------------------------------------------


def _along(name: str, params: Params, shapes: _Shapes, results: _Shapes) -> AxisMaps:
    """Each result depends on whole axes, whose sizes operands and results may have of their own."""
    named = set(_places(params[name]))
    shared = unmerged(_axes(shapes[0], named))

    def own(shape: Dims) -> Axes:
        return tuple(((_axis(n, Iteration.OTHER),) if d in named else shared[d]) for d, n in enumerate(shape))

    return AxisMaps(list(map(own, shapes)), list(map(own, results)))


def _without(name: str, params: Params, shapes: _Shapes, results: _Shapes) -> AxisMaps:
    """Results do not have the named axes, over which operands are reduced; argmax and argmin need their order."""
    named = set(_places(params[name]))
    axes = unmerged(_axes(shapes[0], named, Iteration.OTHER if "index_dtype" in params else Iteration.SUMMED))
    kept = tuple(group for d, group in enumerate(axes) if d not in named)
    return AxisMaps([axes] * len(shapes), [kept] * len(results))


# -- parts -------------------------------------------------------------------------------------------------


def _part(whole: Dims, part: Dims, is_dense: Sequence[bool] | None = None) -> tuple[Axes, Axes]:
    """The axes of an array and of a part of it: the same ones where the part has all of an axis, whatever its size."""
    all_dense = (True,) * len(whole) if is_dense is None else is_dense
    partial = [d for d, n in enumerate(whole) if n != part[d] or not all_dense[d]]
    axes = unmerged(_axes(whole, partial))
    return axes, tuple((_axis(part[d], Iteration.OTHER),) if d in partial else group for d, group in enumerate(axes))


def _slice(params: Params, shapes: _Shapes, results: _Shapes) -> AxisMaps:
    strides = params["strides"] or (1,) * len(shapes[0])
    axes, taken = _part(shapes[0], results[0], [stride == 1 for stride in strides])
    return AxisMaps([axes], [taken])


def _pad(params: Params, shapes: _Shapes, results: _Shapes) -> AxisMaps:
    padded = [d for d, config in enumerate(params["padding_config"]) if tuple(config) != (0, 0, 0)]
    axes = _axes(shapes[0], padded)
    made = [_axis(n, Iteration.OTHER) if d in padded else axes[d] for d, n in enumerate(results[0])]
    return AxisMaps([unmerged(axes), None], [unmerged(made)])


def _dynamic_slice(params: Params, shapes: _Shapes, results: _Shapes) -> AxisMaps:
    axes, taken = _part(shapes[0], params["slice_sizes"])
    return AxisMaps([axes, *[None] * (len(shapes) - 1)], [taken])


def _dynamic_update_slice(params: Params, shapes: _Shapes, results: _Shapes) -> AxisMaps:
    axes, written = _part(shapes[0], shapes[1])
    return AxisMaps([axes, written, *[None] * (len(shapes) - 2)], [axes])


def _gather(params: Params, shapes: _Shapes, results: _Shapes) -> AxisMaps:
    """A result has the axes of the indices but the last one, and those of the slices."""
    numbers, (whole, indices) = params["dimension_numbers"], shapes
    source, taken = _part(whole, params["slice_sizes"])
    shared = dict(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True))
    rows = unmerged(_axes(indices, [len(indices) - 1]))
    searched = ((_axis(n, Iteration.OTHER),) for n in whole)
    operand = tuple(
        rows[shared[d]] if d in shared else other if d in numbers.collapsed_slice_dims else group
        for d, (group, other) in enumerate(zip(source, searched, strict=True))
    )
    kept = [group for d, group in enumerate(taken) if d not in (*shared, *numbers.collapsed_slice_dims)]
    offset, row = dict(zip(numbers.offset_dims, kept, strict=True)), iter(rows)
    result = tuple(offset[d] if d in offset else next(row) for d in range(len(results[0])))
    return AxisMaps([operand, rows], [result])


# -- products ------------------------------------------------------------------------------------------------


def _dot_general(params: Params, shapes: _Shapes, results: _Shapes) -> AxisMaps:
    (summed, summed_right), (batch, batch_right) = params["dimension_numbers"]
    left = unmerged(_axes(shapes[0], summed, Iteration.SUMMED))
    right = list(unmerged(_axes(shapes[1])))
    for i, j in [*zip(summed, summed_right, strict=True), *zip(batch, batch_right, strict=True)]:
        right[j] = left[i]
    free = [group for d, group in enumerate(left) if d not in (*summed, *batch)]
    columns = [group for d, group in enumerate(right) if d not in (*summed_right, *batch_right)]
    return AxisMaps([left, tuple(right)], [(*(left[d] for d in batch), *free, *columns)])


def _convolution(params: Params, shapes: _Shapes, results: _Shapes) -> AxisMaps | None:
    """The batch is kept, features are summed up; groups of features are not divided."""
    numbers = params["dimension_numbers"]
    if params["batch_group_count"] != 1:
        return None
    is_grouped = params["feature_group_count"] != 1
    lhs, rhs, out = (list(_axes(shape, range(len(shape)))) for shape in (*shapes, *results))
    lhs[numbers.lhs_spec[0]] = out[numbers.out_spec[0]] = _axis(shapes[0][numbers.lhs_spec[0]])
    if not is_grouped:
        rhs[numbers.rhs_spec[0]] = out[numbers.out_spec[1]] = _axis(shapes[1][numbers.rhs_spec[0]])
        summed = _axis(shapes[0][numbers.lhs_spec[1]], Iteration.SUMMED)
        lhs[numbers.lhs_spec[1]] = rhs[numbers.rhs_spec[1]] = summed
    return AxisMaps([unmerged(lhs), unmerged(rhs)], [unmerged(out)])


_RULES: Mapping[str, _Rule] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    "bitcast_convert_type": _bitcast,
    "broadcast_in_dim": _broadcast_in_dim,
    "iota": _iota,
    "transpose": _transpose,
    "reshape": _reshape,
    "squeeze": functools.partial(_without, "dimensions"),
    **dict.fromkeys(("argmax", "argmin", "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_prod", "reduce_sum",
                     "reduce_xor"), functools.partial(_without, "axes")),
    **dict.fromkeys(("cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum", "split"), functools.partial(_along, "axis")),
    **dict.fromkeys(("concatenate", "sort"), functools.partial(_along, "dimension")),
    "rev": functools.partial(_along, "dimensions"),
    "slice": _slice,
    "pad": _pad,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "dot_general": _dot_general,
    "conv_general_dilated": _convolution,
}  # fmt: skip

#: The primitives whose axes are known.
PRIMITIVES = frozenset(_RULES)
