"""`GraphEditor`: the edits that a pass makes to one graph."""

from __future__ import annotations

import abc
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import cast

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.assumptions import Assumption
from jax2onnx_graph.build.attributes import Attribute, attribute_values, attributes_of
from jax2onnx_graph.build.builder import Array, GraphBuilder, Value
from jax2onnx_graph.build.names import Names, renamed
from jax2onnx_graph.build.origins import drop_origins, permute_origins, share_origins
from jax2onnx_graph.errors import RuleError
from jax2onnx_graph.facts.dims import Dim, Dims, is_static
from jax2onnx_graph.facts.operators import Elementwise, facts_of
from jax2onnx_graph.facts.shapes import broadcast_dims
from jax2onnx_graph.facts.values import LabelledDim, dims_of, known, same_dim
from jax2onnx_graph.forms import Form, Threshold
from jax2onnx_graph.metadata import SizeNotes
from jax2onnx_graph.rewrite._node_index import NodeIndex
from jax2onnx_graph.rewrite._root_graph import RootGraph
from jax2onnx_graph.targets import Property, Target, standard_target
from jax2onnx_graph.traversal import HAS_SUBGRAPHS, subgraphs

__all__ = ["GraphEditor", "InsertionPoint", "labelled"]


class GraphEditor:
    """One graph that a pass rewrites.

    Constants belong to the main graph or function that it is, or is nested in. The editor keeps the record of which values
    hold which results of the exported function: `replace`, `replace_value` and `reroute` carry it on by themselves; a pass
    that changes nodes in place says so by `stand_in` and `set_contents`.

    Attributes:
      graph: the graph.
      opset: the version of the standard operators.
      target: the runtime that the model is for.
    """

    def __init__(
        self, graph: ir.Graph, *, opset: int = 1, target: Target = standard_target, root: RootGraph | None = None,
        in_function: bool = False, index: NodeIndex | None = None, sizes: SizeNotes | None = None,
    ) -> None:  # fmt: skip
        self.graph = graph
        self.opset = opset
        self.target = target
        self._modified = False
        self._root = root or RootGraph(graph, is_function=in_function, index=index, sizes=sizes)
        self._dead: dict[ir.Node, None] = {}
        self._first = next(iter(graph), None)
        self._node_names: Names | None = None

    @property
    def modified(self) -> bool:
        """Whether an edit was made."""
        return self._modified

    @modified.setter
    def modified(self, modified: bool) -> None:
        self._modified = modified
        if modified:
            self._root.index = None

    @property
    def is_nested(self) -> bool:
        """Whether the graph is an attribute of a node: a branch, or the body of a loop."""
        return not self._root.is_graph(self.graph)

    def may_be_zero(self, dim: LabelledDim) -> bool:
        """Whether a dimension may be 0; in a model of which nothing is noted, only the number 0 may."""
        return self._root.sizes.may_be_zero(dim)

    def supports(self, op_type: str, value: ir.Value | None) -> bool:
        """Whether the target computes the operator at the element type of `value`."""
        if value is None or value.dtype is None:
            return False
        return self.target.supports(op_type, value.dtype.numpy(), self.opset)

    def guarantees(self, op_type: str, value: ir.Value | None, kept: Property) -> bool:
        """Whether the target keeps a part of an operator's meaning.

        Args:
          op_type: a standard operator.
          value: the operand at whose element type it is asked; False for one without a type.
          kept: the part of the meaning, such as "nan".
        """
        if value is None or value.dtype is None:
            return False
        return self.target.keeps(op_type, value.dtype.numpy(), kept)

    def assumes(self, assumption: Assumption) -> bool:
        """Whether the model is made under a promise of the user."""
        return self.target.assumes(assumption)

    def prefers(self, *forms: Form) -> Form:
        """The one of several forms of equal meaning that runs fastest on the target."""
        return self.target.prefers(*forms)

    def threshold(self, threshold: Threshold) -> int:
        """The size from which a form pays on the target."""
        return self.target.threshold(threshold)

    def before(self, node: ir.Node) -> InsertionPoint:
        """A builder whose nodes go right before `node`."""
        return _BeforeNode(self, node)

    def after(self, value: ir.Value, origin: ir.Node | None = None) -> InsertionPoint:
        """A builder whose nodes go, one after another, right behind the node that makes `value`, or to the front of the graph.

        They take metadata and the beginning of their names from `origin`, by default the node that makes `value`.
        """
        return _AfterValue(self, value, origin or value.producer())

    def put(
        self,
        node: ir.Node,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Attribute] | None = None,
    ) -> ir.Node:
        """Put one operator in the place of a node, with its name, metadata, type and shape; the node is discarded.

        Args:
          node: a node with one output.
          op_type: a standard operator.
          inputs: its operands, None for those left out.
          attributes: its attributes, those that are None left out.
        """
        old = node.outputs[0]
        alignment = facts_of(op_type).elementwise
        if alignment is not None and inputs[0] is not None:
            aligned = inputs if alignment is Elementwise.BROADCAST else inputs[:1]
            inputs = [self._as_large_as(node, inputs[0], broadcast_dims(list(map(dims_of, aligned)))), *inputs[1:]]
        output = ir.Value(type=old.type, shape=old.shape)
        new = ir.Node(
            "", op_type, inputs, attributes_of(attributes or {}), outputs=[output], name=node.name,
            metadata_props=dict(node.metadata_props),
        )  # fmt: skip
        self.insert_before(node, new)
        self.replace(node, output)
        return new

    def _as_large_as(self, node: ir.Node, value: ir.Value, small: Sequence[LabelledDim] | None) -> ir.Value:
        """A value with which an elementwise operator gives the shape of the result of a node, in place of `small`.

        Constants that a formula takes for numbers may have made that larger.
        """
        large = dims_of(node.outputs[0])
        if small is None or large is None or len(small) > len(large):
            return value
        b, aligned = self.before(node), (*(1,) * (len(large) - len(small)), *small)
        shape = [
            _size_along(b, node, axis) if one == 1 and size != 1 else None
            for axis, (one, size) in enumerate(zip(aligned, large, strict=True))
        ]
        if len(small) == len(large) and not any(shape):
            return value
        wanted = [1 if size is None else dim for size, dim in zip(shape, large, strict=True)]
        target = b.concat([b.ints([1]) if size is None else size for size in shape], 0)
        return b.op.Expand(value, target, dims=broadcast_dims([b.known_dims(value), labelled(wanted)]))

    def node_name(self, base: str) -> str:
        """A name for a new node of the graph: `base`, with a number where it is taken."""
        if self._node_names is None:
            self._node_names = Names(node.name for node in self.graph if node.name)
        return self._node_names.unique(base)

    def value_name(self, base: str) -> str:
        """A name for a value: `base`, with a number where a value of the root graph or its subgraphs has it."""
        return self._root.value_name(base)

    def nodes(self) -> Iterator[ir.Node]:
        """The nodes in order, without those discarded meanwhile."""
        return (node for node in self.graph if node not in self._dead)

    def nodes_of(self, operators: Collection[str]) -> Iterator[ir.Node]:
        """The nodes that have one of some operators, as `nodes` gives them."""
        index, last = self._root.index, None
        for node in () if index is None else index.nodes(self.graph, operators):
            yield node
            if self._root.index is None:  # it changed something, so that others may follow
                last = node
                break
        if index is not None and last is None:
            return
        nodes = iter(self.graph)
        if last is not None:
            next(node for node in nodes if node is last)
        yield from (node for node in nodes if node.op_type in operators and node not in self._dead)

    def may_have(self, operators: Collection[str]) -> bool:
        """Whether the graph, or one nested in it, may have nodes of some operators."""
        return self._root.index is None or self._root.index.has(self.graph, operators)

    def nested(self) -> Iterator[GraphEditor]:
        """The graphs nested directly in this one."""
        for node in self.nodes_of(HAS_SUBGRAPHS):
            yield from self.nested_in(node)

    def alone(self, node: ir.Node) -> ir.Graph:
        """A graph that holds a copy of `node`, such as a branch in which it runs."""
        name = self.node_name(node.name or node.op_type)
        outputs = [ir.Value(type=value.type, shape=value.shape) for value in node.outputs]
        copy = ir.Node(
            node.domain, node.op_type, node.inputs, node.attributes.values(), outputs=outputs, name=name,
            metadata_props=dict(node.metadata_props),
        )  # fmt: skip
        return ir.Graph([], outputs, nodes=[copy], name=name)

    def nested_in(self, node: ir.Node) -> Iterator[GraphEditor]:
        """The graphs that are attributes of a node of this one."""
        for graph in subgraphs(node):
            yield GraphEditor(graph, opset=self.opset, target=self.target, root=self._root)

    def constant(self, array: Array) -> ir.Value:
        """A constant holding the small `array`, shared within the root graph."""
        return self._root.constant(array)

    def ints(self, values: Sequence[int]) -> ir.Value:
        """A constant int64 vector."""
        return self.constant(np.array(values, np.int64))

    def own(self, tensor: ir.TensorProtocol, sources: Sequence[ir.Value | None] = ()) -> ir.Value:
        """A new constant of the root, named after the `sources` that it was made from: an initializer, in a function a
        Constant node.
        """
        return self._root.own(tensor, sources)

    def derived(self, source: ir.Value, tensor: ir.TensorProtocol, what: str) -> ir.Value:
        """A constant made from another, shared within the root graph.

        Args:
          source: the constant that it is made from, and named after.
          tensor: its numbers.
          what: a word for what was done, which tells it from others made from the same; the end of its name.
        """
        return self._root.derived(source, tensor, what)

    def discard(self, node: ir.Node) -> None:
        """Let a node read nothing from now on, and remove it from the graph when the pass is done."""
        for index in range(len(node.inputs)):
            node.replace_input_with(index, None)
        self._dead[node] = None
        self.modified = True

    def replace(self, node: ir.Node, value: ir.Value) -> bool:
        """Let every user of the node's only output use the equal `value`, and discard the node.

        A graph output keeps its name: the name moves to `value` where that is possible; otherwise
        the node stays for the output alone, as an Identity of `value`. Returns whether anything changed.
        """
        output = node.outputs[0]
        share_origins(output, value)
        if output.is_graph_output() and not self._take_over_output(output, value):
            uses = output.uses()
            for user, index in uses:
                user.replace_input_with(index, value)
            changed = _become_copy(node, value) or bool(uses)
            self.modified |= changed
            return changed
        for user, index in output.uses():
            user.replace_input_with(index, value)
        self.discard(node)
        return True

    def reroute(self, value: ir.Value, convert: Callable[[ir.Value], ir.Value]) -> ir.Value:
        """Let all present readers of `value` read `convert(value)`, which also takes its name, and return that.

        `value` itself holds something else afterwards.
        """
        readers = value.uses()
        new = convert(value)
        for user, index in readers:
            user.replace_input_with(index, new)
        self.hand_over_output(value, new)
        new.metadata_props.update(value.metadata_props)
        share_origins(value, new)
        drop_origins([value])
        return new

    def replace_value(self, old: ir.Value, new: ir.Value) -> None:
        """Let all readers of `old` read the equal `new`, which takes its name and place among the graph's outputs.

        The node of `old` stays; `discard` it where it has no other use.
        """
        share_origins(old, new)
        for user, index in old.uses():
            user.replace_input_with(index, new)
        if old.is_graph_output():
            self.hand_over_output(old, new)
        self.modified = True

    def replace_result(self, node: ir.Node, old: ir.Value, new: ir.Value) -> None:
        """Let all readers of `old`, a result of `node`, read the equal `new`, of this graph or one around it.

        Where `new` cannot be the output of the graph that `old` is, a copy of it, right before `node`, is. The node stays;
        `discard` it.
        """
        producer = new.producer()
        is_ours = producer is not None and producer.graph is self.graph
        if old.is_graph_output() and (new.is_graph_output() or not is_ours):
            copy = ir.Value(type=old.type, shape=old.shape)
            self.insert_before(node, ir.Node("", "Identity", [new], outputs=[copy]))
            self.hand_over_output(old, copy)
        self.replace_value(old, new)

    def stand_in(self, value: ir.Value, copy: ir.Value, axes: Sequence[int] | None = None) -> None:
        """Record that `copy` holds what `value` holds now, before the pass changes the node of `value` in place or leaves it out.

        Args:
          value: the value.
          copy: one that equals it, or does so with its axes in the order of `axes`.
          axes: the axes of `copy` in the order of `value`, if they are in another one.
        """
        share_origins(value, copy, axes)

    def set_contents(self, values: Iterable[ir.Value]) -> None:
        """Record that values hold something else than before: the pass changed their nodes in place.

        They have other rows, another order of axes, or another element type, and stand for no result of the exported
        function any more; a copy that does is told by `stand_in` before.
        """
        drop_origins(values)
        self.modified = True

    def permute_contents(self, values: Iterable[ir.Value], axes: Sequence[int]) -> None:
        """Record that values have another order of axes than before: the pass changed their nodes in place.

        Args:
          values: the values.
          axes: the axes that a Transpose would take to give what they held before.
        """
        for value in values:
            permute_origins(value, axes)
        self.modified = True

    def insert_before(self, following: ir.Node, node: ir.Node) -> None:
        """Put a node right before another."""
        self.graph.insert_before(following, node)
        if self._first is following:
            self._first = node

    def insert_first(self, node: ir.Node) -> None:
        """Put a node, which reads no other, before the first node that the graph had, or that was put before that one since."""
        if self._first is None:
            self.graph.append(node)
        else:
            self.graph.insert_before(self._first, node)

    def move_after(self, preceding: ir.Node, nodes: Sequence[ir.Node]) -> None:
        """Put nodes of the graph, in this order, right after another that was behind them."""
        if self._first in nodes:
            self._first = preceding
        self.graph.remove(nodes)
        self.graph.insert_after(preceding, nodes)
        self.modified = True

    def finish(self) -> bool:
        """Remove discarded nodes; returns whether the graph was modified."""
        if self._dead:
            self.graph.remove(self._dead)
            self._dead = {}
        return self.modified

    def _take_over_output(self, output: ir.Value, value: ir.Value) -> bool:
        producer = value.producer()
        if producer is None or producer.graph is not self.graph or producer.op_type == "Constant":
            return False
        if value.is_graph_output() or value.is_graph_input():
            return False
        self.hand_over_output(output, value)
        return True

    def hand_over_output(self, old: ir.Value, new: ir.Value) -> None:
        """Let `new`, which this graph makes, be the graph output that `old` is; the two exchange their names.

        If they have the same sizes, `new` gets the metadata of `old`, such as the labels of dimensions that were fixed.
        """
        outputs = self.graph.outputs
        for index, candidate in enumerate(outputs):
            if candidate is old:
                outputs[index] = new
        new.name, old.name = old.name, new.name
        if new.shape == old.shape:
            new.metadata_props.update(old.metadata_props)
        self.modified = True


def _size_along(b: InsertionPoint, node: ir.Node, axis: int) -> ir.Value | None:
    """The size of the result of a node along an axis, as an int64 vector of one element; None where no operand tells a label."""
    dims = dims_of(node.outputs[0]) or ()
    if isinstance(size := dims[axis], int):
        return b.ints([size])
    for operand in node.inputs:
        own = dims_of(operand) or ()
        if (place := axis - len(dims) + len(own)) >= 0 and same_dim(own[place], size):
            return b.op.Shape(operand, start=place, end=place + 1, dims=(1,))
    return None


def _become_copy(node: ir.Node, value: ir.Value) -> bool:
    """Make a node an Identity of a value; whether it was none, and has no bodies, which would go on reading values."""
    if node.op_type in HAS_SUBGRAPHS or (node.op_type == "Identity" and not node.domain and node.inputs[0] is value):
        return False
    node.domain, node.op_type = "", "Identity"
    node.attributes.clear()
    node.resize_inputs(1)
    node.replace_input_with(0, value)
    return True


class InsertionPoint(GraphBuilder):
    """A builder whose nodes go to one place of a graph and carry the metadata and the name of a node that is there.

    The graph names the values. Dimensions are labels.

    Attributes:
      nodes: the nodes that were written here, in order.
    """

    def __init__(self, editor: GraphEditor, origin: ir.Node | None) -> None:
        super().__init__(editor.opset, editor.target)
        self._editor, self._origin = editor, origin
        self.nodes: list[ir.Node] = []

    def _insert(self, node: ir.Node) -> None:
        if self._origin is not None:
            node.metadata_props.update(self._origin.metadata_props)
        self._editor.modified = True
        self._place(node)
        self.nodes.append(node)

    @abc.abstractmethod
    def _place(self, node: ir.Node) -> None:
        """Put a node into the graph."""

    def variant(
        self, node: ir.Node, inputs: Sequence[Value | None], *, dims: Sequence[Dim], without: Collection[str] = ()
    ) -> Value:
        """The result of a new node like another one.

        Args:
          node: the other node, with one output.
          inputs: the operands of the new one.
          dims: the dimensions of its result.
          without: the attributes that it does not take over.
        """
        attributes = {name: value for name, value in attribute_values(node).items() if name not in without}
        (value,) = self.emit(node.op_type, inputs, node.domain, 1, None, dims, attributes)
        return value

    def _node_name(self, op_type: str) -> str:
        origin = self._origin
        return self._editor.node_name(renamed(origin.name, op_type) if origin is not None and origin.name else op_type)

    def _value_names(self, node: str, count: int) -> Sequence[str | None]:
        return [None] * count

    def dims(self, value: Value) -> Dims | None:
        dims = dims_of(value)
        return None if dims is None else labelled(dims)

    def set_dims(self, value: Value, dims: Sequence[Dim]) -> None:
        value.shape = ir.Shape(cast("Sequence[LabelledDim]", dims))

    def _infer_dims(
        self, op_type: str, inputs: Sequence[Value | None], attributes: dict[str, Attribute]
    ) -> Dims | None:
        if op_type in ("Concat", "Split") and not all(is_static(d) for v in inputs if v for d in self.dims(v) or ()):
            return None
        return super()._infer_dims(op_type, inputs, attributes)

    def shape(self, dims: Sequence[Dim]) -> Value:
        if not all(map(is_static, dims)):
            raise RuleError(f"A pass cannot compute the shape {list(dims)}: labels have no values.")
        return self.ints([d for d in dims if is_static(d)])

    def concat(self, xs: Sequence[Value], axis: int) -> Value:
        """The values one after another along `axis`; a constant where all are, since no later pass makes it one."""
        arrays = [array for x in xs if (array := known(x)) is not None]
        return super().concat(xs, axis) if len(arrays) < len(xs) else self.new_constant(np.concatenate(arrays, axis))

    def new_constant(self, array: Array, name: str = "const") -> Value:
        return self._editor.constant(array)

    def new_tensor(self, tensor: ir.TensorProtocol, name: str) -> Value:
        return self._editor.own(tensor)


class _BeforeNode(InsertionPoint):
    def __init__(self, editor: GraphEditor, node: ir.Node) -> None:
        super().__init__(editor, node)
        self._next = node

    def _place(self, node: ir.Node) -> None:
        self._editor.insert_before(self._next, node)


class _AfterValue(InsertionPoint):
    def __init__(self, editor: GraphEditor, value: ir.Value, origin: ir.Node | None) -> None:
        super().__init__(editor, origin)
        self._last = value.producer()

    def _place(self, node: ir.Node) -> None:
        graph = self._editor.graph
        if self._last is not None and self._last.graph is graph:
            graph.insert_after(self._last, node)
        else:
            self._editor.insert_first(node)
        self._last = node


def labelled(dims: Sequence[LabelledDim]) -> Dims:
    """Dimensions that may be labels, as a builder takes them: labels can be compared but not computed with."""
    return cast("Dims", tuple(dims))
