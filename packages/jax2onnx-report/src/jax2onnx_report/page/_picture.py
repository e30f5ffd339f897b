"""The picture of a graph as data: boxes in boxes (modules, bodies, functions) and the arrows between them."""

from __future__ import annotations

import dataclasses
import itertools
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.facts.type_text import tensor_type_text, type_text
from jax2onnx_graph.metadata import reason_of
from jax2onnx_graph.module_names import module_of
from jax2onnx_graph.traversal import subgraphs

from jax2onnx_report.parts import line_text

__all__ = ["Box", "Picture", "picture_of"]

# A box with more boxes in it than that shows them in rows of so many.
_MOST = 60
_ROW = 40

_KINDS = {
    "product": "MatMul Gemm Conv ConvTranspose Einsum Attention MultiHeadAttention MatMulNBits MatMulInteger QLinearMatMul QLinearConv ConvInteger LSTM GRU RNN FusedMatMul",
    "norm": "LayerNormalization RMSNormalization BatchNormalization GroupNormalization InstanceNormalization LpNormalization Softmax LogSoftmax",
    "move": "Reshape Transpose Concat Split Slice Gather GatherElements GatherND ScatterElements ScatterND Squeeze Unsqueeze Expand Pad Tile Flatten Identity DepthToSpace SpaceToDepth Resize Shape Size",
    "type": "Cast CastLike BitCast QuantizeLinear DequantizeLinear DynamicQuantizeLinear",
    "flow": "If Loop Scan SequenceMap",
}  # fmt: skip
_KIND_OF = {op_type: kind for kind, op_types in _KINDS.items() for op_type in op_types.split()}


@dataclasses.dataclass
class Box:
    """A node, an input, an output, or a group of boxes.

    Attributes:
      kind: "input", "output", "module", "body", "row", "function", or the kind of an operator.
      title: an operator, or the name of a group.
      name: that of the node or value; of a group its path.
      facts: what is shown of it when it is chosen.
      boxes: those in it.
    """

    kind: str
    title: str
    name: str
    facts: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    boxes: list[Box] = dataclasses.field(default_factory=list)
    number: int = -1

    def all_boxes(self) -> Iterator[Box]:
        """The box itself and those in it."""
        yield self
        for box in self.boxes:
            yield from box.all_boxes()

    def count(self) -> int:
        """Number of innermost boxes in it; 1 if it is one itself."""
        return sum(box.count() for box in self.boxes) if self.boxes else 1


@dataclasses.dataclass
class Picture:
    """Boxes, and arrows between those without or with boxes in them: (from, to, type of the value)."""

    boxes: list[Box]
    arrows: list[tuple[Box, Box, str]]

    def as_dict(self) -> dict[str, object]:
        """As JSON has it: boxes by numbers."""
        numbers = itertools.count()
        boxes = [_numbered(box, numbers) for box in self.boxes]
        arrows = {(tail.number, head.number, type_): None for tail, head, type_ in self.arrows}
        return {"boxes": boxes, "arrows": list(arrows)}


def _numbered(box: Box, numbers: Iterator[int]) -> dict[str, object]:
    box.number = next(numbers)
    entry: dict[str, object] = {"id": box.number, "kind": box.kind, "title": box.title, "name": box.name}
    if box.facts:
        entry["facts"] = box.facts
    if box.boxes:
        entry["boxes"] = [_numbered(inner, numbers) for inner in box.boxes]
    return entry


def picture_of(model: ir.Model) -> Picture:
    """The picture of a model: its modules are boxes, and so are the bodies of control flow and of functions."""
    drawing = _Drawing(model)
    return Picture(drawing.graph(model.graph, {}), drawing.arrows)


class _Drawing:
    def __init__(self, model: ir.Model) -> None:
        self._functions = model.functions
        self.arrows: list[tuple[Box, Box, str]] = []

    def graph(self, graph: ir.Graph | ir.Function, outer: Mapping[ir.Value, Box]) -> list[Box]:
        """The boxes of a graph, which may read values of `outer` boxes."""
        makers = dict(outer)
        inputs = [value for value in graph.inputs if not value.is_initializer()]
        boxes = [Box("input", value.name or "", value.name or "", [("type", type_text(value))]) for value in inputs]
        makers.update(zip(inputs, boxes, strict=True))
        nodes = []
        for node in graph:
            box = self._node(node, makers)
            nodes.append((node, box))
            makers.update((value, box) for value in node.outputs)
        grouped = _grouped([(box, module_of(node)) for node, box in nodes], self.arrows)
        outputs = []
        for value in graph.outputs:
            outputs.append(Box("output", value.name or "", value.name or "", [("type", type_text(value))]))
            if value in makers:
                self.arrows.append((makers[value], outputs[-1], type_text(value)))
        return [*boxes, *grouped, *outputs]

    def _node(self, node: ir.Node, makers: Mapping[ir.Value, Box]) -> Box:
        box = Box(_KIND_OF.get(node.op_type, "other"), node.op_type, node.name or "", list(_facts(node)))
        for value in node.inputs:
            if value is not None and value in makers:
                self.arrows.append((makers[value], box, type_text(value)))
        function = self._functions.get(node.op_identifier())
        if function is not None:
            box.kind, box.boxes = "function", self.graph(function, {})
        bodies = list(subgraphs(node))
        for graph in bodies:
            inner = self.graph(graph, makers)
            box.boxes += inner if len(bodies) == 1 else [Box("body", graph.name or "body", box.name, boxes=inner)]
        return box


def _facts(node: ir.Node) -> Iterable[tuple[str, str]]:
    if source := node.metadata_props.get("source"):
        yield "line", line_text(source)
    if reason := reason_of(node):
        yield "why", reason
    for value in node.inputs:
        if value is not None:
            yield "weight" if value.is_initializer() else "operand", f"{value.name}: {type_text(value)}"
    for value in node.outputs:
        if value.name:
            yield "result", f"{value.name}: {type_text(value)}"
    for name, attribute in node.attributes.items():
        if attribute.type not in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
            yield name, _attribute_text(attribute)


def _attribute_text(attribute: ir.Attr) -> str:
    if attribute.is_ref():
        return f"@{attribute.ref_attr_name}"
    if attribute.type == ir.AttributeType.TENSOR:
        return tensor_type_text(attribute.as_tensor())
    return textwrap.shorten(str(attribute.value), 200, placeholder=" …")


# -- groups -------------------------------------------------------------------------------------

_Placed = tuple[Box, tuple[str, ...]]
_Arrows = Sequence[tuple[Box, Box, str]]
_Key = tuple[str | int, int]


def _grouped(placed: Sequence[_Placed], arrows: _Arrows, path: str = "") -> list[Box]:
    """The boxes of nodes, of which each has the names of modules around it, in boxes of these modules.

    A module that runs twice, with something in between that needs its first results, becomes two boxes.
    """
    keys = _keys(placed, arrows)
    key_of = {id(box): key for key, (outermost, _) in zip(keys, placed, strict=True) for box in outermost.all_boxes()}
    members: dict[_Key, list[_Placed]] = {}
    for key, item in zip(keys, placed, strict=True):
        members.setdefault(key, []).append(item)
    inside: dict[_Key, list[tuple[Box, Box, str]]] = {key: [] for key in members}
    for arrow in arrows:
        before, after = key_of.get(id(arrow[0])), key_of.get(id(arrow[1]))
        if before is not None and before == after:
            inside[before].append(arrow)
    return _in_rows([_group(items, inside[key], path) for key, items in members.items()])


def _group(members: Sequence[_Placed], arrows: _Arrows, path: str) -> Box:
    """The box of a module, or of the one node that it has."""
    box, modules = members[0]
    if len(members) == 1 or not modules:
        return box
    inner = f"{path}.{modules[0]}" if path else modules[0]
    own = _grouped([(box, modules[1:]) for box, modules in members], arrows, inner)
    if len(own) == 1 and own[0].kind == "module":  # a module in a module and nothing else
        own[0].title = f"{modules[0]}.{own[0].title}"
        return own[0]
    return Box("module", modules[0], inner, boxes=own)


def _in_rows(boxes: list[Box]) -> list[Box]:
    """Many boxes as rows of some, which can be opened one by one."""
    if len(boxes) <= _MOST:
        return boxes
    rows, first = [], 1
    for i in range(0, len(boxes), _ROW):
        row = boxes[i : i + _ROW]
        last = first + sum(box.count() for box in row) - 1
        rows.append(Box("row", f"nodes {first} to {last}", "", boxes=row))
        first = last + 1
    return _in_rows(rows)


def _keys(placed: Sequence[_Placed], arrows: _Arrows) -> list[_Key]:
    """For each box what it is grouped by: its module, with the number of the run where modules take turns."""
    keys: list[_Key] = [(modules[0] if modules else i, 0) for i, (_, modules) in enumerate(placed)]
    key_of = {id(box): key for key, (outermost, _) in zip(keys, placed, strict=True) for box in outermost.all_boxes()}
    following: dict[_Key, set[_Key]] = {key: set() for key in keys}
    for tail, head, _ in arrows:
        before, after = key_of.get(id(tail)), key_of.get(id(head))
        if before is not None and after is not None and before != after:
            following[before].add(after)
    circular = _before_circles(_reversed(_before_circles(following)))
    run, last = 0, None
    for i, key in enumerate(keys):
        if key in circular:
            run += key != last
            last, keys[i] = key, (key[0], run)
    return keys


def _before_circles(following: Mapping[_Key, set[_Key]]) -> dict[_Key, set[_Key]]:
    """The part of a graph from which a way leads into a circle."""
    before = _reversed(following)
    open_ways = {key: len(after) for key, after in following.items()}
    ends = [key for key, count in open_ways.items() if not count]
    while ends:
        for key in before[ends.pop()]:
            open_ways[key] -= 1
            if not open_ways[key]:
                ends.append(key)
    kept = {key for key, count in open_ways.items() if count}
    return {key: following[key] & kept for key in following if key in kept}


def _reversed(following: Mapping[_Key, set[_Key]]) -> dict[_Key, set[_Key]]:
    before: dict[_Key, set[_Key]] = {key: set() for key in following}
    for key, after in following.items():
        for other in after:
            before[other].add(key)
    return before
