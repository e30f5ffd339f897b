"""`lower_program`: lower, optimise and finalise a traced function."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import jax
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.build.final_names import finish_names
from jax2onnx_graph.build.names import Origin, title
from jax2onnx_graph.errors import ConversionError
from jax2onnx_graph.facts.dims import Dims, SpecializedDim
from jax2onnx_graph.legalise.opset_17 import Opset17Pass
from jax2onnx_graph.metadata import (
    StatePair,
    note_sizes,
    write_assumptions,
    write_exporter,
    write_layouts,
    write_states,
    write_symbols,
)
from jax2onnx_graph.opsets import OLDEST_OPSET, declare_versions
from jax2onnx_graph.passes import optimise
from jax2onnx_graph.targets import Target
from jax2onnx_graph.traversal import check_depth, too_deep
from jax2onnx_runtime.runtimes import find_runtime

from jax2onnx_core import _compat_comparisons, _compat_meshes, _compat_options
from jax2onnx_core.frontend._adapters import AdaptedCallable
from jax2onnx_core.frontend._specialized_tracing import SpecializedFunction
from jax2onnx_core.frontend.layouts import GivenLayouts, Layouts
from jax2onnx_core.jax_types import Function
from jax2onnx_core.lowering._engine import Engine
from jax2onnx_core.lowering._log import missing_text, supplier_hints
from jax2onnx_core.lowering._main_graph import inputs_of_function, main_scope, outputs_of_model
from jax2onnx_core.lowering._model_state import ModelState
from jax2onnx_core.lowering._scope import Scope
from jax2onnx_core.plugins.discovery import EXPORTER, Plugins
from jax2onnx_core.plugins.errors import UnsupportedError
from jax2onnx_core.program._assembly import assemble_model
from jax2onnx_core.program._reference import ReferenceFunction
from jax2onnx_core.program.interface import Interface, interface_of
from jax2onnx_core.program.program import OnnxProgram
from jax2onnx_core.symbols._quotients import are_equal

if TYPE_CHECKING:
    from jax2onnx_core.lowering._lowered_equations import LoweredJaxpr

__all__ = ["LoweringOptions", "lower_program"]


@dataclasses.dataclass(frozen=True)
class LoweringOptions:
    """Options of lowering, the same for all specializations of a program.

    Attributes:
      fn: the function, as the user gave it.
      adapted: the function taken apart.
      plugins: the plugins, with their rules and passes.
      target: what the model is made for, and under which assumptions.
      opset: the version of the standard operators; None for the target's best.
      x64: whether JAX's 64-bit types are enabled.
      provenance: whether each node's metadata names the user's source line.
      inline_functions: whether the bodies of functions stand in the place of their calls.
      output_names: the own names of outputs → those that the user gave instead.
      output_layouts: the layouts of the outputs that the user gave, if any.
      states: the pairs of inputs and outputs, by their default names, that are states.
      first_states: the arrays that were given for states, or that models hold, by the names of inputs.
    """

    fn: Function
    adapted: AdaptedCallable
    plugins: Plugins
    target: Target
    _: dataclasses.KW_ONLY
    opset: int | None
    x64: bool
    provenance: bool
    inline_functions: bool
    output_names: Mapping[str, str]
    output_layouts: GivenLayouts | None
    states: Sequence[StatePair]
    first_states: Mapping[str, jax.Array | Array]

    @property
    def lowered_opset(self) -> int:
        """The opset of whose operators the model is made at first."""
        return max(self.opset or self.target.best_opset, OLDEST_OPSET + 1)


@dataclasses.dataclass(frozen=True)
class _Lowered:
    """A finished model, the engine that lowered its function, and the layouts and states of its inputs and outputs."""

    model: ir.Model
    engine: Engine
    layouts: Layouts
    states: Sequence[StatePair]


def lower_program(options: LoweringOptions, function: SpecializedFunction) -> OnnxProgram:
    """Lower a traced function, optimise and finalise it.

    Raises:
      UnsupportedError: primitives that no plugin lowers, all of them in one error.
    """
    lowered = _lower_or_explain(options, function)
    model, interface = lowered.model, _interface(options, function, lowered)
    write_exporter(model, options.plugins.versions())
    write_states(model, lowered.layouts.of_states(lowered.states))
    write_layouts(model, lowered.layouts.texts())
    write_assumptions(model, options.target.assumptions)
    write_symbols(model, interface.symbols, interface.constraints)

    def lower_specialized(values: Mapping[str, int]) -> OnnxProgram:
        with jax.enable_x64(options.x64):
            specialized = function.specialize(values, options.adapted, options.plugins.registry)
        return lower_program(options, specialized)

    adapted, target = options.adapted, options.target
    lower_again = functools.partial(_lower_with_provenance, options, function)
    return OnnxProgram(
        model, interface, find_runtime(options.plugins.registry.runtimes, target), target=target,
        log=lowered.engine.log, lower_specialized=lower_specialized, weights_of=adapted.weights_of,
        reference=ReferenceFunction(options.fn, interface, adapted.with_weights, lower_again),
    )  # fmt: skip


def _lower_or_explain(options: LoweringOptions, function: SpecializedFunction) -> _Lowered:
    """Lower a function; where its model is refused, do it again with each node's line, so that the error names lines instead of nodes."""
    try:
        return _lower(Engine, options, function)
    except ConversionError as error:
        if options.provenance or isinstance(error, UnsupportedError):
            raise
    return _lower(Engine, dataclasses.replace(options, provenance=True), function)


def _interface(options: LoweringOptions, function: SpecializedFunction, lowered: _Lowered) -> Interface:
    return interface_of(
        function.inputs, function.traced, [output.name or "" for output in lowered.model.graph.outputs],
        layouts=lowered.layouts, x64=options.x64, specialized=function.specialized,
        states={name for pair in lowered.states for name in (pair.input, pair.output)},
        state_variables=options.first_states,
    )  # fmt: skip


def _lower_with_provenance(options: LoweringOptions, function: SpecializedFunction) -> LoweredJaxpr:
    """Lower a function that was lowered before, to learn which equation each value of the model is the result of."""
    from jax2onnx_core.lowering._provenance import ProvenanceEngine

    lowered = _lower(ProvenanceEngine, options, function)
    assert isinstance(lowered.engine, ProvenanceEngine)
    return lowered.engine.recorder.finish(lowered.model)


def _lower(make: type[Engine], options: LoweringOptions, function: SpecializedFunction) -> _Lowered:
    """Lower a function by an engine of the class `make`, and finish the model."""
    traced, inputs, plugins = function.traced, function.inputs, options.plugins
    # The user's options have had their effect on the trace; how it is lowered does not depend on them.
    _ = inputs.solution
    with (
        _compat_options.default_options(), _compat_meshes.without_mesh(), inputs.symbols.limited(), _without_collections(),
        _compat_comparisons.undecided_equalities(are_equal),
    ):  # fmt: skip
        engine = make(
            plugins.registry, options.target, options.lowered_opset, inputs.symbols,
            traced.weight_names, traced.snapshots, place=options.adapted.place, provenance=options.provenance, inline_functions=options.inline_functions, x64=options.x64,
        )  # fmt: skip
        for name, reason in traced.declined:
            engine.log.declined(name, reason)
        engine.state.names.reserve(options.output_names.values())
        scope, outputs = _lower_main_graph(engine, function)
    if engine.log.unsupported:
        family = jax.lax.__name__.rpartition(".")[2]
        raise UnsupportedError(missing_text(engine.log, family, plugins.failure_notes()))
    given = options.output_names
    names = [given[name] if name in given else engine.state.names.unique(name) for name in traced.out_names]
    named, final = inputs.final_names, dict(zip(traced.out_names, names, strict=True))
    states = [pair.renamed(named, final) for pair in options.states]
    layouts = inputs.layouts.continued(states)
    layouts |= Layouts.read("output", options.output_layouts, names, [aval.shape for aval in traced.out_avals])
    outputs = outputs_of_model(scope, layouts, names, outputs)
    model = assemble_model(scope, outputs, names, engine.functions, producer=EXPORTER, name=title(options.fn))
    _label_outputs(model, engine.state, layouts, [aval.shape for aval in traced.out_avals])
    with _without_collections():
        _finish(model, engine, options)
    return _Lowered(model, engine, inputs.layouts | layouts, states)


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """Inside, Python looks for no cyclic garbage: a graph is cycles that live, and the looks, at all of JAX, take half as long as the work."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()


def _lower_main_graph(engine: Engine, function: SpecializedFunction) -> tuple[Scope, list[ir.Value]]:
    """The main graph under construction, and the results of the function in it."""
    inputs = function.inputs
    scope = main_scope(engine.state, inputs)
    try:
        operands = inputs_of_function(scope, inputs.layouts, inputs.names)
        return scope, engine.lower_jaxpr(scope, function.traced.jaxpr, operands, Origin())
    except RecursionError as error:
        raise too_deep("too") from error


def _label_outputs(model: ir.Model, state: ModelState, layouts: Layouts, shapes: Sequence[Dims]) -> None:
    """Label the fixed dimensions of outputs: an output may be the copy of a value with others that have the same sizes."""
    for value, shape in zip(model.graph.outputs, shapes, strict=True):
        dims = layouts.arranged(value.name or "", shape)
        if any(isinstance(dim, SpecializedDim) for dim in dims):
            state.set_dims(value, (*dims, *(state.dims(value) or ())[len(dims) :]))


def _finish(model: ir.Model, engine: Engine, options: LoweringOptions) -> None:
    """Optimise a model, name its values and declare its versions."""
    plugins, target = options.plugins, options.target
    note_sizes(model, engine.state.positive)
    further = [Opset17Pass] if options.opset == OLDEST_OPSET else []
    optimised = optimise(model, target, plugins.registry.passes, further=further)
    engine.log.notes += [*plugins.failure_notes(), *target.notes, *optimised.notes]
    engine.log.not_formed += optimised.not_formed
    engine.log.notes += supplier_hints(
        options.adapted.classes, plugins.registry.suppliers, plugins.distributions.values()
    )
    finish_names(model, engine.state.weight_names())
    check_depth(model)
    declare_versions(model, target, keep_opset=options.opset is not None)
