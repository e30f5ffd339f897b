"""Model files and the objects that they were exported from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from jax2onnx_cli._exporting import Request, export, names_variables
from jax2onnx_cli._inputs import Inputs, InputSpec, read_inputs
from jax2onnx_cli._objects import Subject
from jax2onnx_cli._terminal import BadInput, Terminal

if TYPE_CHECKING:
    from jax2onnx_core import OnnxProgram
    from jax2onnx_core.frontend.layouts import Layouts
    from jax2onnx_graph import ir

__all__ = ["program_of_file"]


def program_of_file(terminal: Terminal, file: Path, request: Request, *, provenance: bool = False) -> OnnxProgram:
    """The object that a request names, exported again, around the model in a file.

    Args:
      terminal: where it is shown that the object is traced.
      file: the model file.
      request: the object; its inputs, symbols, constraints and layouts are those of the file unless they are given.
      provenance: whether values know the lines that they come from.

    Raises:
      BadInput: the file was not exported from JAX.
      VerificationError: the object has other inputs or outputs.
    """
    from jax2onnx_graph.saving.reading import read_model

    model = read_model(file)
    _check_producer(file, model)
    with terminal.working(f"tracing {request.subject}"):
        program = export(
            _completed(request, model), likely=lambda subject: _inputs(request, model, subject), provenance=provenance
        )
    _check_interface(file, model, request.subject, program.model)
    return program.with_model(model)


def _check_producer(file: Path, model: ir.Model) -> None:
    from jax2onnx_core.plugins.discovery import EXPORTER

    if model.producer_name != EXPORTER:
        producer = " ".join(filter(None, [model.producer_name, model.producer_version])) or "an unknown program"
        raise BadInput(
            f"{file} was written by {producer}, not exported from JAX: there is nothing to compare it with. "
            "jax2onnx inspect shows it, jax2onnx run runs it."
        )


def _check_interface(file: Path, model: ir.Model, subject: str, exported: ir.Model) -> None:
    from jax2onnx_graph.errors import VerificationError
    from jax2onnx_graph.facts.type_text import type_text

    for kind, found, wanted in (
        ("input", model.graph.inputs, exported.graph.inputs), ("output", model.graph.outputs, exported.graph.outputs),
    ):  # fmt: skip
        in_file, of_object = ({value.name: type_text(value) for value in values} for values in (found, wanted))
        for name in dict.fromkeys([*in_file, *of_object]):
            if in_file.get(name) != of_object.get(name):
                raise VerificationError(
                    f"{file} was not exported from {subject}: the {kind} {name!r} is {in_file.get(name, 'missing')} in the file, "
                    f"{of_object.get(name, 'missing')} in the object."
                )


def _completed(request: Request, model: ir.Model) -> Request:
    """The request with the symbols, types and layouts that the file has, where the user gave none."""
    from jax2onnx_graph.metadata import read_constraints, read_layouts, read_symbols

    types = [value.dtype.numpy() for value in (*model.graph.inputs, *model.graph.outputs) if value.dtype is not None]
    layouts = {name: f"{name}={text}" for name, text in read_layouts(model).items()}
    inputs, outputs = (
        [layouts[v.name] for v in vs if v.name in layouts] for vs in (model.graph.inputs, model.graph.outputs)
    )
    fixed = [f"{symbol.name}={symbol.value}" for symbol in read_symbols(model) if symbol.value is not None]
    return dataclasses.replace(
        request, constraints=request.constraints or read_constraints(model), specialize=request.specialize or fixed,
        output_names=request.output_names or ",".join(value.name or "" for value in model.graph.outputs),
        input_layouts=request.input_layouts or inputs, output_layouts=request.output_layouts or outputs,
        x64=request.x64 or any(dtype.name in ("float64", "int64", "uint64", "complex128") for dtype in types),
    )  # fmt: skip


def _inputs(request: Request, model: ir.Model, subject: Subject) -> Inputs:
    """The inputs of the object, from those of the file; those with the name of a keyword-only parameter are keywords.

    Variables of a model that are its states are no inputs of the object.
    """
    from jax2onnx_core.frontend.layouts import Layout, Layouts
    from jax2onnx_graph.metadata import read_layouts, read_states, read_symbols

    labels = {(name, axis): label for symbol in read_symbols(model) for name, axis, label in symbol.origins}
    keywords = {parameter.name for parameter in subject.parameters() if parameter.kind is parameter.KEYWORD_ONLY}
    variables = {pair.input for pair in read_states(model)} if names_variables(request.states) else set()
    layouts = Layouts({name: Layout.read(text) for name, text in read_layouts(model).items()})
    specs: dict[bool, list[InputSpec]] = {False: [], True: []}
    for value in model.graph.inputs:
        assert value.name is not None, "the inputs of an exported model have names"
        if value.name not in variables:
            specs[value.name.partition(".")[0] in keywords].append(_spec(value.name, value, labels, layouts))
    return read_inputs(specs[False], specs[True])


def _spec(name: str, value: ir.Value, labels: Mapping[tuple[str, int], str], layouts: Layouts) -> InputSpec:
    """The specification of an input of the object, from the input of the file."""
    assert value.dtype is not None, "and types"
    assert value.shape is not None, "and shapes"
    dims = [dim if isinstance(dim, int) else dim.value for dim in value.shape]
    shown = (labels.get((name, axis), dim) for axis, dim in enumerate(dims))
    return InputSpec(name, layouts.restored(name, list(shown)), value.dtype.numpy().name)
