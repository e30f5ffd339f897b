"""`Training`: the programs of a training, and the way of its states back to the model."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Unpack

import jax
from jax2onnx_core import OnnxProgram, to_onnx
from jax2onnx_core.jax_types import Function, PyTree
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.build.names import Names
from jax2onnx_graph.errors import OptionError
from jax2onnx_runtime.array_files import read_arrays, restored
from jax2onnx_runtime.bundles.bundle import Bundle

from jax2onnx_training.functions import reading, with_parameters
from jax2onnx_training.models import TrainedModel
from jax2onnx_training.named_trees import NamedTree
from jax2onnx_training.options import ExportOptions, SessionOptions
from jax2onnx_training.probing import Batch
from jax2onnx_training.session import TrainingSession
from jax2onnx_training.state_names import INFER, KEY, OPTIMIZER, PARAMETERS, STEP, STEPS, VARIABLES

__all__ = ["Reader", "States", "Training"]

#: What has the states of a training: a session, a file that it has written, or arrays by the names of inputs.
States = TrainingSession | Mapping[str, Array] | str | os.PathLike[str]


@dataclasses.dataclass(frozen=True, eq=False)
class Reader:
    """A program that reads states of a training.

    Attributes:
      program: it, with the states as inputs.
      with_absent_weights: exports the same function with absent weights in the place of the states.
    """

    program: OnnxProgram
    with_absent_weights: Callable[[], OnnxProgram]

    @classmethod
    def exported(
        cls, fn: Function, model: TrainedModel, states: Mapping[str, Mapping[str, jax.Array]], batch: Batch,
        options: ExportOptions,
    ) -> Reader:  # fmt: skip
        """Export a user's function of a model.

        Args:
          fn: the function.
          model: the model.
          states: the states that it reads.
          batch: its other arguments.
          options: those of `to_onnx`.
        """
        function = reading(fn, model, [*states], batch.names)
        types = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), dict(states))

        def with_absent_weights() -> OnnxProgram:
            flat = {f"{state}.{name}": x for state, named in types.items() for name, x in named.items()}

            def call(weights: Mapping[str, jax.Array], *args: PyTree) -> PyTree:
                held = {state: {name: weights[f"{state}.{name}"] for name in named} for state, named in types.items()}
                return function(*held.values(), *args)

            named = with_parameters(call, [Names(batch.names).unique("weights"), *batch.names])
            return to_onnx(functools.partial(named, flat), batch.specifications, **options)

        return cls(to_onnx(function, [*types.values(), *batch.specifications], **options), with_absent_weights)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Training:
    """A step of training, and what reads its weights, exported.

    Attributes:
      movers: the programs that move the states on: `step`, and `loop` where it was asked for.
      readers: the other programs: `evaluate`, `infer`.
      model: the model, taken apart.
      optimizer: the structure of the state of the optimizer.
      changed: the names of the variables that a step changes.
    """

    movers: Mapping[str, OnnxProgram]
    readers: Mapping[str, Reader]
    model: TrainedModel
    optimizer: NamedTree
    changed: Sequence[str]

    @property
    def step(self) -> OnnxProgram:
        """The program of a step."""
        return self.movers[STEP]

    @property
    def programs(self) -> dict[str, OnnxProgram]:
        """All programs by name."""
        return {**self.movers, **{name: reader.program for name, reader in self.readers.items()}}

    @functools.cached_property
    def bundle(self) -> Bundle:
        """The programs as a bundle: one set of weights, which the step changes and the others read."""
        return Bundle(self.programs)

    def __repr__(self) -> str:
        return f"Training({', '.join(self.programs)}, of {len(self.model.parameters.names)} parameters)"

    def report(self) -> str:
        """A text of the weights that a step trains, of what else it changes and what stays as it is, and the report of its program."""
        graph = self.step.model.graph
        inputs = {str(value.name): value for value in graph.inputs}
        kinds = {
            "trained": [inputs[f"{PARAMETERS}.{name}"] for name in self.model.parameters.names],
            "state of the optimizer": [inputs[f"{OPTIMIZER}.{name}"] for name in self.optimizer.names],
            "other states": [inputs[f"{VARIABLES}.{name}"] for name in self.changed]
            + [inputs[name] for name in (KEY, STEPS) if name in inputs],
            "frozen": [value for value in graph.initializers.values() if not str(value.name).startswith("const")],
        }
        return "\n".join([*(f"{kind}: {_listed(values)}" for kind, values in kinds.items()), "", self.step.report()])

    def session(self, **options: Unpack[SessionOptions]) -> TrainingSession:
        """Load the programs to train with them; the options are those of `Bundle.session`."""
        return TrainingSession(self.bundle, **options)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the programs and the first states to a folder, which `open_training` opens without JAX."""
        return self.bundle.save(folder)

    # -- back home -----------------------------------------------------------------------------

    def weights(self, states: States) -> PyTree:
        """The weights of a session, or of a file, in the form of the model's framework.

        Args:
          states: what has the states.

        Returns:
          Of a pytree, the pytree, or a pair of it and its variables; of a model of a framework what that takes: a state for `nnx.update`,
          the variables of a Linen module.

        Raises:
          OptionError: a state is missing, or has another type.
        """
        return self.model.whole(
            self._arrays(states, PARAMETERS, self.model.parameters.names), self._arrays(states, VARIABLES, self.changed)
        )

    def optimizer_state(self, states: States) -> PyTree:
        """The state of the optimizer, as optax has it."""
        return self.optimizer.tree(self._arrays(states, OPTIMIZER, self.optimizer.names))

    def inference(self, states: States, name: str = INFER) -> OnnxProgram:
        """The program of the inference, or of another reader, with the weights of a session in the place of inputs.

        It is exported once for all sessions.

        Args:
          states: what has the states.
          name: the name of the program.

        Raises:
          OptionError: there is no such program.
        """
        if name not in self.readers:
            raise OptionError(f"There is no program {name!r} that reads the weights: give {name}=… to to_training.")
        program = self._absent[name]
        found = {
            f"{state}.{key}": array
            for state, names in ((PARAMETERS, self.model.parameters.names), (VARIABLES, self.changed))
            for key, array in self._arrays(states, state, names).items()
        }
        return program.with_weights({weight: found[weight] for weight in program.weights})

    @functools.cached_property
    def _absent(self) -> dict[str, OnnxProgram]:
        return {name: reader.with_absent_weights() for name, reader in self.readers.items()}

    def _arrays(self, states: States, state: str, names: Sequence[str]) -> dict[str, PyTree]:
        """The arrays of one kind of states, as JAX has them."""
        inputs = {leaf.name: leaf for leaf in self.step.interface.inputs}
        found = _named(states)
        arrays = {}
        for name in names:
            leaf = inputs[f"{state}.{name}"]
            if leaf.name not in found:
                raise OptionError(f"There is no state {leaf.name!r} among {', '.join([*found][:3]) or 'none'}, …")
            arrays[name] = jax.tree.map(_to_jax, leaf.returned(restored(found[leaf.name], leaf.dtype)))
        return arrays


def _listed(values: Sequence[ir.Value]) -> str:
    """The numbers of arrays and of their elements, and the names of some."""
    elements = sum(math.prod(map(int, value.shape.numpy())) for value in values if value.shape is not None)
    names = ", ".join(str(value.name) for value in values[:3]) + (", …" if len(values) > 3 else "")
    return f"{len(values)} arrays of {elements:,} numbers ({names})" if values else "nothing"


def _to_jax(array: Array | jax.Array) -> jax.Array:
    if isinstance(array, jax.Array):
        return array
    with jax.enable_x64(True):  # the states have the types that they are exported with
        return jax.numpy.array(array)


def _named(states: States) -> Mapping[str, Array]:
    """The states by the names of inputs."""
    if isinstance(states, TrainingSession):
        return states.state
    return states if isinstance(states, Mapping) else read_arrays(Path(states))
