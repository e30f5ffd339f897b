"""`Boundary`: the inputs and outputs of a finished model, given other names, element types and orders of axes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Dtype
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.facts.values import LabelledDim
from jax2onnx_graph.labels import describe_symbols
from jax2onnx_graph.metadata import LAYOUTS_KEY, STATES_KEY, read_constraints, read_symbols
from jax2onnx_graph.passes import make_names_unique
from jax2onnx_graph.passes.structural.fold_casts import FoldCasts
from jax2onnx_graph.passes.structural.fold_transposes import FoldTransposes
from jax2onnx_graph.passes.structural.merge_reshapes import MergeReshapes
from jax2onnx_graph.passes.structural.remove_dead_nodes import RemoveDeadNodes
from jax2onnx_graph.rewrite.editor import GraphEditor, InsertionPoint
from jax2onnx_graph.targets import Target
from jax2onnx_graph.traversal import all_values, is_value_read

__all__ = ["Boundary"]

_NAME = re.compile(r"[A-Za-z_]\w*")
_TIDIED_BY = (FoldCasts, FoldTransposes, MergeReshapes, RemoveDeadNodes)


class Boundary:
    """The inputs and outputs of a copy of a model while they change; the model itself stays as it is.

    An input is replaced by what nodes at the front make of new inputs, an output by what nodes make of it. The transposes and
    casts that this brings about are merged with those of the model.

    Args:
      model: the model.
      target: what it is made for.

    Attributes:
      old_inputs: the inputs of the copy, by name.
      old_outputs: the outputs of the copy, by name.
    """

    def __init__(self, model: ir.Model, target: Target) -> None:
        self._model, self._target = model.clone(), target
        graph = self._model.graph
        self._editor = GraphEditor(graph, opset=self._model.opset_imports.get("", 1), target=target)
        self._inputs: dict[str, ir.Value] = {}
        self._outputs: dict[str, ir.Value] = {}
        self._replaced: set[str] = set()
        self.old_inputs = {value.name or "": value for value in graph.inputs}
        self.old_outputs = {value.name or "": value for value in graph.outputs}

    def new_input(self, name: str, dtype: Dtype, dims: Sequence[LabelledDim]) -> ir.Value:
        """A further input of the model, behind those that were made before. Raises OptionError where one of them has the name."""
        _check_new("inputs", name, self._inputs)
        value = ir.Value(name=name, type=ir.TensorType(ir.DataType.from_numpy(dtype)), shape=ir.Shape(dims))
        self._inputs[name] = value
        return value

    def front(self) -> InsertionPoint:
        """A builder whose nodes go before those of the model; they can read new inputs and constants."""
        return self._editor.after(ir.Value(name="front"))

    def behind(self, value: ir.Value) -> InsertionPoint:
        """A builder whose nodes go right behind the node that makes a value."""
        return self._editor.after(value)

    def replace_input(self, old: str, value: ir.Value) -> None:
        """Let all readers of an input of the model read a value of the same element type and shape instead.

        Args:
          old: the input's name.
          value: a new input, or what nodes at the front make of new inputs.
        """
        given = self.old_inputs[old]
        for node, index in given.uses():
            node.replace_input_with(index, value)
        for name, result in self.old_outputs.items():
            if result is given:
                self.old_outputs[name] = value
        self._replaced.add(old)

    def new_output(self, name: str, value: ir.Value) -> None:
        """A further output of the model, behind those that were made before.

        Args:
          name: its name.
          value: what it is. An input, a constant or the value of another output is copied.

        Raises:
          OptionError: an output that was made before has the name.
        """
        _check_new("outputs", name, self._outputs)
        if value.producer() is None or value in self._outputs.values():
            value = self.behind(value).op("Identity", value)
        self._outputs[name] = value

    def finish(self) -> ir.Model:
        """The copy, with the new inputs and outputs in the order in which they were made; its metadata names no states.

        Raises:
          OptionError: what the outputs are made of reads an input that was not replaced.
        """
        graph = self._model.graph
        graph.outputs.clear()
        graph.outputs.extend(self._outputs.values())
        self._editor.finish()
        RemoveDeadNodes(self._target)(self._model)
        for name, value in self.old_inputs.items():
            if name not in self._replaced and is_value_read(value):
                raise OptionError(f"The model reads its input {name!r}, which has no counterpart among the new ones.")
        graph.inputs.clear()
        graph.inputs.extend(self._inputs.values())
        for name, value in self._outputs.items():
            value.name = name
        make_names_unique(self._model)
        for make in _TIDIED_BY:
            make(self._target)(self._model)
        ir.passes.common.RemoveUnusedNodesPass()(self._model)  # constants, too
        make_names_unique(self._model)
        self._model.metadata_props.pop(STATES_KEY, None)
        self._model.metadata_props.pop(LAYOUTS_KEY, None)
        _describe_symbols(self._model, {})
        return self._model

    def rename_symbols(self, names: Mapping[str, str | int]) -> None:
        """Give symbols of the model other names or numbers, in the labels of all its values and in its metadata.

        Args:
          names: symbol → its new name, or the number that it is from now on.

        Raises:
          OptionError: two symbols would have one name.
        """
        known = [info.name for info in read_symbols(self._model)]
        after = [new for name in known if isinstance(new := names.get(name, name), str)]
        if twice := [name for name in after if after.count(name) > 1]:
            raise OptionError(f"Two symbols of the model would be called {twice[0]!r}: rename the other one.")
        renamed = _renaming(names)
        for value in all_values(self._model):
            if value.shape is not None and any(isinstance(dim, ir.SymbolicDim) for dim in value.shape):
                value.shape = ir.Shape([_relabelled(dim, renamed) for dim in value.shape])
        _describe_symbols(self._model, names)


def _check_new(kind: str, name: str, made: Mapping[str, ir.Value]) -> None:
    if name in made:
        raise OptionError(
            f"Two {kind} of the model would be called {name!r}: export it with another name for the other one."
        )


def _renaming(names: Mapping[str, str | int]) -> Callable[[str], str]:
    """The function that renames the symbols in an expression."""
    return lambda text: _NAME.sub(lambda found: str(names.get(found[0], found[0])), text)


def _relabelled(dim: LabelledDim, renamed: Callable[[str], str]) -> LabelledDim:
    if isinstance(dim, int) or dim.value is None:
        return dim
    label = renamed(dim.value)
    return int(label) if label.isdecimal() else ir.SymbolicDim(label)


def _describe_symbols(model: ir.Model, names: Mapping[str, str | int]) -> None:
    """Bring the table of symbols in the metadata in line with the inputs, after symbols got the names `names`."""
    renamed = _renaming(names)
    known = {renamed(info.name): info for info in read_symbols(model)}
    describe_symbols(model, known, map(renamed, read_constraints(model)))
