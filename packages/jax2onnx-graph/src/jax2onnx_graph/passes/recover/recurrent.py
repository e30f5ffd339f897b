"""Recognise `LSTM`, `GRU` and `RNN` in a Scan."""

from __future__ import annotations

__all__ = ["RecoverRecurrent"]

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.build.attributes import Attribute
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.passes.recover.affine import Affine, Body, addends
from jax2onnx_graph.rewrite.editor import GraphEditor, InsertionPoint, labelled
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.rewrite.patterns import is_floating, operation, other_operand, scalar


class RecoverRecurrent(GraphPass):
    """With σ the logistic function and i, f, g, o, r, z, n affine in the step's row of one input [T, B, I] and the
    hidden state h [B, H], a Scan whose step is one of

    1. c ← σ(f)·c + σ(i)·tanh(g); h ← σ(o)·tanh(c)            `LSTM`
    2. h ← (1 - σ(z))·tanh(n) + σ(z)·h, or with z and 1 - z exchanged, where n contains the product of
       σ(r) with a part affine in h, or a matrix product of σ(r)·h            `GRU`
    3. h ← tanh(n)            `RNN`

    and that collects nothing but h, is that operator where the target has it, and prefers it to the Scan.
    """

    produces = frozenset({"LSTM", "GRU", "RNN"})
    after = ("RecoverSilu", "FoldTransposes")

    def rewrite(self, editor: GraphEditor) -> None:
        for node in editor.nodes():
            if node.op_type == "Scan" and not node.domain and _is_plain(node):
                body = Body(node)
                for found in _readings(body):
                    x = _input(found)
                    if x is None or not all(_same(y, found.hidden) for y in body.stacked):
                        continue
                    if _is_welcome(editor, found.op_type, x):
                        _rewrite(editor, node, body, found, x)
                        break


def _is_welcome(editor: GraphEditor, op_type: str, x: ir.Value) -> bool:
    return editor.supports(op_type, x) and editor.target.prefers(op_type, "Scan") == op_type


@dataclasses.dataclass(frozen=True)
class _Found:
    """A body read as one step of a recurrent operator.

    Attributes:
      op_type: LSTM, GRU or RNN.
      states: the places of the Scan's states in the order of the operator's outputs: the hidden state, then the cell.
      hidden: the hidden state after the step.
      before: the hidden state before the step.
      gates: the arguments of the gates' activations, in ONNX's order: i, o, f, c of an LSTM; z, r, h of a GRU.
      inner: what the reset gate of a GRU multiplies, if that is a product with the recurrent weights.
      gated: the product of reset gate and hidden state, if the recurrent weights multiply that.
    """

    op_type: str
    states: tuple[int, ...]
    hidden: ir.Value
    before: ir.Value
    gates: Sequence[Affine]
    inner: Affine | None = None
    gated: ir.Value | None = None


def _is_plain(scan: ir.Node) -> bool:
    """Whether all directions are the same, all scan axes the first, and all results of one floating-point type."""
    axes = ("scan_input_axes", "scan_output_axes")
    if any(any(scan.attributes.get_ints(name, ())) for name in axes):
        return False
    inputs, outputs = _directions(scan)
    return len({*inputs, *outputs}) == 1 == len({v.dtype for v in scan.outputs}) and is_floating(scan.outputs[0])


def _directions(scan: ir.Node) -> tuple[Sequence[int], Sequence[int]]:
    """The directions of the scanned inputs and of the collected outputs: 0 forwards, 1 backwards."""
    inputs = scan.attributes["num_scan_inputs"].as_int()
    outputs = len(scan.outputs) - (len(scan.inputs) - inputs)
    names = (("scan_input_directions", inputs), ("scan_output_directions", outputs))
    given = [scan.attributes.get_ints(name, [0] * count) for name, count in names]
    return given[0], given[1]


def _source(value: ir.Value | None) -> ir.Value | None:
    """Follow Identity nodes to the source."""
    while (node := operation(value, "Identity")) is not None:
        value = node.inputs[0]
    return value


def _same(a: ir.Value | None, b: ir.Value | None) -> bool:
    """Whether both are copies of one value."""
    return _source(a) is _source(b)


def _argument(value: ir.Value | None, op_type: str) -> ir.Value | None:
    """x where `value` is op_type(x)."""
    node = operation(_source(value), op_type)
    return None if node is None else node.inputs[0]


def _readings(body: Body) -> Iterator[_Found]:
    """All readings of the body as a cell."""
    if len(body.before) == 2:
        for places in ((0, 1), (1, 0)):
            found = _lstm(body, *places)
            if found is not None:
                yield found
    elif len(body.before) == 1:
        found = _simple(body) or _gru(body)
        if found is not None:
            yield found


def _factors(value: ir.Value | None) -> Iterator[tuple[ir.Value | None, ir.Value | None]]:
    """The two factors of the product `value` in both orders; nothing where it is no product."""
    node = operation(_source(value), "Mul")
    if node is not None:
        for operand in node.inputs:
            yield operand, other_operand(node, operand)


def _gate(body: Body, value: ir.Value | None, op_type: str = "Sigmoid") -> Affine | None:
    """The affine function a where `value` is op_type(a)."""
    return body.affine(_argument(value, op_type))


def _lstm(body: Body, hidden: int, cell: int) -> _Found | None:
    """The body as an LSTM with these places of hidden state and cell."""
    total = operation(_source(body.after[cell]), "Add")
    out = next((o for o, t in _factors(body.after[hidden]) if _same(_argument(t, "Tanh"), body.after[cell])), None)
    if total is None or out is None:
        return None
    for kept, new in (total.inputs, reversed(total.inputs)):
        forget = next((f for f, c in _factors(kept) if c is body.before[cell]), None)
        for gate, candidate in _factors(new):
            gates = [_gate(body, v) for v in (gate, out, forget)] + [_gate(body, candidate, "Tanh")]
            known = [g for g in gates if g is not None]
            if forget is not None and len(known) == 4:
                return _Found("LSTM", (hidden, cell), body.after[hidden], body.before[hidden], known)
    return None


def _simple(body: Body) -> _Found | None:
    """The body as an RNN with tanh."""
    total = _gate(body, body.after[0], "Tanh")
    return None if total is None else _Found("RNN", (0,), body.after[0], body.before[0], [total])


def _gru(body: Body) -> _Found | None:
    """The body as a GRU."""
    total, before = operation(_source(body.after[0]), "Add"), body.before[0]
    if total is None:
        return None
    for kept, new in (total.inputs, reversed(total.inputs)):
        update = next((f for f, h in _factors(kept) if h is before), None)
        for gate, candidate in _factors(new):
            z = _update(body, update, gate)
            if z is not None and _argument(candidate, "Tanh") is not None:
                return _candidate(body, z, _argument(candidate, "Tanh"))
    return None


def _update(body: Body, kept: ir.Value | None, new: ir.Value | None) -> Affine | None:
    """The argument of the update gate, given the factors of the old state and of the candidate, which add up to 1."""
    if _same(_one_minus(new), kept):
        return _gate(body, kept)
    if _same(_one_minus(kept), new):
        z = _gate(body, new)
        return None if z is None else -z
    return None


def _one_minus(value: ir.Value | None) -> ir.Value | None:
    """x where `value` is 1 - x."""
    node = operation(value, "Sub")
    return node.inputs[1] if node is not None and scalar(node.inputs[0]) == 1 else None


def _candidate(body: Body, z: Affine, value: ir.Value | None) -> _Found | None:
    """The GRU with the argument `value` of the candidate's tanh, the reset gate before or after the product."""
    before, inner, reset = body.before[0], None, None
    rest: list[Affine | None] = []
    for part in addends(value):
        pair = next(((r, v) for r, v in _factors(part) if _argument(r, "Sigmoid") is not None), None)
        if pair is None:
            rest.append(body.affine(part))
            continue
        if inner is not None:
            return None
        reset, inner = _gate(body, pair[0]), body.affine(pair[1])
        if reset is None or inner is None:
            return None
    known = [part for part in rest if part is not None]
    if len(known) != len(rest) or not known:
        return None
    n = sum(known[1:], known[0])
    if inner is not None and reset is not None and set(inner.products) == {before} and before not in n.products:
        return _Found("GRU", (0,), body.after[0], before, [z, reset, n], inner=inner)
    for leaf in n.products:
        reset = next((_gate(body, r) for r, h in _factors(leaf) if h is before), None)
        if inner is None and reset is not None and before not in n.products:
            return _Found("GRU", (0,), body.after[0], before, [z, reset, n], gated=leaf)
    return None


def _input(found: _Found) -> ir.Value | None:
    """The one tensor [T, B, I] that the gates multiply beside the hidden state."""
    gates = [*found.gates, *([] if found.inner is None else [found.inner])]
    hidden = {found.before, *([] if found.gated is None else [found.gated])}
    leaves = {leaf for gate in gates for leaf in gate.products} - hidden
    for gate in found.gates[:-1]:
        if found.gated is not None and found.gated in gate.products:
            return None
    if len(leaves) != 1:
        return None
    (x,) = leaves
    state, dims = dims_of(found.before) or (), dims_of(x) or ()
    if len(dims) != 3 or len(state) != 2 or not isinstance(state[1], int) or x.graph is found.before.graph:
        return None
    return x


def _rewrite(editor: GraphEditor, scan: ir.Node, body: Body, found: _Found, x: ir.Value) -> None:
    """Put the operator, and Squeezes of its results, in the place of the Scan."""
    length, batch, _ = labelled(dims_of(x) or ())
    hidden = (dims_of(found.before) or ())[1]
    assert isinstance(hidden, int)
    builder = editor.before(scan)
    states = [_initial(builder, body.initial[place]) for place in found.states]
    operands: list[ir.Value | None] = [x, *(editor.own(ir.Tensor(v)) for v in _weights(found, x))]
    operands += [None, *states] if any(s is not None for s in states) else []
    attributes: dict[str, Attribute] = {"hidden_size": hidden}
    if found.inner is not None:
        attributes["linear_before_reset"] = 1
    if any(_directions(scan)[0]):
        attributes["direction"] = "reverse"
    whole, *last = builder.emit(
        found.op_type, operands, "", 1 + len(states), None, (length, 1, batch, hidden), attributes
    )
    for place, state in zip(found.states, last, strict=True):
        _replace(editor, scan.outputs[place], builder.with_dims(state, (1, batch, hidden)), 0, builder)
    for output in scan.outputs[len(states) :]:
        _replace(editor, output, whole, 1, builder)
    _discard(editor, scan, body)


def _weights(found: _Found, x: ir.Value) -> tuple[Array, Array, Array]:
    """The operator's weights [1, G · H, I] and [1, G · H, H], and its biases [1, 2 · G · H], of G gates."""
    width, hidden = (dims_of(v) for v in (x, found.before))
    assert width is not None and hidden is not None and x.dtype is not None
    features, size, dtype = width[-1], hidden[-1], x.dtype.numpy()
    assert isinstance(features, int) and isinstance(size, int)
    recurrent = [{**g.products, found.before: g.products[found.gated]} if found.gated in g.products else g.products
                 for g in found.gates]  # fmt: skip
    if found.inner is not None:
        recurrent[-1] = {**recurrent[-1], **found.inner.products}
    w = _stacked([g.products.get(x) for g in found.gates], np.zeros((features, size), dtype))
    r = _stacked([products.get(found.before) for products in recurrent], np.zeros((size, size), dtype))
    first = np.concatenate([np.broadcast_to(g.bias, size) for g in found.gates])
    second = np.zeros_like(first)
    if found.inner is not None:
        second[-size:] = found.inner.bias
    return w, r, np.concatenate([first, second])[None]


def _stacked(matrices: Sequence[Array | None], zeros: Array) -> Array:
    """The transposes [H, ·] of matrices [·, H], `zeros` for those that are None, as [1, gates · H, ·]."""
    return np.ascontiguousarray(np.concatenate([zeros if m is None else m for m in matrices], 1).T)[None]


def _initial(builder: InsertionPoint, state: ir.Value | None) -> ir.Value | None:
    """A first state [B, H] as [1, B, H]; None for zeros."""
    return None if state is None or scalar(state) == 0 else builder.unsqueeze(state, [0])


def _replace(editor: GraphEditor, old: ir.Value, value: ir.Value, axis: int, builder: InsertionPoint) -> None:
    """Let `value` without its `axis` take the place of `old`, if anything reads that."""
    if not old.uses() and not old.is_graph_output():
        return
    new = builder.op.Squeeze(value, builder.ints([axis]), dims=labelled(dims_of(old) or ()))
    for user, index in old.uses():
        user.replace_input_with(index, new)
    if old.is_graph_output():
        editor.hand_over_output(old, new)


def _discard(editor: GraphEditor, scan: ir.Node, body: Body) -> None:
    """Discard a Scan, so that nothing in its body counts as a use any more."""
    for node in body.graph:
        for index in range(len(node.inputs)):
            node.replace_input_with(index, None)
    editor.discard(scan)
