"""`LegalisePass`: a model runs on the kernels of a runtime without a change of its values."""

from __future__ import annotations

from collections.abc import Iterator

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.dtypes import is_exact_cast
from jax2onnx_graph.legalise._carriers import Carrier, Embedding, find_carrier
from jax2onnx_graph.legalise._unrounded import UnroundedValues
from jax2onnx_graph.legalise._value_forms import ValueForms
from jax2onnx_graph.legalise.kernels import Signature, bindings, operator_key, signature
from jax2onnx_graph.legalise.legalisation import Legalisation, Rewrite
from jax2onnx_graph.legalise.magnitudes import Magnitudes
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.targets import Target

__all__ = ["LegalisePass"]


class LegalisePass(GraphPass):
    """Run every operator at an element type that the runtime has a kernel for.

    For each node whose kernel is missing for the type of its operands, in the main graph, in subgraphs
    and in functions:

    1. Its operands are cast to a carrier type (see `carriers`), its results are cast back. The results keep
       their names and types; the node keeps its place.
    2. A value is cast to a carrier once; all users share the Cast, which stands right after the value.
    3. A node takes the uncast result of the node before it where that has the same meaning: movement and order
       of values, and integer sums modulo 2ⁿ. Float results that were computed wider are rounded first.
    4. The cast of a widened value back to its own type is the value itself, also for Casts that were in the model.
    5. A Cast of a result that was computed in a carrier reads the carrier, if that holds the same number.
    6. Small constants are converted; the constant that nobody uses any more is dropped.
    7. Casts back that nobody uses are dropped.
    8. Operators whose kernels are wrong are rewritten (see `Legalisation.rewrites`), unless the numbers are known to be
       so small that the kernels are right.
    9. What comparisons, steps such as Floor, and casts to integers read is rounded to its type, where the runtime may hold it wider
       (see `Legalisation.held_wider`).

    Unknown operators, and types for which there is no exact carrier, are left as they are.
    """

    def __init__(self, target: Target, legalisation: Legalisation) -> None:
        super().__init__(target)
        self._legalisation = legalisation

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Apply the rules above; the model is modified in place."""
        opset = model.opset_imports.get("", 1)
        editors = [GraphEditor(model.graph, opset=opset, target=self.target)]
        for function in model.functions.values():
            own_opset = function.opset_imports.get("", opset)
            editors.append(GraphEditor(function.graph, opset=own_opset, target=self.target, in_function=True))
        for editor in editors:
            self.rewrite_graph(editor)
        return ir.passes.PassResult(model, any(editor.modified for editor in editors))

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Legalise a root graph together with its subgraphs, which share the forms of its values."""
        work = _Legaliser(self._legalisation)
        work.graph(editor)
        editor.modified |= work.forms.finish()


class _Legaliser:
    """Walks over the nodes of one root graph in the order in which they run."""

    def __init__(self, legalisation: Legalisation) -> None:
        self._how, self._table = legalisation, legalisation.table
        self.forms = ValueForms()
        self._magnitudes = Magnitudes()
        self._unrounded = UnroundedValues(legalisation.held_wider)

    def graph(self, editor: GraphEditor) -> None:
        """Legalise the nodes of a graph; those of a subgraph come before the node that has it."""
        self.forms.add_graph(editor)
        for node in list(editor.nodes()):
            for nested in editor.nested_in(node):
                self.graph(nested)
            if node.domain:
                continue
            self._magnitudes.note(node)
            if node.op_type == "Cast":
                self._cast(editor, node)
            else:
                self._node(editor, node)
            self._round(editor, node)
            self._unrounded.note(node, editor.opset)

    def _node(self, editor: GraphEditor, node: ir.Node) -> None:
        """Legalise one node, whose operands are legal."""
        key = operator_key(node)
        found = signature(key, editor.opset)
        if found is None:
            return
        for variable, dtype in bindings(node, found).items():
            native = self._table.types(key, variable, editor.opset)
            if native is None or dtype in native:
                continue
            rewrite = self._how.find_rewrite(key, dtype) if variable == found.main else None
            if rewrite is not None:
                if not self._how.is_small_enough(
                    key, self._magnitudes.common_magnitude(_values_of(node, found, variable))
                ):
                    self._rewrite(editor, node, rewrite, dtype)
                    return
                continue
            carrier = find_carrier(self._table, key, variable, dtype, editor.opset)
            if carrier is not None:
                editor.modified = True
                self._carry(node, found, variable, carrier, dtype)

    def _round(self, editor: GraphEditor, node: ir.Node) -> None:
        """Rule 9 for a node: casts that are written out, before and after, are never left out."""
        unrounded = self._unrounded.to_round(node)
        if not unrounded:
            return
        editor.modified, dtype = True, unrounded[0].dtype
        assert dtype is not None
        for producer in dict.fromkeys(value.producer() for value in unrounded):
            assert producer is not None
            self._carry_rounded(editor, producer, dtype)
        self._carry_rounded(editor, node, dtype)

    def _carry_rounded(self, editor: GraphEditor, node: ir.Node, dtype: ir.DataType) -> None:
        """Compute a node in a wider type, and round its results."""
        key = operator_key(node)
        found = signature(key, editor.opset)
        assert found is not None
        carrier = find_carrier(self._table, key, found.main, dtype, editor.opset)
        if carrier is not None:
            self._carry(node, found, found.main, carrier._replace(result=None), dtype)

    def _carry(self, node: ir.Node, found: Signature, variable: str, carrier: Carrier, dtype: ir.DataType) -> None:
        """Compute a node in a carrier type."""
        embeddings = set()
        for index, value in enumerate(node.inputs):
            if value is not None and found.input(index) == variable:
                carried, embedding = self.forms.carried(value, carrier, node)
                embeddings.add(embedding)
                node.replace_input_with(index, carried)
        if node.op_type == "ConstantOfShape":
            _convert_fill(node, carrier.dtype)
        result = Embedding.RESIDUE if Embedding.RESIDUE in embeddings else carrier.result
        for index, value in enumerate(node.outputs):
            if value.name != "" and found.output(index) == variable and value.dtype == dtype:
                self.forms.cast_back(value, carrier, result, node)

    def _rewrite(self, editor: GraphEditor, node: ir.Node, rewrite: Rewrite, dtype: ir.DataType) -> None:
        """Put other operators in the place of a node, and legalise those."""
        builder, old = editor.before(node), node.outputs[0]
        result = rewrite(builder, node, dtype)
        if result is None:
            return
        name, result.shape = old.name, old.shape
        editor.replace(node, result)
        result.name = name
        for written in builder.nodes:
            self._magnitudes.note(written)
            # Where a rewrite takes the operator itself, the numbers are small enough for its kernel.
            if written.op_type != node.op_type:
                self._node(editor, written)

    def _cast(self, editor: GraphEditor, node: ir.Node) -> None:
        """Rules 4 and 5 for a Cast of the model's own."""
        value, result = node.inputs[0], node.outputs[0]
        if value is None or value.dtype is None or result.dtype is None:
            return
        known = self.forms.find(value, result.dtype)
        if known is not None and not result.is_graph_output():
            editor.replace(node, known)
            return
        source = self.forms.find_source(value)
        if source is not None:
            node.replace_input_with(0, source)
        if is_exact_cast(value.dtype, result.dtype) and result.dtype != value.dtype:
            self.forms.note_cast(value, result)


def _values_of(node: ir.Node, found: Signature, variable: str) -> Iterator[ir.Value | None]:
    return (value for index, value in enumerate(node.inputs) if found.input(index) == variable)


def _convert_fill(node: ir.Node, dtype: ir.DataType) -> None:
    """The `value` of ConstantOfShape in another element type."""
    fill = node.attributes["value"].as_tensor().numpy()
    node.attributes["value"] = ir.AttrTensor("value", ir.tensor(fill.astype(dtype.numpy()), dtype=dtype))
