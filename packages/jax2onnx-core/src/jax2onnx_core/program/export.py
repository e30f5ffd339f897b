"""`to_onnx`: adapt, trace, lower, optimise, finalise."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
from jax2onnx_graph.targets import Target

from jax2onnx_core.frontend.adapters import adapt_callable
from jax2onnx_core.frontend.inputs import Inputs, parse_inputs
from jax2onnx_core.frontend.static_retrace import trace_specialised
from jax2onnx_core.frontend.tracing import Traced, trace
from jax2onnx_core.lowering.engine import Engine
from jax2onnx_core.lowering.physical import physical
from jax2onnx_core.lowering.scope import Scope
from jax2onnx_core.plugins.discovery import Plugins, installed_plugins
from jax2onnx_core.plugins.errors import OptionError, UnsupportedError
from jax2onnx_core.program.finalise import build_model, optimise
from jax2onnx_core.program.program import OnnxProgram
from jax2onnx_core.program.suppliers import supplier_of
from jax2onnx_core.symbols.solve import symbol_reader
from jax2onnx_core.symbols.table import write_metadata

__all__ = ["LoweringOptions", "lower_traced", "to_onnx"]



@dataclasses.dataclass(frozen=True)
class LoweringOptions:
    """What `to_onnx` was told about lowering, kept for specialisations of the same program."""

    opset: int
    x64: bool
    output_names: Sequence[str] | None
    provenance: bool


LOWEST_OPSET, HIGHEST_OPSET = 18, 26


def to_onnx(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    kwargs: Mapping[str, Any] | None = None,
    constraints: Sequence[str] = (),
    opset: int = 23,
    target: str | None = None,
    specialize: Mapping[str, int] | None = None,
    x64: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    plugins: Iterable[Any] = (),
    provenance: bool = False,
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
      opset: the version of the standard operators, 18 to 26.
      target: the runtime to export for; by default the installed one, `"onnx"` for the pure standard.
      specialize: symbols to fix to numbers after tracing, `{"T": 1}`; see `OnnxProgram.specialize`.
      x64: whether JAX's 64-bit types are enabled during the export; None leaves JAX's setting.
      input_names: names in place of those of the parameters.
      output_names: names in place of those of the result keys.
      plugins: plugin objects that are not installed.
      provenance: whether each node's metadata names the user's source line.

    Raises:
      OptionError, InputError, SymbolError: something in the call is not as described above.
      UnsupportedError: primitives that no plugin lowers, all of them in one error.
    """
    _check_opset(opset)
    found = installed_plugins().with_inline(plugins)
    runtime = found.registry.find_target(target)
    adapted = adapt_callable(fn, found.registry.adapters)
    options = LoweringOptions(opset, jax.config.jax_enable_x64 if x64 is None else x64, output_names, provenance)
    with jax.enable_x64(options.x64):
        parsed = _renamed(parse_inputs(fn, inputs, kwargs or {}, constraints), input_names)
        if specialize:
            traced, parsed = trace_specialised(adapted, parsed, found.registry, specialize)
        else:
            traced = trace(adapted, parsed, found.registry)
    return lower_traced(fn, traced, parsed, found, runtime, options, specialize or {})


def _check_opset(opset: int) -> None:
    if isinstance(opset, bool) or not isinstance(opset, int) or not LOWEST_OPSET <= opset <= HIGHEST_OPSET:
        raise OptionError(f"opset={opset!r} is not supported; choose one from {LOWEST_OPSET} to {HIGHEST_OPSET}.")


def _renamed(inputs: Inputs, names: Sequence[str] | None) -> Inputs:
    if names is None:
        return inputs
    _check_names("input_names", names, inputs.names)
    return Inputs(list(names), inputs.avals, inputs.tree, inputs.symbols)


def _check_names(option: str, names: Sequence[str], defaults: Sequence[str]) -> None:
    if isinstance(names, str) or len(names) != len(defaults) or len(set(names)) != len(names):
        raise OptionError(
            f"{option} needs {len(defaults)} different names, one for each of {list(defaults)}; got {names!r}."
        )


def lower_traced(
    fn: Callable[..., Any],
    traced: Traced,
    inputs: Inputs,
    plugins: Plugins,
    target: Target,
    options: LoweringOptions,
    specialised: Mapping[str, int],
) -> OnnxProgram:
    """Lower a traced function, optimise and finalise it."""
    output_names = options.output_names or traced.out_names
    _check_names("output_names", output_names, traced.out_names)
    # Decompositions may compute in 64 bits whatever the user's setting; what was traced keeps its dtypes.
    with jax.enable_x64(True):
        engine = Engine(
            plugins.registry, target, options.opset, inputs.symbols, traced.weight_names, provenance=options.provenance
        )
        scope = _main_scope(engine, inputs)
        outputs = engine.lower_jaxpr(scope, traced.jaxpr, scope.inputs)
    if engine.record.unsupported:
        raise _unsupported(engine, plugins)
    model = build_model(engine, scope, outputs, output_names)
    optimise(model, plugins.registry, target)
    program = OnnxProgram(model, fn, traced, inputs, plugins, target, options.opset, engine.record, options, specialised)
    write_metadata(model, program.symbols, [c.text for c in inputs.symbols.constraints])
    return program


def _main_scope(engine: Engine, inputs: Inputs) -> Scope:
    scope = Scope("main")
    scope.inputs = [
        engine.new_value(name, *physical(aval)) for name, aval in zip(inputs.names, inputs.avals, strict=True)
    ]
    scope.dims = engine.dim_lowerer(scope, symbol_reader(engine, scope, inputs))
    return scope


def _unsupported(engine: Engine, plugins: Plugins) -> UnsupportedError:
    lines = []
    for name, missing in sorted(engine.record.unsupported.items()):
        times = f"{missing.count} times, first" if missing.count > 1 else "once,"
        line = f"  {name}: {times} at {missing.location or 'an unknown line'}"
        if missing.declared is not None:
            line += f". {missing.declared.reason} {missing.declared.advice}".rstrip()
        elif supplier := supplier_of(name):
            line += f". It is supplied by {supplier}: pip install {supplier}"
        lines.append(line)
    notes = plugins.failure_notes()
    return UnsupportedError(
        "No installed plugin can lower these primitives:\n"
        + "\n".join([*lines, *notes])
        + "\nA rule can be given inline: to_onnx(..., plugins=[plugin]), where plugin has a hook "
        "jax2onnx_register(registry) that calls registry.add(rules)."
    )
