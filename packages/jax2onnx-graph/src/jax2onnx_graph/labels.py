"""Labels, the names of symbolic dimensions that a model shows: checking them, reading them, and the table of symbols."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.dims import OPERATIONS
from jax2onnx_graph.facts.expressions import evaluate
from jax2onnx_graph.metadata import DIMS_KEY, SYMBOLS_KEY, SymbolInfo, read_symbols, write_symbols
from jax2onnx_graph.traversal import all_values, given_inputs, is_value_read, subgraphs

__all__ = [
    "LabelCount", "check_labels", "count_labels", "describe_symbols", "fixed_labels", "numbers_in", "symbol_table", "symbols_in",
]  # fmt: skip

_NAME = re.compile(r"[A-Za-z_]\w*")
_NUMBER = re.compile(r"\b\d+\b")


def symbol_table(
    labels: Mapping[str, Sequence[str | None]], minimum: Callable[[str], int], values: Mapping[str, int]
) -> dict[str, SymbolInfo]:
    """The table of the symbols in the labels of inputs: symbol → its least value, its number if it was fixed, and its axes.

    Args:
      labels: for each input, the labels of its dimensions, None for numbers that were never symbolic.
      minimum: the least value that a symbol can have.
      values: the numbers that symbols were fixed to.
    """
    origins: dict[str, list[tuple[str, int, str]]] = {}
    for name, shown in labels.items():
        for axis, label in enumerate(shown):
            for symbol in sorted(symbols_in(label or "")):
                origins.setdefault(symbol, []).append((name, axis, label or ""))
    return {
        symbol: SymbolInfo(symbol, minimum(symbol), values.get(symbol), tuple(places))
        for symbol, places in sorted(origins.items())
    }


def describe_symbols(model: ir.Model, known: Mapping[str, SymbolInfo], constraints: Iterable[str]) -> None:
    """Write into the metadata of a part of a model, or of its copy with other inputs, what is known of its symbols.

    Args:
      model: the part; only symbols of its inputs are described.
      known: what is known of symbols.
      constraints: comparisons that hold for symbols; those of other symbols than the described ones are left out.
    """
    labels = {
        str(value.name): [dim.value if isinstance(dim, ir.SymbolicDim) else None for dim in value.shape or ()]
        for value in model.graph.inputs
    }
    table = symbol_table(
        labels, lambda name: known[name].minimum if name in known else 0,
        {name: info.value for name, info in known.items() if info.value is not None},
    )  # fmt: skip
    model.metadata_props.pop(SYMBOLS_KEY, None)
    write_symbols(model, table, [text for text in constraints if symbols_in(text) <= table.keys()])


def check_labels(
    model: ir.Model, known: Mapping[str, SymbolInfo], outputs: Sequence[Sequence[str | None]]
) -> list[str]:
    """Sentences about dimensions without a label, with an unknown one, or that lost theirs; empty if all is well.

    The label of a dimension that was fixed to a number is in the metadata of its value.

    Args:
      model: the exported model.
      known: the symbols that inputs have.
      outputs: for each output, the labels that its dimensions should have, None for numbers that were never symbolic.
    """
    numbers = {name: info.value for name, info in known.items() if info.value is not None}
    return [
        *_unexplained(model, known),
        *_conflated(model, known, numbers),
        *_lost(model, _expected(model, known, outputs)),
    ]


@dataclasses.dataclass(frozen=True)
class LabelCount:
    """Counts of the dimensions of a model that are no numbers, and of those that use the symbols of its inputs.

    Attributes:
      symbolic: the number of dimensions that are no numbers; each value whose shape is not known counts as one.
      labelled: the number of these whose label consists of symbols of inputs.
    """

    symbolic: int
    labelled: int

    @property
    def share(self) -> float:
        """The share of labelled dimensions, from 0 to 1; 1 where there is no symbolic dimension."""
        return self.labelled / self.symbolic if self.symbolic else 1.0


def count_labels(model: ir.Model) -> LabelCount:
    """Count the labelled dimensions of all values of a model but constants, those in subgraphs and functions included.

    Every name that a dimension of an input has is a symbol, and so is one that the metadata say comes from data. Any other
    name counts as no label: nothing tells its size. Inputs and outputs of functions are left out, since a file has no shapes of them.
    """
    known = _symbols_of(given_inputs(model.graph))
    known |= {info.name for info in read_symbols(model) if info.source is not None}
    untyped = {value for function in model.functions.values() for value in (*function.inputs, *function.outputs)}

    @functools.cache
    def is_labelled(label: str | None) -> bool:
        return label is not None and symbols_in(label) <= known

    labels: list[str | None] = []
    for value in all_values(model):
        if value in untyped or _is_constant(value):
            continue
        if value.shape is not None:
            labels += _symbolic(value.shape)
        elif is_value_read(value):
            labels.append(None)
    return LabelCount(len(labels), sum(map(is_labelled, labels)))


def _symbols_of(values: Iterable[ir.Value]) -> set[str]:
    labels = [label for value in values for label in _symbolic(value.shape or ())]
    return {symbol for label in labels for symbol in symbols_in(label or "")}


def _symbolic(dims: Iterable[int | ir.SymbolicDim]) -> list[str | None]:
    """The labels of the dimensions that are no numbers."""
    return [dim.value for dim in dims if isinstance(dim, ir.SymbolicDim)]


def _is_constant(value: ir.Value) -> bool:
    node = value.producer()
    return value.const_value is not None if node is None else node.op_type == "Constant"


def _unexplained(model: ir.Model, known: Collection[str]) -> Iterator[str]:
    for value in all_values(model):
        if value.shape is None and is_value_read(value) and not _has_a_reason(value):
            yield f"{value.name}: its shape is not known; the rule that emits it should give dims=… to ctx.op."
        for axis, dim in enumerate(value.shape or ()):
            if isinstance(dim, ir.SymbolicDim):
                if dim.value is None and not _has_a_reason(value):
                    yield f"{value.name}: axis {axis} has no label."
                elif unknown := symbols_in(dim.value or "") - set(known):
                    yield f"{value.name}: axis {axis} is labelled {dim.value!r}; no input has {', '.join(sorted(unknown))}."


def _has_a_reason(value: ir.Value) -> bool:
    """Whether a value has no shape or label because its size depends on data, or because an operand has none.

    A Loop has none for what it stacks if it may end before its first iteration: nothing tells it the shape of a row then.
    """
    node = value.producer()
    if node is None or node.op_type == "Loop":
        return node is not None
    sizes = node.inputs[1] if node.op_type in ("Split", "TopK") and len(node.inputs) > 1 else None
    bodies = [output for graph in subgraphs(node) for output in graph.outputs] if node.op_type == "If" else []
    unknown = any(operand is not None and _is_open(operand) for operand in [*node.inputs, *bodies])
    return unknown or (sizes is not None and sizes.const_value is None)


def _is_open(value: ir.Value) -> bool:
    """Whether a value has no shape, or a dimension without a label."""
    return value.shape is None or any(isinstance(dim, ir.SymbolicDim) and dim.value is None for dim in value.shape)


def _conflated(model: ir.Model, known: Collection[str], numbers: Mapping[str, int]) -> Iterator[str]:
    """Sentences about dimensions that were fixed, whose labels in the metadata are unknown or stand for another number."""
    for value in all_values(model):
        if DIMS_KEY not in value.metadata_props or value.shape is None:
            continue
        labels = fixed_labels(value)
        if len(labels) != len(value.shape):
            yield f"{value.name}: its metadata have labels for {len(labels)} dimensions, but it has {len(value.shape)}."
            continue
        for axis, (dim, label) in enumerate(zip(value.shape, labels, strict=True)):
            if unknown := symbols_in(label) - set(known):
                yield f"{value.name}: axis {axis} was {label!r}; no input has {', '.join(sorted(unknown))}."
            elif isinstance(dim, int) and symbols_in(label) <= numbers.keys() and evaluate(label, numbers) != dim:
                yield f"{value.name}: axis {axis} was {label}, which is {evaluate(label, numbers)}, but has size {dim}."


def _expected(
    model: ir.Model, known: Mapping[str, SymbolInfo], outputs: Sequence[Sequence[str | None]]
) -> Iterator[tuple[ir.Value, int, str]]:
    """The labels that inputs and outputs should have, with the axis."""
    inputs = {value.name: value for value in model.graph.inputs}
    origins = dict.fromkeys(origin for info in known.values() for origin in info.origins)
    yield from ((inputs[name], axis, label) for name, axis, label in origins if name in inputs)
    for value, labels in zip(model.graph.outputs, outputs, strict=True):
        yield from ((value, axis, label) for axis, label in enumerate(labels) if label is not None)


def _lost(model: ir.Model, expected: Iterable[tuple[ir.Value, int, str]]) -> Iterator[str]:
    for value, axis, label in expected:
        if value.shape is None or axis >= len(value.shape):
            continue
        dim, fixed = value.shape[axis], fixed_labels(value)
        shown = dim.value if isinstance(dim, ir.SymbolicDim) else fixed[axis] if axis < len(fixed) else str(dim)
        if shown != label:
            yield f"{value.name}: axis {axis} should be {label}, but is {shown}."


def symbols_in(label: str) -> set[str]:
    """The symbols in the label of a dimension, which may be an expression."""
    return set(_NAME.findall(label)) - OPERATIONS


def numbers_in(label: str) -> set[int]:
    """The numbers in the label of a dimension, which may be an expression."""
    return set(map(int, _NUMBER.findall(label)))


def fixed_labels(value: ir.Value) -> list[str]:
    """The labels in the metadata of a value, of which dimensions were fixed; none where there are none."""
    labels: list[str] = []
    for part in filter(None, value.metadata_props.get(DIMS_KEY, "").split(", ")):
        if labels and labels[-1].count("(") != labels[-1].count(")"):  # a comma inside of a call
            labels[-1] += f", {part}"
        else:
            labels.append(part)
    return labels
