"""Branches whose results have different sizes: `cond` and `switch` with a size that only a run of the model knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
from jax2onnx_core import Composites, Dim, Replacement
from jax2onnx_core.frontend.sizes import are_possible, has_size_from_data, new_size, solve_size
from jax2onnx_core.jax_types import PyTree
from jax2onnx_core.jaxprs import Dims

from jax2onnx_lax.sizes.resized import relabelled

__all__ = ["composites"]

composites = Composites()
Branch = Callable[..., PyTree]


@composites.call("jax.lax:cond", name="jax.lax.cond", is_required=True, recovers=True)
def cond(
    pred: jax.Array, true_fun: Branch, false_fun: Branch, *operands: PyTree, **options: object
) -> Replacement | None:
    found = _with_common_sizes([true_fun, false_fun], operands)
    if found is None:
        return None
    branches, solved = found
    return Replacement(solved(jax.lax.cond(pred, *branches, *operands, **options)))


@composites.call("jax.lax:switch", name="jax.lax.switch", is_required=True, recovers=True)
def switch(index: jax.Array, branches: Sequence[Branch], *operands: PyTree, **options: object) -> Replacement | None:
    found = _with_common_sizes(branches, operands)
    if found is None:
        return None
    made, solved = found
    return Replacement(solved(jax.lax.switch(index, made, *operands, **options)))


def _with_common_sizes(
    branches: Sequence[Branch], operands: Sequence[PyTree]
) -> tuple[list[Branch], Callable[[PyTree], PyTree]] | None:
    """Branches whose results have the same shapes, and what says of these what their sizes are; None where they do not fit.

    A size that is not the same in all branches, and that depends on data in one of them, is a new one.
    """
    shapes = [jax.eval_shape(branch, *operands) for branch in branches] if are_possible() else []
    leaves = [jax.tree_util.tree_leaves(shape) for shape in shapes]
    if not leaves or len({jax.tree_util.tree_structure(shape) for shape in shapes}) > 1:
        return None
    common: dict[tuple[Dim, ...], Dim] = {}
    wanted = [_common_shape([leaf.shape for leaf in same], common) for same in zip(*leaves, strict=True)]
    if not common or None in wanted:
        return None

    def fitted(branch: Branch) -> Branch:
        def call(*args: PyTree) -> PyTree:
            results, tree = jax.tree_util.tree_flatten(branch(*args))
            return tree.unflatten(
                [relabelled(jax.numpy.asarray(x), s or ()) for x, s in zip(results, wanted, strict=True)]
            )

        return call

    def solved(result: PyTree) -> PyTree:
        places = [(x, axis) for x in jax.tree_util.tree_leaves(result) for axis in range(x.ndim)]
        for size in common.values():
            x, axis = next((x, axis) for x, axis in places if x.shape[axis] is size or x.shape[axis] == size)
            solve_size(size, x, axis)
        return result

    return [fitted(branch) for branch in branches], solved


def _common_shape(shapes: Sequence[Dims], common: dict[tuple[Dim, ...], Dim]) -> Dims | None:
    """The shape of the results of all branches, whose new sizes are added to `common`; None where there is none."""
    if len(set(map(len, shapes))) > 1:
        return None
    found: list[Dim] = []
    for dims in zip(*shapes, strict=True):
        if all(dim == dims[0] for dim in dims):
            found.append(dims[0])
        elif any(map(has_size_from_data, dims)):
            if tuple(dims) not in common:
                common[tuple(dims)] = new_size("branches")
            found.append(common[tuple(dims)])
        else:
            return None
    return tuple(found)
