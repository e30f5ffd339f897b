"""`CallInterface`: how calls of an exported function are runs of its model, where there is no JAX."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array, Dtype, number_array
from jax2onnx_graph.errors import RuntimeInputError, SymbolError

from jax2onnx_runtime.feeds import sizes_of, symbol_space
from jax2onnx_runtime.pytrees import PyTree, Template, build, consists_of, leaves, without
from jax2onnx_runtime.sizes import Sizes, SymbolSpace

__all__ = ["CallInterface", "LeafType", "Step", "TemplateSteps", "checked_sizes"]

# What JAX makes of 64 bits while they are not enabled.
_NARROW = {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}


@dataclasses.dataclass(frozen=True)
class LeafType:
    """An array of a call, which is an input or an output of the model.

    Attributes:
      name: that of the input or output.
      dtype: the element type in the call: complex numbers have one here, random keys that of their words.
      perm: the axis of the call by the axis of the model, where the model has a layout of its own.
      element_type: the element type that the model takes in place of the call's; None for the same.
    """

    name: str
    dtype: Dtype
    perm: tuple[int, ...] | None = None
    element_type: Dtype | None = None

    def given(self, leaf: PyTree, *, narrows: bool) -> Array:
        """The array of the model for a leaf of a call.

        Args:
          leaf: an array, or a number.
          narrows: whether 64 bits become 32 where that is the element type.
        """
        array = self._typed(leaf, narrows=narrows)
        if array.dtype.kind == "c":
            array = np.ascontiguousarray(array).view(array.real.dtype).reshape(*array.shape, 2)
        if self.perm is not None and array.ndim >= len(self.perm):
            array = np.ascontiguousarray(array.transpose(*self.perm, *range(len(self.perm), array.ndim)))
        return array if self.element_type is None else array.astype(self.element_type, copy=False)

    def returned(self, array: Array) -> Array:
        """The leaf of a call for an array of the model."""
        if self.perm is not None:
            array = array.transpose(*np.argsort(self.perm), *range(len(self.perm), array.ndim))
        if self.dtype.kind == "c":
            part = np.empty((), self.dtype).real.dtype
            return np.ascontiguousarray(array, part).view(self.dtype).reshape(array.shape[:-1])
        return array

    def _typed(self, leaf: PyTree, *, narrows: bool) -> Array:
        if isinstance(leaf, (bool, int, float, complex)) and not isinstance(leaf, np.generic):
            try:
                return number_array(leaf, self.dtype)
            except ValueError as error:
                raise RuntimeInputError(f"Input {self.name!r}: {error}") from error
        if isinstance(leaf, np.ma.MaskedArray):
            raise RuntimeInputError(
                f"Input {self.name!r} is a masked array, whose mask a model does not take; give array.filled(value)."
            )
        array = np.asarray(leaf)
        if narrows and _NARROW.get(array.dtype.name) == self.dtype.name:
            with np.errstate(over="ignore"):
                return array.astype(self.dtype)
        if array.dtype != self.dtype:
            raise RuntimeInputError(
                f"Input {self.name!r} has dtype {array.dtype}, but the program was exported for {self.dtype}: convert it, "
                f"np.asarray(x, {self.dtype.name!r})."
            )
        return array


@dataclasses.dataclass(frozen=True)
class Step:
    """The containers of a step of a session: those of a call without the states.

    Attributes:
      arguments: those of the positional and of the keyword arguments.
      result: the result.
      outputs: the numbers of the outputs that are no states, in order.
    """

    arguments: tuple[Template, Template]
    result: Template
    outputs: Sequence[int]


@dataclasses.dataclass(frozen=True)
class CallInterface:
    """The names, types and containers by which a model is called like the function that it was made of.

    Attributes:
      inputs: the arrays of a call, in the order of the model's inputs.
      arguments: the containers of the positional and of the keyword arguments, whose leaves are numbers of `inputs`.
      outputs: the arrays of a result, in the order of the model's outputs.
      result: its containers, whose leaves are numbers of `outputs`.
      step: the containers of a step of a session.
      variables: input → the first value, as the model takes it, of a state that a model object held.
      x64: whether JAX's 64-bit types were enabled.
    """

    inputs: Sequence[LeafType]
    arguments: tuple[Template, Template]
    outputs: Sequence[LeafType]
    result: Template
    step: Step
    variables: Mapping[str, Array] = dataclasses.field(default_factory=dict)
    x64: bool = False

    def with_element_types(self, model: ir.Model) -> CallInterface:
        """The same interface for a model whose inputs may have other element types: arguments become these."""
        types = {str(value.name): value.dtype.numpy() for value in model.graph.inputs if value.dtype is not None}
        inputs = [dataclasses.replace(leaf, element_type=types[leaf.name]) for leaf in self.inputs]
        return dataclasses.replace(self, inputs=inputs)

    def stepping_without(self, names: Collection[str]) -> CallInterface:
        """The same interface, whose steps do not take these inputs either."""
        numbers = {number for number, leaf in enumerate(self.inputs) if leaf.name in names}
        args, kwargs = self.step.arguments
        if isinstance(args, tuple):
            args = tuple(arg for arg in args if not consists_of(arg, numbers))
        step = dataclasses.replace(self.step, arguments=(without(args, numbers), without(kwargs, numbers)))
        return dataclasses.replace(self, step=step)

    def read(self, number: int, leaf: PyTree) -> Array:
        """The array of the model for a leaf of the arguments, by its number."""
        return self.inputs[number].given(leaf, narrows=not self.x64)

    def feeds(self, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, Array]:
        """The model's inputs by name for the arguments of a call, whose shapes are not checked yet.

        Raises:
          RuntimeInputError: the arguments differ from those of the export in containers or dtype.
        """
        found = dict(_leaves(self.arguments, args, kwargs))
        return {leaf.name: self.read(number, found[number]) for number, leaf in enumerate(self.inputs)}

    def named(self, arrays: Mapping[str, object]) -> dict[str, Array]:
        """The model's inputs for arrays of a call by the names of inputs.

        Raises:
          RuntimeInputError: a name is unknown or missing, or an array has another dtype.
        """
        names = [leaf.name for leaf in self.inputs]
        if arrays.keys() != set(names):
            raise RuntimeInputError(
                f"The inputs are {', '.join(names) or 'none'}, but arrays were given for {', '.join(map(str, arrays)) or 'none'}."
            )
        return {name: self.read(number, arrays[name]) for number, name in enumerate(names)}

    def results(self, outputs: Sequence[Array]) -> PyTree:
        """The result of the function where the model has these outputs."""
        return build(
            self.result, {i: leaf.returned(x) for i, (leaf, x) in enumerate(zip(self.outputs, outputs, strict=True))}
        )

    def outputs_of(self, result: object) -> list[Array]:
        """The inverse of `results`: the outputs of the model for a result of the function."""
        found = dict(leaves(self.result, result, "the result"))
        return [leaf.given(found[number], narrows=not self.x64) for number, leaf in enumerate(self.outputs)]


class TemplateSteps:
    """The arguments and results of the steps of a session, as a `StepInterface`.

    Args:
      interface: how calls are runs of the model.
      model: the model, whose symbols the shapes are checked against.
    """

    def __init__(self, interface: CallInterface, model: ir.Model) -> None:
        self._interface, self._model = interface, model
        self._shapes: dict[str, tuple[int, ...]] = {}  # those that were checked last
        self._sizes: Sizes = {}

    @functools.cached_property
    def _space(self) -> SymbolSpace:
        return symbol_space(self._model)

    def feeds(
        self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree], states: Mapping[str, tuple[int, ...]]
    ) -> tuple[dict[str, Array], Sizes]:
        """The inputs that are no states, and the sizes of the symbols."""
        interface = self._interface
        found = _leaves(interface.step.arguments, args, kwargs)
        arrays = {interface.inputs[number].name: interface.read(number, leaf) for number, leaf in found}
        shapes = {**states, **{name: tuple(array.shape) for name, array in arrays.items()}}
        if shapes != self._shapes:
            self._sizes, self._shapes = checked_sizes(self._space, self._model, shapes), shapes
        return arrays, self._sizes

    def result(self, outputs: Sequence[Array]) -> PyTree:
        """The result of the function without the states, from the outputs that are none."""
        interface = self._interface
        arrays = {i: interface.outputs[i].returned(x) for i, x in zip(interface.step.outputs, outputs, strict=True)}
        return build(interface.step.result, arrays)


def checked_sizes(space: SymbolSpace, model: ir.Model, shapes: Mapping[str, Sequence[int]]) -> Sizes:
    """The sizes of the symbols for shapes of a model's inputs.

    Raises:
      RuntimeInputError: they do not fit the inputs or each other.
    """
    try:
        return sizes_of(space, model, shapes)
    except SymbolError as error:
        raise RuntimeInputError(f"The arguments do not fit: {error}") from error


def _leaves(
    templates: tuple[Template, Template], args: Sequence[object], kwargs: Mapping[str, object]
) -> Iterator[tuple[int, PyTree]]:
    """The numbers of the leaves of a call, with what is in their places."""
    yield from leaves(templates[0], tuple(args), "args")
    yield from leaves(templates[1], dict(kwargs), "kwargs")
