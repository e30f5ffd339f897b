"""`split_model`: a model cut into stages, each a model with the weights that it needs."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.labels import describe_symbols
from jax2onnx_graph.metadata import (
    LAYOUTS_KEY,
    STATES_KEY,
    SYMBOLS_KEY,
    StatePair,
    read_constraints,
    read_layouts,
    read_states,
    read_symbols,
    write_layouts,
    write_states,
)
from jax2onnx_graph.module_names import module_of
from jax2onnx_graph.traversal import given_inputs, walk

__all__ = ["Cut", "split_model"]

#: The number of the first node of a stage, in the order of the graph.
Cut = int


def split_model(model: ir.Model, *, max_bytes: int | None = None, at: Sequence[str] | None = None) -> list[ir.Model]:
    """Cut a model into stages: run one after the other, they compute what the model computes.

    A stage has the names, the symbols and the states of its part, and the weights that its nodes use; a weight that several
    stages use is in each of them. A part whose results nothing needs is no stage.

    Args:
      model: the model, of any producer.
      max_bytes: how many bytes the weights of a stage may take. Cuts are made between modules where that is possible, the
        outer ones first.
      at: the modules that begin a stage: `["blocks.4", "head"]`.

    Raises:
      OptionError: neither or both are given, there is no such module, or one node needs more bytes.
    """
    if (max_bytes is None) == (at is None):
        raise OptionError(
            "A model is split by a limit, max_bytes=…, or at modules, at=['blocks.4', …]: give one of them."
        )
    nodes = [*model.graph]
    cuts = cuts_below(nodes, max_bytes) if max_bytes is not None else cuts_at(nodes, at or ())
    bounds = [0, *cuts, len(nodes)]
    parts = [nodes[start:end] for start, end in itertools.pairwise(bounds)]
    boundaries = [_boundary(model, parts, number) for number in range(len(parts))]
    return [_stage(model, parts, number, own) for number, own in enumerate(boundaries) if own.outputs]


# -- where to cut -----------------------------------------------------------------------------


def cuts_at(nodes: Sequence[ir.Node], modules: Sequence[str]) -> list[Cut]:
    """The first nodes of modules. Raises OptionError for a module without nodes, or one that begins where another does."""
    if isinstance(modules, str) or not modules:
        raise OptionError(f"at is a list of the modules that begin a stage, ['blocks.4'], not {modules!r}.")
    paths = [".".join(module_of(node)) for node in nodes]
    found: dict[Cut, str] = {}
    for module in modules:
        cut = next((i for i, path in enumerate(paths) if f"{path}.".startswith(f"{module}.")), None)
        if cut is None:
            known = (
                ", ".join(dict.fromkeys(path for path in paths if path)) or "none; the nodes have no names of modules"
            )
            raise OptionError(f"at: there is no module {module!r}; the modules are {known:.300}.")
        if cut == 0 or cut in found:
            before = f"the module {found[cut]!r} begins there, too" if cut in found else "it begins the model"
            raise OptionError(f"at: no stage can begin at {module!r}: {before}.")
        found[cut] = module
    return sorted(found)


def cuts_below(nodes: Sequence[ir.Node], max_bytes: int) -> list[Cut]:
    """Cuts such that the weights of the nodes between two of them take at most so many bytes.

    Raises OptionError where one node needs more.
    """
    if isinstance(max_bytes, bool) or not isinstance(max_bytes, int) or max_bytes < 1:
        raise OptionError(f"max_bytes is a number of bytes from 1 on, not {max_bytes!r}.")
    needed = [_weights_of([node]) for node in nodes]
    for node, weights in zip(nodes, needed, strict=True):
        if (least := sum(weights.values())) > max_bytes:
            raise OptionError(
                f"max_bytes={max_bytes} is too little: the weights of the node {node.name!r} ({', '.join(map(str, (w.name for w in weights)))}) "
                f"take {least} bytes. Give at least as many."
            )
    cuts: list[Cut] = []
    start = 0
    while (end := _furthest(needed, start, max_bytes)) < len(nodes):
        start = _best_cut(nodes, needed, start, end)
        cuts.append(start)
    return cuts


def _furthest(needed: Sequence[dict[ir.Value, int]], start: Cut, max_bytes: int) -> Cut:
    """The first node after `start` whose weights do not fit beside those before it."""
    weights: dict[ir.Value, int] = {}
    total = 0
    for number in range(start, len(needed)):
        new = {weight: size for weight, size in needed[number].items() if weight not in weights}
        total += sum(new.values())
        if total > max_bytes:
            return number
        weights |= new
    return len(needed)


def _best_cut(nodes: Sequence[ir.Node], needed: Sequence[dict[ir.Value, int]], start: Cut, end: Cut) -> Cut:
    """The cut at which the outermost modules meet, the last of those, in the part that fills at least half of the stage."""
    filled, seen = [0], set[ir.Value]()
    for weights in needed[start:end]:
        filled.append(filled[-1] + sum(size for weight, size in weights.items() if weight not in seen))
        seen |= weights.keys()
    candidates = [cut for cut in range(start + 1, end + 1) if 2 * filled[cut - start] >= filled[-1]]
    return min(reversed(candidates), key=lambda cut: _depth(nodes[cut - 1], nodes[cut]))


def _depth(before: ir.Node, after: ir.Node) -> float:
    """Number of enclosing modules that two nodes share; infinity if both are in the same module."""
    left, right = module_of(before), module_of(after)
    if left == right:
        return math.inf
    return sum(1 for i in range(1, min(len(left), len(right)) + 1) if left[:i] == right[:i])


def _used(nodes: Iterable[ir.Node]) -> Iterator[ir.Value]:
    """The values that nodes read, those in their bodies and the results of these included, which may be values from outside."""
    for node in walk(nodes):
        yield from (value for value in node.inputs if value is not None)
        for attribute in node.attributes.values():
            graphs = [attribute.as_graph()] if attribute.type == ir.AttributeType.GRAPH else []
            graphs = [*attribute.as_graphs()] if attribute.type == ir.AttributeType.GRAPHS else graphs
            yield from (value for graph in graphs for value in graph.outputs)


def _weights_of(nodes: Iterable[ir.Node]) -> dict[ir.Value, int]:
    """The weights that nodes use, with the bytes of each."""
    return {
        v: v.const_value.nbytes
        for v in dict.fromkeys(_used(nodes))
        if v.producer() is None and v.const_value is not None
    }


# -- one stage ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Boundary:
    """The inputs and outputs of a stage."""

    inputs: list[ir.Value]
    outputs: list[ir.Value]


def _stage(model: ir.Model, parts: Sequence[Sequence[ir.Node]], number: int, boundary: _Boundary) -> ir.Model:
    graph = ir.convenience.extract(model.graph, boundary.inputs, boundary.outputs)
    graph.name = f"{model.graph.name or 'model'}_{number}"
    graph.opset_imports.update(model.graph.opset_imports)
    used = _called_functions(model, graph)
    stage = ir.Model(
        graph, ir_version=model.ir_version, producer_name=model.producer_name, producer_version=model.producer_version,
        domain=model.domain, model_version=model.model_version, functions=used,
    )  # fmt: skip
    own = {STATES_KEY, LAYOUTS_KEY, SYMBOLS_KEY}
    stage.metadata_props.update({key: text for key, text in model.metadata_props.items() if key not in own})
    _describe(model, stage, [read for part in (*parts[:number], *parts[number + 1 :]) for read in _used(part)])
    return stage


def _boundary(model: ir.Model, parts: Sequence[Sequence[ir.Node]], number: int) -> _Boundary:
    """The inputs of a stage, in the order of the graph, and its outputs: what later stages or the model need of it."""
    own = dict.fromkeys(value for node in parts[number] for value in node.outputs)
    before = dict.fromkeys(value for part in parts[:number] for node in part for value in node.outputs)
    reads = {*_used(parts[number])}
    inputs = [value for value in (*given_inputs(model.graph), *before) if value in reads]
    later = {value for part in parts[number + 1 :] for value in _used(part)}
    results = [*model.graph.outputs]
    outputs = [value for value in own if value in later and value not in results]
    outputs += [value for value in dict.fromkeys(results) if value in own]
    if number == len(parts) - 1:  # results that are weights
        outputs += [v for v in results if v.producer() is None and v.name in model.graph.initializers]
    for value in inputs:
        if value.type is None:
            raise OptionError(
                f"The model cannot be split: the type of {value.name!r} is not known. Infer the shapes first."
            )
    return _Boundary(inputs, outputs)


def _called_functions(model: ir.Model, graph: ir.Graph) -> list[ir.Function]:
    """Copies of the functions that a graph calls, and of those that they call."""
    found: dict[ir.OperatorIdentifier, ir.Function] = {}
    waiting = [node.op_identifier() for node in walk(graph)]
    while waiting:
        called = waiting.pop()
        if called in model.functions and called not in found:
            found[called] = model.functions[called]
            waiting += [node.op_identifier() for node in walk(found[called])]
    return [function.clone() for key, function in model.functions.items() if key in found]


def _describe(model: ir.Model, stage: ir.Model, read_elsewhere: Collection[ir.Value]) -> None:
    """Write the symbols, the layouts and the states of a stage into its metadata.

    Args:
      model: the whole model.
      stage: the stage.
      read_elsewhere: what other stages read.
    """
    inputs, outputs = ([str(v.name) for v in values] for values in (stage.graph.inputs, stage.graph.outputs))
    describe_symbols(stage, {info.name: info for info in read_symbols(model)}, read_constraints(model))
    write_layouts(stage, {k: text for k, text in read_layouts(model).items() if k in inputs or k in outputs})
    others = {value.name for value in read_elsewhere}
    write_states(stage, [pair for pair in read_states(model) if _is_own(pair, inputs, outputs, others)])


def _is_own(pair: StatePair, inputs: Collection[str], outputs: Collection[str], others: Collection[str | None]) -> bool:
    """Whether a stage takes and gives a state that no other stage reads."""
    return pair.input in inputs and pair.output in outputs and pair.input not in others and pair.output not in others
