"""What a model keeps about itself for those who run or read it: its symbols, its states, and, in memory only, why nodes are there."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence

from jax2onnx_graph._ir import ir

__all__ = [
    "STATES_KEY", "SYMBOLS_KEY", "StatePair", "SymbolInfo", "note_reason", "read_constraints", "read_states", "read_symbols", "reason_of", "write_states",
    "write_symbols",
]  # fmt: skip

SYMBOLS_KEY = "jax2onnx.symbols"
STATES_KEY = "jax2onnx.states"
_REASON = "jax2onnx.reason"


@dataclasses.dataclass(frozen=True)
class SymbolInfo:
    """One symbol: the least value it can have, the number it was fixed to, and the input dimensions that hold it.

    `origins` are `(input name, axis, expression)`.
    """

    name: str
    minimum: int
    value: int | None
    origins: tuple[tuple[str, int, str], ...]


@dataclasses.dataclass(frozen=True)
class StatePair:
    """An input and the output that is its next value; along the axis `grows`, if there is one, it becomes longer."""

    input: str
    output: str
    grows: int | None = None

    def renamed(self, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> StatePair:
        """The pair under other names."""
        return StatePair(inputs[self.input], outputs[self.output], self.grows)


def write_symbols(model: ir.Model, table: Mapping[str, SymbolInfo], constraints: Sequence[str]) -> None:
    """Keep the symbol table and the constraints in the model's metadata, for other tools."""
    if table:
        entry = {"symbols": [dataclasses.asdict(info) for info in table.values()], "constraints": list(constraints)}
        model.metadata_props[SYMBOLS_KEY] = json.dumps(entry)


def read_symbols(model: ir.Model) -> list[SymbolInfo]:
    """The symbols in the metadata of a model; none where it has no table."""
    entries = json.loads(model.metadata_props.get(SYMBOLS_KEY, "{}")).get("symbols", [])
    return [SymbolInfo(**{**entry, "origins": tuple(map(tuple, entry["origins"]))}) for entry in entries]


def read_constraints(model: ir.Model) -> list[str]:
    """What the metadata of a model say that is known of its symbols."""
    return list(json.loads(model.metadata_props.get(SYMBOLS_KEY, "{}")).get("constraints", []))


def write_states(model: ir.Model, pairs: Sequence[StatePair]) -> None:
    """Keep the pairs in the model's metadata, for whoever runs it."""
    if pairs:
        model.metadata_props[STATES_KEY] = json.dumps([dataclasses.asdict(pair) for pair in pairs])


def read_states(model: ir.Model) -> list[StatePair]:
    """The pairs in the metadata of a model; none where it has no states."""
    return [StatePair(**entry) for entry in json.loads(model.metadata_props.get(STATES_KEY, "[]"))]


def note_reason(value: ir.Value, reason: str) -> None:
    """Remember why the node that makes a value was inserted; the file does not hold it."""
    node = value.producer()
    if node is not None:
        node.meta[_REASON] = reason


def reason_of(node: ir.Node) -> str:
    """Why a node was inserted; empty if it stands for something that the function does."""
    reason: str = node.meta.get(_REASON, "")
    return reason
