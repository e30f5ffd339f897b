"""`TreeForm`: the containers of calls as pytrees of JAX, and as processes without JAX know them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence

import jax
import numpy as np
from jax2onnx_runtime.call_interface import Arguments, TemplateForm
from jax2onnx_runtime.pytrees import Foreign, Numbered, Record, Template

from jax2onnx_core.frontend._pytrees import is_too_deep, structure_difference
from jax2onnx_core.jax_types import PyTree, PyTreeDef
from jax2onnx_core.plugins.errors import RuntimeInputError

__all__ = ["TreeForm"]

_STATE = object()  # stands for a state in a pytree
_OF_A_STEP = "The arguments are not those of a step, which has none for the states:"


@dataclasses.dataclass(frozen=True)
class TreeForm:
    """A `CallForm` of pytrees.

    Attributes:
      tree: that of `(args, kwargs)`.
      inputs: the numbers of the inputs at its leaves.
      out_tree: that of the result.
      outputs: the numbers of the outputs at its leaves.
      wrong: the beginning of the message about arguments with another pytree.
    """

    tree: PyTreeDef
    inputs: Sequence[int]
    out_tree: PyTreeDef
    outputs: Sequence[int]
    wrong: str = "The arguments are not those that the program was exported for:"

    @functools.cached_property
    def _arrays(self) -> int | None:
        """The number of arguments, where each is one array; else None."""
        count = self.tree.num_leaves
        return count if self.tree == jax.tree_util.tree_structure(((0,) * count, {})) else None

    def leaves(self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> dict[int, PyTree]:
        """The arguments at the leaves, by number. Raises RuntimeInputError for another pytree."""
        if not kwargs and len(args) == self._arrays and {*map(type, args)} == {np.ndarray}:  # the usual case
            return dict(zip(self.inputs, args, strict=True))
        if is_too_deep(*args, *kwargs.values()):
            raise RuntimeInputError("The arguments are nested more than 100 deep, or one of them contains itself.")
        try:
            leaves, tree = jax.tree_util.tree_flatten((tuple(args), dict(kwargs)))
        except ValueError as error:
            raise RuntimeInputError(
                f"The arguments have a dict whose keys cannot be sorted, so that JAX has no order of them: {error}"
            ) from error
        if tree != self.tree:
            raise RuntimeInputError(f"{self.wrong} {structure_difference(tree, self.tree)}")
        return dict(zip(self.inputs, leaves, strict=True))

    def arguments(self, leaves: Mapping[int, PyTree]) -> Arguments:
        """The call with these arguments at the leaves."""
        args, kwargs = jax.tree_util.tree_unflatten(self.tree, [leaves[i] for i in self.inputs])
        return args, kwargs

    def result(self, leaves: Numbered) -> PyTree:
        """The result with these leaves."""
        return jax.tree_util.tree_unflatten(self.out_tree, [leaves[i] for i in self.outputs])

    def result_leaves(self, result: PyTree) -> dict[int, PyTree]:
        """The leaves of a result, by number. Raises RuntimeInputError for another pytree."""
        leaves, tree = jax.tree_util.tree_flatten(result)
        if tree != self.out_tree:
            raise RuntimeInputError(f"The result is {tree}, but that of the function is {self.out_tree}.")
        return dict(zip(self.outputs, leaves, strict=True))

    def without_states(self, taken: Collection[int], given: Collection[int]) -> TreeForm:
        """The form of a step, which takes and returns no states.

        `taken` are the numbers of the inputs that are states, `given` those of the outputs.

        An argument, an element of the result or an entry of a dict that consists of states is left out; a state elsewhere in a
        pytree is None.
        """
        args, kwargs = _marked(self.tree, self.inputs, taken)
        results = _marked(self.out_tree, self.outputs, given)
        kept_args = tuple(_without_states(a) for a in args if not _is_state(a)), _without_states(kwargs)
        if type(results) is tuple:
            kept = tuple(_without_states(r) for r in results if not _is_state(r))
            results = kept[0] if len(kept) == 1 < len(results) else kept
        numbers, tree = jax.tree_util.tree_flatten(kept_args)
        outputs, out_tree = jax.tree_util.tree_flatten(_without_states(results))
        return TreeForm(tree, numbers, out_tree, outputs, _OF_A_STEP)

    def portable(self) -> TemplateForm:
        """The same containers without JAX."""
        args, kwargs = self.arguments({i: i for i in self.inputs})
        result = self.result({i: i for i in self.outputs})
        return TemplateForm((_template(args), _template(kwargs)), _template(result), self.outputs)


def _marked(tree: PyTreeDef, numbers: Sequence[int], states: Collection[int]) -> PyTree:
    """The pytree with the number of each leaf in its place, and `_STATE` in that of a state."""
    return jax.tree_util.tree_unflatten(tree, [_STATE if number in states else number for number in numbers])


def _is_state(tree: PyTree) -> bool:
    leaves = jax.tree_util.tree_leaves(tree)
    return bool(leaves) and all(leaf is _STATE for leaf in leaves)


def _without_states(tree: PyTree) -> PyTree:
    if type(tree) is dict:
        return {key: _without_states(value) for key, value in tree.items() if not _is_state(value)}
    return jax.tree_util.tree_map(lambda leaf: None if leaf is _STATE else leaf, tree)


def _template(tree: PyTree) -> Template:
    """The template of a pytree that has the number of an array at each leaf."""
    if tree is None or type(tree) is int:
        return tree
    if type(tree) is dict:
        return {key: _template(child) for key, child in tree.items()}
    if type(tree) in (tuple, list):
        return type(tree)(map(_template, tree))
    kind = type(tree)
    if isinstance(tree, tuple) and "_asdict" in dir(kind):  # a named tuple
        named: PyTree = tree
        fields = {name: _template(child) for name, child in named._asdict().items()}
        return Record(kind.__module__, kind.__qualname__, fields)
    return Foreign(kind.__qualname__)
