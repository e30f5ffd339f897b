"""The symbol table of a program: what each symbol is, and where it comes from."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.labels import symbols_in

from jax2onnx_core.jaxprs import Aval, is_symbolic_dim
from jax2onnx_core.symbols.symbols import SpecializedDim, Symbols

__all__ = ["METADATA_KEY", "SymbolInfo", "symbol_table", "write_metadata"]

METADATA_KEY = "jax2onnx.symbols"


@dataclasses.dataclass(frozen=True)
class SymbolInfo:
    """One symbol: the least value it can have, the number it was fixed to, and the input dimensions that hold it.

    `origins` are `(input name, axis, expression)`.
    """

    name: str
    minimum: int
    value: int | None
    origins: tuple[tuple[str, int, str], ...]


def symbol_table(
    names: Sequence[str], avals: Sequence[Aval], symbols: Symbols, values: Mapping[str, int]
) -> dict[str, SymbolInfo]:
    """Symbol → what is known of it, for inputs of these names and avals; `values` are the specialized symbols."""
    origins: dict[str, list[tuple[str, int, str]]] = {}
    for name, aval in zip(names, avals, strict=True):
        for axis, dim in enumerate(aval.shape):
            if is_symbolic_dim(dim) or isinstance(dim, SpecializedDim):
                label = symbols.label(dim)
                for symbol in sorted(symbols_in(label)):
                    origins.setdefault(symbol, []).append((name, axis, label))
    return {
        symbol: SymbolInfo(symbol, symbols.minimum(symbol), values.get(symbol), tuple(places))
        for symbol, places in sorted(origins.items())
    }


def write_metadata(model: ir.Model, table: Mapping[str, SymbolInfo], constraints: list[str]) -> None:
    """Keep the symbol table in the model file, for other tools."""
    if table:
        entry = {"symbols": [dataclasses.asdict(info) for info in table.values()], "constraints": constraints}
        model.metadata_props[METADATA_KEY] = json.dumps(entry)
