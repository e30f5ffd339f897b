"""`TrainedModel`: a model, of a framework or a plain pytree, as the arrays that a step of training changes and those that it does not."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import AdaptedTraining
from jax2onnx_core.jax_types import Function, PyTree
from jax2onnx_core.plugins.adapted import adapter_of, imported_adapters
from jax2onnx_core.plugins.discovery import needed_plugins
from jax2onnx_graph.errors import OptionError

from jax2onnx_training.named_trees import NamedTree

__all__ = ["TrainedModel", "take_apart"]


@dataclasses.dataclass(frozen=True)
class TrainedModel:
    """A model taken apart for its training.

    Attributes:
      parts: the model as parameters and variables.
      is_tree: whether it is a pytree, and no model of a framework.
      functional: whether the variables are an argument and a result of the user's functions, and not in the model.
      parameters: the parameters by name.
      variables: the variables by name; those that are not given to `model` are constants.
    """

    parts: AdaptedTraining
    is_tree: bool
    functional: bool
    parameters: NamedTree = dataclasses.field(init=False)
    variables: NamedTree = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", NamedTree.from_tree(self.parts.parameters))
        object.__setattr__(self, "variables", NamedTree.from_tree(self.parts.variables))

    @property
    def first_parameters(self) -> dict[str, jax.Array]:
        """The parameters as the model has them, by name."""
        return self.parameters.named(self.parts.parameters)

    @property
    def first_variables(self) -> dict[str, jax.Array]:
        """The variables as the model has them, by name."""
        return self.variables.named(self.parts.variables)

    def call(
        self, fn: Function, parameters: PyTree, variables: Mapping[str, jax.Array], args: Sequence[PyTree],
        *, evaluating: bool, **kwargs: PyTree,
    ) -> tuple[PyTree, PyTree]:  # fmt: skip
        """The result of a function of the model, and the model after the call.

        Args:
          fn: the function: of the model, its variables where these are apart, and other arguments.
          parameters: the parameters that the model has.
          variables: its variables by name.
          args: the other arguments.
          evaluating: whether the model is used as at inference.
          kwargs: keyword arguments.
        """
        held = self.variables.tree(variables)
        model = self.parts.fresh(parameters, held)
        used = self.parts.evaluating(model) if evaluating and self.parts.evaluating else model
        given = (held,) if self.functional else ()
        result = fn(used, *given, *args, **kwargs)
        if evaluating and not self.functional and self.parts.evaluating is None:
            self._check_unchanged(held, self.parts.read(model))
        return result, model

    def _check_unchanged(self, before: PyTree, after: PyTree) -> None:
        """Raise OptionError where a call that only reads has changed variables."""
        pairs = zip(*map(jax.tree.leaves, (before, after)), strict=True)
        changed = [name for name, (one, other) in zip(self.variables.names, pairs, strict=True) if one is not other]
        if changed:
            raise OptionError(
                f"The evaluation or inference changes {changed[0]}, as a step of training does. Give infer=… and evaluate=…, functions that "
                "call the model as it is used at inference: lambda model, x: model(x, training=False)."
            )

    def variables_after(self, model: PyTree, returned: PyTree) -> dict[str, jax.Array]:
        """The variables by name after a call: those that the model holds, or those that the function returned."""
        after = returned if self.functional else self.parts.read(model)
        try:
            return self.variables.named(after)
        except ValueError as error:
            raise OptionError(
                f"The loss returns variables of another structure than it takes: {error}. Return them in the form in which they come in."
            ) from error

    def whole(self, parameters: Mapping[str, jax.Array], variables: Mapping[str, jax.Array]) -> PyTree:
        """The model in the form in which its framework takes arrays back."""
        held = self.variables.tree({**self.first_variables, **variables})
        return self.parts.whole(self.parameters.tree(parameters), held)


def take_apart(model: object, trained: object, variables: PyTree) -> TrainedModel:
    """Take a model apart: by the adapter of its framework, or as a pytree of arrays.

    Args:
      model: the model.
      trained: which arrays are parameters; see `to_training`.
      variables: what the user's functions take after the model; None where the model holds its variables.

    Raises:
      OptionError: it has no parameters, or `trained` does not fit.
    """
    parts = _adapted(model, trained)
    if parts is not None and variables is not None:
        raise OptionError(f"{type(model).__name__} holds its variables itself; leave variables out.")
    found = TrainedModel(
        _narrowed(_of_tree(model, variables), trained) if parts is None else parts, parts is None, variables is not None
    )
    if not found.parameters.names:
        raise OptionError(
            f"There is nothing to train: {type(model).__name__} has no parameters"
            + ("" if trained is None else f" that trained={trained!r:.80} means")
            + ". Give a model of a framework whose package is installed, or a pytree of arrays of floating point."
        )
    return found


def _adapted(model: object, trained: object) -> AdaptedTraining | None:
    """The model as its framework's package takes it apart; None where none does."""
    adapter = adapter_of(model, imported_adapters(needed_plugins().registry.adapters))
    if adapter is None:
        return None
    training = adapter.adapt(model).training
    if (parts := training(trained)) is not None:
        return parts
    return None if (parts := training(None)) is None else _narrowed(parts, trained)


def _of_tree(tree: PyTree, variables: PyTree) -> AdaptedTraining:
    """A pytree, all of it, as parameters."""
    return AdaptedTraining(
        tree, jax.tree.map(jnp.asarray, variables),
        fresh=lambda held, _: held,
        read=lambda _: variables,
        whole=lambda held, after: held if variables is None else (held, after),
    )  # fmt: skip


def _narrowed(parts: AdaptedTraining, trained: object) -> AdaptedTraining:
    """A model whose parameters are the arrays of floating point that `trained` means; the others are constants.

    Args:
      parts: the model with all leaves as parameters.
      trained: a pytree of booleans, the upper part of one, or a function of the parameters that makes it; None for all.
    """
    leaves, structure = jax.tree.flatten(parts.parameters)
    # The functions below close over it, so that weights of the programs are named after it.
    frozen = dict(zip(NamedTree.from_tree(parts.parameters).names, leaves, strict=True))
    chosen = _mask(trained(parts.parameters) if callable(trained) else trained, parts.parameters, len(leaves))
    is_trained = [is_chosen and _is_trainable(leaf) for is_chosen, leaf in zip(chosen, leaves, strict=True)]

    def joined(parameters: PyTree, others: Mapping[str, PyTree]) -> PyTree:
        given = iter(jax.tree.leaves(parameters))
        return structure.unflatten([next(given) if t else x for t, x in zip(is_trained, others.values(), strict=True)])

    kept = [jnp.asarray(x) if t else None for t, x in zip(is_trained, leaves, strict=True)]
    return dataclasses.replace(
        parts, parameters=structure.unflatten(kept),
        fresh=lambda held, state: parts.fresh(joined(held, frozen), state),
        whole=lambda held, state: parts.whole(joined(held, frozen), state),
    )  # fmt: skip


def _is_trainable(leaf: object) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray | np.generic) and jnp.issubdtype(leaf.dtype, jnp.inexact)


def _mask(mask: PyTree, tree: PyTree, count: int) -> list[bool]:
    """The booleans of a mask for each leaf of a pytree, of which it may be the upper part."""
    if mask is None:
        return [True] * count
    try:
        whole = jax.tree.map(lambda chosen, part: jax.tree.map(lambda _: bool(chosen), part), mask, tree)
    except ValueError as error:
        raise OptionError(f"trained is no pytree of booleans like that of the parameters: {error}") from error
    return jax.tree.leaves(whole)
