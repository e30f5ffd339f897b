"""Running a program: in JAX, and exported in the target."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import OnnxProgram, to_onnx
from jax2onnx_core.lowering.physical import has_components
from jax2onnx_core.symbols.symbols import evaluate_dim
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array, Dtype
from jax2onnx_runtime.runtimes import LoadedModel
from jax2onnx_runtime.states import RuntimeOptions
from jax2onnx_testing.reference import COMPILER_OPTIONS
from jax2onnx_testing.values import random_array

from fuzzing.pass_orders import ModelBeforePasses, random_order
from fuzzing.perturbation import perturbed
from fuzzing.programs import Program, compiled
from fuzzing.statements import Variable

__all__ = ["Exported", "evaluate", "evaluate_for_all_sizes", "evaluate_perturbed", "evaluator", "random_arguments"]

Arrays = Mapping[str, Array]

_PERTURBED_RUNS = 24


def random_arguments(program: Program, run: int) -> Arrays:
    """Inputs of a program at the sizes of this run."""
    random = np.random.default_rng([program.seed, run])
    sizes = program.sizes[run]
    return {
        v.name: np.asarray(
            random_array(
                random, v.aval.dtype, tuple(evaluate_dim(d, sizes) for d in v.aval.shape), program.options.values
            )
        )
        for v in program.inputs
    }


def evaluator(program: Program, results: Sequence[str]) -> Callable[[Arrays], list[Array]]:
    """A function that computes these variables in JAX from the inputs by name, compiled once."""
    function = jax.jit(compiled(program.source(results), f"program {program.seed}"), compiler_options=COMPILER_OPTIONS)
    inputs = program.inputs
    return lambda arguments: [
        np.asarray(v) for v in function(*(jnp.asarray(arguments[i.name], i.aval.dtype) for i in inputs))
    ]


def evaluate(program: Program, results: Sequence[str], arguments: Arrays, *, eager: bool = False) -> dict[str, Array]:
    """The values of variables as JAX computes them.

    Args:
      program: the program.
      results: the names of the variables.
      arguments: the inputs by name.
      eager: whether JAX runs operation by operation rather than one compiled program.
    """
    function = compiled(program.source(results), f"program {program.seed}")
    if not eager:
        function = jax.jit(function, compiler_options=COMPILER_OPTIONS)
    values = function(*(jnp.asarray(arguments[v.name], v.aval.dtype) for v in program.inputs))
    return {name: np.asarray(value) for name, value in zip(results, values, strict=True)}


def evaluate_for_all_sizes(program: Program, results: Sequence[str], arguments: Arrays) -> dict[str, Array]:
    """The values of variables by the one program that `jax.export` makes for all sizes of the symbols.

    Args:
      program: the program.
      results: the names of the variables.
      arguments: the inputs by name.
    """
    function = jax.jit(compiled(program.source(results), f"program {program.seed}"))
    values = jax.export.export(function)(*(v.aval for v in program.inputs)).call(
        *(jnp.asarray(arguments[v.name]) for v in program.inputs)
    )
    return {name: np.asarray(value) for name, value in zip(results, values, strict=True)}


def evaluate_perturbed(
    program: Program, results: Sequence[str], arguments: Arrays, *, signs: bool = False, precision: float = 0.0
) -> Iterator[dict[str, Array]]:
    """The values of variables in several runs, with all that is rounded changed at random by a few units of the last place.

    Args:
      program: the program.
      results: the names of the variables.
      arguments: the inputs by name.
      signs: whether the signs of NaN, and of zeros that are chosen, are changed at random too.
      precision: the least unit of the last place.
    """
    function = compiled(program.source(results), f"program {program.seed}")
    run = jax.jit(perturbed(function, signs=signs, precision=precision), compiler_options=COMPILER_OPTIONS)
    for seed in range(_PERTURBED_RUNS):
        values = run(jnp.float32(seed), *(jnp.asarray(arguments[v.name]) for v in program.inputs))
        yield {name: np.asarray(value) for name, value in zip(results, values, strict=True)}


class Exported:
    """A program as a model. Raises whatever the export and the loading of the model raise.

    Args:
      program: the program.
      results: the names of the variables that the model returns.
      parameters: its inputs, which may be variables that it computes.
    """

    def __init__(self, program: Program, results: Sequence[str], parameters: Sequence[Variable]) -> None:
        self._results = results
        source, options = program.source(results, [p.name for p in parameters]), program.options
        specs = [(p.dims, p.aval.dtype.name) for p in parameters]
        function = compiled(source, f"program {program.seed}")
        if options.order is None:
            self.program: OnnxProgram = to_onnx(
                function, specs, opset=options.opset, x64=options.x64, assume=options.assume
            )
            model = self.program.model
        else:
            before = ModelBeforePasses(function, specs, opset=options.opset, x64=options.x64, assume=options.assume)
            self.program, model = before.program, before.optimised(random_order(before.passes, options.order))
        self._run = self._loaded(model, optimised=options.optimised)

    def _loaded(self, model: ir.Model, *, optimised: bool) -> LoadedModel:
        """The model, loaded; its runtime may rewrite the graph only if `optimised`."""
        if optimised:
            return self.program.loaded if model is self.program.model else self.program.runtime.load(model)
        plainly = RuntimeOptions(graph_optimization_level="disabled")
        return self.program.runtime.installed().open(model, (), plainly).run

    def __call__(self, arguments: Arrays) -> dict[str, Array]:
        """The results on these arguments."""
        feeds = self.program.feeds(*(arguments[name] for name in self.program.inputs.names))
        outputs = self._run(feeds)
        dtypes = [aval.dtype for aval in self.program.traced.out_avals]
        return {n: _logical(a, d) for n, a, d in zip(self._results, outputs, dtypes, strict=True)}


def _logical(array: Array, dtype: Dtype) -> Array:
    """A complex array from its pairs; other arrays as they are."""
    return np.ascontiguousarray(array).view(dtype).reshape(array.shape[:-1]) if has_components(dtype) else array
