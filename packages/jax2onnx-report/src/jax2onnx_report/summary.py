"""`summarize`: what a model of any producer consists of, as data that can be shown, compared and kept."""

from __future__ import annotations

import collections
import dataclasses
import math
import sys
from collections.abc import Iterator, Mapping, Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.assumptions import Assumption
from jax2onnx_graph.facts.dtypes import type_name
from jax2onnx_graph.facts.type_text import tensor_type_text, type_text
from jax2onnx_graph.labels import LabelCount, count_labels
from jax2onnx_graph.metadata import (
    ASSUMPTIONS_KEY,
    BITS_KEY,
    STATES_KEY,
    SYMBOLS_KEY,
    StatePair,
    SymbolInfo,
    read_assumptions,
    read_constraints,
    read_states,
    read_symbols,
)
from jax2onnx_graph.traversal import all_graphs, all_nodes, given_inputs

__all__ = [
    "ModelSummary", "ValueSummary", "WeightSummary", "bytes_text", "counted", "external_files", "interface_rows", "labels_text", "operators", "state_text", "summarize", "summary_lines",
    "symbol_text", "title_text", "weight_tensors" ]  # fmt: skip

# How many rows of a kind a summary of a few lines has.
_FEW = 8

_ASSUMED = {Assumption.FINITE.value: "no number is NaN or infinite, but for masks; results for others are left open"}


@dataclasses.dataclass(frozen=True)
class ValueSummary:
    """An input or an output.

    Attributes:
      name: that of the value.
      dtype: the element type in NumPy's words; that of the elements of a sequence, empty if the model does not say.
      dims: a number, a label or None (nothing is known) for each dimension; None if not even their number is known.
      type: all of it as text: "float32[batch, 10]".
    """

    name: str
    dtype: str
    dims: tuple[int | str | None, ...] | None
    type: str


@dataclasses.dataclass(frozen=True)
class WeightSummary:
    """A constant tensor in a model.

    Attributes:
      name: that of the value that holds it.
      dtype: the element type in NumPy's words.
      shape: the sizes of its axes.
      type: both as text: "float32[3, 4]".
      bytes: what it takes in a file.
      file: the name of the data file that holds it, empty if the model itself does.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    type: str
    bytes: int
    file: str


@dataclasses.dataclass(frozen=True)
class ModelSummary:
    """A model.

    Attributes:
      name: that of its graph.
      producer, producer_version: what wrote it.
      ir_version: the version of the file format.
      opsets: domain → version; "" is the domain of the standard operators.
      inputs, outputs: those of the graph.
      symbols, constraints: what its metadata tell of symbolic dimensions, if its producer was this project.
      labels: how many symbolic dimensions its values have, and how many of these use the symbols of its inputs.
      states: inputs that come back as outputs, likewise.
      assumptions: the promises of the user under which it was made, likewise: "finite".
      operators: how often each occurs, subgraphs and functions included, the most frequent first.
      functions: the name of each function → its number of nodes.
      weights: its constant tensors, the largest first.
      metadata: what else its producer wrote into it.
    """

    name: str
    producer: str
    producer_version: str
    ir_version: int
    opsets: Mapping[str, int]
    inputs: tuple[ValueSummary, ...]
    outputs: tuple[ValueSummary, ...]
    symbols: tuple[SymbolInfo, ...]
    constraints: tuple[str, ...]
    labels: LabelCount
    states: tuple[StatePair, ...]
    assumptions: tuple[str, ...]
    operators: Mapping[str, int]
    functions: Mapping[str, int]
    weights: tuple[WeightSummary, ...]
    metadata: Mapping[str, str]

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return sum(self.operators.values())

    @property
    def parameters(self) -> int:
        """Number of elements of all weights."""
        return sum(math.prod(weight.shape) for weight in self.weights)

    @property
    def weight_bytes(self) -> int:
        """The bytes of all weights."""
        return sum(weight.bytes for weight in self.weights)

    def as_dict(self) -> dict[str, object]:
        """The summary in dicts, lists, strings and numbers, as JSON has them."""
        return {
            **dataclasses.asdict(self),
            "nodes": self.nodes,
            "parameters": self.parameters,
            "weight_bytes": self.weight_bytes,
        }

    def __str__(self) -> str:
        return "\n".join(["ONNX model " + title_text(self), *summary_lines(self)])


def summarize(model: ir.Model) -> ModelSummary:
    """The summary of a model. Weights in data files are not read."""
    known = {SYMBOLS_KEY, STATES_KEY, ASSUMPTIONS_KEY, BITS_KEY}
    found = [_weight(name, tensor) for name, tensor in weight_tensors(model)]
    found.sort(key=lambda weight: (-weight.bytes, weight.name.startswith("const")))  # those with names first
    return ModelSummary(
        name=model.graph.name or "",
        producer=model.producer_name or "",
        producer_version=model.producer_version or "",
        ir_version=model.ir_version,
        opsets=dict(model.opset_imports),
        inputs=tuple(map(_value, given_inputs(model.graph))),
        outputs=tuple(map(_value, model.graph.outputs)),
        symbols=tuple(read_symbols(model)),
        constraints=tuple(read_constraints(model)),
        labels=count_labels(model),
        states=tuple(read_states(model)),
        assumptions=tuple(read_assumptions(model)),
        operators=dict(operators(model).most_common()),
        functions=_functions(model),
        weights=tuple(found),
        metadata={key: text for key, text in model.metadata_props.items() if key not in known},
    )


def _functions(model: ir.Model) -> dict[str, int]:
    """Number of nodes of each function by its name, with its domain where another one has that name."""
    found: dict[str, int] = {}
    for function in model.functions.values():
        name = function.name if function.name not in found else f"{function.domain}.{function.name}"
        found[name] = sum(len(graph) for graph in (function.graph, *function.graph.subgraphs()))
    return found


def operators(model: ir.Model) -> collections.Counter[str]:
    """Number of nodes of each operator, subgraphs and functions included."""
    return collections.Counter(node.op_type for node in all_nodes(model))


def weight_tensors(model: ir.Model) -> Iterator[tuple[str, ir.TensorProtocol]]:
    """The initializers of all graphs and the tensors of all `Constant` nodes, by their names."""
    for graph in all_graphs(model):
        for name, value in graph.initializers.items():
            if value.const_value is not None:
                yield name, value.const_value
        for node in graph:
            tensor = node.attributes.get("value") if node.op_type == "Constant" else None
            if tensor is not None and tensor.type == ir.AttributeType.TENSOR and not tensor.is_ref():
                yield node.outputs[0].name or "", tensor.as_tensor()


def external_files(summary: ModelSummary) -> dict[str, int]:
    """The data files beside a model → the bytes of its weights there."""
    sizes: collections.Counter[str] = collections.Counter()
    for weight in summary.weights:
        if weight.file:
            sizes[weight.file] += weight.bytes
    return dict(sizes)


def _weight(name: str, tensor: ir.TensorProtocol) -> WeightSummary:
    file = str(tensor.location) if isinstance(tensor, ir.ExternalTensor) else ""
    return WeightSummary(name, type_name(tensor.dtype), _shape(tensor), tensor_type_text(tensor), tensor.nbytes, file)


def _shape(tensor: ir.TensorProtocol) -> tuple[int, ...]:
    return tuple(map(int, tensor.shape.numpy()))


def _value(value: ir.Value) -> ValueSummary:
    dims = None if value.shape is None else tuple(d.value if isinstance(d, ir.SymbolicDim) else d for d in value.shape)
    inner = value.type
    while isinstance(inner, ir.SequenceType | ir.OptionalType):
        inner = inner.elem_type
    dtype = type_name(inner.dtype) if isinstance(inner, ir.TensorType | ir.SparseTensorType) else ""
    return ValueSummary(value.name or "", dtype, dims, type_text(value))


# -- text ---------------------------------------------------------------------------------------


def title_text(summary: ModelSummary) -> str:
    """Name and versions."""
    opsets = sorted(summary.opsets.items())
    versions = ", ".join(f"opset {number}" if not domain else f"{domain} {number}" for domain, number in opsets)
    return ", ".join(part for part in (summary.name, versions, f"IR version {summary.ir_version}") if part)


def summary_lines(summary: ModelSummary, *, everything: bool = False) -> Iterator[str]:
    """A table: inputs, outputs, symbols and states, the largest weights, the most frequent operators.

    Of each, the first few, or `everything`; the weights are too many for that.
    """
    limit = sys.maxsize if everything else _FEW
    sections = {
        **interface_rows(summary),
        "assumes": [(name, assumption_text(name)) for name in summary.assumptions],
        "function": [(name, counted(count, "node")) for name, count in summary.functions.items()],
    }
    for title, rows in sections.items():
        yield from _rows(title, rows, limit)
    yield _row("weights", _weights_text(summary))
    for name, size in external_files(summary).items():
        yield _row("data", f"{name}, {bytes_text(size)} of the weights")
    frequent = [f"{name} {count}" for name, count in summary.operators.items()]
    yield _row("nodes", f"{summary.nodes}: {_few(frequent, limit)}" if frequent else "none")


def interface_rows(summary: ModelSummary) -> dict[str, list[tuple[str, str]]]:
    """The rows about inputs, outputs, symbols, constraints, labels and states: kind → pairs of a name and a text."""
    return {
        "input": [(value.name, value.type) for value in summary.inputs],
        "output": [(value.name, value.type) for value in summary.outputs],
        "symbol": [(symbol.name, symbol_text(symbol)) for symbol in summary.symbols],
        "constraint": [(text, "") for text in summary.constraints],
        "labelled": [(labels_text(summary.labels), "")] if summary.symbols and summary.labels.symbolic else [],
        "state": [(pair.input, state_text(pair)) for pair in summary.states],
    }


def _weights_text(summary: ModelSummary) -> str:
    count, size = len(summary.weights), bytes_text(summary.weight_bytes)
    named = [f"{weight.name} {bytes_text(weight.bytes)}" for weight in summary.weights if math.prod(weight.shape) > 1]
    largest = f": {_few(named, _FEW // 2)}" if named else ""
    return f"{size} in {counted(count, 'tensor')}{largest}" if count else "none"


def symbol_text(symbol: SymbolInfo) -> str:
    """The facts about a symbol, and where its value comes from."""
    places = ", ".join(
        f"{name} axis {axis}" + (f" ({shown})" if shown != symbol.name else "") for name, axis, shown in symbol.origins
    )
    value = f"at least {symbol.minimum}" if symbol.value is None else f"fixed to {symbol.value}"
    if symbol.source is not None:
        most = "" if symbol.maximum is None else f", at most {symbol.maximum}"
        return f"{value}{most}, from {symbol.source}"
    return f"{value}, from {places}"


def labels_text(labels: LabelCount) -> str:
    """Numbers of labelled and of all symbolic dimensions as text; the percentage is 100 only if all are labelled.

    >>> labels_text(LabelCount(symbolic=1001, labelled=1000))
    '1,000 of 1,001 symbolic dimensions (99 %)'
    """
    percent = 100 * labels.labelled // labels.symbolic if labels.symbolic else 100
    return f"{labels.labelled:,} of {labels.symbolic:,} symbolic dimensions ({percent} %)"


def state_text(pair: StatePair) -> str:
    """One line that says how a state is returned."""
    return f"comes back as {pair.output}" + ("" if pair.grows is None else f", grows along axis {pair.grows}")


def assumption_text(name: str) -> str:
    """One line that says what an assumption means; empty for one that only another version of this project knows."""
    return _ASSUMED.get(name, "")


def _rows(title: str, rows: Sequence[tuple[str, str]], limit: int) -> Iterator[str]:
    width = max((len(name) for name, _ in rows[:limit]), default=0)
    for i, (name, text) in enumerate(rows[:limit]):
        yield _row(title if not i else "", f"{name:{width}}  {text}".rstrip())
    if len(rows) > limit:
        yield _row("", f"… {len(rows) - limit} more")


def _row(title: str, text: str) -> str:
    return f"  {title:10} {text}"


def _few(texts: Sequence[str], limit: int) -> str:
    return ", ".join([*texts[:limit], *([f"… {len(texts) - limit} more"] if len(texts) > limit else [])])


def counted(count: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "node"), counted(2, "node")
    ('1 node', '2 nodes')
    """
    return f"{count} {noun}{'s' * (count != 1)}"


def bytes_text(count: int) -> str:
    """A number of bytes for people.

    >>> bytes_text(999), bytes_text(53_000), bytes_text(1_234_567)
    ('999 B', '53.0 kB', '1.23 MB')
    """
    if count < 1000:
        return f"{count} B"
    number = float(count)
    for unit in ("kB", "MB", "GB", "TB"):
        number /= 1000
        if number < 999.5 or unit == "TB":
            break
    return f"{number:.3g} {unit}" if number < 10 else f"{number:.1f} {unit}"
