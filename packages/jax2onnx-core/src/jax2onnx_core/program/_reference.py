"""`ReferenceFunction`: the exported function as JAX computes it, with which its model is compared."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import jax
import numpy as np
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.weights.absent import WeightType
from jax2onnx_graph.weights.binding import GivenWeights
from jax2onnx_runtime.verification import Run

from jax2onnx_core import _compat
from jax2onnx_core.frontend._specialized_tracing import specialize_traced
from jax2onnx_core.jax_types import Function, PyTree
from jax2onnx_core.jaxprs import AbsentWeight, open_jaxpr
from jax2onnx_core.lowering.physical import from_physical, physical_array, static_type
from jax2onnx_core.program.interface import Interface
from jax2onnx_core.program.verification import as_traced

if TYPE_CHECKING:
    from jax2onnx_runtime.benchmarks import Contender
    from jax2onnx_runtime.bisection import Intermediate

    from jax2onnx_core.lowering._evaluation import Visit
    from jax2onnx_core.lowering._lowered_equations import LoweredEquation, LoweredJaxpr

__all__ = ["ReferenceFunction"]

# What says how many threads XLA has on the CPU, where somebody does not want as many as there are processors.
_XLA_THREADS = "NPROC"


@dataclasses.dataclass(frozen=True, eq=False)
class ReferenceFunction:
    """The exported function as JAX computes it.

    Attributes:
      fn: the function, as it was exported.
      interface: how its arguments and results are inputs and outputs of the model.
      with_weights: the function around arrays for its absent weights, by their names.
      lower: lowers the function once more, and tells which equation each value of the model is the result of.
    """

    fn: Function
    interface: Interface
    with_weights: Callable[[Mapping[str, jax.Array]], Function]
    lower: Callable[[], LoweredJaxpr]

    def weight_types(self) -> dict[str, WeightType]:
        """The types of the absent weights by name, those included that the function does not use."""
        # Random keys are given as their words.
        return {
            name: WeightType(*(static_type(x) if _compat.is_extended_dtype(x.dtype) else (np.dtype(x.dtype), x.shape)))
            for name, x in self._absent().items()
        }

    def outputs(self, run: Run, given: GivenWeights | None) -> list[Array]:
        """The outputs that the model should have in a run; `given` has the weights that were absent."""
        with jax.enable_x64(self.interface.x64):
            return self.interface.outputs_in_jax(self._call(run, given)())

    def contender(self, given: GivenWeights | None) -> Contender[Run]:
        """The function as `jax.jit` compiles it for the shapes of a run, with its arguments on the device; without jit if sizes come from data."""
        from jax2onnx_runtime.benchmarks import Contender, PreparedRun

        def prepare(run: Run) -> PreparedRun:
            with jax.enable_x64(self.interface.x64):
                call = self._call(run, given, compiles=not self._has_sizes_from_data)
            return PreparedRun(
                lambda: jax.block_until_ready(call()),
                lambda: self.interface.outputs_in_jax(call()),
            )

        device = jax.default_backend()
        name = f"JAX {jax.__version__}" + (f" on {device}" if device != "cpu" else "")
        return Contender(name + ", without jit" * self._has_sizes_from_data, _threads_of_jax(), prepare)

    def _call(self, run: Run, given: GivenWeights | None, *, compiles: bool = False) -> Callable[[], PyTree]:
        """A call of the function, or of what `jax.jit` compiles of it, with the arguments of a run."""
        inputs, function = self.interface.signature, self.with_weights(self._weights(given))
        leaves = as_traced(jax.tree_util.tree_leaves((run.args, run.kwargs)), inputs.avals)
        args, kwargs = jax.tree_util.tree_unflatten(inputs.tree, leaves)
        if compiles:
            function = jax.jit(function).lower(*args, **kwargs).compile()
        call = functools.partial(function, *args, **kwargs)
        return functools.partial(self._without_jit, run, given, call) if self._has_sizes_from_data else call

    def _without_jit(self, run: Run, given: GivenWeights | None, call: Callable[[], PyTree]) -> PyTree:
        """The result of a function with sizes from data, which JAX does not trace.

        Jitted functions and loops that have such sizes run step by step. What is traced even then, as under `jax.checkpoint`, and a
        scan without steps have no result in JAX, but that of the traced equations.
        """
        with jax.enable_x64(self.interface.x64):
            with contextlib.suppress(jax.errors.JAXTypeError, IndexError):
                return call()
            try:
                with jax.disable_jit():
                    return call()
            except (jax.errors.JAXTypeError, IndexError, ValueError) as error:
                if isinstance(error, ValueError) and "zero-length scan" not in str(error):
                    raise
                return self._by_equations(run, given, lambda *_: None)

    @property
    def _has_sizes_from_data(self) -> bool:
        return bool(self.interface.signature.symbols.from_data)

    def intermediates(self, run: Run, given: GivenWeights | None) -> tuple[list[Intermediate], list[Array]]:
        """The results of the function's equations in a run, as values of the model, and the outputs."""
        from jax2onnx_runtime.bisection import Intermediate

        found: list[Intermediate] = []

        def visit(equation: LoweredEquation, results: Sequence[jax.Array]) -> None:
            found.extend(
                Intermediate(name, equation.source, physical_array(result), axes)
                for i, result in enumerate(results)
                for name, axes in [equation.held.get(i, ("", None))]
            )

        with jax.enable_x64(self.interface.x64):
            return found, self.interface.outputs_in_jax(self._by_equations(run, given, visit))

    def _by_equations(self, run: Run, given: GivenWeights | None, visit: Visit) -> list[jax.Array]:
        """The function's results, of its traced equations one after the other; `visit` is called for those that were lowered."""
        from jax2onnx_core.lowering._evaluation import evaluate

        feeds = self.interface.feeds(run.args, run.kwargs)
        sizes = self.interface.check_shapes([array.shape for array in feeds.values()])
        traced, inputs = specialize_traced(self.interface.traced, self.interface.signature, sizes)
        leaves = as_traced(jax.tree_util.tree_leaves((run.args, run.kwargs)), inputs.avals)
        (inner, consts), weights = open_jaxpr(traced.jaxpr), self._weights(given)
        arrays = [weights[const.name] if isinstance(const, AbsentWeight) else const for const in consts]
        return evaluate(_compat.closed(inner, arrays), leaves, self._lowered, visit, inputs.symbols)

    @functools.cached_property
    def _lowered(self) -> LoweredJaxpr:
        return self.lower()

    def _absent(self) -> dict[str, jax.ShapeDtypeStruct]:
        consts = open_jaxpr(self.interface.traced.jaxpr)[1]
        return {const.name: const.type for const in consts if isinstance(const, AbsentWeight)}

    def _weights(self, given: GivenWeights | None) -> dict[str, jax.Array]:
        absent, arrays = self._absent(), given.arrays() if given else {}
        return {name: jax.numpy.asarray(from_physical(array, absent[name])) for name, array in arrays.items()}


def _threads_of_jax() -> str:
    """Number of threads that JAX computes with, and the options of XLA, as text."""
    threads = os.environ.get(_XLA_THREADS) or "as it chooses"
    flags = os.environ.get("XLA_FLAGS")
    return f"{threads} with XLA_FLAGS={flags}" if flags else threads
