"""Steps of a session: calls of a program without its states, in the pytrees of the function."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import jax
from jax2onnx_graph.arrays import Array
from jax2onnx_runtime.sizes import Sizes

from jax2onnx_core.frontend._pytrees import path_name, structure_difference
from jax2onnx_core.frontend._tracing import Traced
from jax2onnx_core.frontend.inputs import Inputs
from jax2onnx_core.jax_types import PyTree, PyTreeDef
from jax2onnx_core.lowering.physical import physical_type
from jax2onnx_core.plugins.errors import RuntimeInputError
from jax2onnx_core.program._state_pairs import Leaf, leaves_like

__all__ = ["PytreeStepInterface", "initial_values", "input_leaves", "output_leaves"]

_STATE = object()  # stands for a state in a pytree


def input_leaves(inputs: Inputs) -> list[Leaf]:
    """The inputs as parts of the arguments."""
    numbered = jax.tree_util.tree_unflatten(inputs.tree, range(len(inputs.names)))
    names, leaves = list(inputs.final_names.items()), []
    for (which, key, *rest), i in jax.tree_util.tree_flatten_with_path(numbered)[0]:
        position = key.idx if which.idx == 0 else None
        dtype, dims = physical_type(inputs.avals[i])
        leaves.append(Leaf(names[i][0], names[i][1], position, path_name(rest), dtype, dims, inputs.symbols.label))
    return leaves


def output_leaves(traced: Traced, inputs: Inputs, given: Sequence[str] | None) -> list[Leaf]:
    """The outputs as parts of the results; a result that is no tuple is the first of one.

    Args:
      traced: the function.
      inputs: its inputs, whose symbols the dimensions are made of.
      given: the names of the outputs that the user gave, if any.
    """
    numbered = jax.tree_util.tree_unflatten(traced.out_tree, range(len(traced.out_names)))
    names, leaves = list(zip(traced.out_names, given or traced.out_names, strict=True)), []
    for position, result in enumerate(numbered if isinstance(numbered, (tuple, list)) else [numbered]):
        for path, i in jax.tree_util.tree_flatten_with_path(result)[0]:
            dtype, dims = physical_type(traced.out_avals[i])
            leaves.append(Leaf(names[i][0], names[i][1], position, path_name(path), dtype, dims, inputs.symbols.label))
    return leaves


def initial_values(
    given: Mapping[int | str, PyTree], leaves: Sequence[Leaf], read: Callable[[int, PyTree], Array]
) -> dict[str, Array]:
    """The first values of states, given as pytrees of arguments, as arrays by the names of inputs.

    Args:
      given: the position or the name of an argument → its value.
      leaves: the inputs of the model as parts of the arguments.
      read: makes the array of a leaf, by its index among all.

    Raises:
      OptionError: there is no such argument, or its value has other leaves.
    """
    found: dict[str, Array] = {}
    for key, value in given.items():
        arrays = {path_name(path): leaf for path, leaf in jax.tree_util.tree_flatten_with_path(value)[0]}
        found |= {
            leaf.given: read(leaves.index(leaf), arrays[p]) for p, leaf in leaves_like(key, arrays, leaves).items()
        }
    return found


class PytreeStepInterface:
    """The arguments and results of a function without those that are states: a `StepInterface` of sessions.

    An argument, an element of the result or an entry of a dict that consists of states is left out; a state elsewhere in a
    pytree is None.

    Args:
      inputs, traced: the inputs and results of the function.
      states: the names of the inputs that are states, and of the outputs.
      output_names: the names of all outputs.
      read: the array of an argument's leaf, by its index among all.
      check: checks the shapes of all inputs; the sizes of the symbols.
      write: the result's leaf, by its index among all, of an array.
    """

    def __init__(
        self, inputs: Inputs, traced: Traced, states: Collection[str], output_names: Sequence[str], *,
        read: Callable[[int, PyTree], Array], check: Callable[[Sequence[tuple[int, ...]]], Sizes], write: Callable[[int, Array], PyTree],
    ) -> None:  # fmt: skip
        self._names = inputs.names
        self._read, self._check, self._write = read, check, write
        self._shapes: list[tuple[int, ...]] | None = None  # those that were checked last
        self._sizes: Sizes = {}
        args, kwargs = _marked(inputs.tree, inputs.names, states)
        self._leaves, self._tree = jax.tree_util.tree_flatten(
            (tuple(_without_states(a) for a in args if not _is_state(a)), _without_states(kwargs))
        )
        results = _marked(traced.out_tree, output_names, states)
        if type(results) is tuple:
            kept = tuple(_without_states(r) for r in results if not _is_state(r))
            results = kept[0] if len(kept) == 1 else kept
        self._results, self._out_tree = jax.tree_util.tree_flatten(_without_states(results))

    def feeds(
        self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree], states: Mapping[str, tuple[int, ...]]
    ) -> tuple[dict[str, Array], Sizes]:
        """The inputs that are no states, and the sizes of the symbols."""
        leaves, tree = jax.tree_util.tree_flatten((tuple(args), dict(kwargs)))
        if tree != self._tree:
            difference = structure_difference(tree, self._tree)
            raise RuntimeInputError(
                f"The arguments are not those of a step, which has none for the states: {difference}"
            )
        arrays = {self._names[i]: self._read(i, leaf) for i, leaf in zip(self._leaves, leaves, strict=True)}
        shapes = [arrays[name].shape if name in arrays else states[name] for name in self._names]
        if shapes != self._shapes:
            self._sizes, self._shapes = self._check(shapes), shapes
        return arrays, self._sizes

    def containers(self) -> tuple[PyTree, PyTree, list[int]]:
        """`(args, kwargs)` and the result with the number of an input or output at each leaf, and the numbers of the outputs."""
        arguments = jax.tree_util.tree_unflatten(self._tree, self._leaves)
        return arguments, jax.tree_util.tree_unflatten(self._out_tree, self._results), list(self._results)

    def result(self, outputs: Sequence[Array]) -> PyTree:
        """The result of the function without the states, from the outputs that are none."""
        leaves = [self._write(i, array) for i, array in zip(self._results, outputs, strict=True)]
        return jax.tree_util.tree_unflatten(self._out_tree, leaves)


def _marked(tree: PyTreeDef, names: Sequence[str], states: Collection[str]) -> PyTree:
    """The pytree with the index of each leaf in its place, and `_STATE` in that of a state."""
    return jax.tree_util.tree_unflatten(tree, [_STATE if name in states else i for i, name in enumerate(names)])


def _is_state(tree: PyTree) -> bool:
    leaves = jax.tree_util.tree_leaves(tree)
    return bool(leaves) and all(leaf is _STATE for leaf in leaves)


def _without_states(tree: PyTree) -> PyTree:
    if type(tree) is dict:
        return {key: _without_states(value) for key, value in tree.items() if not _is_state(value)}
    return jax.tree_util.tree_map(lambda leaf: None if leaf is _STATE else leaf, tree)
