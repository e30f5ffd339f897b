"""`TrainingSession`: the programs of a training, loaded, with the states that they have in common; needs no JAX."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Unpack

import numpy as np
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import OptionError
from jax2onnx_runtime.bundles.bundle import Bundle, load_bundle
from jax2onnx_runtime.bundles.session import BundleStates
from jax2onnx_runtime.pytrees import PyTree

from jax2onnx_training.errors import LossError
from jax2onnx_training.options import SessionOptions
from jax2onnx_training.state_names import EVALUATE, INFER, LOOP, LOSS, PARAMETERS, STEP, STEPS

__all__ = ["TrainingSession", "open_training"]


class TrainingSession:
    """A training that runs: each step moves the states on, which are the runtime's own values.

    Args:
      bundle: the programs.
      options: those of `Bundle.session`: threads, providers, …; by default without an arena, which each program would have for itself,
        and with zeros for denormal numbers, which the moments of weights without a gradient become.
    """

    def __init__(self, bundle: Bundle, **options: Unpack[SessionOptions]) -> None:
        options.setdefault("arena", options.get("session_options") is not None)
        options.setdefault("flush_denormals", True)
        self._session = bundle.session(**options)
        interface = bundle[STEP].interface
        self._arguments = interface.step.arguments
        self._numbers = {
            leaf.name: number for number, leaf in enumerate(interface.inputs) if leaf.name not in self._session.state
        }

    @property
    def inputs(self) -> list[str]:
        """The names of the arrays in a batch."""
        return [*self._numbers]

    @property
    def state(self) -> BundleStates:
        """The states by the names of inputs, to be read and set."""
        return self._session.state

    @property
    def steps(self) -> int:
        """How many steps were taken, those before a checkpoint was loaded among them."""
        return int(self.state[STEPS])

    def step(self, *batch: PyTree, **named: PyTree) -> dict[str, PyTree]:
        """Take a step on a batch.

        Returns:
          The loss and the metrics.

        Raises:
          LossError: the loss is NaN or infinite; the states are those of before the step.
          RuntimeInputError: the arguments do not fit; the states stay as they are.
        """
        return self._move(STEP, batch, named)

    def loop(self, *batches: PyTree, **named: PyTree) -> dict[str, PyTree]:
        """Take as many steps as there are batches, which are stacked along a first axis.

        Returns:
          The losses and the metrics, each stacked.

        Raises:
          LossError: a loss is NaN or infinite; the states are those of before all steps.
          OptionError: the training was exported without a loop.
          RuntimeInputError: the arguments do not fit; the states stay as they are.
        """
        return self._move(LOOP, batches, named)

    def _move(self, name: str, args: tuple[PyTree, ...], kwargs: Mapping[str, PyTree]) -> dict[str, PyTree]:
        """Run a program that moves the states on; put them back where a loss is not finite."""
        result: dict[str, PyTree] = self._run(name, args, kwargs, advice="loop=True")
        losses = result[LOSS]
        # One number is looked at without NumPy, which is quicker.
        if not (np.isfinite(losses).all() if losses.ndim else math.isfinite(losses)):
            self._session[name].undo()
            raise self._loss_error(np.atleast_1d(losses))
        return result

    def step_on(self, arrays: Mapping[str, Array]) -> dict[str, PyTree]:
        """Take a step on a batch that is given as arrays by the names of `inputs`; see `step`."""
        args, kwargs = self._arguments({number: arrays[name] for name, number in self._numbers.items()})
        return self.step(*args, **kwargs)

    def _loss_error(self, losses: Array) -> LossError:
        first = int(np.argmin(np.isfinite(losses)))
        parameters = [name for name in self.state if name.startswith(f"{PARAMETERS}.")]
        if bad := [name for name in parameters if not np.isfinite(self.state[name]).all()]:
            advice = (
                f"{bad[0]} is not finite since the step before, whose loss was: load the last checkpoint, and train on with a smaller "
                "learning rate or clipped gradients; optax.apply_if_finite leaves such steps out by itself."
            )
        else:
            advice = f"The states are those of before {'this step' if len(losses) == 1 else 'the loop'}. Look at the batch, or train on with a smaller learning rate or clipped gradients."
        return LossError(f"The loss of step {self.steps + first + 1} is {losses[first]}. {advice}")

    def evaluate(self, *batch: PyTree) -> PyTree:
        """The results of the evaluation with the weights of now; by default the loss and the metrics. The states stay."""
        return self._run(EVALUATE, batch)

    def infer(self, *inputs: PyTree) -> PyTree:
        """The results of the inference with the weights of now. The states stay."""
        return self._run(INFER, inputs)

    def _run(
        self, name: str, args: tuple[PyTree, ...], kwargs: Mapping[str, PyTree] = MappingProxyType({}), advice: str = ""
    ) -> PyTree:
        if name not in self._session:
            raise OptionError(f"This training has no {name!r}: export it with to_training(…, {advice or f'{name}=…'}).")
        return self._session.step(name, *args, **kwargs)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a checkpoint, all states, to a file (`.npz`), whole or not at all. Raises SaveError."""
        return self.state.save(path)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Go on from a checkpoint, with the numbers that follow it. Raises RuntimeInputError for one of another training."""
        self.state.load(path)

    def reset(self) -> None:
        """Put the states back to what they were at first."""
        self._session.reset()


def open_training(folder: str | os.PathLike[str], **options: Unpack[SessionOptions]) -> TrainingSession:
    """Load a training that `Training.save` has written; needs no JAX.

    Args:
      folder: the folder.
      options: those of `Bundle.session`.

    Raises:
      ReadError: there is no bundle.
      OptionError: it is no training.
    """
    bundle = load_bundle(folder)
    if STEP not in bundle:
        raise OptionError(f"{os.fspath(folder)} is no training: it has {', '.join(bundle)}, but no program {STEP!r}.")
    return TrainingSession(bundle, **options)
