"""`Interface`: how calls of an exported function are runs of its model."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array, Dtype, number_array
from jax2onnx_graph.facts.dims import SpecializedDim
from jax2onnx_graph.labels import symbol_table
from jax2onnx_graph.metadata import SymbolInfo
from jax2onnx_runtime.call_interface import CallInterface, LeafType, Step
from jax2onnx_runtime.probing import critical_sizes, index_extents
from jax2onnx_runtime.sizes import Ranges, Sizes, SymbolSpace, check_ranges, check_shapes, check_sizes, choose_sizes

from jax2onnx_core import _compat
from jax2onnx_core.frontend._pytrees import is_too_deep, structure_difference
from jax2onnx_core.frontend._tracing import Traced
from jax2onnx_core.frontend.inputs import Inputs
from jax2onnx_core.frontend.layouts import Layouts
from jax2onnx_core.jax_types import Aval, PyTree
from jax2onnx_core.jaxprs import Dim, is_symbolic_dim
from jax2onnx_core.lowering.physical import from_physical, physical_array, physical_type
from jax2onnx_core.plugins.errors import RuntimeInputError, SymbolError
from jax2onnx_core.program._containers import template_of
from jax2onnx_core.program._stepping import PytreeStepInterface, initial_values, input_leaves
from jax2onnx_core.program.verification import Arguments, Run, random_runs

__all__ = ["Interface"]


@dataclasses.dataclass(frozen=True, eq=False)
class Interface:
    """The names, pytrees, types, symbols, layouts and states by which a model is called like the function it was made of.

    Attributes:
      inputs: the function's arguments: names, types, pytree and symbols.
      traced: the function, with the types and the pytree of its results.
      output_names: the names of the model's outputs, in order.
      layouts: the inputs and outputs whose axes the model has in another order than the function.
      x64: whether JAX's 64-bit types are enabled.
      specialized: the symbols that were fixed → their numbers.
      states: the names of the inputs and of the outputs that are states.
      variables: input name → the first value of a state that a model object holds.
      element_types: input name → the element type that the model takes in place of the function's.
    """

    inputs: Inputs
    traced: Traced
    output_names: Sequence[str]
    _: dataclasses.KW_ONLY
    layouts: Layouts
    x64: bool
    specialized: Mapping[str, int] = dataclasses.field(default_factory=dict)
    states: Collection[str] = ()
    variables: Mapping[str, jax.Array] = dataclasses.field(default_factory=dict)
    element_types: Mapping[str, Dtype] = dataclasses.field(default_factory=dict)

    def with_element_types(self, model: ir.Model) -> Interface:
        """The same interface for a model whose inputs may have other element types: arguments become these."""
        inputs = {value.name or "": value.dtype.numpy() for value in model.graph.inputs if value.dtype is not None}
        return dataclasses.replace(self, element_types=inputs)

    # -- symbols -----------------------------------------------------------------------------

    @functools.cached_property
    def symbols(self) -> dict[str, SymbolInfo]:
        """The symbols of the inputs: least value, the number they were fixed to, where they stand."""
        shapes = dict(zip(self.inputs.names, (aval.shape for aval in self.inputs.avals), strict=True))
        labels = {name: [self._label(d) for d in self.layouts.arranged(name, shape)] for name, shape in shapes.items()}
        return symbol_table(labels, self.inputs.symbols.minimum, self.specialized)

    @property
    def constraints(self) -> list[str]:
        """The constraints on the symbols, as they were written."""
        return [constraint.text for constraint in self.inputs.symbols.constraints]

    def output_labels(self) -> list[list[str | None]]:
        """The label of each dimension of each output; None for a number."""
        shapes = map(self.layouts.arranged, self.output_names, [aval.shape for aval in self.traced.out_avals])
        return [[self._label(d) if is_symbolic_dim(d) else None for d in shape] for shape in shapes]

    def _label(self, dim: Dim) -> str | None:
        """The label of a dimension; None for a number that was never symbolic."""
        return self.inputs.symbols.label(dim) if is_symbolic_dim(dim) or isinstance(dim, SpecializedDim) else None

    def space(self) -> SymbolSpace:
        """The sizes that the symbols may have."""
        return self.inputs.space()

    # -- arguments and results ---------------------------------------------------------------

    def feeds(self, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, Array]:
        """The model's inputs by name for the arguments of a call.

        Raises:
          RuntimeInputError: the arguments differ from those of the export in pytree, dtype or shape.
        """
        given = tuple(args), dict(kwargs)
        if is_too_deep(given):
            raise RuntimeInputError("The arguments are nested more than 100 deep, or one of them contains itself.")
        try:
            leaves, tree = jax.tree_util.tree_flatten(given)
        except ValueError as error:
            raise RuntimeInputError(
                f"The arguments have a dict whose keys cannot be sorted, so that JAX has no order of them: {error}"
            ) from error
        if tree != self.inputs.tree:
            difference = structure_difference(tree, self.inputs.tree)
            raise RuntimeInputError(f"The arguments are not those that the program was exported for: {difference}")
        arrays = [self._read(index, leaf) for index, leaf in enumerate(leaves)]
        self.check_shapes([array.shape for array in arrays])
        return dict(zip(self.inputs.names, arrays, strict=True))

    def results(self, outputs: Sequence[Array]) -> PyTree:
        """The result of the function where the model has these outputs; RuntimeInputError for another number of them."""
        if not isinstance(outputs, Sequence) or len(outputs) != len(self.output_names):
            given = f"{len(outputs)} arrays" if isinstance(outputs, Sequence) else repr(outputs)[:80]
            raise RuntimeInputError(f"The outputs are {', '.join(self.output_names)}, but {given} were given.")
        leaves = [self._result(i, x) for i, x in enumerate(outputs)]
        return jax.tree_util.tree_unflatten(self.traced.out_tree, leaves)

    def outputs(self, result: PyTree) -> list[Array]:
        """The inverse of `results`: the outputs of the model for the leaves of the function's result."""
        arrays = [physical_array(jax.numpy.asarray(x)) for x in jax.tree_util.tree_leaves(result)]
        return [*map(self.layouts.given, self.output_names, arrays)]

    def known_outputs(self, result: PyTree) -> list[Array]:
        """The same for a result that somebody stored. Raises RuntimeInputError if it is another pytree than the function's, or not of arrays."""
        found, wanted = jax.tree_util.tree_structure(result), self.traced.out_tree
        if found != wanted:
            raise RuntimeInputError(f"The result is {found}, but that of the function is {wanted}.")
        for leaf in jax.tree_util.tree_leaves(result):
            if isinstance(leaf, np.ma.MaskedArray):
                raise RuntimeInputError(
                    "The result has a masked array, whose mask no output of a model has; give array.filled(value)."
                )
            if not isinstance(leaf, jax.Array) and np.asarray(leaf).dtype.kind in "OSU":
                raise RuntimeInputError(f"The result has {leaf!r:.80} where the function has an array.")
        return self.outputs(result)

    def result_of(self, named: Mapping[str, object]) -> PyTree:
        """The result of a call for its arrays by the names of outputs."""
        return jax.tree_util.tree_unflatten(self.traced.out_tree, [named[name] for name in self.output_names])

    def arguments(self, named: Mapping[str, object]) -> Arguments:
        """The arguments of the call for arrays by the names of inputs; RuntimeInputError for other names."""
        if not isinstance(named, Mapping) or set(named) != set(self.inputs.names):
            given = ", ".join(map(str, named)) or "none" if isinstance(named, Mapping) else repr(named)[:80]
            raise RuntimeInputError(
                f"The inputs are {', '.join(self.inputs.names) or 'none'}, but arrays were given for {given}."
            )
        args, kwargs = jax.tree_util.tree_unflatten(self.inputs.tree, [named[name] for name in self.inputs.names])
        return args, kwargs

    def check_shapes(self, shapes: Sequence[tuple[int, ...]]) -> Sizes:
        """The sizes of the symbols for shapes of the model's inputs; errors name the axes of the function.

        Raises:
          RuntimeInputError: the shapes do not fit the inputs or each other.
        """
        symbols, shapes = self.inputs.symbols, [*map(self.layouts.restored, self.inputs.names, shapes)]
        wanted = zip(shapes, (physical_type(aval)[1] for aval in self.inputs.avals), strict=True)
        named = dict(zip(self.inputs.names, wanted, strict=True))
        try:
            return check_shapes(
                self.inputs.space(), named, lambda: symbols.user_values(self.inputs.solution.values(shapes))
            )
        except SymbolError as error:
            raise RuntimeInputError(f"The arguments do not fit: {error}") from error

    def _read(self, index: int, leaf: Any) -> Array:
        """The array of an argument's leaf, by its index among the inputs."""
        name, aval = self.inputs.names[index], self.inputs.avals[index]
        try:
            leaf = self._accepted(leaf, aval.dtype)
        except ValueError as error:
            raise RuntimeInputError(f"Input {name!r}: {error}") from error
        if leaf.dtype != aval.dtype:
            is_key = _compat.is_extended_dtype(aval.dtype)
            advice = "give it a key, jax.random.key(seed)" if is_key else f"convert it, np.asarray(x, '{aval.dtype}')"
            raise RuntimeInputError(
                f"Input {name!r} has dtype {leaf.dtype}, but the program was exported for {aval.dtype}: {advice}."
            )
        return self._taken(name, physical_array(leaf))

    def _taken(self, name: str, array: Array) -> Array:
        """A physical array of the function as the model takes it."""
        array = self.layouts.given(name, array)
        return array.astype(self.element_types[name], copy=False) if name in self.element_types else array

    def _accepted(self, leaf: Any, dtype: Dtype) -> Array | jax.Array:
        """The argument of dtype `dtype` where JAX, too, would make it that: 64 bits become 32 while x64 is off."""
        if isinstance(leaf, jax.core.Tracer):
            raise RuntimeInputError(
                "The argument is traced by JAX: a program runs outside of jax.jit, jax.grad and other transformations. Call the exported "
                "function there, or the program by jax.pure_callback."
            )
        if isinstance(leaf, jax.Array):
            if leaf.is_deleted():
                raise RuntimeInputError(
                    "The argument is an array that was deleted, as one that was donated to a jitted function is."
                )
            return leaf
        if isinstance(leaf, np.ma.MaskedArray):
            raise RuntimeInputError(
                "The argument is a masked array, whose mask a model does not take; give array.filled(value)."
            )
        is_number = isinstance(leaf, (bool, int, float, complex)) and not isinstance(leaf, np.generic)
        if is_number and not _compat.is_extended_dtype(dtype):
            return number_array(leaf, dtype)
        array = np.asarray(leaf)
        with jax.enable_x64(self.x64), np.errstate(over="ignore"):
            becomes = array.dtype.kind in "iufc" and _compat.canonical_dtype(array.dtype) == dtype
            return array.astype(dtype) if becomes else array

    def _result(self, index: int, array: Array) -> PyTree:
        """The leaf of the function's result, by its index among all, of an output of the model."""
        return from_physical(self.layouts.returned(self.output_names[index], array), self.traced.out_avals[index])

    # -- states ------------------------------------------------------------------------------

    def step_interface(self) -> PytreeStepInterface:
        """The arguments and results without those that are states."""
        return PytreeStepInterface(
            self.inputs, self.traced, self.states, self.output_names, check=self.check_shapes, read=self._read,
            write=self._result,
        )  # fmt: skip

    def held_states(self) -> dict[str, Array]:
        """The values of states that model objects hold, by the names of inputs."""
        return {name: self._taken(name, physical_array(x)) for name, x in self.variables.items()}

    def first_states(self, given: Mapping[int | str, PyTree]) -> dict[str, Array]:
        """The first values that are given for states, by the names of inputs.

        `given` maps the position or the name of an argument to its value. Raises OptionError for one that is no argument.
        """
        return initial_values(given, input_leaves(self.inputs), self._read)

    # -- other processes -----------------------------------------------------------------------

    def portable(self) -> CallInterface:
        """The same interface without JAX."""
        (args, kwargs), result, outputs = self.step_interface().containers()
        called = jax.tree_util.tree_unflatten(self.inputs.tree, range(len(self.inputs.names)))
        return CallInterface(
            [self._leaf_type(name, aval) for name, aval in zip(self.inputs.names, self.inputs.avals, strict=True)],
            (template_of(called[0]), template_of(called[1])),
            [self._leaf_type(name, a) for name, a in zip(self.output_names, self.traced.out_avals, strict=True)],
            template_of(jax.tree_util.tree_unflatten(self.traced.out_tree, range(len(self.output_names)))),
            Step((template_of(args), template_of(kwargs)), template_of(result), outputs),
            self.held_states(), self.x64,
        )  # fmt: skip

    def _leaf_type(self, name: str, aval: Aval) -> LeafType:
        dtype = physical_type(aval)[0] if _compat.is_extended_dtype(aval.dtype) else np.dtype(aval.dtype)
        layout = self.layouts.by_name.get(name)
        return LeafType(name, dtype, None if layout is None else layout.perm, self.element_types.get(name))

    # -- random calls ------------------------------------------------------------------------

    def random_runs(self, model: ir.Model, sizes: Sequence[Sizes] | None, ranges: Ranges, seed: int) -> Iterator[Run]:
        """Calls with random arguments.

        Args:
          model: the model, which tells at which sizes it may go wrong, and which inputs are indices.
          sizes: symbols → numbers, one mapping per run; by default a few of each.
          ranges: input name → `(low, high)` of its random numbers.
          seed: that of the random numbers.

        Raises:
          OptionError: a range is for no input, or is none.
          SymbolError: there is no such symbol, or it cannot have this size.
        """
        check_ranges(
            {name: aval.dtype for name, aval in zip(self.inputs.names, self.inputs.avals, strict=True)}, ranges
        )
        if sizes is None:
            sizes = choose_sizes(self.inputs.space(self.traced.out_avals), critical_sizes(model))
        check_sizes(self.inputs.space(), sizes)
        return random_runs(self.inputs, sizes, ranges, index_extents(model), seed)
