"""The functions that are exported: a step and a loop of steps, which return new states, and those that read them."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import jax
import jax.numpy as jnp
from jax2onnx_core.jax_types import Function, PyTree
from jax2onnx_graph.errors import OptionError

from jax2onnx_training.models import TrainedModel
from jax2onnx_training.named_trees import NamedTree
from jax2onnx_training.state_names import KEY, LOSS, OPTIMIZER, PARAMETERS, STATES, STEPS, VARIABLES, new_name

__all__ = ["LossFunction", "Optimizer", "loop_of", "reading", "step_of", "with_parameters"]

#: The keys of the result of a step that are no metrics.
_RESERVED = frozenset({LOSS, *map(new_name, STATES)})


class Optimizer(Protocol):
    """A gradient transformation of optax."""

    @property
    def init(self) -> Function:
        """Makes the first state of parameters."""
        ...

    @property
    def update(self) -> Callable[..., tuple[PyTree, PyTree]]:
        """Makes updates and the next state of gradients, a state and parameters."""
        ...


@dataclasses.dataclass(frozen=True)
class LossFunction:
    """The user's loss as a pure function of the arrays of a model.

    Attributes:
      model: the model.
      fn: the user's function.
    """

    model: TrainedModel
    fn: Function

    def __call__(
        self, parameters: PyTree, variables: Mapping[str, jax.Array], key: jax.Array | None, batch: Sequence[PyTree]
    ) -> tuple[jax.Array, tuple[dict[str, PyTree], dict[str, jax.Array]]]:
        """The loss, the metrics and the new variables.

        Args:
          parameters: the parameters.
          variables: the variables by name.
          key: a random key, if the function takes one.
          batch: inputs and labels.
        """
        drawn = {} if key is None else {KEY: key}
        result, model = self.model.call(self.fn, parameters, variables, batch, evaluating=False, **drawn)
        loss, metrics, returned = self.parts(result)
        return loss, (metrics, self.model.variables_after(model, returned))

    def parts(self, result: PyTree) -> tuple[jax.Array, dict[str, PyTree], PyTree]:
        """The loss, the metrics and the variables in a result of the user's function."""
        functional = self.model.functional
        expected = (
            "a pair of the loss and the variables" if functional else "a scalar, or a pair of it and a dict of metrics"
        )
        parts = result if isinstance(result, tuple) else (result,)
        if not 1 + functional <= len(parts) <= 2 + functional:
            raise OptionError(f"The loss returns {len(parts)} values; it returns {expected}.")
        metrics = parts[1 + functional] if len(parts) > 1 + functional else {}
        if not isinstance(metrics, Mapping) or not _RESERVED.isdisjoint(metrics):
            raise OptionError(
                f"The loss returns {metrics!r:.80} for metrics; they are a dict of arrays, with other keys than {LOSS!r} and those of the "
                f"states, {new_name(PARAMETERS)!r}, …"
            )
        return jnp.asarray(parts[0]), dict(metrics), parts[1] if functional else None


def step_of(
    loss: LossFunction, optimizer: Optimizer, state: NamedTree, states: Sequence[str], names: Sequence[str]
) -> Function:
    """The function of one step: it takes the states and a batch, and returns the loss, the metrics and the new states.

    Args:
      loss: the loss.
      optimizer: the optimizer.
      state: the structure of its state.
      states: the names of the states.
      names: the names of what is in a batch.
    """
    import optax

    # A transformation that is not declared to take more may fail for it; other objects, such as `optax.MultiSteps`, show what they take.
    is_plain = isinstance(optimizer, optax.GradientTransformation)
    model, update = loss.model, (optax.with_extra_args_support(optimizer) if is_plain else optimizer).update
    frozen = model.first_variables  # weights of the program are named after it

    def step(*args: PyTree) -> dict[str, PyTree]:
        held, batch = dict(zip(states, args, strict=False)), args[len(states) :]
        parameters, moments = model.parameters.tree(held[PARAMETERS]), state.tree(held.get(OPTIMIZER, {}))
        variables, key = {**frozen, **held.get(VARIABLES, {})}, held.get(KEY)
        next_key, key = (None, None) if key is None else jax.random.split(key)
        differentiated = jax.value_and_grad(loss, has_aux=True)
        (value, (metrics, after)), gradients = differentiated(parameters, variables, key, batch)

        # Line searches let no argument pass that their function does not take.
        def loss_of(parameters: PyTree, obj_fn: object = None, grad_fn: object = None) -> jax.Array:
            return loss(parameters, variables, key, batch)[0]

        more = _extra_arguments(update, loss_of, value, gradients)
        updates, moments = update(gradients, moments, parameters, **more)
        new = {
            PARAMETERS: model.parameters.named(optax.apply_updates(parameters, updates)), OPTIMIZER: state.named(moments),
            VARIABLES: {name: after[name] for name in held.get(VARIABLES, {})}, KEY: next_key, STEPS: held[STEPS] + 1,
        }  # fmt: skip
        return {LOSS: value, **metrics, **{new_name(name): new[name] for name in states}}

    return with_parameters(step, [*states, *names])


def _extra_arguments(update: Function, loss_of: Function, value: jax.Array, gradients: PyTree) -> dict[str, object]:
    """The arguments that a transformation takes beside gradients, state and parameters, by the names that optax gives it."""
    offered = {
        "value": value, "grad": gradients, "value_fn": loss_of, "obj_fn": loss_of,
        "grad_fn": lambda parameters, _: jax.grad(loss_of)(parameters),
    }  # fmt: skip
    taken = inspect.signature(update).parameters
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values())
    return {name: argument for name, argument in offered.items() if takes_all or name in taken}


def loop_of(step: Function, states: Sequence[str], names: Sequence[str]) -> Function:
    """The function of several steps: it takes the states and batches, stacked, and returns the stacked losses and metrics, and the last states.

    Args:
      step: the function of one step.
      states: the names of the states.
      names: the names of what is in a batch.
    """

    def loop(*args: PyTree) -> dict[str, PyTree]:
        def body(held: Sequence[PyTree], batch: Sequence[PyTree]) -> tuple[list[PyTree], dict[str, PyTree]]:
            result = step(*held, *batch)
            return [result.pop(new_name(name)) for name in states], result

        held, results = jax.lax.scan(body, list(args[: len(states)]), args[len(states) :])
        return {**results, **{new_name(name): x for name, x in zip(states, held, strict=True)}}

    return with_parameters(loop, [*states, *names])


def reading(fn: Function, model: TrainedModel, states: Sequence[str], names: Sequence[str]) -> Function:
    """A function of states and a batch that computes what a user's function does with the model at inference.

    Args:
      fn: the user's function, of the model and what is in a batch.
      model: the model.
      states: the names of the states that it takes.
      names: the names of what is in a batch.
    """
    frozen = model.first_variables  # weights of the program are named after it

    def read(*args: PyTree) -> PyTree:
        held, batch = dict(zip(states, args, strict=False)), args[len(states) :]
        parameters = model.parameters.tree({**model.first_parameters, **held.get(PARAMETERS, {})})
        return model.call(fn, parameters, {**frozen, **held.get(VARIABLES, {})}, batch, evaluating=True)[0]

    return with_parameters(read, [*states, *names])


def with_parameters(fn: Function, names: Sequence[str]) -> Function:
    """A function of positional arguments, which have these names: those of states, and those of the user's arguments."""
    if twice := [name for number, name in enumerate(names) if name in names[:number]]:
        raise OptionError(f"An argument is called {twice[0]}, as a state of the training is: give it another name.")
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    setattr(fn, "__signature__", inspect.Signature([inspect.Parameter(name, kind) for name in names]))  # noqa: B010
    return fn
