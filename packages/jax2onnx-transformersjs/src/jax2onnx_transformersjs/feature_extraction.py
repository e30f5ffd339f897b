"""Feature extraction: `input_ids`, `attention_mask`, `token_type_ids` [B, T] → `last_hidden_state` [B, T, D]."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.build.builder import GraphBuilder
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.facts.values import same_dim
from jax2onnx_runtime.boundary import Boundary
from jax2onnx_runtime.probing import index_extents
from jax2onnx_runtime.program import Program

from jax2onnx_transformersjs.task_model import (
    TaskModel,
    as_float32,
    check_roles,
    check_stateless,
    chosen,
    described,
    dims,
    is_of,
    rename_axes,
)

__all__ = ["feature_extraction"]

TASK = "feature-extraction"
TOKENS, MASK, SEGMENTS, HIDDEN = "input_ids", "attention_mask", "token_type_ids", "last_hidden_state"
_CALLED = {"tokens": TOKENS, "mask": MASK, "segments": SEGMENTS}
# The usual names of inputs, which tell those of one type apart.
_NAMES = {
    "tokens": (TOKENS, "tokens", "token_ids", "ids", "words"),
    "mask": (MASK, "mask", "padding_mask", "attn_mask"),
    "segments": (SEGMENTS, "segment_ids", "segments", "type_ids", "token_types"),
}
_WANTED = {
    "tokens": "integers [batch, length]",
    "mask": "booleans or numbers [batch, length] or [batch, 1, 1, length]",
    "segments": "integers [batch, length]",
}


def feature_extraction(program: Program, roles: Mapping[str, str]) -> TaskModel:
    """The model with the inputs of a text encoder and the output `last_hidden_state`.

    Args:
      program: the program: tokens [B, T], a mask of those that count ([B, T] or [B, 1, 1, T], booleans or numbers 1 and 0) and
        the segments [B, T] that they belong to, as far as the model has these → features [B, T, D] and others.
      roles: "tokens", "mask", "segments" or "features" → the name of the input or output, where names and types do not tell.

    Raises:
      OptionError: the model is no text encoder.
    """
    check_stateless(program.model, TASK)
    check_roles(roles, (*_CALLED, "features"), TASK)
    boundary = Boundary(program.model, program.target)
    inputs = _inputs(boundary, roles)
    tokens = inputs["tokens"]
    outputs = boundary.old_outputs
    candidates = [
        value
        for value in outputs.values()
        if is_of(value, 3, floats=True) and same_dim(dims(value)[0], dims(tokens)[0])
    ]
    named = [value for value in candidates if value.name == HIDDEN and "features" not in roles]
    hidden = chosen("output", "features", roles, outputs, named or candidates, "floats [batch, length, features]")
    extents = index_extents(program.model).get(tokens.name or "", [])
    axes = rename_axes(boundary, dict(zip(("batch_size", "sequence_length"), dims(tokens), strict=True)))
    for role, value in inputs.items():
        new = boundary.new_input(_CALLED[role], np.dtype(np.int64), [*axes.values()])
        boundary.replace_input(value.name or "", _as_model_takes(boundary.front(), new, value))
    for name, value in boundary.old_outputs.items():
        floats = value.dtype is not None and value.dtype.is_floating_point()
        boundary.new_output(HIDDEN if value is hidden else name, as_float32(boundary, value) if floats else value)
    vocabulary = extents[0] if len(extents) == 1 and isinstance(extents[0], int) else None
    return TaskModel(boundary.finish(), _config(hidden, vocabulary), vocabulary=vocabulary)


def _inputs(boundary: Boundary, roles: Mapping[str, str]) -> dict[str, ir.Value]:
    """The inputs of the model by their roles."""
    left = dict(boundary.old_inputs)
    found: dict[str, ir.Value] = {}
    for role in ("mask", "segments", "tokens"):
        fitting = [value for value in left.values() if _may_be(role, value)]
        likely = [value for value in fitting if value.name in _NAMES[role]]
        if role == "mask" and not likely:
            likely = [value for value in fitting if value.dtype == ir.DataType.BOOL]
        if role != "tokens" and role not in roles and len(likely) != 1:
            continue
        candidates = fitting if role in roles else likely or fitting
        found[role] = chosen("input", role, roles, boundary.old_inputs, candidates, _WANTED[role])
        del left[found[role].name or ""]
    if left:
        raise OptionError(
            f"{TASK} gives a model tokens, a mask and segments, and the input {described([*left.values()])} is none of these. "
            f"Say which it is, roles={{'mask': {next(iter(left))!r}}}, or export a function without it."
        )
    tokens = found.pop("tokens")
    for role, value in found.items():
        if not _fits(value, tokens):
            raise OptionError(
                f"{TASK} gives a model the {role} in the shape of the tokens, and the input {described([value])} is none for "
                f"{described([tokens])}: {role} are {_WANTED[role]}."
            )
    return {"tokens": tokens, **found}


def _fits(value: ir.Value, tokens: ir.Value) -> bool:
    """Whether a mask or segments can have the shape of the tokens: axes of the same size, or each of a symbol that the tokens do not have."""
    own = {dim.value for dim in dims(tokens) if isinstance(dim, ir.SymbolicDim)}
    first, last = dims(value)[0], dims(value)[-1]
    if isinstance(first, ir.SymbolicDim) and same_dim(first, last):
        return False
    pairs = zip((first, last), dims(tokens), strict=True)
    return all(same_dim(a, b) or (isinstance(a, ir.SymbolicDim) and a.value not in own) for a, b in pairs)


def _may_be(role: str, value: ir.Value) -> bool:
    """Whether an input is of a type that a role can have."""
    if role != "mask" or value.shape is None or value.dtype is None:
        return is_of(value, 2, floats=False)
    shape = value.shape.dims
    return len(shape) == 2 or (len(shape) == 4 and shape[1:3] == (1, 1))


def _as_model_takes(builder: GraphBuilder, new: ir.Value, old: ir.Value) -> ir.Value:
    """A new input [B, T] of int64 as the model takes it."""
    assert old.dtype is not None
    value = builder.cast(new, old.dtype.numpy())
    return builder.unsqueeze(value, [1, 2]) if len(dims(old)) == 4 else value


def _config(hidden: ir.Value, vocabulary: int | None) -> dict[str, object]:
    """The entries of `config.json`."""
    features = dims(hidden)[-1]
    config: dict[str, object] = {"model_type": "bert", "architectures": ["BertModel"]}
    if isinstance(features, int):
        config["hidden_size"] = features
    return config if vocabulary is None else {**config, "vocab_size": vocabulary}
