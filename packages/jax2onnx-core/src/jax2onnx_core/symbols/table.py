"""The symbol table of a program: what each symbol is, where it comes from, and whether labels are whole."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from jax2onnx_graph import ir

from jax2onnx_core import _compat
from jax2onnx_core.frontend.inputs import Inputs
from jax2onnx_core.symbols.symbols import SpecializedDim

if TYPE_CHECKING:
    from jax2onnx_core.program.program import OnnxProgram

__all__ = ["METADATA_KEY", "SymbolInfo", "check_labels", "symbol_table", "write_metadata"]

METADATA_KEY = "jax2onnx.symbols"
_NAME = re.compile(r"[A-Za-z_]\w*")
_OPERATIONS = {"floordiv", "mod", "max", "min"}


@dataclasses.dataclass(frozen=True)
class SymbolInfo:
    """One symbol: the least value it can have, the number it was fixed to, and the input dimensions that hold it.

    `origins` are `(input name, axis, expression)`.
    """

    name: str
    minimum: int
    value: int | None
    origins: tuple[tuple[str, int, str], ...]


def symbol_table(inputs: Inputs, values: Mapping[str, int]) -> dict[str, SymbolInfo]:
    """Symbol → what is known of it; `values` are the specialised ones."""
    origins: dict[str, list[tuple[str, int, str]]] = {}
    for name, aval in zip(inputs.names, inputs.avals, strict=True):
        for axis, dim in enumerate(aval.shape):
            if _compat.is_symbolic_dim(dim) or isinstance(dim, SpecializedDim):
                label = inputs.symbols.label(dim)
                for symbol in sorted(_symbols_in(label)):
                    origins.setdefault(symbol, []).append((name, axis, label))
    return {
        symbol: SymbolInfo(symbol, inputs.symbols.minimum(symbol), values.get(symbol), tuple(places))
        for symbol, places in sorted(origins.items())
    }


def write_metadata(model: ir.Model, table: Mapping[str, SymbolInfo], constraints: list[str]) -> None:
    """Keep the symbol table in the model file, for other tools."""
    if table:
        entry = {"symbols": [dataclasses.asdict(info) for info in table.values()], "constraints": constraints}
        model.metadata_props[METADATA_KEY] = json.dumps(entry)


def check_labels(program: OnnxProgram) -> list[str]:
    """Sentences about dimensions without a label, with an unknown one, or that lost theirs; empty if all is well."""
    return list(_problems(program))


def _problems(program: OnnxProgram) -> Iterator[str]:
    known = set(program.symbols)
    graphs = [program.model.graph, *program.model.functions.values()]
    declared = dict(zip(program.output_names, program.traced.out_avals, strict=True))
    for value in _values(graphs):
        if value.shape is None and (value.uses() or value.is_graph_output()) and not _has_a_reason(value):
            yield f"{value.name}: its shape is not known; the rule that emits it should give dims=… to ctx.op."
        for axis, dim in enumerate(value.shape or ()):
            if isinstance(dim, ir.SymbolicDim):
                if dim.value is None:
                    yield f"{value.name}: axis {axis} has no label."
                elif unknown := _symbols_in(dim.value) - known:
                    yield f"{value.name}: axis {axis} is labelled {dim.value!r}; no input has {', '.join(sorted(unknown))}."
    for output in program.model.graph.outputs:
        yield from _lost(program, output, declared[output.name or ""])


def _has_a_reason(value: ir.Value) -> bool:
    """Whether a value has no shape because its size depends on data, or because an operand has none."""
    node = value.producer()
    if node is None:
        return False
    sizes = node.inputs[1] if node.op_type == "Split" and len(node.inputs) > 1 else None
    unknown = any(operand is not None and operand.shape is None for operand in node.inputs)
    return unknown or (sizes is not None and sizes.const_value is None)


def _lost(program: OnnxProgram, value: ir.Value, aval: Any) -> Iterator[str]:
    for axis, (dim, wanted) in enumerate(zip(value.shape or (), aval.shape, strict=False)):
        label = program.inputs.symbols.label(wanted)
        shown = dim.value if isinstance(dim, ir.SymbolicDim) else str(dim)
        if _compat.is_symbolic_dim(wanted) and shown != label:
            yield f"{value.name}: axis {axis} should be {label}, but is {shown}."


def _values(graphs: list[Any]) -> Iterator[ir.Value]:
    for graph in graphs:
        yield from graph.inputs
        for node in ir.traversal.RecursiveGraphIterator(graph):
            yield from node.outputs


def _symbols_in(label: str) -> set[str]:
    return set(_NAME.findall(label)) - _OPERATIONS
