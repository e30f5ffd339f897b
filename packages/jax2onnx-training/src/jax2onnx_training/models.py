"""`TrainedModel`: a model, of a framework or a plain pytree, as the arrays that a step of training changes and those that it does not."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
from jax2onnx_core import AdaptedTraining
from jax2onnx_core.jax_types import Function, PyTree
from jax2onnx_core.plugins.adapted import imported_class
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
        object.__setattr__(self, "parameters", NamedTree.of(self.parts.parameters))
        object.__setattr__(self, "variables", NamedTree.of(self.parts.variables))

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
          variables: those of its variables that are not as they were, by name.
          args: the other arguments.
          evaluating: whether the model is used as at inference.
          kwargs: keyword arguments.
        """
        held = self.variables.tree({**self.first_variables, **variables})
        model = self.parts.fresh(parameters, held)
        used = self.parts.evaluating(model) if evaluating and self.parts.evaluating else model
        given = (held,) if self.functional else ()
        return fn(used, *given, *args, **kwargs), model

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
    functional = variables is not None
    found = TrainedModel(parts or _of_tree(model, trained, variables), parts is None, functional)
    if not found.parameters.names:
        raise OptionError(
            f"There is nothing to train: {type(model).__name__} has no parameters"
            + ("" if trained is None else f" that trained={trained!r:.80} means")
            + ". Give a model of a framework whose package is installed, or a pytree of arrays of floating point."
        )
    return found


def _adapted(model: object, trained: object) -> AdaptedTraining | None:
    """The model as its framework's package takes it apart; None where none does."""
    for adapter in needed_plugins().registry.adapters:
        cls = imported_class(adapter.claimed)
        if cls is not None and (adapter.claims(model) if adapter.claims else isinstance(model, cls)):
            return adapter.adapt(model).training(trained)
    return None


def _of_tree(tree: PyTree, trained: object, variables: PyTree) -> AdaptedTraining:
    """A pytree, whose arrays of floating point are parameters, unless `trained`, a pytree of booleans or a function that makes it, says no."""
    leaves, structure = jax.tree.flatten(tree)
    is_trained = [is_array(leaf) and jnp.issubdtype(jnp.result_type(leaf), jnp.inexact) for leaf in leaves]
    if trained is not None:
        chosen = _mask(trained(tree) if callable(trained) else trained, tree)
        is_trained = [a and b for a, b in zip(is_trained, chosen, strict=True)]

    def combined(parameters: PyTree) -> PyTree:
        given = iter(jax.tree.leaves(parameters))
        return jax.tree.unflatten(structure, [next(given) if t else x for t, x in zip(is_trained, leaves, strict=True)])

    parameters = jax.tree.unflatten(
        structure, [jnp.asarray(x) if t else None for t, x in zip(is_trained, leaves, strict=True)]
    )
    return AdaptedTraining(
        parameters, jax.tree.map(jnp.asarray, variables),
        fresh=lambda held, _: combined(held),
        read=lambda _: variables,
        whole=lambda held, after: combined(held) if variables is None else (combined(held), after),
    )  # fmt: skip


def is_array(leaf: object) -> bool:
    """Whether a leaf of a pytree is an array, of JAX or NumPy."""
    import numpy as np

    return isinstance(leaf, jax.Array | np.ndarray)


def _mask(mask: PyTree, tree: PyTree) -> list[bool]:
    """The booleans of a mask for each leaf of a pytree, of which it may be the upper part."""
    try:
        whole = jax.tree.map(lambda chosen, part: jax.tree.map(lambda _: bool(chosen), part), mask, tree)
    except ValueError as error:
        raise OptionError(f"trained is no pytree of booleans like that of the model: {error}") from error
    return jax.tree.leaves(whole)
