"""`OnnxProgram`: the exported model with everything one wants to do with it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array, Dtype, number_array
from jax2onnx_graph.facts.dims import SpecializedDim
from jax2onnx_graph.labels import check_labels, symbol_table
from jax2onnx_graph.metadata import SymbolInfo, read_states
from jax2onnx_graph.targets import Target
from jax2onnx_graph.weights.absent import WeightType
from jax2onnx_runtime.bisection import Intermediate
from jax2onnx_runtime.probing import critical_sizes, index_extents
from jax2onnx_runtime.profiles import ShapeProfile, SymbolRange, shape_profile
from jax2onnx_runtime.runtimes import Runtime
from jax2onnx_runtime.sizes import Ranges, Sizes, SymbolSpace, check_ranges, check_shapes, check_sizes, choose_sizes

from jax2onnx_core import _compat
from jax2onnx_core.frontend.inputs import Inputs
from jax2onnx_core.frontend.layouts import Layouts
from jax2onnx_core.frontend.pytrees import is_too_deep, structure_difference
from jax2onnx_core.frontend.static_retrace import specialize_traced
from jax2onnx_core.frontend.tracing import Traced
from jax2onnx_core.jax_types import Aval, Function, PyTreeDef
from jax2onnx_core.jaxprs import AbsentWeight, Dim, is_symbolic_dim, open_jaxpr
from jax2onnx_core.lowering._trail import Body, Step
from jax2onnx_core.lowering.log import LoweringLog
from jax2onnx_core.lowering.physical import has_components, physical_array, physical_type, static_type
from jax2onnx_core.lowering.recording import results_of
from jax2onnx_core.plugins.errors import RuntimeInputError, SymbolError
from jax2onnx_core.program._base import Arguments, Run
from jax2onnx_core.program._verifiable import VerifiableProgram
from jax2onnx_core.program.stepping import StepInterface, initial_values, input_leaves
from jax2onnx_core.program.verification import as_traced, random_runs

__all__ = ["OnnxProgram"]


class OnnxProgram(VerifiableProgram):
    """An exported function.

    Calling it runs the model in the target runtime: it takes and returns the pytrees of the
    exported function, as NumPy arrays.

    Attributes:
      model, target, runtime, log: those of `Program`.
      fn: the exported function.
      inputs, traced: what was exported: names, types and pytrees of its arguments and results.
      x64: whether JAX's 64-bit types were enabled.
      layouts: the inputs and outputs whose axes the model has in another order.
    """

    def __init__(
        self, model: ir.Model, fn: Function, traced: Traced, inputs: Inputs, target: Target, runtime: Runtime, *,
        x64: bool, layouts: Layouts, log: LoweringLog, specialized: Mapping[str, int], lower_specialized: Callable[[Mapping[str, int]], OnnxProgram],
        record: Callable[[], Body], fresh: Callable[[Mapping[str, jax.Array]], Function], states: Mapping[str, jax.Array],
    ) -> None:  # fmt: skip
        super().__init__(model, target, runtime, log)
        self.fn = fn
        self.traced = traced
        self.inputs = inputs
        self.x64 = x64
        self.layouts = layouts
        self._specialized = dict(specialized)
        self._lower_specialized = lower_specialized
        self._record = functools.cache(record)
        self._fresh = fresh
        self._states = dict(states)

    @property
    def input_tree(self) -> PyTreeDef:
        """The pytree structure of `(args, kwargs)`."""
        return self.inputs.tree

    @property
    def output_tree(self) -> PyTreeDef:
        """The pytree structure of the result."""
        return self.traced.out_tree

    # -- symbols -----------------------------------------------------------------------------

    @functools.cached_property
    def symbols(self) -> dict[str, SymbolInfo]:
        """The symbols of the inputs: least value, the number they were fixed to, where they stand."""
        shapes = dict(zip(self.inputs.names, (aval.shape for aval in self.inputs.avals), strict=True))
        labels = {name: [self._label(d) for d in self.layouts.arranged(name, shape)] for name, shape in shapes.items()}
        return symbol_table(labels, self.inputs.symbols.minimum, self._specialized)

    def check_symbols(self) -> list[str]:
        """Sentences about dimensions that lost their label or have one that no input explains; empty if none."""
        shapes = map(self.layouts.arranged, self.output_names, [aval.shape for aval in self.traced.out_avals])
        labels = [[self._label(d) if is_symbolic_dim(d) else None for d in shape] for shape in shapes]
        return check_labels(self.model, self.symbols, labels)

    @property
    def constraints(self) -> list[str]:
        return [constraint.text for constraint in self.inputs.symbols.constraints]

    def _label(self, dim: Dim) -> str | None:
        """The label of a dimension; None for a number that was never symbolic."""
        return self.inputs.symbols.label(dim) if is_symbolic_dim(dim) or isinstance(dim, SpecializedDim) else None

    def specialize(self, **values: int) -> OnnxProgram:
        """The program with these symbols fixed to numbers, lowered anew without a second trace.

        Each number remembers its symbol (`SpecializedDim`); the weights are shared with this program.
        """
        return self._lower_specialized(values).like(self)

    def shape_profile(self, **sizes: SymbolRange) -> ShapeProfile:
        """The least, the usual and the largest shape of each input for such sizes of the symbols: `T=(1, 1, 6)`."""
        return shape_profile(self.inputs.space(), self.input_names, self.symbols, sizes)

    # -- running -----------------------------------------------------------------------------

    def first_states(self, given: Mapping[int | str, Any]) -> dict[str, Array]:
        of_model = {name: self.layouts.given(name, physical_array(x)) for name, x in self._states.items()}
        return {**of_model, **initial_values(given, input_leaves(self.inputs), self._read)}

    def _read(self, index: int, leaf: Any) -> Array:
        """The array of an argument's leaf, by its index among the inputs."""
        return self._physical(self.inputs.names[index], leaf, self.inputs.avals[index])

    def space(self) -> SymbolSpace:
        return self.inputs.space()

    def interface(self) -> StepInterface:
        states = {name for pair in read_states(self.model) for name in (pair.input, pair.output)}
        return StepInterface(
            self.inputs, self.traced, states, self.output_names, check=self._check_shapes,
            read=self._read, write=self._result,
        )  # fmt: skip

    def results(self, outputs: Sequence[Array]) -> Any:
        leaves = [self._result(i, x) for i, x in enumerate(outputs)]
        return jax.tree_util.tree_unflatten(self.traced.out_tree, leaves)

    def _result(self, index: int, array: Array) -> Any:
        """The leaf of the function's result, by its index among all, of an output of the model."""
        return _from_physical(self.layouts.returned(self.output_names[index], array), self.traced.out_avals[index])

    def _outputs(self, leaves: Sequence[Any]) -> list[Array]:
        """The outputs of the model for the leaves of the function's result."""
        arrays = [physical_array(jax.numpy.asarray(x)) for x in leaves]
        return [*map(self.layouts.given, self.output_names, arrays)]

    def feeds(self, *args: Any, **kwargs: Any) -> dict[str, Array]:
        """The model's inputs for these arguments, checked against names, dtypes and symbols."""
        if is_too_deep((args, kwargs)):
            raise RuntimeInputError("The arguments are nested more than 100 deep, or one of them contains itself.")
        leaves, tree = jax.tree_util.tree_flatten((args, kwargs))
        if tree != self.inputs.tree:
            difference = structure_difference(tree, self.inputs.tree)
            raise RuntimeInputError(f"The arguments are not those that the program was exported for: {difference}")
        arrays = [
            self._physical(name, leaf, aval)
            for name, leaf, aval in zip(self.inputs.names, leaves, self.inputs.avals, strict=True)
        ]
        self._check_shapes([array.shape for array in arrays])
        return dict(zip(self.inputs.names, arrays, strict=True))

    def arguments(self, named: Mapping[str, object]) -> Arguments:
        args, kwargs = jax.tree_util.tree_unflatten(self.inputs.tree, [named[name] for name in self.inputs.names])
        return args, kwargs

    def _accepted(self, leaf: Any, dtype: Dtype) -> Array | jax.Array:
        """The argument of dtype `dtype` where JAX, too, would make it that: 64 bits become 32 while x64 is off."""
        if isinstance(leaf, jax.Array):
            return leaf
        is_number = isinstance(leaf, (bool, int, float, complex)) and not isinstance(leaf, np.generic)
        if is_number and not _compat.is_extended_dtype(dtype):
            return number_array(leaf, dtype)
        array = np.asarray(leaf)
        with jax.enable_x64(self.x64), np.errstate(over="ignore"):
            becomes = array.dtype.kind in "iufc" and _compat.canonical_dtype(array.dtype) == dtype
            return array.astype(dtype) if becomes else array

    def _physical(self, name: str, leaf: Any, aval: jax.ShapeDtypeStruct) -> Array:
        try:
            leaf = self._accepted(leaf, aval.dtype)
        except ValueError as error:
            raise RuntimeInputError(f"Input {name!r}: {error}") from error
        if leaf.dtype != aval.dtype:
            raise RuntimeInputError(
                f"Input {name!r} has dtype {leaf.dtype}, but the program was exported for {aval.dtype}."
            )
        return self.layouts.given(name, physical_array(leaf))

    def _check_shapes(self, shapes: Sequence[tuple[int, ...]]) -> Sizes:
        """The sizes of the symbols for shapes of the model's inputs; RuntimeInputError, in the order of the function's axes."""
        symbols, shapes = self.inputs.symbols, [*map(self.layouts.restored, self.inputs.names, shapes)]
        wanted = zip(shapes, (physical_type(aval)[1] for aval in self.inputs.avals), strict=True)
        named = dict(zip(self.inputs.names, wanted, strict=True))
        try:
            return check_shapes(
                self.inputs.space(), named, lambda: symbols.user_values(self.inputs.solution.values(shapes))
            )
        except SymbolError as error:
            raise RuntimeInputError(f"The arguments do not fit: {error}") from error

    # -- verifying ---------------------------------------------------------------------------

    def weight_types(self) -> dict[str, WeightType]:
        # Random keys are given as their words.
        return {
            name: WeightType(*(static_type(x) if _compat.is_extended_dtype(x.dtype) else (np.dtype(x.dtype), x.shape)))
            for name, x in self._absent().items()
        }

    def _absent(self) -> dict[str, jax.ShapeDtypeStruct]:
        return {const.name: const.type for const in open_jaxpr(self.traced.jaxpr)[1] if isinstance(const, AbsentWeight)}

    def _weights(self) -> dict[str, jax.Array]:
        """The weights that were given."""
        given = self.given.arrays() if self.given else {}
        return {name: jax.numpy.asarray(_from_physical(array, self._absent()[name])) for name, array in given.items()}

    def expected(self, run: Run) -> list[Array]:
        with jax.enable_x64(self.x64):
            leaves = as_traced(jax.tree_util.tree_leaves((run.args, run.kwargs)), self.inputs.avals)
            args, kwargs = jax.tree_util.tree_unflatten(self.inputs.tree, leaves)
            return self._outputs(jax.tree_util.tree_leaves(self._fresh(self._weights())(*args, **kwargs)))

    def intermediates(self, run: Run) -> tuple[list[Intermediate], list[Array]]:
        sizes = self._check_shapes([array.shape for array in self.feeds(*run.args, **run.kwargs).values()])
        traced, inputs = specialize_traced(self.traced, self.inputs, sizes)
        found: list[Intermediate] = []

        def visit(step: Step, results: Sequence[jax.Array]) -> None:
            found.extend(
                Intermediate(n, step.source, physical_array(results[i])) for i, n in sorted(step.names.items())
            )

        with jax.enable_x64(self.x64):
            leaves = as_traced(jax.tree_util.tree_leaves((run.args, run.kwargs)), inputs.avals)
            (inner, consts), weights = open_jaxpr(traced.jaxpr), self._weights()
            arrays = [weights[const.name] if isinstance(const, AbsentWeight) else const for const in consts]
            return found, self._outputs(results_of(self._record(), _compat.closed(inner, arrays), leaves, visit))

    def random_calls(self, sizes: Sequence[Sizes] | None, ranges: Ranges, seed: int) -> Iterator[Run]:
        check_ranges(
            {name: aval.dtype for name, aval in zip(self.inputs.names, self.inputs.avals, strict=True)}, ranges
        )
        if sizes is None:
            sizes = choose_sizes(self.inputs.space(self.traced.out_avals), critical_sizes(self.model))
        check_sizes(self.inputs.space(), sizes)
        return random_runs(self.inputs, sizes, ranges, index_extents(self.model), seed)


def _from_physical(array: Array, aval: Aval) -> Any:
    if _compat.is_extended_dtype(aval.dtype):
        return _compat.wrap_key(array, aval)
    if has_components(aval.dtype):
        return np.ascontiguousarray(array, physical_type(aval)[0]).view(aval.dtype).reshape(array.shape[:-1])
    return array.astype(aval.dtype) if aval.dtype == jax.dtypes.float0 else array
