"""Properties of a graph that choose test inputs: sizes at which it may go wrong, and inputs that are indices."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.facts.axes import axis_of
from jax2onnx_graph.facts.operators import facts_of
from jax2onnx_graph.facts.schemas import element_inputs
from jax2onnx_graph.facts.values import known
from jax2onnx_graph.labels import numbers_in, symbols_in
from jax2onnx_graph.traversal import all_graphs, all_nodes, subgraphs

__all__ = ["Extent", "carriers", "critical_sizes", "index_extents"]

#: The size of an axis: a number, or the label of a symbolic dimension.
Extent = int | str

# A larger size costs more than the chance that it matters is worth.
_LARGEST_CRITICAL = 64


def critical_sizes(model: ir.Model) -> dict[str, list[int]]:
    """Symbol → sizes at which something may change: just below, at and just above the numbers that it meets.

    These are the windows that slide over an axis, the constant bounds of slices, and the numbers in expressions. All those
    just below come first, each group in ascending order.
    """
    met: dict[str, set[int]] = collections.defaultdict(set)
    for label, number in _meetings(model):
        for symbol in symbols_in(label):
            met[symbol].add(number)
    return {
        symbol: list(dict.fromkeys(number + by for by in (-1, 0, 1) for number in sorted(numbers)))
        for symbol, numbers in sorted(met.items())
    }


def _meetings(model: ir.Model) -> Iterator[tuple[str, int]]:
    """Labels of axes, and the small numbers that their sizes meet."""
    for graph in all_graphs(model):
        for node in graph:
            for label, number in (*_windows(node), *_bounds(node), *_in_labels(node)):
                if 0 < number <= _LARGEST_CRITICAL:
                    yield label, number


def _windows(node: ir.Node) -> Iterator[tuple[str, int]]:
    """The axes that a window slides over, and how long they must be for it to fit."""
    if not node.inputs or node.inputs[0] is None or node.inputs[0].shape is None:
        return
    axes = node.inputs[0].shape[2:]
    if "kernel_shape" in node.attributes:
        window: Sequence[int] = node.attributes["kernel_shape"].as_ints()
    elif node.op_type == "Conv" and node.inputs[1] is not None and node.inputs[1].shape is not None:
        window = [size for size in node.inputs[1].shape[2:] if isinstance(size, int)]
    else:
        return
    dilations = node.attributes["dilations"].as_ints() if "dilations" in node.attributes else [1] * len(window)
    pads = node.attributes["pads"].as_ints() if "pads" in node.attributes else [0] * 2 * len(window)
    for axis, size, dilation, before, after in zip(axes, window, dilations, pads, pads[len(window) :], strict=False):
        if isinstance(axis, ir.SymbolicDim) and axis.value is not None:
            yield axis.value, (size - 1) * dilation + 1 - before - after


def _bounds(node: ir.Node) -> Iterator[tuple[str, int]]:
    """The symbolic axes that are sliced between constant bounds, and these bounds."""
    if node.op_type != "Slice" or node.inputs[0] is None or node.inputs[0].shape is None:
        return
    numbers = {abs(int(x)) for bounds in map(known, node.inputs[1:3]) if bounds is not None for x in bounds.reshape(-1)}
    for label in _labels(node.inputs[0]):
        yield from ((label, number) for number in numbers)


def _in_labels(node: ir.Node) -> Iterator[tuple[str, int]]:
    for value in node.outputs:
        yield from ((label, number) for label in _labels(value) for number in numbers_in(label))


def _labels(value: ir.Value) -> Iterator[str]:
    return (d.value for d in value.shape or () if isinstance(d, ir.SymbolicDim) and d.value is not None)


def index_extents(model: ir.Model, *, adding: bool = False) -> dict[str, list[Extent]]:
    """Input → the extents of the axes that its numbers index; inputs without any are left out.

    Args:
      model: the model.
      adding: whether numbers that others are added to, at which slices begin, or that are compared with 0, 1, … for a one-hot row index
        them, too, as a first position does. An extent is one more than the largest such number.
    """
    found: dict[str, list[Extent]] = {}
    starts = _sliced(model) if adding else {}
    for value in model.graph.inputs:
        assert value.name is not None, "the inputs of a finished model have names"
        least = _least_sums(model, value, adding=adding)
        extents = [
            _before(extent, by)
            for carrier, by in least.items()
            for extent in (*_indexed(carrier), *starts.get(carrier, ()), *(_compared(carrier) if adding else ()))
        ]
        if kept := [e for e in dict.fromkeys(extents) if e is not None]:
            found[value.name] = kept
    return found


def _before(extent: Extent, added: int) -> Extent | None:
    """The extent for numbers to which a number is added, before that; None if there is none left, or that is not known."""
    if not added or isinstance(extent, str):
        return None if added else extent
    return extent - added if extent > added else None


def carriers(model: ir.Model, start: ir.Value) -> list[ir.Value]:
    """The values whose elements are elements of `start`, by way of subgraphs and functions, too, itself first."""
    return list(_least_sums(model, start, adding=False))


def _least_sums(model: ir.Model, start: ir.Value, *, adding: bool) -> dict[ir.Value, int]:
    """The values whose elements are elements of `start`, itself first, and the least number that is added to these for one.

    Args:
      model: the model.
      start: the value.
      adding: whether sums of its elements and others are such values, too. Of others than constants, none is counted: they begin with 0,
        as the steps behind a first position do.
    """
    found = {start: 0}
    pending = [start]
    while pending:
        source = pending.pop()
        for node, place in source.uses():
            sums = node.outputs if adding and node.op_type == "Add" and not node.domain else ()
            by = found[source] + (_added(node.inputs[1 - place]) if sums else 0)
            for value in (*_passed_on(model, node, place), *sums):
                # Of a number and the same from the end, which a Where chooses from, the first counts.
                if value not in found or by < found[value]:
                    found[value] = by
                    pending.append(value)
    return found


def _added(value: ir.Value | None) -> int:
    """The largest number of a constant; 0 for another value."""
    array = known(value)
    return 0 if array is None or not array.size else int(array.max())


def _passed_on(model: ir.Model, node: ir.Node, place: int) -> Sequence[ir.Value]:
    """The values that get elements of the operand at `place`."""
    if node.op_identifier() in model.functions:
        return [model.functions[node.op_identifier()].inputs[place]]
    inner = [graph.inputs[place] for graph in subgraphs(node) if place < len(graph.inputs)]
    held = (
        []
        if node.domain
        else [place in element_inputs(node.op_type, len(node.inputs), i) for i in range(len(node.outputs))]
    )
    return [*inner, *(output for output, holds in zip(node.outputs, held, strict=False) if holds)]


def _compared(value: ir.Value) -> Iterator[int]:
    """How many numbers 0, 1, … a value is compared with, where these are several."""
    for node, place in value.uses():
        numbers = known(node.inputs[1 - place]) if node.op_type == "Equal" and not node.domain else None
        if numbers is not None and numbers.size > 1 and (numbers.reshape(-1) == np.arange(numbers.size)).all():
            yield numbers.size


def _sliced(model: ir.Model) -> dict[ir.Value, list[Extent]]:
    """The values at which slices begin, and how many beginnings there are in the axis of each."""
    found: dict[ir.Value, list[Extent]] = collections.defaultdict(list)
    for node in all_nodes(model):
        sizes = _sizes(node.inputs[0]) if node.op_type == "Slice" and not node.domain else None
        axes = known(node.inputs[3]) if sizes and len(node.inputs) == 4 else None
        if sizes is None or axes is None:
            continue
        starts, lengths = node.inputs[1], _sizes(node.outputs[0]) or sizes
        joined = starts.producer() if starts is not None and len(axes) > 1 else None
        of_axes = [starts] if joined is None else joined.inputs if joined.op_type == "Concat" else []
        for start, axis in zip(of_axes, axes.tolist(), strict=True) if len(of_axes) == len(axes) else ():
            size, length = sizes[axis], lengths[axis]
            if start is not None and size is not None:
                found[start].append(size - length + 1 if isinstance(size, int) and isinstance(length, int) else size)
    return found


def _sizes(value: ir.Value | None) -> list[Extent | None] | None:
    """The sizes of a value, numbers or labels; None where its rank is not known."""
    if value is None or value.shape is None:
        return None
    return [dim.value if isinstance(dim, ir.SymbolicDim) else dim for dim in value.shape]


def _indexed(indices: ir.Value) -> Iterator[Extent]:
    """The extents of the axes that a value indexes."""
    for node, place in indices.uses():
        if node.domain or facts_of(node.op_type).indices_input != place:
            continue
        if node.op_type == "OneHot":
            depth = known(node.inputs[1])
            yield from () if depth is None else map(int, depth.reshape(-1))
        elif (sizes := _sizes(node.inputs[0])) is not None:
            yield from (size for size in _axes_indexed(node, indices, sizes) if size is not None)


def _axes_indexed(node: ir.Node, indices: ir.Value, sizes: Sequence[Extent | None]) -> Sequence[Extent | None]:
    if not node.op_type.endswith("ND"):
        return [sizes[axis_of(node, len(sizes))]]
    batched = node.attributes["batch_dims"].as_int() if "batch_dims" in node.attributes else 0
    depth = None if indices.shape is None else indices.shape[-1]
    return sizes[batched:] if not isinstance(depth, int) else sizes[batched : batched + depth]
