"""`TaskModel`: a model with the inputs and outputs of a task, and what its configuration files say."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.facts.type_text import type_text
from jax2onnx_graph.facts.values import LabelledDim
from jax2onnx_graph.metadata import read_states
from jax2onnx_runtime.boundary import Boundary

__all__ = ["TaskModel", "check_stateless", "chosen", "described", "dims_of_rank", "rename_axes"]


@dataclasses.dataclass(frozen=True)
class TaskModel:
    """A model with the inputs and outputs that transformers.js' pipeline of a task gives and takes.

    Attributes:
      model: the model in full precision.
      config: the entries of `config.json` that follow from the model.
      files: further files: name → the content as JSON.
      vocabulary: how many tokens the model knows; None where that is not known, or no tokens are involved.
    """

    model: ir.Model
    config: Mapping[str, object]
    files: Mapping[str, Mapping[str, object]] = dataclasses.field(default_factory=dict)
    vocabulary: int | None = None


def check_stateless(model: ir.Model, task: str) -> None:
    """Raise OptionError if the model has states, which the task has no use for."""
    if states := read_states(model):
        raise OptionError(
            f"The model has a state, {states[0].input!r}, and {task} runs a model once: export it without states, or for the task "
            "'text-generation'."
        )


def described(values: Iterable[ir.Value]) -> str:
    """The names and types of inputs or outputs, for messages."""
    return ", ".join(f"{value.name}: {type_text(value)}" for value in values) or "none"


def chosen(
    what: str, role: str, given: str | None, values: Mapping[str, ir.Value], candidates: Sequence[ir.Value], wanted: str
) -> ir.Value:
    """The input or output that has a role.

    Args:
      what: "input" or "output".
      role: the name of the role, which is what transformers.js calls it.
      given: the name that the user gave, if any.
      values: all inputs or outputs, by name.
      candidates: those whose types fit.
      wanted: the type that fits, for messages.

    Raises:
      OptionError: there is none of that name or type, or there are several.
    """
    if given is not None:
        if given not in values:
            raise OptionError(f"roles: the model has no {what} {given!r}; it has {described(values.values())}.")
        return values[given]
    if len(candidates) == 1:
        return candidates[0]
    found = "several of them fit" if candidates else "none of them is one"
    advice = f" Say which it is: roles={{'NAME': '{role}'}}." if candidates else ""
    raise OptionError(
        f"transformers.js needs an {what} {role!r}, {wanted}, and of the {what}s of the model {found}: "
        f"{described(values.values())}.{advice}"
    )


def dims_of_rank(value: ir.Value, rank: int, role: str) -> Sequence[LabelledDim]:
    """The dimensions of a value. Raises OptionError if they are of another number than the role has."""
    if value.shape is None or len(value.shape) != rank:
        raise OptionError(f"{value.name!r} cannot be {role!r}, which has {rank} axes: it is {type_text(value)}.")
    return value.shape.dims


def rename_axes(boundary: Boundary, axes: Mapping[str, LabelledDim]) -> dict[str, LabelledDim]:
    """Give the symbolic axes of a model the names that they have in models of Hugging Face.

    Args:
      boundary: the model.
      axes: the name of an axis → its dimension in the model. A dimension that is an expression keeps its label.

    Returns:
      The dimensions after that.
    """
    labels = {name: dim.value for name, dim in axes.items() if isinstance(dim, ir.SymbolicDim) and dim.value}
    names = {label: name for name, label in reversed(labels.items()) if label.isidentifier()}
    boundary.rename_symbols(names)
    return {
        name: ir.SymbolicDim(names.get(labels[name], labels[name])) if name in labels else dim
        for name, dim in axes.items()
    }
