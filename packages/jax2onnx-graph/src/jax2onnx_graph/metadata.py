"""Metadata of a model for those who run or read it: symbols, states, layouts, assumptions and, in memory only, the reasons of nodes."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from jax2onnx_graph._ir import ir
from jax2onnx_graph.assumptions import Assumption
from jax2onnx_graph.errors import OptionError, ReadError

__all__ = [
    "ASSUMPTIONS_KEY", "BITS_KEY", "DIMS_KEY", "EXPORTER_KEY", "LAYOUTS_KEY", "STATES_KEY", "SYMBOLS_KEY", "ModelMetadata", "SizeNotes", "StatePair", "SymbolInfo", "is_mended", "note_mended", "note_reason", "note_sizes", "read_assumptions", "read_constraints", "read_exporter", "read_layouts", "read_states", "read_symbols", "reason_of", "size_notes", "write_assumptions", "write_exporter", "write_layouts", "write_states", "write_symbols",
]  # fmt: skip

T = TypeVar("T")

EXPORTER_KEY = "jax2onnx.exporter"
SYMBOLS_KEY = "jax2onnx.symbols"
STATES_KEY = "jax2onnx.states"
LAYOUTS_KEY = "jax2onnx.layouts"
ASSUMPTIONS_KEY = "jax2onnx.assumptions"
BITS_KEY = "jax2onnx.bits"
#: The metadata of a value whose dimensions were specialized: the expressions that they were.
DIMS_KEY = "jax2onnx.dims"
_REASON = "jax2onnx.reason"
_SIZES = "jax2onnx.sizes"
_MENDED = "jax2onnx.mended"
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


@dataclasses.dataclass(frozen=True)
class SymbolInfo:
    """One symbol: the least value it can have, the number it was fixed to, and the input dimensions that hold it.

    `origins` are `(input name, axis, expression)`. A symbol that no input has comes from data: `source` is the operation that gives its
    size, with its line, and `maximum` the largest size, an expression of other symbols, if one is known.
    """

    name: str
    minimum: int
    value: int | None
    origins: tuple[tuple[str, int, str], ...]
    source: str | None = None
    maximum: str | None = None

    def entry(self) -> dict[str, object]:
        """The fields that a file keeps."""
        fields = dataclasses.asdict(self)
        return {key: value for key, value in fields.items() if key not in ("source", "maximum") or value is not None}


@dataclasses.dataclass(frozen=True)
class SizeNotes:
    """The labels of dimensions of a model that are never 0.

    Attributes:
      positive: label of a dimension → whether it is at least 1 for all values of its symbols.
    """

    positive: Mapping[str, bool]

    def may_be_zero(self, dim: int | ir.SymbolicDim) -> bool:
        """Whether a dimension may be 0; in a model of which nothing is noted, only the number 0 may.

        A label that is not noted, since a pass made it, may be 0 if a symbol in it may, or if something is taken off.
        """
        if isinstance(dim, int):
            return dim == 0
        if self._all_are_positive:
            return False
        label = dim.value
        if label is None or label in self.positive:
            return label is None or not self.positive[label]
        symbols = _IDENTIFIER.findall(label)
        return "-" in label or "floordiv" in label or not all(self.positive.get(name, False) for name in symbols)

    @functools.cached_property
    def _all_are_positive(self) -> bool:
        return all(self.positive.values())


@dataclasses.dataclass(frozen=True)
class StatePair:
    """A state: an input, the output that is its next value, and the axis along which it grows, if it does."""

    input: str
    output: str
    grows: int | None = None

    def renamed(self, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> StatePair:
        """The pair under other names."""
        return StatePair(inputs[self.input], outputs[self.output], self.grows)


@dataclasses.dataclass(frozen=True)
class ModelMetadata:
    """The fields by which a model file describes itself; those that are None stay as they are.

    Args:
      name: the name of the graph.
      version: the version of the model, a number.
      doc_string: a text for people.
      domain: who the model is by, as a reversed domain name: "org.example".
      producer_version: the version of what made the file.
      properties: further entries, name → text.
    """

    name: str | None = None
    version: int | None = None
    doc_string: str | None = None
    domain: str | None = None
    producer_version: str | None = None
    properties: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        texts = {key: value for key, value in vars(self).items() if key not in ("version", "properties")}
        for key, value in texts.items():
            if not isinstance(value, str | None):
                raise OptionError(f"metadata: {key} is a text, not {value!r}.")
        if self.name == "":
            raise OptionError("metadata: the name of a graph is not empty.")
        if not isinstance(self.version, int | None) or not 0 <= (self.version or 0) < 2**63:
            raise OptionError(f"metadata: version is a number from 0 to 2**63 - 1, not {self.version!r}.")
        for key, value in self.properties.items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise OptionError(f"metadata: properties are texts, not {key!r}: {value!r}.")
            if key.startswith("jax2onnx."):
                raise OptionError(f"metadata: {key!r} is written by the export; choose another name.")

    def write(self, model: ir.Model) -> None:
        """Write these fields into a model."""
        model.graph.name = model.graph.name if self.name is None else self.name
        model.model_version = model.model_version if self.version is None else self.version
        model.doc_string = model.doc_string if self.doc_string is None else self.doc_string
        model.domain = model.domain if self.domain is None else self.domain
        model.producer_version = model.producer_version if self.producer_version is None else self.producer_version
        model.metadata_props.update(self.properties)


def write_exporter(model: ir.Model, versions: Mapping[str, str]) -> None:
    """Keep in the model's metadata which distributions of which versions wrote it.

    Args:
      model: the model; its producer has the version of the first one.
      versions: distribution → version.
    """
    model.producer_version = next(iter(versions.values()))
    model.metadata_props[EXPORTER_KEY] = json.dumps(versions)


def read_exporter(model: ir.Model) -> dict[str, str]:
    """The distributions, with their versions, that wrote a model; none where its metadata does not say."""
    return _read(model, EXPORTER_KEY, "{}", lambda table: dict(zip(table, _texts(table.values()), strict=True)))


def write_symbols(model: ir.Model, table: Mapping[str, SymbolInfo], constraints: Sequence[str]) -> None:
    """Keep the symbols of a model in its metadata, for other tools.

    Args:
      model: the model; nothing is written where the table is empty.
      table: symbol → what is known of it.
      constraints: comparisons that hold for the symbols: "T >= 2".
    """
    if table:
        entry = {"symbols": [info.entry() for info in table.values()], "constraints": list(constraints)}
        model.metadata_props[SYMBOLS_KEY] = json.dumps(entry)


def read_symbols(model: ir.Model) -> list[SymbolInfo]:
    """The symbols in the metadata of a model; none where it has no table. Raises ReadError for other metadata than ours."""

    def symbols(table: Mapping[str, list[dict[str, Iterable[Sequence[object]]]]]) -> list[SymbolInfo]:
        entries = table.get("symbols", [])
        return [SymbolInfo(**{**entry, "origins": tuple(map(tuple, entry["origins"]))}) for entry in entries]  # type: ignore[arg-type]

    return _read(model, SYMBOLS_KEY, "{}", symbols)


def read_constraints(model: ir.Model) -> list[str]:
    """The constraints on symbols in the metadata of a model: comparisons such as "T >= 2"; none where it has no table."""
    return _read(model, SYMBOLS_KEY, "{}", lambda table: _texts(table.get("constraints", [])))


def write_states(model: ir.Model, pairs: Sequence[StatePair]) -> None:
    """Keep the pairs in the model's metadata, for whoever runs it."""
    if pairs:
        model.metadata_props[STATES_KEY] = json.dumps([dataclasses.asdict(pair) for pair in pairs])


def read_states(model: ir.Model) -> list[StatePair]:
    """The pairs in the metadata of a model; none where it has no states."""
    inputs, outputs = ({value.name for value in values} for values in (model.graph.inputs, model.graph.outputs))

    def pairs(entries: Iterable[dict[str, object]]) -> list[StatePair]:
        found = [StatePair(**entry) for entry in entries]  # type: ignore[arg-type]
        if others := [pair for pair in found if pair.input not in inputs or pair.output not in outputs]:
            raise ValueError(f"the model has no input {others[0].input!r} or no output {others[0].output!r}")
        return found

    return _read(model, STATES_KEY, "[]", pairs)


def write_layouts(model: ir.Model, layouts: Mapping[str, str]) -> None:
    """Keep in the model's metadata the inputs and outputs whose axes have another order than the function's: "NHWC->NCHW"."""
    if layouts:
        model.metadata_props[LAYOUTS_KEY] = json.dumps(layouts)


def read_layouts(model: ir.Model) -> dict[str, str]:
    """The layouts in the metadata of a model, by the names of inputs and outputs: `NHWC->NCHW`."""
    return _read(model, LAYOUTS_KEY, "{}", lambda table: dict(zip(table, _texts(table.values()), strict=True)))


def _read(model: ir.Model, key: str, absent: str, make: Callable[..., T]) -> T:
    """Read the entry that an export wrote into the metadata under a key; `absent` stands for an entry that is not there.

    Raises:
      ReadError: something else is there.
    """
    try:
        return make(json.loads(model.metadata_props.get(key, absent)))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ReadError(
            f"The entry {key!r} in the model's metadata is not what an export writes there ({type(error).__name__}: {error}). Export "
            "the model anew, or remove the entry."
        ) from error


def _texts(values: Iterable[str]) -> list[str]:
    texts = list(values)
    if others := [value for value in texts if not isinstance(value, str)]:
        raise TypeError(f"{others[0]!r:.80} is no text")
    return texts


def write_assumptions(model: ir.Model, assumptions: Iterable[Assumption]) -> None:
    """Keep in the model's metadata under which promises of the user it was made."""
    if names := sorted(assumption.value for assumption in assumptions):
        model.metadata_props[ASSUMPTIONS_KEY] = json.dumps(names)


def read_assumptions(model: ir.Model) -> list[str]:
    """The promises in the metadata of a model under which it was made, such as "finite"; none where it was made without."""
    return _read(model, ASSUMPTIONS_KEY, "[]", _texts)


def note_sizes(model: ir.Model, positive: Mapping[str, bool]) -> None:
    """Note which labels of dimensions are at least 1; it is not written to the file."""
    model.meta[_SIZES] = SizeNotes(dict(positive))


def size_notes(model: ir.Model) -> SizeNotes:
    """The notes of a model about its dimensions; empty ones where none were made."""
    notes: SizeNotes = model.meta.get(_SIZES, SizeNotes({}))
    return notes


def note_mended(node: ir.Node, what: str) -> None:
    """Record that a pass has mended a node, so that it is not mended again; it is not written to the file."""
    node.meta[_MENDED] = {*node.meta.get(_MENDED, ()), what}


def is_mended(node: ir.Node, what: str) -> bool:
    """Whether a pass has mended a node."""
    return what in node.meta.get(_MENDED, ())


def note_reason(value: ir.Value, reason: str) -> None:
    """Record the reason why the node that makes a value was inserted; it is not written to the file."""
    node = value.producer()
    if node is not None:
        node.meta[_REASON] = reason


def reason_of(node: ir.Node) -> str:
    """The reason why a node was inserted; empty for one that stands for something that the function does."""
    reason: str = node.meta.get(_REASON, "")
    return reason
