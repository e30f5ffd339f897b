"""Feature extraction: `input_ids`, `attention_mask`, `token_type_ids` [B, T] → `last_hidden_state` [B, T, D]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.build.builder import GraphBuilder
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.facts.type_text import type_text
from jax2onnx_graph.facts.values import LabelledDim
from jax2onnx_runtime.boundary import Boundary
from jax2onnx_runtime.portable import PortableProgram
from jax2onnx_runtime.probing import index_extents

from jax2onnx_transformersjs.task_model import TaskModel, check_stateless, chosen, described, rename_axes

__all__ = ["feature_extraction"]

TASK = "feature-extraction"
TOKENS, MASK, SEGMENTS, HIDDEN = "input_ids", "attention_mask", "token_type_ids", "last_hidden_state"
_INT64 = np.dtype(np.int64)
# The names of parameters that tell masks and segments from tokens, where their types do not.
_NAMES = {
    TOKENS: ("input_ids", "tokens", "token_ids", "ids", "words", "inputs", "x"),
    MASK: ("attention_mask", "mask", "padding_mask"),
    SEGMENTS: ("token_type_ids", "segment_ids", "segments", "type_ids", "types"),
}


def feature_extraction(program: PortableProgram, roles: Mapping[str, str]) -> TaskModel:
    """The model with the inputs of a text encoder and the output `last_hidden_state`.

    Args:
      program: the program: tokens [B, T], a mask of those that count ([B, T], [B, 1, 1, T], booleans or numbers 1 and 0) and the
        segments [B, T] that they belong to, as far as the model has these → features [B, T, D] and others.
      roles: input or output of the model → the name that it gets, where names and types do not tell.

    Raises:
      OptionError: the model is no text encoder.
    """
    check_stateless(program.model, TASK)
    boundary = Boundary(program.model, program.target)
    given = {role: name for name, role in roles.items()}
    inputs = _inputs(boundary, given)
    hidden = _hidden(boundary, given.get(HIDDEN))
    tokens = inputs[TOKENS]
    assert tokens.shape is not None
    extents = index_extents(program.model).get(tokens.name or "", [])
    axes = rename_axes(boundary, dict(zip(("batch_size", "sequence_length"), tokens.shape.dims, strict=True)))
    for role, value in inputs.items():
        new = boundary.new_input(role, _INT64, [*axes.values()])
        boundary.replace_input(value.name or "", _as_model_takes(boundary.front(), new, value))
    for name, value in boundary.old_outputs.items():
        boundary.new_output(HIDDEN if value is hidden else name, _as_floats(boundary, value))
    vocabulary = extents[0] if len(extents) == 1 and isinstance(extents[0], int) else None
    return TaskModel(boundary.finish(), _config(hidden, vocabulary), vocabulary=vocabulary)


def _inputs(boundary: Boundary, given: Mapping[str, str]) -> dict[str, ir.Value]:
    """The inputs of the model by what transformers.js calls them, in its order."""
    left = dict(boundary.old_inputs)
    found: dict[str, ir.Value] = {}
    for role in (MASK, SEGMENTS, TOKENS):
        fitting = [value for value in left.values() if _may_be(role, value)]
        named = [value for value in fitting if value.name in _NAMES[role]]
        if role == MASK and not named:
            named = [value for value in fitting if value.dtype == ir.DataType.BOOL]
        if role == TOKENS or role in given:
            value = chosen(
                "input", role, given.get(role), boundary.old_inputs, named or fitting, "integers [batch, length]"
            )
            if not _may_be(role, value):
                raise OptionError(f"The input {value.name!r}, {type_text(value)}, cannot be {role!r}.")
        elif len(named) == 1:
            value = named[0]
        else:
            continue
        found[role] = value
        left.pop(value.name or "", None)
    if left:
        raise OptionError(
            f"{TASK} gives a model {TOKENS}, {MASK} and {SEGMENTS}, and the input {described([*left.values()][:1])} is none of "
            f"these. Say which it is, roles={{{[*left][0]!r}: '{MASK}'}}, or export a function without it."
        )
    return {role: found[role] for role in (TOKENS, MASK, SEGMENTS) if role in found}


def _may_be(role: str, value: ir.Value) -> bool:
    """Whether the type of an input is one that a role can have."""
    if value.shape is None or value.dtype is None:
        return False
    if role == MASK:
        dims = value.shape.dims
        return len(dims) == 2 or (len(dims) == 4 and dims[1:3] == (1, 1))
    return len(value.shape) == 2 and value.dtype.is_integer()


def _as_model_takes(builder: GraphBuilder, new: ir.Value, old: ir.Value) -> ir.Value:
    """A new input [B, T] of int64 as the model takes it."""
    assert old.dtype is not None
    assert old.shape is not None
    value = builder.cast(new, old.dtype.numpy())
    return builder.unsqueeze(value, [1, 2]) if len(old.shape) == 4 else value


def _hidden(boundary: Boundary, given: str | None) -> ir.Value:
    outputs = boundary.old_outputs
    candidates = [
        value for value in outputs.values()
        if value.shape is not None and len(value.shape) == 3 and value.dtype is not None and value.dtype.is_floating_point()
    ]  # fmt: skip
    named = [value for value in candidates if value.name == HIDDEN]
    value = chosen("output", HIDDEN, given, outputs, named or candidates, "floats [batch, length, features]")
    if value not in candidates:
        raise OptionError(
            f"The output {value.name!r}, {type_text(value)}, cannot be {HIDDEN!r}: it is no floats [B, T, D]."
        )
    return value


def _as_floats(boundary: Boundary, value: ir.Value) -> ir.Value:
    """An output as float32 if it is of floats."""
    floats = value.dtype is not None and value.dtype.is_floating_point()
    return boundary.behind(value).cast(value, np.dtype(np.float32)) if floats else value


def _config(hidden: ir.Value, vocabulary: int | None) -> dict[str, object]:
    features = _last(hidden.shape.dims) if hidden.shape is not None else None
    config: dict[str, object] = {"model_type": "bert", "architectures": ["BertModel"]}
    if isinstance(features, int):
        config["hidden_size"] = features
    return config if vocabulary is None else {**config, "vocab_size": vocabulary}


def _last(dims: Sequence[LabelledDim]) -> LabelledDim:
    return dims[-1]
