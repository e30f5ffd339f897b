"""Declaration of a decoder in its model's metadata: the roles of inputs and outputs, and the kinds of states."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping

from jax2onnx_graph import ir
from jax2onnx_graph.errors import ReadError
from jax2onnx_graph.metadata import ModelMetadata

from jax2onnx_generation.decoders.kinds import Kind, StateKind

__all__ = ["DECODER_KEY", "Roles", "declared_roles", "declared_states", "decoder_metadata"]

#: Role ("tokens", "positions", "mask", "bias" or "logits") → the name of the input or output; None for "there is none".
Roles = Mapping[str, str | None]

DECODER_KEY = "jax2onnx-generation.decoder"
"""The entry of the metadata."""


def decoder_metadata(
    *, roles: Roles | None = None, states: Mapping[str, StateKind] | None = None, metadata: ModelMetadata | None = None
) -> ModelMetadata:
    """The metadata that declare a decoder, for `program.with_metadata`.

    Args:
      roles: the roles of inputs and outputs.
      states: the kinds of states by their names, or by the beginning of them before a point.
      metadata: what else the model says of itself.
    """
    kinds = {
        name: {**dataclasses.asdict(kind), "kind": kind.kind.name.lower()} for name, kind in (states or {}).items()
    }
    before = ModelMetadata() if metadata is None else metadata
    entry = json.dumps({"roles": dict(roles or {}), "states": kinds})
    return dataclasses.replace(before, properties={**before.properties, DECODER_KEY: entry})


def declared_roles(model: ir.Model) -> dict[str, str | None]:
    """The roles that the metadata of a model declare. Raises ReadError where the entry is of another form."""
    return _read(model)[0]


def declared_states(model: ir.Model) -> dict[str, StateKind]:
    """The kinds of states that the metadata of a model declare. Raises ReadError where the entry is of another form."""
    return _read(model)[1]


def _read(model: ir.Model) -> tuple[dict[str, str | None], dict[str, StateKind]]:
    try:
        entry = json.loads(model.metadata_props.get(DECODER_KEY, "{}"))
        roles = {str(role): None if name is None else str(name) for role, name in entry.get("roles", {}).items()}
        states = {
            str(name): StateKind(Kind[kind["kind"].upper()], int(kind["axis"]), bool(kind["rolls"]))
            for name, kind in entry.get("states", {}).items()
        }
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ReadError(
            f"The entry {DECODER_KEY!r} in the model's metadata is not what decoder_metadata makes ({type(error).__name__}: {error})."
        ) from error
    return roles, states
