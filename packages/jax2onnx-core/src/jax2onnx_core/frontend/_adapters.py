"""Adapting: model objects inside a callable become fresh copies for each call, their arrays get names."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.export
import jax.extend.core
from jax2onnx_graph.build.names import Names

from jax2onnx_core.frontend._containers import Containers
from jax2onnx_core.frontend._model_search import AbsentPaths, Copies, ModelSearch
from jax2onnx_core.frontend.python_functions import name_of
from jax2onnx_core.jax_types import Function, PyTree
from jax2onnx_core.jaxprs import struct
from jax2onnx_core.plugins.adapted import Adapted, AdaptedStates, Adapter, imported_class
from jax2onnx_core.plugins.errors import OptionError

__all__ = ["AdaptedCallable", "FreshCallable", "adapt_callable"]


@dataclasses.dataclass(frozen=True)
class AdaptedCallable:
    """A callable taken apart into a function and the arrays of the model objects found in it.

    Attributes:
      called: the callable whose parameters the inputs are.
      names: `array_identity` of an array → its name.
      arrays: the arrays themselves, so that their ids stay theirs.
      classes: those of the objects found.
      absent: the weights that are given as types only: name → type.
      state_keyword: the keyword under which the selected states are arguments.
    """

    called: Function
    names: Mapping[Hashable, str]
    arrays: Sequence[object]
    classes: frozenset[type]
    absent: Mapping[str, jax.ShapeDtypeStruct]
    _make: Callable[[Copies], Function]
    _models: Mapping[int, Adapted]
    _absent_paths: Mapping[int, AbsentPaths]
    _containers: Containers
    _stateful: Mapping[int, AdaptedStates] = dataclasses.field(default_factory=dict)
    state_keyword: str = ""

    @property
    def place(self) -> str:
        """The callable, as messages say it in the place of a line where a computation is in no line of the user."""
        return f"the exported callable, {name_of(self.called)}"

    @functools.cached_property
    def owners(self) -> dict[str, str]:
        """Name of an array → the part of a model that it belongs to, as messages call it."""
        return {name: owner for adapted in self._models.values() for name, owner in adapted.owners.items()}

    @functools.cached_property
    def states(self) -> dict[str, jax.Array]:
        """The selected states: path → array."""
        return {path: array for states in self._stateful.values() for path, array in states.arrays.items()}

    @property
    def state_inputs(self) -> dict[str, PyTree]:
        """The types of the selected states, as a further keyword argument."""
        return {self.state_keyword: {path: struct(x) for path, x in self.states.items()}} if self._stateful else {}

    def with_states(self, wanted: object, taken: Iterable[str]) -> AdaptedCallable:
        """The callable whose models' states that `wanted` means are arguments, by a keyword that is not in `taken`.

        Raises:
          OptionError: it means none.
        """
        found = {key: made.states(wanted) for key, made in self._models.items()}
        stateful = {key: states for key, states in found.items() if states is not None and states.arrays}
        if not stateful:
            raise OptionError(
                f"states={wanted!r:.80} means no state of a model here. It is {{0: 0}} or {{'cache': 'new_cache'}}, which maps "
                "arguments to results, or says which variables of a model are states, in the terms of its framework."
            )
        return dataclasses.replace(self, _stateful=stateful, state_keyword=Names(taken).unique("state"))

    def weights_of(self, wanted: object) -> list[str]:
        """The paths of the arrays of the models that `wanted` means, in the terms of their framework: `nnx.LoRAParam`."""
        found = (made.states(wanted) for made in self._models.values())
        return [path for states in found if states is not None for path in states.arrays]

    def with_weights(self, weights: Mapping[str, jax.Array]) -> Function:
        """The callable around these arrays in the place of absent weights; each call has fresh copies of the models."""

        def call(*args: PyTree, **kwargs: PyTree) -> PyTree:
            states = kwargs.pop(self.state_keyword, {})
            return self.fresh(weights, states)(*args, **kwargs)

        return call

    def fresh(self, weights: Mapping[str, jax.Array], states: Mapping[str, jax.Array]) -> FreshCallable:
        """The callable around fresh copies of its models, for one call.

        Args:
          weights: arrays for the absent weights, by name.
          states: arrays for the selected states, by path.

        Raises:
          OptionError: it is no callable, but holds what adapters know: a model's state, a pair in another order.
        """
        copies = Copies(weights, states, self._absent_paths, self._stateful)
        fn = self._make(copies)
        if not callable(fn):
            raise OptionError(
                f"to_onnx needs a callable, not {_kind(self.called)}. It is the model that is exported, not its state or variables "
                "alone; where it takes both as a pair, the model stands first."
            )
        return FreshCallable(fn, copies, tuple(self.states), self._containers)


def _kind(value: object) -> str:
    """The type of a value, with those of the elements of a tuple."""
    kinds = f" ({', '.join(type(item).__name__ for item in value)})" if isinstance(value, tuple) else ""
    return f"{type(value).__name__}{kinds}"


#: What JAX makes of a function, and which it cannot trace again.
_MADE_OF_FUNCTIONS = (
    jax.stages.Compiled, jax.stages.Lowered, jax.stages.Traced, jax.export.Exported, jax.extend.core.ClosedJaxpr,
    jax.extend.core.Jaxpr,
)  # fmt: skip


class FreshCallable:
    """A callable around fresh copies of its models, to be called once. The user's other objects hold their arrays again afterwards."""

    def __init__(self, fn: Function, copies: Copies, states: Sequence[str], containers: Containers) -> None:
        self._fn, self._copies, self._states = copies.surround(fn), copies, states
        self._containers = containers
        self._stored: dict[str, jax.Array] = {}

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """The result of the callable; where states were selected, the result and the new states by path."""
        put_back = self._containers.remembered()
        try:
            result = self._fn(*args, **kwargs)
        finally:
            self._stored = put_back()
        if not self._states:
            return result
        held = self._copies.states()
        return result, {path: held[path] for path in self._states}

    def modules(self) -> dict[str, Any]:
        """The parts of the models: path → part."""
        return {path: part for adapted, model in self._copies for path, part in adapted.modules(model).items()}

    def written(self) -> dict[str, Any]:
        """The state of the models, and the arrays of other objects, that the call has changed: path → array."""
        models = {path: array for adapted, model in self._copies for path, array in adapted.written(model).items()}
        return {**models, **self._stored}


def adapt_callable(
    fn: Function, adapters: Sequence[Adapter], suppliers: Callable[[Iterable[type]], Iterable[str]] = lambda _: ()
) -> AdaptedCallable:
    """Take `fn` apart by the adapters of plugins.

    Args:
      fn: the callable.
      adapters: those of the plugins.
      suppliers: classes → a sentence for each library of them whose package is not installed.

    Raises:
      OptionError: it is not callable, or a class of models.
    """
    classes = (imported_class(adapter.claimed) for adapter in adapters)
    if isinstance(fn, type) and any(found is not None and issubclass(fn, found) for found in classes):
        raise OptionError(
            f"{fn.__qualname__} is a class of models, not a model: make an object of it, {fn.__qualname__}(…), and export that."
        )
    if isinstance(fn, _MADE_OF_FUNCTIONS):
        raise OptionError(
            f"to_onnx needs a function of JAX, not {type(fn).__name__}: export the function that it was made of."
        )
    search = ModelSearch(adapters)
    make = search.maker(fn, "")
    if make is None and not callable(fn):
        hints = "".join(f" {hint}" for hint in suppliers(search.classes))
        raise OptionError(f"to_onnx needs a callable, not {type(fn).__name__}: {fn!r:.80}.{hints}")
    return AdaptedCallable(
        search.called(fn), search.names, search.arrays, frozenset(search.classes), search.absent,
        make or (lambda _: fn), search.models, search.absent_paths, search.containers,
    )  # fmt: skip
