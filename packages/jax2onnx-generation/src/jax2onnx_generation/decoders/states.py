"""Uses of a decoder's states: declared by the user or the export, or read from the graph; the model is not run for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.facts.axes import axis_of
from jax2onnx_graph.facts.sub_axes import SubAxis, result_sub_axes
from jax2onnx_graph.facts.type_text import type_text
from jax2onnx_graph.facts.values import LabelledDim, dims_of, known, same_dim
from jax2onnx_graph.labels import symbols_in
from jax2onnx_graph.metadata import StatePair
from jax2onnx_graph.rewrite.patterns import operation, source_of
from jax2onnx_graph.traversal import all_nodes, subgraphs
from jax2onnx_runtime.probing import carriers

from jax2onnx_generation.decoders.declaration import declared_states
from jax2onnx_generation.decoders.kinds import Kind, StateKind
from jax2onnx_generation.decoders.signature import DecoderSignature

__all__ = ["StateUse", "is_size", "known_kinds", "state_uses"]

# Operators that hand elements on in their order, in another shape or type, or repeated.
_SAME_ORDER = frozenset({"Cast", "Expand", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
# Operators that hand a number on, in another shape or type.
_VIEWS = _SAME_ORDER | {"Gather"}
# Operators that write into a cache, and the operand that says where.
_WRITING = {"ScatterElements": 1, "ScatterND": 1, "TensorScatter": 2}


@dataclasses.dataclass(frozen=True)
class StateUse:
    """A state of a decoder.

    Attributes:
      pair: its input and output.
      kind: how it changes in a run.
      places: the inputs that say where a cache is written; None where the graph does not show it.
      by_row: whether each sequence has places of its own.
    """

    pair: StatePair
    kind: StateKind
    places: frozenset[str] | None = None
    by_row: bool = False


def state_uses(
    model: ir.Model, signature: DecoderSignature, declared: Mapping[str, StateKind] | None = None
) -> list[StateUse]:
    """Find the use of each state of a decoder.

    1. A state that grows says so in the metadata.
    2. One of integers, a number or one for each sequence, to which each run adds the number of its tokens, is a counter.
    3. One of which a run keeps nothing, or which is moved along an axis, changes as a whole.
    4. Of others, one with an axis of a symbol that is not the number of sequences is a cache, and so is one that is written by a scatter.

    Args:
      model: the model.
      signature: its inputs and outputs.
      declared: the kinds of states by their names, or by the beginning of them before a point; those of the others may be in the
        metadata.

    Raises:
      OptionError: a state is none of these, or a declaration fits none.
    """
    found = _uses(model, signature, declared or {})
    inputs = {value.name: value for value in model.graph.inputs}
    if hidden := next((inputs[name] for name, use in found.items() if use is None), None):
        raise OptionError(
            f"It does not show how a run changes the state {hidden.name}: {type_text(hidden)}, in which it keeps a part of what is there. "
            f"Declare it: states={{{hidden.name!r}: StateKind(Kind.CACHE, axis=…)}} with the axis of the places, or Kind.OTHER where it "
            "changes as a whole; Generator(session, states=…), or decoder_metadata(states=…) for the model. A symbol for the number of "
            "places, such as ('B', 'C', 8, 64), shows it, too."
        )
    return [use for use in found.values() if use is not None]


def known_kinds(model: ir.Model, signature: DecoderSignature) -> dict[str, StateKind]:
    """The kinds of the states of a decoder that its metadata declare, and of the caches among the others that the graph shows."""
    inputs = {value.name: value for value in model.graph.inputs}
    declared = _declared_kinds(declared_states(model), [inputs[pair.input] for pair in signature.states])
    found = _uses(model, signature, {})
    caches = {name: use.kind for name, use in found.items() if use is not None and use.kind.kind is Kind.CACHE}
    return caches | declared


def _uses(
    model: ir.Model, signature: DecoderSignature, declared: Mapping[str, StateKind]
) -> dict[str, StateUse | None]:
    """The use of each state by its name; None where it does not show."""
    inputs = {str(value.name): value for value in model.graph.inputs}
    outputs = {value.name: value for value in model.graph.outputs}
    tokens = inputs[signature.tokens]
    kinds = _declared_kinds({**declared_states(model), **declared}, [inputs[pair.input] for pair in signature.states])
    return {pair.input: _use(model, pair, inputs[pair.input], outputs[pair.output], tokens, kinds.get(pair.input)) for pair in signature.states}  # fmt: skip


def _declared_kinds(declared: Mapping[str, StateKind], states: Sequence[ir.Value]) -> dict[str, StateKind]:
    """The declared kinds by the whole names of states.

    Args:
      declared: the kinds by names, or by the beginning of names before a point.
      states: the inputs that are states.

    Raises:
      OptionError: a name is that of no state, or a state has no such axis.
    """
    found: dict[str, StateKind] = {}
    for name, kind in declared.items():
        fitting = [value for value in states if value.name == name or str(value.name).startswith(f"{name}.")]
        if not fitting:
            raise OptionError(
                f"states: there is no state {name!r}; the states are {', '.join(str(v.name) for v in states) or 'none'}."
            )
        for value in fitting:
            if not 0 <= kind.axis < max(len(value.shape or ()), 1):
                raise OptionError(f"states: {value.name}: {type_text(value)} has no axis {kind.axis}.")
            found[str(value.name)] = kind
    return found


def _use(
    model: ir.Model, pair: StatePair, before: ir.Value, after: ir.Value, tokens: ir.Value, declared: StateKind | None
) -> StateUse | None:
    if pair.grows is not None:
        return StateUse(pair, StateKind(Kind.GROWS, pair.grows))
    if declared is None and _is_counter(before, after, tokens):
        return StateUse(pair, StateKind(Kind.COUNTER))
    held = _held(model, before)
    writes = [node for node in _users(held) if node.op_type in _WRITING and not node.domain and node.inputs[0] in held]
    is_kept = after in held or any(node.op_identifier() in model.functions for node in _users(held))
    is_changed = not is_kept or any(
        after in _held(model, node.outputs[0]) for node in _users(held) if _moves(node, held)
    )
    kind = declared or _kind(
        before, tokens, writes, is_changed=is_changed, moves=not any(n.op_type == "Where" for n in _users(held))
    )
    if kind is None or kind.kind is not Kind.CACHE:
        return None if kind is None else StateUse(pair, kind)
    size, batch = (dims_of(before) or ())[kind.axis], _label(tokens, 0)
    paths = [_Path.to(node.inputs[_WRITING[node.op_type]]) for node in writes]
    places = frozenset[str]().union(*(path.inputs for path in paths)) if paths else None
    rolls = kind.rolls or (declared is None and bool(paths) and all(path.wraps_at(size) for path in paths))
    by_row = bool(paths) and all(path.keeps(batch) for path in paths)
    return StateUse(pair, dataclasses.replace(kind, rolls=rolls), places, by_row)


def _moves(node: ir.Node, held: Mapping[ir.Value, None]) -> bool:
    """Whether a node puts elements of a state beside other numbers, or all of them in another order: they are at other places then.

    What is before and what is behind the new ones, which are put between the two, stays where it is.
    """
    if node.op_type != "Concat" or node.domain:
        return False
    old = [value for value in node.inputs if value in held]
    # Beside others of one entry it is stacked: the caches of all layers, of which each stays as it is.
    if any(
        (dims := dims_of(value)) is not None and dims[axis_of(node, len(dims))] == 1
        for value in old
        if value is not None
    ):
        return False
    return len(old) == len(node.inputs) or (len(old) == 1 and not _is_padded(node, held))


def _is_padded(node: ir.Node, held: Mapping[ir.Value, None]) -> bool:
    """Whether a Concat puts constants behind a whole state: room for what is written nowhere."""
    state, *others = node.inputs
    is_whole = state in held and not _is_moved(state)
    return is_whole and all(known(source_of(v, *_SAME_ORDER), limit=None) is not None for v in others)


def _is_moved(value: ir.Value | None) -> bool:
    """Whether a value has elements of another at other places; those of its beginning stay where they are."""
    node = operation(source_of(value, *_SAME_ORDER, "Transpose"), "Gather", "Slice")
    starts = None if node is None else known(node.inputs[1])
    if node is None or node.op_type == "Gather" or starts is None or starts.any():
        return node is not None
    return _is_moved(node.inputs[0])


def _kind(
    before: ir.Value, tokens: ir.Value, writes: Sequence[ir.Node], *, is_changed: bool, moves: bool
) -> StateKind | None:
    """The kind of a state of a fixed size; None where it does not show.

    Args:
      before: its input.
      tokens: the input of the tokens.
      writes: the nodes that write into it.
      is_changed: whether its new value has no elements of the old one, or has them at other places.
      moves: whether these are moved only, rather than chosen.
    """
    dims, batch = dims_of(before) or (), _label(tokens, 0)
    own = [i for i, dim in enumerate(dims) if not isinstance(dim, int) and (batch is None or not same_dim(dim, batch))]
    if is_changed or (moves and not own and not writes):
        return StateKind(Kind.OTHER)
    if len(own) == 1:
        return StateKind(Kind.CACHE, own[0])
    axes = {_written_axis(node, before, batch) for node in writes}
    if len(axes) == 1 and None not in axes:
        return StateKind(Kind.CACHE, next(axis for axis in axes if axis is not None))
    return None


def _held(model: ir.Model, start: ir.Value) -> dict[ir.Value, None]:
    """The values that hold elements of a state, those among them that loops and branches return."""
    returned: dict[ir.Value, ir.Value] = {}
    for node in all_nodes(model):
        for graph in subgraphs(node):
            inner = list(graph.outputs)[
                len(graph.outputs) - len(node.outputs) :
            ]  # a Loop's body begins with its condition
            returned.update(zip(inner, node.outputs, strict=True))
    held, pending = dict[ir.Value, None](), [start]
    while pending:
        found = [value for value in carriers(model, pending.pop()) if value not in held]
        held.update(dict.fromkeys(found))
        pending += [returned[value] for value in found if value in returned and returned[value] not in held]
    return held


def _users(values: Iterable[ir.Value]) -> Iterator[ir.Node]:
    """The nodes that read some values."""
    return iter(dict.fromkeys(use.node for value in values for use in value.uses()))


def _label(value: ir.Value, axis: int) -> LabelledDim | None:
    dims = dims_of(value)
    return dims[axis] if dims else None


def _written_axis(node: ir.Node, before: ir.Value, batch: LabelledDim | None) -> int | None:
    """The axis of a state along which a node writes into it; None where that is not certain."""
    held, dims = node.inputs[0], dims_of(before) or ()
    within = None if held is None else dims_of(held)
    if within is None or held is None:
        return None
    axes = [axis_of(node, len(within))]
    if node.op_type == "ScatterND":
        depth = (dims_of(node.inputs[1]) or (0,))[-1] if node.inputs[1] is not None else 0
        axes = [i for i in range(depth if isinstance(depth, int) else 0) if batch is None or not same_dim(within[i], batch)]  # fmt: skip
    if len(axes) != 1:
        return None
    own = [i for i, dim in enumerate(dims) if batch is None or not same_dim(dim, batch)]
    written = [i for i in own if _axis_behind(before, i, held) == axes[0]]
    same = written or [i for i, dim in enumerate(dims) if same_dim(dim, within[axes[0]])]
    return same[0] if len(same) == 1 else None


def _axis_behind(start: ir.Value, axis: int, value: ir.Value) -> int | None:
    """The axis of a value that an axis of another is, maybe merged with others, by way of views, writes and room behind them; None for others."""
    path, source = list[ir.Node](), value
    while source is not start:
        node = operation(source, "Concat", "Slice", "Transpose", *_SAME_ORDER, *_WRITING)
        if node is None or node.inputs[0] is None:
            return None
        path += [node] if node.op_type in ("Transpose", *_SAME_ORDER) else []
        source = node.inputs[0]
    found = SubAxis(axis)
    for node in reversed(path):
        behind = result_sub_axes(node, 0, found)
        if behind is None or behind[0] is None:
            return None
        found = behind[0]
    return found.axis


# -- counters -------------------------------------------------------------------------------------


def _is_counter(before: ir.Value, after: ir.Value, tokens: ir.Value) -> bool:
    """Whether a state is a number, or one for each sequence, to which each step adds the number of its tokens."""
    total = operation(source_of(after, *_VIEWS), "Add")
    is_number = before.dtype is not None and before.dtype.is_integer() and len(before.shape or ()) <= 1
    if not is_number or total is None:
        return False
    terms = [source_of(value, *_VIEWS) for value in total.inputs]
    dims = dims_of(tokens) or ()
    lengths = [dims[1]] if len(dims) > 1 else [*dims, 1]
    return before in terms and any(is_size(t, length) for t in terms if t is not before for length in lengths)


def is_size(value: ir.Value | None, dim: LabelledDim) -> bool:
    """Whether a value is the size of an axis with that label: a constant, or the length of something with the label."""
    value = source_of(value, *_VIEWS)
    if value is None:
        return False
    array, node = known(value), value.producer()
    if array is not None:
        return isinstance(dim, int) and bool((array == dim).all())
    if node is None or node.op_type != "Shape":
        return False
    dims, attributes = dims_of(node.inputs[0]), node.attributes
    if dims is None or "start" not in attributes or "end" not in attributes:
        return False
    measured = dims[attributes["start"].as_int() : attributes["end"].as_int()]
    return len(measured) == 1 and same_dim(measured[0], dim)


# -- places ---------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Path:
    """Computation of the indices at which a cache is written.

    Attributes:
      inputs: the inputs of the model that the indices depend on.
      values: the values between these inputs and the indices.
      nodes: the nodes that compute these values.
    """

    inputs: frozenset[str]
    values: tuple[ir.Value, ...]
    nodes: tuple[ir.Node, ...]

    @classmethod
    def to(cls, index: ir.Value | None) -> _Path:
        pending, nodes = [] if index is None else [index], dict[ir.Node, None]()
        seen = dict.fromkeys(pending)
        while pending:
            node = pending.pop().producer()
            if node is None or node.op_type in ("Shape", "Size") or node in nodes:
                continue
            nodes[node] = None
            further = [value for value in node.inputs if value is not None and value not in seen]
            seen.update(dict.fromkeys(further))
            pending += further
        starts = [value for value in seen if value.is_graph_input() and not value.is_initializer()]
        return cls(frozenset(str(value.name) for value in starts), tuple(_between(starts, seen)), tuple(nodes))

    def wraps_at(self, size: LabelledDim) -> bool:
        """Whether they are taken modulo the number of places."""
        return any(node.op_type == "Mod" and is_size(node.inputs[1], size) for node in self.nodes)

    def keeps(self, batch: LabelledDim | None) -> bool:
        """Whether each sequence has numbers of its own all the way."""
        return batch is not None and bool(self.values) and all(_has(value, batch) for value in self.values)


def _between(starts: Iterable[ir.Value], among: Mapping[ir.Value, None]) -> Iterator[ir.Value]:
    """The values among some that are computed from others, these first."""
    pending = list(starts)
    seen = dict.fromkeys(pending)
    while pending:
        value = pending.pop()
        yield value
        for user in value.uses():
            for output in user.node.outputs:
                if user.node.op_type not in ("Shape", "Size") and output in among and output not in seen:
                    seen[output] = None
                    pending.append(output)


def _has(value: ir.Value, batch: LabelledDim) -> bool:
    """Whether a value has an axis of the batch, maybe together with others."""
    dims = dims_of(value) or ()
    if isinstance(batch, int):
        return any(isinstance(dim, int) and dim % batch == 0 and dim for dim in dims)
    symbols = symbols_in(str(batch.value))
    return any(symbols <= symbols_in(str(dim)) for dim in dims if not isinstance(dim, int))
