"""`to_training`: the step, the evaluation and the inference of a model as programs over one set of weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Unpack

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import to_onnx
from jax2onnx_core.jax_types import Function, PyTree
from jax2onnx_graph.errors import OptionError

from jax2onnx_training.functions import LossFunction, Optimizer, loop_of, reading, step_of
from jax2onnx_training.models import TrainedModel, take_apart
from jax2onnx_training.named_trees import NamedTree
from jax2onnx_training.options import ExportOptions
from jax2onnx_training.probing import Batch, changed_variables, in_precision, read_inputs
from jax2onnx_training.state_names import (
    EVALUATE,
    INFER,
    KEY,
    LOOP,
    LOSS,
    OPTIMIZER,
    PARAMETERS,
    STEP,
    STEPS,
    VARIABLES,
    new_name,
)
from jax2onnx_training.training import Reader, Training

__all__ = ["to_training"]


def to_training(
    model: object, loss: Function, optimizer: Optimizer, batch: Sequence[PyTree], *, variables: PyTree = None,
    trained: object = None, key: jax.Array | None = None, optimizer_state: PyTree = None,
    evaluate: Function | None = None, infer: Function | None = None, inputs: Sequence[PyTree] | None = None,
    loop: bool = False, **options: Unpack[ExportOptions],
) -> Training:  # fmt: skip
    """Export the training of a model: a step, an evaluation and an inference over one set of weights.

    Args:
      model: a model of a framework whose package is installed, or a pytree whose arrays of floating point are trained.
      loss: `loss(model, *batch)`, a scalar, or a pair of it and a dict of metrics. What the model changes as it is called is a state:
        statistics, random streams, counters.
      optimizer: a gradient transformation of optax.
      batch: the inputs and labels of a step, as `to_onnx` takes inputs: `[("batch", 28, 28, 1), (("batch",), "int32")]`.
      variables: for a pytree, arrays that a step changes though nothing trains them, such as statistics: `loss(model, variables, *batch)`
        returns a pair of the loss and the new variables, or these and a dict of metrics.
      trained: which arrays are parameters; the others stay as they are. Of a model of a framework in its own terms (`nnx.LoRAParam`), of
        a pytree as a pytree of booleans or a function that makes one of it, as masks of optax are.
      key: a random key. The loss gets another one in each step, by its keyword `key`.
      optimizer_state: the state of the optimizer to begin with; by default that of `optimizer.init`.
      evaluate: what an evaluation computes, from the model (and the variables) and a batch; by default the loss and the metrics of the
        model at inference, unless these draw random numbers or nothing tells the model that it is not trained.
      infer: what an inference computes, from the model (and the variables) and the inputs; by default a call of a framework's model.
      inputs: the inputs of the inference; by default the batch without its last entry, which has the labels.
      loop: whether there is a program of several steps too, a `jax.lax.scan` over batches that are stacked along a first axis, `steps`.
      options: those of `to_onnx`: target, opset, constraints, x64, plugins, …

    Raises:
      OptionError: the loss is no scalar of floating point, a parameter does not take part in it, or something else is not as described.
    """
    if isinstance(optimizer, type) or not ({"init", "update"} <= {*dir(optimizer)}):
        raise OptionError(f"optimizer is a transformation of optax, such as optax.adam(1e-3), not {optimizer!r:.80}.")
    with in_precision(options):
        apart = take_apart(model, trained, variables)
        lossy, leading = LossFunction(apart, loss), 1 + apart.functional
        given = Batch.from_arguments(loss, leading, batch, {} if key is None else {KEY: key}, options)
        changed = changed_variables(lossy, given, key)
        moments = _optimizer_state(optimizer, optimizer_state, apart.parts.parameters)
        state = NamedTree.from_tree(moments)
        first = {
            PARAMETERS: apart.first_parameters, OPTIMIZER: state.named(moments),
            VARIABLES: {name: apart.first_variables[name] for name in changed}, KEY: key, STEPS: np.int32(0),
        }  # fmt: skip
        states = {name: value for name, value in first.items() if jax.tree.leaves(value)}
        function, kept = (
            step_of(lossy, optimizer, state, [*states], given.names),
            {name: new_name(name) for name in states},
        )
        movers = {STEP: to_onnx(function, [*states.values(), *batch], states=kept, **options)}
        if loop:
            several = loop_of(function, [*states], given.names)
            movers[LOOP] = to_onnx(several, [*states.values(), *given.stacked()], states=kept, **options)
        read: dict[str, tuple[Function, Batch]] = {}
        if (fn := _evaluation(evaluate, lossy, key, changed)) is not None:
            read[EVALUATE] = fn, given
        if (fn := infer or (None if apart.is_tree else _called)) is not None:
            without_labels = given.first(max(1, len(batch) - 1))
            read[INFER] = (
                fn,
                without_labels if inputs is None else Batch.from_arguments(fn, leading, inputs, {}, options),
            )
        readers = {name: _reader(fn, apart, states, taken, options) for name, (fn, taken) in read.items()}
        return Training(movers, readers, apart, state, changed)


def _called(model: Function, *inputs: PyTree) -> PyTree:
    return model(*inputs)


def _evaluation(
    given: Function | None, loss: LossFunction, key: jax.Array | None, changed: Sequence[str]
) -> Function | None:
    """The evaluation of the model on a batch; None where nobody says how the model is used at inference."""
    if given is not None or key is not None or (changed and loss.model.parts.evaluating is None):
        return given

    def evaluate(*args: PyTree) -> dict[str, PyTree]:
        value, metrics, _ = loss.parts(loss.fn(*args))
        return {LOSS: value, **metrics}

    return evaluate


def _reader(
    fn: Function, model: TrainedModel, states: Mapping[str, PyTree], batch: Batch, options: ExportOptions
) -> Reader:
    """A program that reads the parameters, and those variables on which its result depends."""
    held = {name: states[name] for name in (PARAMETERS, VARIABLES) if name in states}
    function = reading(fn, model, [*held], batch.names)
    used = iter(read_inputs(function, [*held.values(), *batch.types]))
    read = {name: {key: x for key, x in named.items() if next(used)} for name, named in held.items()}
    return Reader.exported(fn, model, {name: named for name, named in read.items() if named}, batch, options)


def _optimizer_state(optimizer: Optimizer, given: PyTree, parameters: PyTree) -> PyTree:
    """The first state of the optimizer. Raises OptionError where the given one is that of other parameters."""
    if given is None:
        return optimizer.init(parameters)
    given = jax.tree.map(lambda x: jnp.asarray(x) if isinstance(x, int | float | complex) else x, given)
    wanted = jax.eval_shape(optimizer.init, parameters)
    if jax.tree.structure(given) != jax.tree.structure(wanted):
        raise OptionError(
            f"optimizer_state is that of another optimizer, or of another model: it is {jax.tree.structure(given)!s:.200}, but "
            f"optimizer.init makes {jax.tree.structure(wanted)!s:.200}."
        )
    for name, one, other in zip(NamedTree.from_tree(wanted).names, *map(jax.tree.leaves, (given, wanted)), strict=True):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            raise OptionError(
                f"optimizer_state is that of another model: its {name} is {one.dtype}{list(one.shape)}, but optimizer.init makes "
                f"{other.dtype}{list(other.shape)}."
            )
    return given
