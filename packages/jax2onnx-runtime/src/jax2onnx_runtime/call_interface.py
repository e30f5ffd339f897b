"""`CallInterface`: how calls of a program are runs of its model."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, Self

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array, Dtype, number_array
from jax2onnx_graph.errors import OptionError, RuntimeInputError, SymbolError
from jax2onnx_graph.metadata import read_states
from jax2onnx_graph.traversal import given_inputs

from jax2onnx_runtime.feeds import sizes_of, symbol_space
from jax2onnx_runtime.pytrees import Numbered, PyTree, Template, build, consists_of, leaves, without
from jax2onnx_runtime.sizes import Sizes

__all__ = [
    "Arguments", "CallForm", "CallInterface", "CallSteps", "LeafType", "SizesOf", "TemplateForm", "named_interface", "remembered",
]  # fmt: skip

#: The positional and the keyword arguments of a call.
Arguments = tuple[Sequence[PyTree], Mapping[str, PyTree]]
#: The sizes of the symbols for the shapes of a model's inputs, which it checks.
SizesOf = Callable[[Mapping[str, tuple[int, ...]]], Sizes]

_REMEMBERED = 256  # shapes of calls

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

    @functools.cached_property
    def _is_plain(self) -> bool:
        """Whether the array of a call is that of the model."""
        return self.perm is None and self.element_type is None and self.dtype.kind != "c"

    def given(self, leaf: PyTree, *, narrows: bool, kind: str = "Input") -> Array:
        """The array of the model for a leaf of a call.

        Args:
          leaf: an array, or a number.
          narrows: whether 64 bits become 32 where that is the element type.
          kind: what messages call it.
        """
        if type(leaf) is np.ndarray and leaf.dtype == self.dtype and self._is_plain:  # the usual case
            return leaf
        array = self._typed(leaf, narrows=narrows, kind=kind)
        if self.dtype.kind == "c":
            array = np.ascontiguousarray(array).view(array.real.dtype).reshape(*array.shape, 2)
        if self.perm is not None and array.ndim >= len(self.perm):
            array = np.ascontiguousarray(array.transpose(*self.perm, *range(len(self.perm), array.ndim)))
        return self.converted(array)

    def converted(self, array: Array) -> Array:
        """An array of the model in the element type that it takes."""
        return array if self.element_type is None else array.astype(self.element_type, copy=False)

    def returned(self, array: Array) -> Array:
        """The leaf of a call for an array of the model."""
        if self._is_plain:
            return array
        if self.perm is not None:
            array = array.transpose(*np.argsort(self.perm), *range(len(self.perm), array.ndim))
        if self.dtype.kind == "c":
            part = np.empty((), self.dtype).real.dtype
            return np.ascontiguousarray(array, part).view(self.dtype).reshape(array.shape[:-1])
        return array

    def _typed(self, leaf: PyTree, *, narrows: bool, kind: str) -> Array:
        if isinstance(leaf, (bool, int, float, complex)) and not isinstance(leaf, np.generic):
            try:
                return number_array(leaf, self.dtype)
            except ValueError as error:
                raise RuntimeInputError(f"{kind} {self.name!r}: {error}") from error
        if isinstance(leaf, np.ma.MaskedArray):
            raise RuntimeInputError(
                f"{kind} {self.name!r} is a masked array, whose mask a model does not take; give array.filled(value)."
            )
        try:
            array = np.asarray(leaf)
        except (TypeError, ValueError) as error:  # a typed key of JAX, numbers that make no rectangle
            raise RuntimeInputError(f"{kind} {self.name!r} is no array of numbers: {error}") from error
        if narrows and _NARROW.get(array.dtype.name) == self.dtype.name:
            with np.errstate(over="ignore"):
                return array.astype(self.dtype)
        if array.dtype != self.dtype:
            raise RuntimeInputError(
                f"{kind} {self.name!r} has dtype {array.dtype}, but the program was exported for {self.dtype}: convert it, "
                f"np.asarray(x, {self.dtype.name!r})."
            )
        return array


class CallForm(Protocol):
    """The containers of a call and of its result, with the number of an input or output at each leaf.

    Attributes:
      outputs: the numbers of the outputs at the leaves of the result, in order.
    """

    @property
    def outputs(self) -> Sequence[int]: ...

    def leaves(self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> dict[int, PyTree]:
        """The arguments at the leaves, by number. Raises RuntimeInputError for other containers."""
        ...

    def arguments(self, leaves: Mapping[int, PyTree]) -> Arguments:
        """The inverse: the call with these arguments at the leaves."""
        ...

    def result(self, leaves: Numbered) -> PyTree:
        """The result with these leaves."""
        ...

    def result_leaves(self, result: PyTree) -> dict[int, PyTree]:
        """The inverse: the leaves of a result, by number. Raises RuntimeInputError for other containers."""
        ...


@dataclasses.dataclass(frozen=True)
class TemplateForm:
    """A `CallForm` of containers that need no JAX.

    Attributes:
      given: the containers of the positional and of the keyword arguments.
      returned: those of the result.
      outputs: the numbers of the outputs in `returned`, in order.
    """

    given: tuple[Template, Template]
    returned: Template
    outputs: Sequence[int]

    def leaves(self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> dict[int, PyTree]:
        """The arguments at the leaves, by number."""
        return {
            **dict(leaves(self.given[0], tuple(args), "args")),
            **dict(leaves(self.given[1], dict(kwargs), "kwargs")),
        }

    def arguments(self, leaves: Mapping[int, PyTree]) -> Arguments:
        """The call with these arguments at the leaves."""
        args, kwargs = (build(template, leaves) for template in self.given)
        return args, kwargs

    def result(self, leaves: Numbered) -> PyTree:
        """The result with these leaves."""
        return build(self.returned, leaves)

    def result_leaves(self, result: PyTree) -> dict[int, PyTree]:
        """The leaves of a result, by number."""
        return dict(leaves(self.returned, result, "the result"))

    def without(self, numbers: Collection[int]) -> TemplateForm:
        """The form of calls that do not take these inputs."""
        args, kwargs = self.given
        if isinstance(args, tuple):
            args = tuple(arg for arg in args if not consists_of(arg, numbers))
        return dataclasses.replace(self, given=(without(args, numbers), without(kwargs, numbers)))


@dataclasses.dataclass(frozen=True, eq=False)
class CallInterface:
    """The names, types and containers by which a model is called like the function that it was made of.

    Attributes:
      inputs: the arrays of a call, in the order of the model's inputs.
      outputs: the arrays of a result, in the order of the model's outputs.
      call: the containers of a call and its result.
      step: the containers of a step of a session: those of a call without the states.
      variables: input → the first value, as the model takes it, of a state that a model object held.
      x64: whether JAX's 64-bit types were enabled.
    """

    inputs: Sequence[LeafType]
    outputs: Sequence[LeafType]
    call: CallForm
    step: CallForm
    variables: Mapping[str, Array] = dataclasses.field(default_factory=dict)
    x64: bool = False

    def with_element_types(self, model: ir.Model) -> Self:
        """The same interface for a model whose inputs may have other element types: arguments become these."""
        types = {str(value.name): value.dtype.numpy() for value in model.graph.inputs if value.dtype is not None}
        inputs = [dataclasses.replace(leaf, element_type=types.get(leaf.name)) for leaf in self.inputs]
        return dataclasses.replace(self, inputs=inputs)

    def portable(self) -> CallInterface:
        """The interface as processes without JAX know it."""
        return self

    def sizes_in(self, model: ir.Model) -> SizesOf:
        """The function that checks the shapes of the inputs of a model, and tells the sizes of its symbols."""
        space = symbol_space(model)

        def sizes(shapes: Mapping[str, tuple[int, ...]]) -> Sizes:
            try:
                return sizes_of(space, model, shapes)
            except SymbolError as error:
                raise RuntimeInputError(f"The arguments do not fit: {error}") from error

        return remembered(sizes)

    # -- calls -----------------------------------------------------------------------------------

    def read(self, number: int, leaf: PyTree) -> Array:
        """The array of the model for a leaf of the arguments, by its number."""
        return self.inputs[number].given(leaf, narrows=not self.x64)

    def feeds(self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> dict[str, Array]:
        """The model's inputs by name for the arguments of a call, whose shapes are not checked yet.

        Raises:
          RuntimeInputError: the arguments differ from those of the export in containers or dtype.
        """
        found = self._leaves(self.call, args, kwargs, ())
        narrows = not self.x64
        return {leaf.name: leaf.given(found[number], narrows=narrows) for number, leaf in enumerate(self.inputs)}

    def step_feeds(
        self, form: CallForm, args: Sequence[PyTree], kwargs: Mapping[str, PyTree], states: Collection[str]
    ) -> dict[str, Array]:
        """The inputs that are no states, by name, for the arguments of a step; like `feeds`."""
        found = self._leaves(form, args, kwargs, states)
        return {self.inputs[number].name: self.read(number, leaf) for number, leaf in found.items()}

    def _leaves(
        self, form: CallForm, args: Sequence[PyTree], kwargs: Mapping[str, PyTree], states: Collection[str]
    ) -> Mapping[int, PyTree]:
        """The arguments at the leaves, by number. What the function calls otherwise may have the name of the model's input."""
        try:
            return form.leaves(args, kwargs)
        except RuntimeInputError as error:
            names = [leaf.name for leaf in self.inputs if leaf.name not in states]
            given = {**dict(zip(names, args, strict=False)), **kwargs}
            if len(given) == len(args) + len(kwargs) and given.keys() == set(names) and _are_arrays(args):
                return {n: given[leaf.name] for n, leaf in enumerate(self.inputs) if leaf.name in given}
            if kwargs:
                raise RuntimeInputError(f"{error} The model's inputs are {', '.join(names) or 'none'}.") from None
            raise

    def named(self, arrays: object) -> dict[str, Array]:
        """The model's inputs for arrays of a call by the names of inputs.

        Raises:
          RuntimeInputError: a name is unknown or missing, or an array has another dtype.
        """
        found = self._numbered(arrays)
        return {leaf.name: self.read(number, found[number]) for number, leaf in enumerate(self.inputs)}

    def arguments(self, arrays: object) -> Arguments:
        """The arguments of the call for arrays by the names of inputs; RuntimeInputError for other names."""
        return self.call.arguments(self._numbered(arrays))

    def _numbered(self, arrays: object) -> dict[int, PyTree]:
        names = [leaf.name for leaf in self.inputs]
        if not isinstance(arrays, Mapping) or arrays.keys() != set(names):
            given = ", ".join(map(str, arrays)) or "none" if isinstance(arrays, Mapping) else repr(arrays)[:80]
            raise RuntimeInputError(f"The inputs are {', '.join(names) or 'none'}, but arrays were given for {given}.")
        return {number: arrays[name] for number, name in enumerate(names)}

    # -- results -----------------------------------------------------------------------------------

    def results(self, outputs: Sequence[Array]) -> PyTree:
        """The result of the function where the model has these outputs; RuntimeInputError for another number of them."""
        return self.call.result(self._returned(outputs))

    def named_results(self, outputs: Sequence[Array]) -> dict[str, Array]:
        """The arrays of the result, by the names of outputs, where the model has these outputs."""
        return dict(zip((leaf.name for leaf in self.outputs), self._returned(outputs), strict=True))

    def _returned(self, outputs: object) -> list[Array]:
        if not isinstance(outputs, (list, Sequence)) or len(outputs) != len(self.outputs):
            given = f"{len(outputs)} arrays" if isinstance(outputs, Sequence) else repr(outputs)[:80]
            names = ", ".join(leaf.name for leaf in self.outputs)
            raise RuntimeInputError(f"The outputs are {names}, but {given} were given.")
        return [leaf.returned(x) for leaf, x in zip(self.outputs, outputs, strict=True)]

    def outputs_of(self, result: PyTree) -> list[Array]:
        """The inverse of `results`, and of `named_results`: the outputs of the model for a result of the function."""
        if isinstance(result, Mapping) and result.keys() == {leaf.name for leaf in self.outputs}:
            found = {number: result[leaf.name] for number, leaf in enumerate(self.outputs)}
        else:
            found = self.call.result_leaves(result)
        return [
            leaf.given(found[number], narrows=not self.x64, kind="Output") for number, leaf in enumerate(self.outputs)
        ]

    # -- states --------------------------------------------------------------------------------------

    def held_states(self) -> dict[str, Array]:
        """The values of states that model objects held, by the names of inputs."""
        types = {leaf.name: leaf for leaf in self.inputs}
        return {name: types[name].converted(array) for name, array in self.variables.items()}

    def first_states(self, given: Mapping[int | str, PyTree]) -> dict[str, Array]:
        """The first values that are given for states, by the names of inputs. Raises OptionError for what is no input."""
        numbers: dict[int | str, int] = {leaf.name: number for number, leaf in enumerate(self.inputs)}
        if unknown := [name for name in given if name not in numbers]:
            raise OptionError(
                f"initial: there is no input {unknown[0]!r}; the inputs are {', '.join(map(str, numbers))}."
            )
        return {str(name): self.read(numbers[name], array) for name, array in given.items()}


class CallSteps:
    """The arguments and results of the steps of a session, as a `StepInterface`.

    Args:
      interface: how calls are runs of the model.
      sizes: checks the shapes of all inputs.
      form: the containers of a step, if not those of the interface.
    """

    def __init__(self, interface: CallInterface, sizes: SizesOf, form: CallForm | None = None) -> None:
        self._interface, self._sizes_of = interface, sizes
        self._form = interface.step if form is None else form

    def feeds(
        self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree], states: Mapping[str, tuple[int, ...]]
    ) -> tuple[dict[str, Array], Sizes]:
        """The inputs that are no states, and the sizes of the symbols."""
        arrays = self._interface.step_feeds(self._form, args, kwargs, states)
        return arrays, self._sizes_of({**states, **{name: array.shape for name, array in arrays.items()}})

    def result(self, outputs: Sequence[Array]) -> PyTree:
        """The result of the function without the states, from the outputs that are none."""
        types = self._interface.outputs
        numbered = zip(self._form.outputs, outputs, strict=True)
        return self._form.result({number: types[number].returned(x) for number, x in numbered})


def _are_arrays(args: Sequence[PyTree]) -> bool:
    return not any(arg is None or isinstance(arg, (dict, list, tuple)) for arg in args)


def remembered(check: SizesOf) -> SizesOf:
    """The same check, which remembers the shapes that passed it last."""

    @functools.lru_cache(_REMEMBERED)
    def sizes(shapes: tuple[tuple[str, tuple[int, ...]], ...]) -> Sizes:
        return check(dict(shapes))

    return lambda shapes: sizes(tuple(shapes.items()))


def named_interface(model: ir.Model) -> CallInterface:
    """The interface of any model: a call takes one mapping, the arrays by the names of inputs, and returns another."""
    graph, states = model.graph, read_states(model)
    inputs, outputs = ([_leaf_type(value) for value in values] for values in (given_inputs(graph), graph.outputs))
    held = {pair.input for pair in states}, {pair.output for pair in states}
    taken, given = ({leaf.name: i for i, leaf in enumerate(leaves)} for leaves in (inputs, outputs))

    def form(apart: tuple[Collection[str], Collection[str]]) -> TemplateForm:
        left = {name: number for name, number in given.items() if name not in apart[1]}
        kept: dict[PyTree, Template] = {name: number for name, number in taken.items() if name not in apart[0]}
        returned: dict[PyTree, Template] = {**left}
        return TemplateForm(((kept,), {}), returned, list(left.values()))

    return CallInterface(inputs, outputs, form(((), ())), form(held), x64=True)


def _leaf_type(value: ir.Value) -> LeafType:
    return LeafType(str(value.name), np.dtype(object) if value.dtype is None else value.dtype.numpy())
