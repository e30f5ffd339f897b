"""Inputs and outputs as parts of arguments and results, by which users name states."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import jax
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.build.names import by_paths

from jax2onnx_core.frontend._pytrees import path_name
from jax2onnx_core.frontend._tracing import Traced
from jax2onnx_core.frontend.inputs import Inputs
from jax2onnx_core.jax_types import PyTree
from jax2onnx_core.lowering.physical import physical_type
from jax2onnx_core.program._state_pairs import Leaf, leaves_like

__all__ = ["initial_values", "input_leaves", "output_leaves"]


def input_leaves(inputs: Inputs) -> list[Leaf]:
    """The inputs as parts of the arguments."""
    numbered = jax.tree_util.tree_unflatten(inputs.tree, range(len(inputs.names)))
    names, leaves = list(inputs.final_names.items()), []
    for (which, key, *rest), i in jax.tree_util.tree_flatten_with_path(numbered)[0]:
        position = key.idx if which.idx == 0 else key.key
        dtype, dims = physical_type(inputs.avals[i])
        leaves.append(Leaf(names[i][0], names[i][1], position, path_name(rest), dtype, dims, inputs.symbols.label))
    return leaves


def output_leaves(traced: Traced, inputs: Inputs, given: Mapping[str, str]) -> list[Leaf]:
    """The outputs as parts of the results; a result that is no tuple is the first of one.

    Args:
      traced: the function.
      inputs: its inputs, whose symbols the dimensions are made of.
      given: the own names of outputs → those that the user gave instead.
    """
    numbered = jax.tree_util.tree_unflatten(traced.out_tree, range(len(traced.out_names)))
    names, leaves = [(name, given.get(name, name)) for name in traced.out_names], []
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
        arrays = by_paths((path_name(path), leaf) for path, leaf in jax.tree_util.tree_flatten_with_path(value)[0])
        found |= {
            leaf.given: read(leaves.index(leaf), arrays[p]) for p, leaf in leaves_like(key, arrays, leaves).items()
        }
    return found
