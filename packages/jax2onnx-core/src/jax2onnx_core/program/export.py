"""`to_onnx`: adapt, trace, lower, optimise, finalise."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
from jax2onnx_graph import ir
from jax2onnx_graph.build.final_names import finish_names
from jax2onnx_graph.build.names import Origin, check_names, title
from jax2onnx_graph.metadata import StatePair, write_layouts, write_states, write_symbols
from jax2onnx_graph.opsets import check_opset, declare_versions
from jax2onnx_graph.passes import optimise
from jax2onnx_graph.targets import Target, find_target
from jax2onnx_graph.traversal import check_depth, too_deep
from jax2onnx_runtime.runtimes import find_runtime

from jax2onnx_core import _compat
from jax2onnx_core.frontend.adapters import AdaptedCallable, adapt_callable
from jax2onnx_core.frontend.inputs import Inputs, parse_inputs
from jax2onnx_core.frontend.layouts import GivenLayouts, Layouts
from jax2onnx_core.frontend.python_functions import parameter_names
from jax2onnx_core.frontend.static_retrace import specialize_traced, trace_specialized
from jax2onnx_core.frontend.tracing import NEW_STATE, Traced, trace
from jax2onnx_core.jax_types import Function
from jax2onnx_core.jaxprs import definitely_le, struct
from jax2onnx_core.lowering._main_graph import inputs_of_function, main_scope, outputs_of_model
from jax2onnx_core.lowering._trail import Body
from jax2onnx_core.lowering.engine import Engine
from jax2onnx_core.lowering.log import missing_text, supplier_hints
from jax2onnx_core.lowering.recording import RecordingEngine
from jax2onnx_core.plugins.discovery import Plugins, installed_plugins
from jax2onnx_core.plugins.errors import ExportWarning, UnsupportedError
from jax2onnx_core.program._assembly import assemble_model
from jax2onnx_core.program._state_pairs import pair_states
from jax2onnx_core.program.program import OnnxProgram
from jax2onnx_core.program.stepping import input_leaves, output_leaves
from jax2onnx_core.symbols.specialize import specialization

__all__ = ["to_onnx"]


@dataclasses.dataclass(frozen=True)
class _Lowering:
    """What `to_onnx` was told about lowering, kept for specializations of the same program."""

    fn: Function
    adapted: AdaptedCallable
    plugins: Plugins
    target: Target
    opset: int | None
    x64: bool
    output_names: Sequence[str] | None
    provenance: bool
    inline_functions: bool
    output_layouts: GivenLayouts | None
    states: Sequence[StatePair] = ()


def to_onnx(
    fn: Any,
    inputs: Sequence[Any],
    *,
    kwargs: Mapping[str, Any] | None = None,
    constraints: Sequence[str] = (),
    opset: int | None = None,
    target: str | None = None,
    specialize: Mapping[str, int] | None = None,
    x64: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    input_layouts: GivenLayouts | None = None,
    output_layouts: GivenLayouts | None = None,
    states: Any = None,
    plugins: Iterable[Any] = (),
    provenance: bool = False,
    inline_functions: bool = False,
) -> OnnxProgram:
    """Export a JAX function or a model object as an ONNX program.

    Args:
      fn: a function of arrays (and pytrees of arrays), or an object that an installed plugin adapts.
      inputs: one entry per positional argument: a shape such as `("B", 28, 28, 1)` of JAX's default
        float dtype, a pair `(shape, dtype)`, a `jax.ShapeDtypeStruct`, an example array, or a pytree
        of these. A name or an expression (`"2*T + 1"`) makes a dimension symbolic, None makes it
        dynamic under a name of ours.
      kwargs: keyword arguments that become inputs of the model, specified likewise.
      constraints: what is known of the symbols: `"T >= 2"`, `"mod(T, 4) == 0"`, `"S >= 0"`.
      opset: the version of the standard operators, 18 to 26; by default the target's best one is used, and the lowest
        declared at which the graph means the same (`OnnxProgram.report` says what holds it up).
      target: the runtime to export for; by default the installed one, `"onnx"` for the pure standard.
      specialize: symbols to fix to numbers after tracing, `{"T": 1}`; see `OnnxProgram.specialize`.
      x64: whether JAX's 64-bit types are enabled during the export; None leaves JAX's setting.
      input_names: names in place of those of the parameters.
      output_names: names in place of those of the result keys.
      input_layouts: inputs whose axes the model takes in another order than the function, by name or position among the
        model's inputs: `{"x": "NHWC->NCHW"}`, or "NCHW" for a function with channels last. In a name `*` stands for anything.
        Calls take the arguments of `fn`. A state comes back as it goes in.
      output_layouts: outputs whose axes the model gives in another order, likewise.
      states: which arguments come back as which results, for the next call: positions `{0: 0}` or names
        `{"cache": "new_cache"}` of pytrees that are alike. Or which variables of a model are to be inputs and outputs, because
        calls change them, in the framework's terms: `nnx.Cache`, "cache". See `OnnxProgram.session`.
      plugins: plugin objects that are not installed.
      provenance: whether each node's metadata names the user's source line.
      inline_functions: whether the bodies of functions stand in the place of their calls; always for a target that needs it.

    Raises:
      OptionError, InputError, SymbolError: something in the call is not as described above.
      UnsupportedError: primitives that no plugin lowers, all of them in one error.
    """
    found = installed_plugins().with_inline(plugins)
    made_for = find_target(found.registry.targets, target)
    check_opset(opset, made_for)
    adapted = adapt_callable(fn, found.registry.adapters)
    x64 = jax.config.jax_enable_x64 if x64 is None else x64
    inline = inline_functions or not made_for.runs_functions
    lowering = _Lowering(fn, adapted, found, made_for, opset, x64, output_names, provenance, inline, output_layouts)
    of_model = states is not None and not isinstance(states, Mapping)
    if of_model:
        adapted.select_states(states, [*(kwargs or {}), *parameter_names(adapted.called)])
    with jax.enable_x64(x64):
        own = {adapted.state_keyword: {path: struct(x) for path, x in adapted.states.items()}} if of_model else {}
        parsed = parse_inputs(adapted.called, inputs, kwargs or {}, constraints, map(str, output_names or ()), own)
        parsed = _renamed(parsed, input_names, output_names or ())
        layouts = Layouts.read("input", input_layouts, parsed.names, [aval.shape for aval in parsed.avals])
        parsed = dataclasses.replace(parsed, layouts=layouts)
        values = {} if specialize is None else specialization(parsed.avals, parsed.symbols, specialize)
        if values:
            traced, parsed = trace_specialized(adapted, parsed, found.registry, values)
        else:
            traced = trace(adapted, parsed, found.registry)
    if output_names is not None:
        check_names("output_names", output_names, traced.out_names)
    if states is not None:
        given = {adapted.state_keyword: NEW_STATE} if of_model else states
        pairs = pair_states(given, input_leaves(parsed), output_leaves(traced, parsed, output_names), definitely_le)
        lowering = dataclasses.replace(lowering, states=pairs)
    if traced.lost is not None:
        warnings.warn(traced.lost, ExportWarning, stacklevel=2)
    return _lower(lowering, traced, parsed, values)


def _renamed(inputs: Inputs, names: Sequence[str] | None, output_names: Sequence[str]) -> Inputs:
    if names is None:
        return inputs
    check_names("input_names", names, inputs.names, apart_from=output_names)
    return dataclasses.replace(inputs, names=list(names), default_names=inputs.names)


def _lower(lowering: _Lowering, traced: Traced, inputs: Inputs, specialized: Mapping[str, int]) -> OnnxProgram:
    """Lower a traced function, optimise and finalise it."""
    engine, model, layouts = _model(Engine, lowering, traced, inputs)

    def record() -> Body:
        recording, recorded, _ = _model(RecordingEngine, lowering, traced, inputs)
        assert isinstance(recording, RecordingEngine)
        return recording.trail.finish(recorded)

    def lower_specialized(values: Mapping[str, int]) -> OnnxProgram:
        values = specialization(inputs.avals, inputs.symbols, values)
        return _lower(lowering, *specialize_traced(traced, inputs, values), {**specialized, **values})

    names = [output.name or "" for output in model.graph.outputs]
    named, final = inputs.final_names, dict(zip(traced.out_names, names, strict=True))
    runtime = find_runtime(lowering.plugins.registry.runtimes, lowering.target)
    program = OnnxProgram(
        model, lowering.fn, traced, inputs, lowering.target, runtime, x64=lowering.x64, log=engine.log, record=record,
        specialized=specialized, lower_specialized=lower_specialized, fresh=lowering.adapted.holding,
        layouts=layouts, states={named[f"{lowering.adapted.state_keyword}.{path}"]: x for path, x in lowering.adapted.states.items()},
    )  # fmt: skip
    write_states(model, layouts.of_states([pair.renamed(named, final) for pair in lowering.states]))
    write_layouts(model, layouts.texts())
    write_symbols(model, program.symbols, program.constraints)
    return program


def _model(make: type[Engine], lowering: _Lowering, traced: Traced, inputs: Inputs) -> tuple[Engine, ir.Model, Layouts]:
    """The engine that lowered a traced function, the finished model, and the layouts of its inputs and outputs."""
    given, plugins, target = lowering.output_names, lowering.plugins, lowering.target
    # The user's options have had their effect on the trace; how it is lowered does not depend on them.
    with _compat.default_options():
        engine = make(
            plugins.registry, target, lowering.opset or target.best_opset, inputs.symbols, traced.weight_names,
            provenance=lowering.provenance, inline_functions=lowering.inline_functions, x64=lowering.x64,
        )  # fmt: skip
        state = engine.state
        state.names.reserve(given or ())
        scope = main_scope(state, inputs)
        try:
            operands = inputs_of_function(scope, inputs.layouts, inputs.names)
            outputs = engine.lower_jaxpr(scope, traced.jaxpr, operands, Origin())
        except RecursionError as error:
            raise too_deep("too") from error
    if engine.log.unsupported:
        family = jax.lax.__name__.rpartition(".")[2]
        raise UnsupportedError(missing_text(engine.log, family, plugins.failure_notes()))
    names = given or [state.names.unique(name) for name in traced.out_names]
    named, final = inputs.final_names, dict(zip(traced.out_names, names, strict=True))
    layouts = inputs.layouts.continued([pair.renamed(named, final) for pair in lowering.states])
    layouts |= Layouts.read("output", lowering.output_layouts, names, [aval.shape for aval in traced.out_avals])
    outputs = outputs_of_model(scope, layouts, names, outputs)
    model = assemble_model(scope, outputs, names, engine.functions, producer="jax2onnx-core", name=title(lowering.fn))
    optimised = optimise(model, target, plugins.registry.passes)
    engine.log.notes += [*plugins.failure_notes(), *optimised.notes]
    engine.log.not_formed += optimised.not_formed
    engine.log.notes += supplier_hints(
        lowering.adapted.classes, plugins.registry.suppliers, plugins.distributions.values()
    )
    finish_names(model, state.weight_names())
    check_depth(model)
    declare_versions(model, target, keep_opset=lowering.opset is not None)
    return engine, model, inputs.layouts | layouts
