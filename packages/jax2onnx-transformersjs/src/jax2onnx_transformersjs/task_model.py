"""`TaskModel`: a model with the inputs and outputs of a task, and what its configuration files say."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.facts.type_text import type_text
from jax2onnx_graph.facts.values import LabelledDim, same_dim
from jax2onnx_graph.metadata import read_states
from jax2onnx_runtime.boundary import Boundary

__all__ = [
    "TaskModel",
    "as_float32",
    "check_apart",
    "check_roles",
    "check_stateless",
    "chosen",
    "described",
    "dims",
    "is_of",
    "rename_axes",
]


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
    what: str,
    role: str,
    roles: Mapping[str, str],
    values: Mapping[str, ir.Value],
    candidates: Sequence[ir.Value],
    wanted: str,
) -> ir.Value:
    """The input or output that has a role.

    Args:
      what: "input" or "output".
      role: the role, such as "images".
      roles: role → the name that the user gave.
      values: all inputs or outputs, by name.
      candidates: those whose types fit.
      wanted: the type that fits, for messages.

    Raises:
      OptionError: there is none of that name or type, or there are several.
    """
    if role in roles:
        if roles[role] not in values:
            raise OptionError(f"roles: the model has no {what} {roles[role]!r}; it has {described(values.values())}.")
        value = values[roles[role]]
        if value not in candidates:
            raise OptionError(
                f"roles: the {what} {value.name!r}, {type_text(value)}, cannot be {role!r}: {role} are {wanted}."
            )
        return value
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        raise OptionError(
            f"Several {what}s could be the {role}: {described(candidates)}. Say it by roles={{'{role}': '…'}}."
        )
    raise OptionError(f"The model has no {role}, {wanted}: its {what}s are {described(values.values())}.")


def check_roles(roles: Mapping[str, str], known: Sequence[str], task: str) -> None:
    """Raise OptionError for a role that the task does not have, or two roles of one input or output."""
    if unknown := [role for role in roles if role not in known]:
        raise OptionError(f"roles: {task} has no role {unknown[0]!r}; the roles are {', '.join(known)}.")
    if twice := [name for name in roles.values() if list(roles.values()).count(name) > 1]:
        raise OptionError(f"roles: {twice[0]!r} cannot have two roles.")


def is_of(value: ir.Value, rank: int, *, floats: bool) -> bool:
    """Whether a value has so many axes, and numbers that are floats, or integers."""
    if value.shape is None or value.dtype is None or len(value.shape) != rank:
        return False
    return value.dtype.is_floating_point() if floats else value.dtype.is_integer()


def dims(value: ir.Value) -> Sequence[LabelledDim]:
    """The dimensions of a value whose rank was checked."""
    assert value.shape is not None
    return value.shape.dims


def as_float32(boundary: Boundary, value: ir.Value) -> ir.Value:
    """A value of the model as float32."""
    return boundary.behind(value).cast(value, np.dtype(np.float32))


def check_apart(axes: Mapping[str, LabelledDim]) -> None:
    """Raise OptionError where two axes have one symbol, since a text has any length, however many there are."""
    for (one, dim), (other, same) in itertools.combinations(axes.items(), 2):
        if isinstance(dim, ir.SymbolicDim) and same_dim(dim, same):
            raise OptionError(
                f"The axes {one} and {other} are both {dim} in the model, and each may have another size: export it with a symbol for each."
            )


def rename_axes(boundary: Boundary, axes: Mapping[str, LabelledDim]) -> dict[str, LabelledDim]:
    """Give the symbolic axes of a model the names that they have in models of Hugging Face.

    Args:
      boundary: the model.
      axes: the name of an axis → its dimension in the model. A dimension that is an expression keeps its label.

    Returns:
      The dimensions after that.

    Raises:
      OptionError: two axes have one dimension.
    """
    check_apart(axes)
    labels = {name: dim.value for name, dim in axes.items() if isinstance(dim, ir.SymbolicDim) and dim.value}
    names: dict[str, str | int] = {label: name for name, label in reversed(labels.items()) if label.isidentifier()}
    boundary.rename_symbols(names)
    return {
        name: ir.SymbolicDim(str(names.get(labels[name], labels[name]))) if name in labels else dim
        for name, dim in axes.items()
    }
