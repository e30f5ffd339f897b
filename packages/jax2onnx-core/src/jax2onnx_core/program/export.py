"""`to_onnx`: adapt, parse the inputs, trace, lower."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.assumptions import Assumption, parse_assumptions
from jax2onnx_graph.build.names import new_names
from jax2onnx_graph.metadata import StatePair
from jax2onnx_graph.opsets import check_opset
from jax2onnx_graph.options import check_flag, check_list, check_mapping
from jax2onnx_graph.targets import Target, find_target

from jax2onnx_core.frontend._adapters import AdaptedCallable, adapt_callable
from jax2onnx_core.frontend._specialized_tracing import SpecializedFunction, trace_inputs
from jax2onnx_core.frontend._state_shapes import StateShapes
from jax2onnx_core.frontend.inputs import Inputs, parse_inputs
from jax2onnx_core.frontend.layouts import GivenLayouts
from jax2onnx_core.frontend.python_functions import parameter_names
from jax2onnx_core.jax_types import PyTree
from jax2onnx_core.jaxprs import definitely_le
from jax2onnx_core.lowering._log import supplier_hints
from jax2onnx_core.lowering.physical import physical_array
from jax2onnx_core.plugins.discovery import needed_plugins
from jax2onnx_core.plugins.errors import ConversionError, OptionError
from jax2onnx_core.program._lowering import LoweringOptions, lower_program
from jax2onnx_core.program._state_leaves import input_leaves, output_leaves
from jax2onnx_core.program._state_pairs import pair_states
from jax2onnx_core.program._warnings import warn
from jax2onnx_core.program.program import OnnxProgram

__all__ = ["to_onnx"]


def to_onnx(
    fn: Any,
    inputs: Sequence[Any],
    *,
    kwargs: Mapping[str, Any] | None = None,
    constraints: Sequence[str] | None = (),
    opset: int | None = None,
    target: str | None = None,
    specialize: Mapping[str, int] | None = None,
    x64: bool | None = None,
    input_names: Sequence[str] | Mapping[str, str] | None = None,
    output_names: Sequence[str] | Mapping[str, str] | None = None,
    input_layouts: GivenLayouts | None = None,
    output_layouts: GivenLayouts | None = None,
    states: Any = None,
    state_shapes: Mapping[str, Sequence[Any]] | None = None,
    assume: Sequence[str | Assumption] | None = (),
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
      opset: the version of the standard operators, 17 to 28; by default the target's best one is used, and the lowest
        declared at which the graph means the same (`OnnxProgram.report` says what holds it up).
      target: the runtime to export for; by default the installed one, `"onnx"` for the pure standard.
      specialize: symbols to fix to numbers after tracing, `{"T": 1}`; see `OnnxProgram.specialize`.
      x64: whether JAX's 64-bit types are enabled during the export; None leaves JAX's setting.
      input_names: names in place of those of the parameters: all of them in order, or `{"x": "image"}` for some. The own names in
        another order are an error.
      output_names: names in place of those of the result keys, likewise. The order is that of JAX, which sorts the keys of dicts.
      input_layouts: inputs whose axes the model takes in another order than the function, by name or position among the
        model's inputs: `{"x": "NHWC->NCHW"}`, or "NCHW" for a function with channels last. In a name `*` stands for anything.
        Calls take the arguments of `fn`. A state comes back as it goes in.
      output_layouts: outputs whose axes the model gives in another order, likewise.
      states: which arguments come back as which results, for the next call: positions `{0: 0}` or names
        `{"cache": "new_cache"}` of pytrees that are alike; where `inputs` has example arrays for them, a session begins with these. Or which variables of a model are to be inputs and outputs, because
        calls change them, in the framework's terms: `nnx.Cache`, "cache". See `OnnxProgram.session`.
      state_shapes: shapes with symbols for states whose arrays have one size here: `{"cached_*": ("B", "C", ...)}`, where `...`
        stands for the axes that stay as they are. A name is that of the state or its last parts, and `*` stands for anything.
      assume: what you promise about the numbers, so that the model may leave out what only other numbers need: `["finite"]` for
        "no number is NaN or infinite", see `Assumption`. The report shows it, and the metadata of the model keep it.
      plugins: plugin objects that are not installed.
      provenance: whether each node's metadata names the user's source line.
      inline_functions: whether the bodies of functions stand in the place of their calls; always for a target that needs it.

    Raises:
      OptionError, InputError, SymbolError: something in the call is not as described above.
      UnsupportedError: primitives that no plugin lowers, all of them in one error.
    """
    check_mapping("kwargs", kwargs, "keyword arguments to specifications, {'scale': ((), 'float32')}")
    check_list("constraints", constraints, "texts such as 'T >= 2'")
    for option, flag in {"x64": x64, "provenance": provenance, "inline_functions": inline_functions}.items():
        check_flag(option, flag)
    reserved = _given_names(output_names)
    installed = needed_plugins()
    found = installed.with_inline(plugins)
    registry = found.registry
    made_for = find_target(registry.targets, target).assuming(parse_assumptions(assume))
    check_opset(opset, made_for)
    x64 = jax.config.jax_enable_x64 if x64 is None else x64

    hints = functools.partial(supplier_hints, suppliers=registry.suppliers, installed=found.distributions.values())
    adapted, states = _with_states(adapt_callable(fn, registry.adapters, hints), states, kwargs or {})
    with jax.enable_x64(x64):
        parsed = parse_inputs(
            adapted.called, inputs, kwargs or {}, constraints or (), reserved, adapted.state_inputs,
            _shapes(state_shapes, states, adapted.state_keyword),
        )  # fmt: skip
        parsed = parsed.renamed(input_names, reserved).with_layouts(input_layouts)
        with _hinting(hints(adapted.classes)):
            function = trace_inputs(adapted, parsed, registry, specialize)
    new = new_names("output_names", output_names, function.traced.out_names)
    if needed_plugins() is not installed:  # the function imported a library as it was traced
        found = needed_plugins().with_inline(plugins)
    pairs = _state_pairs(function, states, new)
    warn(function, constraints or ())
    _check_sizes(function, made_for)
    options = LoweringOptions(
        fn, adapted, found, made_for, opset=opset, x64=x64, provenance=provenance,
        inline_functions=inline_functions or not made_for.runs_functions, output_names=new,
        output_layouts=output_layouts, states=pairs,
        first_states=_first_states(adapted, parsed, inputs, kwargs or {}, pairs),
    )  # fmt: skip
    return lower_program(options, function)


def _given_names(output_names: Sequence[str] | Mapping[str, str] | None) -> list[str]:
    """The names that the user gave to outputs, which no input may have."""
    if isinstance(output_names, Mapping):
        return [*map(str, output_names.values())]
    check_list("output_names", output_names, "names")
    return [*map(str, output_names or ())]


def _with_states(
    adapted: AdaptedCallable, states: object, kwargs: Mapping[str, object]
) -> tuple[AdaptedCallable, Mapping[int | str, int | str] | None]:
    """The callable, and its states as arguments → results; variables of model objects are an argument and a result from here on."""
    if states is None or isinstance(states, Mapping):
        return adapted, states
    adapted = adapted.with_states(states, [*kwargs, *parameter_names(adapted.called)])
    return adapted, {adapted.state_keyword: 1}  # they come back beside the result


def _state_pairs(
    function: SpecializedFunction, states: Mapping[int | str, int | str] | None, output_names: Mapping[str, str]
) -> Sequence[StatePair]:
    """The pairs of inputs and outputs that are states."""
    if states is None:
        return ()
    leaves = input_leaves(function.inputs), output_leaves(function.traced, function.inputs, output_names)
    return pair_states(states, *leaves, definitely_le)


def _first_states(
    adapted: AdaptedCallable,
    inputs: Inputs,
    args: Sequence[PyTree],
    kwargs: Mapping[str, PyTree],
    pairs: Sequence[StatePair],
) -> dict[str, jax.Array | Array]:
    """The first values of states by the names of inputs: those that models hold, and given arrays, unless these are zeros, as others are."""
    states = {pair.input for pair in pairs}
    held = {adapted.state_keyword: adapted.states} if adapted.states else {}
    given = inputs.tree.flatten_up_to((tuple(args), {**kwargs, **held}))
    of_models = {id(array) for array in adapted.states.values()}
    found: dict[str, jax.Array | Array] = {}
    for (name, final), aval, array in zip(inputs.final_names.items(), inputs.avals, given, strict=True):
        if name in states and id(array) in of_models:
            found[final] = array
        elif name in states and isinstance(array, jax.Array | np.ndarray | np.generic | complex | float | int):
            first = array if isinstance(array, jax.Array) else np.array(array, aval.dtype)
            if np.ascontiguousarray(physical_array(first)).reshape(-1).view(np.uint8).any():
                found[final] = first
    return found


def _shapes(given: object, states: object, keyword: str) -> StateShapes:
    """The shapes that the user gave for the states, which are arguments that a mapping has as keys, or are under a keyword."""
    if given is not None and states is None:
        raise OptionError("state_shapes is about states, and there are none; say which they are by states.")
    arguments = [keyword] if keyword else list(states) if isinstance(states, Mapping) else []
    return StateShapes.read(given, arguments)


@contextlib.contextmanager
def _hinting(hints: Iterable[str]) -> Iterator[None]:
    """Errors of the user's code name the packages that know his libraries and are not installed."""
    try:
        yield
    except Exception as error:
        for hint in hints:
            error.add_note(hint)
        raise


def _check_sizes(function: SpecializedFunction, target: Target) -> None:
    """Raise where the target does not run a model with a size that depends on data."""
    sizes = function.inputs.symbols.from_data.values()
    for size in sizes if not target.runs_sizes_from_data else ():
        raise ConversionError(
            f"The size of {size.source} depends on data, and {target.name} gives values sizes before it runs. Give the function a largest size "
            "and a mask, as jax.jit wants them, or export for another target."
        )
