"""`bisect_models`: where the values of two models, or of one model in two runtimes, part."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.facts.type_text import type_text
from jax2onnx_graph.module_names import module_of
from jax2onnx_graph.traversal import given_inputs

from jax2onnx_runtime.bisection import Bisection, EquationSource, Intermediate, bisect, observed_values
from jax2onnx_runtime.feeds import feeds_of, sizes_text, symbol_space
from jax2onnx_runtime.probing import critical_sizes
from jax2onnx_runtime.program import Program
from jax2onnx_runtime.sizes import Sizes, check_runs, choose_sizes

__all__ = ["bisect_models"]


def bisect_models(
    model: Program, reference: Program, *, sizes: Sequence[Sizes] | None = None, seed: int = 0,
    rtol: float | None = None, atol: float | None = None,
) -> Bisection:  # fmt: skip
    """Compare the values inside a model with those inside another, by their names, on random inputs.

    The other may be what the model was made from (by an optimiser, in fewer bits), or the same in another runtime. Weights that
    both have by the same name are compared, too; what happens inside of loops, branches and functions is compared as a whole.

    Args:
      model: the model in question.
      reference: the model that is right, with the same inputs and outputs; their element types may be others.
      sizes: symbols → numbers, one mapping per run; by default a few of each.
      seed: that of the random inputs.
      rtol: the relative tolerance; by default that of each value's dtype, or of the one with fewer bits.
      atol: the absolute tolerance; by default `rtol` times the largest number of the value.

    Returns:
      The comparison of the first run in which something differs, or of the last.

    Raises:
      OptionError: the models have other inputs or outputs.
      SymbolError: there is no such symbol, or it cannot have this size.
      TargetError: a runtime is not installed or refuses its model.
    """
    _check_interface("input", given_inputs(model.model.graph), given_inputs(reference.model.graph))
    _check_interface("output", model.model.graph.outputs, reference.model.graph.outputs)
    if sizes is not None:
        check_runs(sizes)
    else:
        sizes = choose_sizes(symbol_space(reference.model), critical_sizes(model.model))
    for number, one in enumerate(sizes):
        feeds = feeds_of(reference.model, {}, sizes=one, seed=seed + number)
        found = _compared(model, reference, feeds, rtol, atol)
        if found.first is not None:
            return found
    return found


def _check_interface(kind: str, found: Iterable[ir.Value], wanted: Iterable[ir.Value]) -> None:
    """Raise OptionError for other names or numbers of axes."""
    here, there = ({value.name: value for value in values} for values in (found, wanted))
    for name in dict.fromkeys([*there, *here]):
        if name not in here or name not in there:
            place = "model in question" if name in here else "one to compare with"
            raise OptionError(f"The models cannot be compared: only the {place} has the {kind} {name!r}.")
        shapes = here[name].shape, there[name].shape
        if shapes[0] is not None and shapes[1] is not None and len(shapes[0]) != len(shapes[1]):
            types = " and ".join(type_text(values[name]) for values in (here, there))
            raise OptionError(f"The models cannot be compared: the {kind} {name!r} is {types}.")


def _compared(
    model: Program, reference: Program, feeds: Mapping[str, Array], rtol: float | None, atol: float | None
) -> Bisection:  # fmt: skip
    nodes = _tensors(reference.model)
    names = {*_tensors(model.model), *model.model.graph.initializers}
    observed = observed_values(reference.model, reference.runtime, [name for name in nodes if name in names], feeds)
    computed = [Intermediate(name, _source(node), observed[name]) for name, node in nodes.items() if name in observed]
    absent = [_source(node) for name, node in nodes.items() if name not in observed]
    alone = reference.loaded(feeds)
    by_name = {value.name: array for value, array in zip(reference.model.graph.outputs, alone, strict=True)}
    given = _converted(model.model, feeds)
    found = bisect(
        model.model, model.runtime, given, [*_weights(model.model, reference.model), *computed],
        (model.loaded(given), [by_name[value.name] for value in model.model.graph.outputs]),
        sizes_text(reference.model, feeds) or "the shapes of the model", rtol=rtol, atol=atol,
    )  # fmt: skip
    return dataclasses.replace(found, absent=[*found.absent, *absent], reference="the model to compare with")


def _tensors(model: ir.Model) -> dict[str, ir.Node]:
    """The names of the tensors that the main graph computes, and the nodes that do."""
    return {
        value.name: node
        for node in model.graph
        for value in node.outputs
        if value.name and (value.type is None or isinstance(value.type, ir.TensorType))
    }


def _source(node: ir.Node) -> EquationSource:
    return EquationSource(node.op_type, line=node.metadata_props.get("source"), module=".".join(module_of(node)))


def _weights(model: ir.Model, reference: ir.Model) -> Iterator[Intermediate]:
    """The weights of the reference that the model has, too; equal ones are one tensor where both are the same model."""
    if model is reference:
        return
    for name, value in reference.graph.initializers.items():
        own = model.graph.initializers.get(name)
        if own is not None and own.const_value is not None and value.const_value is not None:
            yield Intermediate(name, EquationSource("weight"), value.const_value.numpy())


def _converted(model: ir.Model, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """The inputs in the element types of a model."""
    types = {value.name: value.dtype for value in given_inputs(model.graph)}
    return {name: array if (t := types[name]) is None else array.astype(t.numpy()) for name, array in feeds.items()}
