"""Decoders in files: generators of any ONNX model whose metadata names its states."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.metadata import read_states
from jax2onnx_graph.saving.reading import read_model
from jax2onnx_runtime.call_interface import CallSteps, named_interface
from jax2onnx_runtime.feeds import symbol_space
from jax2onnx_runtime.runtimes import Runtime
from jax2onnx_runtime.session import open_model
from jax2onnx_runtime.sizes import Sizes
from jax2onnx_runtime.state_values import StateSizes
from jax2onnx_runtime.states import RuntimeOptions

from jax2onnx_generation.decoders.declaration import Roles
from jax2onnx_generation.decoders.kinds import StateKind
from jax2onnx_generation.decoders.signature import decoder_signature
from jax2onnx_generation.loop.generator import Generator

__all__ = ["open_decoder"]

# The places of caches of a symbolic capacity at first, which are doubled where they are needed.
_PLACES = 64


def open_decoder(
    path: str | os.PathLike[str], runtime: Runtime, *, sizes: Sizes | None = None, window: Sizes | None = None,
    limits: Sizes | None = None, initial: Mapping[str, Array] | None = None, roles: Roles | None = None,
    states: Mapping[str, StateKind] | None = None, options: RuntimeOptions | None = None,
) -> Generator:  # fmt: skip
    """A generator with the decoder in a file.

    The steps of its session take one mapping of the inputs that are no states by name, and return the outputs that are none by name.

    Args:
      path: the file.
      runtime: what runs it.
      sizes: the sizes that states begin with; by default one sequence, and 64 places in caches of a symbolic capacity.
      window: how many entries of a growing axis are kept.
      limits: how many entries a growing axis, or a capacity, may have.
      initial: first values of states by the names of inputs; others begin with zeros.
      roles: the inputs and outputs that are not recognised; see `Generator`.
      states: how states change in a run, where the graph does not show it; likewise.
      options: how the runtime is to run the model.

    Raises:
      ReadError: the file holds no model.
      OptionError: the model is no decoder, or an option fits no state.
      TargetError: the runtime is not installed, or cannot run the model.
    """
    model = read_model(Path(path))
    chosen = {**first_sizes(model, roles), **(sizes or {})}
    interface = named_interface(model)
    session = open_model(
        model, runtime, CallSteps(interface, interface.sizes_in(model)), symbol_space(model), initial=initial or {},
        sizes=StateSizes(chosen, window or {}, limits or {}), options=options or RuntimeOptions(),
    )  # fmt: skip
    return Generator(session, roles=roles, states=states)


def first_sizes(model: ir.Model, roles: Roles | None = None) -> dict[str, int]:
    """The sizes that the states of a decoder begin with: one sequence, and 64 places where a capacity is a symbol."""
    inputs = {str(value.name): value for value in model.graph.inputs}
    tokens = set(_symbols(inputs[decoder_signature(model, roles).tokens]))
    found = {}
    for pair in read_states(model):
        for axis, dim in enumerate(_symbols(inputs[pair.input])):
            if dim is not None and axis != pair.grows:
                found[dim] = 1 if dim in tokens else _PLACES
    return found


def _symbols(value: ir.Value) -> list[str | None]:
    """The symbols that are dimensions of a value, None for others."""
    dims = [dim.value if isinstance(dim, ir.SymbolicDim) else None for dim in value.shape or ()]
    return [dim if dim is not None and dim.isidentifier() else None for dim in dims]
