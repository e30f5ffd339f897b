"""Operators of `onnx.reference` with the parts of the standard that it lacks: their names are those of the operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from jax2onnx_graph.arrays import Array
from onnx import TypeProto
from onnx.helper import tensor_dtype_to_np_dtype
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_pad import Pad_18

__all__ = ["OPERATORS", "SINCE"]

#: The opset since which their operators are as these classes take them.
SINCE = 18

#: Values around an operator, by name.
Context: TypeAlias = Mapping[str, Array] | None

_OF_A_BODY = ("attributes", "bindings")


class Pad(Pad_18):
    """Pad; negative amounts remove elements."""

    def _run(
        self,
        data: Array,
        pads: Array,
        constant_value: Array | None = None,
        axes: Sequence[int] | None = None,
        mode: str | None = None,
    ) -> tuple[Array]:
        (padded,) = super()._run(data, np.maximum(pads, 0), constant_value, axes, mode)  # type: ignore[no-untyped-call]
        before, after = np.split(np.maximum(np.negative(pads), 0), 2)
        kept = [slice(None)] * data.ndim
        for axis, low, high in zip(range(data.ndim) if axes is None else axes, before, after, strict=True):
            kept[axis] = slice(low, padded.shape[axis] - high)
        return (padded[tuple(kept)],)


class _WithBody(OpRun):
    """An operator that computes a body again and again."""

    body: ReferenceEvaluator
    _run_body: Callable[..., list[Array]]

    def need_context(self) -> bool:
        """The body may read values from around the operator."""
        return True

    def _results(self, context: Context, values: Sequence[Array], options: Mapping[str, object]) -> list[Array]:
        """The results of the body for its inputs."""
        given = dict(zip(self.body.input_names, values, strict=True))
        passed = {name: value for name, value in options.items() if name in _OF_A_BODY}
        return list(self._run_body({**(context or {}), **given}, **passed))

    def _stacked(self, rows: Sequence[Sequence[Array]], first: int) -> list[Array]:
        """The outputs of all iterations from output `first` of the body on, each stacked along a new first axis."""
        if rows:
            return [np.stack(column) for column in zip(*rows, strict=True)]
        return [_without_rows(type_of) for type_of in self.body.output_types[first:]]


def _without_rows(row: TypeProto) -> Array:
    """No rows of a type; an axis of unknown size has no elements."""
    sizes = [dim.dim_value for dim in row.tensor_type.shape.dim]
    return np.empty((0, *sizes), tensor_dtype_to_np_dtype(row.tensor_type.elem_type))


class Loop(_WithBody):
    """Loop; its results are stacked whatever their rank is, also where there is no iteration, and the condition may be absent."""

    def _run(
        self,
        limit: Array | None,
        condition: Array | None,
        *states: Array,
        context: Context = None,
        **options: object,
    ) -> tuple[Array, ...]:
        values, rows, count = list(states), list[list[Array]](), len(states)
        goes_on = condition is None or bool(condition)
        while goes_on and (limit is None or len(rows) < limit):
            inputs = [np.array(len(rows), np.int64), np.array(True), *values]
            again, *results = self._results(context, inputs, options)
            goes_on, values = bool(again), results[:count]
            rows.append(results[count:])
        return self._check_and_fix_outputs((*values, *self._stacked(rows, 1 + count)))


class Scan(_WithBody):
    """Scan; along any axis, in both directions, and over nothing."""

    num_scan_inputs: int
    scan_input_axes: Sequence[int] | None
    scan_input_directions: Sequence[int] | None
    scan_output_axes: Sequence[int] | None
    scan_output_directions: Sequence[int] | None

    def _run(self, *operands: Array, context: Context = None, **options: object) -> tuple[Array, ...]:
        count = len(operands) - self.num_scan_inputs
        values, rows = list(operands[:count]), list[list[Array]]()
        xs = [
            np.moveaxis(x, axis, 0)[:: -1 if backwards else 1]
            for x, axis, backwards in zip(
                operands[count:],
                self.scan_input_axes or [0] * self.num_scan_inputs,
                self.scan_input_directions or [0] * self.num_scan_inputs,
                strict=True,
            )
        ]
        for elements in zip(*xs, strict=True):
            results = self._results(context, [*values, *elements], options)
            values = results[:count]
            rows.append(results[count:])
        stacks = self._stacked(rows, count)
        axes, directions = self.scan_output_axes or [0] * len(stacks), self.scan_output_directions or [0] * len(stacks)
        laid = [
            np.moveaxis(y[:: -1 if backwards else 1], 0, axis)
            for y, axis, backwards in zip(stacks, axes, directions, strict=True)
        ]
        return self._check_and_fix_outputs((*values, *laid))


OPERATORS: Sequence[type[OpRun]] = (Pad, Loop, Scan)
"""The operators, for `onnx.reference.ReferenceEvaluator(new_ops=…)`."""
