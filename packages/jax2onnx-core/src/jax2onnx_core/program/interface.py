"""`Interface`: how calls of an exported function are runs of its model."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Iterator, Mapping, Sequence

import jax
import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array, Dtype
from jax2onnx_graph.facts.dims import SpecializedDim
from jax2onnx_graph.labels import symbol_table
from jax2onnx_graph.metadata import SymbolInfo
from jax2onnx_runtime.call_interface import CallInterface, LeafType, SizesOf, remembered
from jax2onnx_runtime.probing import critical_sizes, index_extents
from jax2onnx_runtime.sizes import Ranges, Sizes, check_ranges, check_shapes, check_sizes, choose_sizes
from jax2onnx_runtime.verification import Run

from jax2onnx_core import _compat
from jax2onnx_core.frontend._checkified import with_numbered_checks
from jax2onnx_core.frontend._tracing import Traced
from jax2onnx_core.frontend.inputs import Inputs
from jax2onnx_core.frontend.layouts import Layouts
from jax2onnx_core.jax_types import Aval, PyTree
from jax2onnx_core.jaxprs import Dim, is_symbolic_dim
from jax2onnx_core.lowering.physical import from_physical, physical_array, physical_type
from jax2onnx_core.plugins.errors import RuntimeInputError, SymbolError
from jax2onnx_core.program._state_leaves import initial_values, input_leaves
from jax2onnx_core.program._tree_form import TreeForm
from jax2onnx_core.program.verification import random_runs

__all__ = ["Interface", "interface_of"]


@dataclasses.dataclass(frozen=True)
class _Leaf(LeafType):
    """An array of a call in JAX, which may be a random key.

    Attributes:
      aval: the abstract value in the function.
    """

    aval: Aval = dataclasses.field(kw_only=True)

    @classmethod
    def from_aval(cls, name: str, aval: Aval, layouts: Layouts) -> _Leaf:
        """The leaf of an input or output."""
        is_key, layout = _compat.is_extended_dtype(aval.dtype), layouts.by_name.get(name)
        dtype: Dtype = physical_type(aval)[0] if is_key else aval.dtype
        return cls(name, dtype, None if layout is None else layout.perm, aval=aval)

    def portable(self) -> LeafType:
        """The same without JAX."""
        return LeafType(self.name, self.dtype, self.perm, self.element_type)

    @functools.cached_property
    def _is_key(self) -> bool:
        return _compat.is_extended_dtype(self.aval.dtype)

    def _typed(self, leaf: PyTree, *, narrows: bool, kind: str) -> Array:
        if type(leaf) is np.ndarray and not self._is_key:
            return super()._typed(leaf, narrows=narrows, kind=kind)
        if isinstance(leaf, jax.core.Tracer):
            raise RuntimeInputError(
                "The argument is traced by JAX: a program runs outside of jax.jit, jax.grad and other transformations. Call the exported "
                "function there, or the program by jax.pure_callback."
            )
        if isinstance(leaf, jax.Array) and leaf.is_deleted():
            raise RuntimeInputError(
                "The argument is an array that was deleted, as one that was donated to a jitted function is."
            )
        wanted, dtype = self.aval.dtype, leaf.dtype if isinstance(leaf, jax.Array) else np.asarray(leaf).dtype
        if not (self._is_key or _compat.is_extended_dtype(dtype)):
            return super()._typed(leaf, narrows=narrows, kind=kind)
        if dtype != wanted:
            advice = "give it a key, jax.random.key(seed)" if self._is_key else f"convert it, np.asarray(x, '{wanted}')"
            raise RuntimeInputError(
                f"{kind} {self.name!r} has dtype {dtype}, but the program was exported for {wanted}: {advice}."
            )
        return physical_array(leaf)

    def returned(self, array: Array) -> PyTree:
        """The leaf of a call for an array of the model, a JAX array for a random key."""
        found = super().returned(array)
        return from_physical(found, self.aval) if self._is_key else found


@dataclasses.dataclass(frozen=True, eq=False)
class Interface(CallInterface):
    """The interface of the process that exported: pytrees, random keys and symbols as JAX has them.

    Attributes:
      signature: the function's arguments: names, types, pytree and symbols.
      traced: the function, with the types and the pytree of its results.
      layouts: the inputs and outputs whose axes the model has in another order than the function.
      specialized: the symbols that were fixed → their numbers.
      state_variables: input name → the first value of a state that was given, or that a model object holds.
    """

    _: dataclasses.KW_ONLY
    signature: Inputs
    traced: Traced
    layouts: Layouts
    specialized: Mapping[str, int]
    state_variables: Mapping[str, jax.Array | Array]

    # -- symbols -----------------------------------------------------------------------------

    @functools.cached_property
    def symbols(self) -> dict[str, SymbolInfo]:
        """The symbols of the inputs: least value, the number they were fixed to, where they stand; and those that come from data."""
        given = self.signature
        shapes = dict(zip(given.names, (aval.shape for aval in given.avals), strict=True))
        labels = {name: [self._label(d) for d in self.layouts.arranged(name, shape)] for name, shape in shapes.items()}
        sizes = {
            size.name: SymbolInfo(size.name, size.least, None, (), size.source, self._label_or_none(size.most))
            for size in given.symbols.from_data.values()
        }
        return symbol_table(labels, given.symbols.minimum, self.specialized) | sizes

    @property
    def constraints(self) -> list[str]:
        """The constraints on the symbols, as they were written."""
        return [constraint.text for constraint in self.signature.symbols.constraints]

    def output_labels(self) -> list[list[str | None]]:
        """The label of each dimension of each output; None for a number that was never symbolic."""
        names = [leaf.name for leaf in self.outputs]
        shapes = map(self.layouts.arranged, names, [aval.shape for aval in self.traced.out_avals])
        return [[self._label(d) for d in shape] for shape in shapes]

    def _label(self, dim: Dim) -> str | None:
        """The label of a dimension; None for a number that was never symbolic."""
        return self.signature.symbols.label(dim) if is_symbolic_dim(dim) or isinstance(dim, SpecializedDim) else None

    def _label_or_none(self, dim: Dim | None) -> str | None:
        """The text of a dimension, if there is one."""
        return None if dim is None else self.signature.symbols.label(dim)

    def sizes_in(self, model: ir.Model) -> SizesOf:
        """The function that checks the shapes of the inputs, in whose errors the axes are those of the function."""
        return remembered(lambda shapes: self.check_shapes([tuple(shapes[name]) for name in self.signature.names]))

    def check_shapes(self, shapes: Sequence[tuple[int, ...]]) -> Sizes:
        """The sizes of the symbols for shapes of the model's inputs; errors name the axes of the function.

        Raises:
          RuntimeInputError: the shapes do not fit the inputs or each other.
        """
        given = self.signature
        shapes = [*map(self.layouts.restored, given.names, shapes)]
        wanted = zip(shapes, (physical_type(aval)[1] for aval in given.avals), strict=True)
        named = dict(zip(given.names, wanted, strict=True))
        try:
            return check_shapes(given.space(), named, lambda: given.symbols.user_values(given.solution.values(shapes)))
        except SymbolError as error:
            raise RuntimeInputError(f"The arguments do not fit: {error}") from error

    # -- results and states ------------------------------------------------------------------

    def outputs_in_jax(self, result: PyTree) -> list[Array]:
        """The outputs of the model for what the function returned, whatever its types are."""
        arrays = [physical_array(jax.numpy.asarray(x)) for x in jax.tree_util.tree_leaves(with_numbered_checks(result))]
        return [*map(self.layouts.given, [leaf.name for leaf in self.outputs], arrays)]

    def held_states(self) -> dict[str, Array]:
        """The values of states that model objects hold, by the names of inputs."""
        leaves = {leaf.name: leaf for leaf in self.inputs}
        arrays = {name: self.layouts.given(name, physical_array(x)) for name, x in self.state_variables.items()}
        return {name: leaves[name].converted(array) for name, array in arrays.items()}

    def first_states(self, given: Mapping[int | str, PyTree]) -> dict[str, Array]:
        """The first values that are given for states, by the names of inputs.

        `given` maps the position or the name of an argument to its value. Raises OptionError for one that is no argument.
        """
        return initial_values(given, input_leaves(self.signature), self.read)

    def portable(self) -> CallInterface:
        """The same interface without JAX."""
        assert isinstance(self.call, TreeForm) and isinstance(self.step, TreeForm), "they are made of the trace"
        inputs, outputs = (
            [leaf.portable() if isinstance(leaf, _Leaf) else leaf for leaf in leaves]
            for leaves in (self.inputs, self.outputs)
        )
        return CallInterface(inputs, outputs, self.call.portable(), self.step.portable(), self.held_states(), self.x64)

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
        given = self.signature
        check_ranges({name: aval.dtype for name, aval in zip(given.names, given.avals, strict=True)}, ranges)
        if sizes is None:
            sizes = choose_sizes(given.space(self.traced.out_avals), critical_sizes(model))
        check_sizes(given.space(), sizes)
        return random_runs(given, sizes, ranges, index_extents(model), seed)


def interface_of(
    signature: Inputs, traced: Traced, output_names: Sequence[str], *, layouts: Layouts, x64: bool, specialized: Mapping[str, int],
    states: Collection[str], state_variables: Mapping[str, jax.Array | Array],
) -> Interface:  # fmt: skip
    """The interface of a function that was traced.

    Args:
      signature: the function's arguments.
      traced: the function.
      output_names: the names of the model's outputs, in order.
      layouts: the inputs and outputs whose axes the model has in another order.
      x64: whether JAX's 64-bit types are enabled.
      specialized: the symbols that were fixed → their numbers.
      states: the names of the inputs and of the outputs that are states.
      state_variables: input name → the first value of a state that was given, or that a model object holds.
    """
    inputs = [_Leaf.from_aval(name, aval, layouts) for name, aval in zip(signature.names, signature.avals, strict=True)]
    outputs = [_Leaf.from_aval(name, aval, layouts) for name, aval in zip(output_names, traced.out_avals, strict=True)]
    call = TreeForm(signature.tree, range(len(inputs)), traced.out_tree, range(len(outputs)))
    taken, given = ([i for i, leaf in enumerate(leaves) if leaf.name in states] for leaves in (inputs, outputs))
    return Interface(
        inputs, outputs, call, call.without_states(taken, given), {}, x64, signature=signature, traced=traced, layouts=layouts,
        specialized=specialized, state_variables=state_variables,
    )  # fmt: skip
