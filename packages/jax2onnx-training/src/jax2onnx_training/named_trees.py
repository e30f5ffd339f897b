"""`NamedTree`: a pytree as arrays by the names of its paths, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Self

import jax
from jax2onnx_core.jax_types import PyTree, PyTreeDef
from jax2onnx_graph.build.names import Names

__all__ = ["NamedTree"]


@dataclasses.dataclass(frozen=True)
class NamedTree:
    """The structure of a pytree, with a name for each leaf.

    >>> import jax.numpy as jnp
    >>> tree = NamedTree.from_tree({"hidden": {"bias": jnp.zeros(2)}, "scale": jnp.ones(())})
    >>> tree.names
    ('hidden.bias', 'scale')

    Attributes:
      names: the keys on the path to each leaf, with dots between them.
      structure: the containers.
    """

    names: Sequence[str]
    structure: PyTreeDef

    @classmethod
    def from_tree(cls, tree: PyTree) -> Self:
        """The structure of a pytree."""
        leaves, structure = jax.tree_util.tree_flatten_with_path(tree)
        taken = Names()
        keys = (jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in leaves)
        return cls(tuple(taken.unique(key or "value") for key in keys), structure)

    def named(self, tree: PyTree) -> dict[str, PyTree]:
        """The leaves of a pytree with this structure, by name. Raises ValueError for another structure."""
        return dict(zip(self.names, self.structure.flatten_up_to(tree), strict=True))

    def tree(self, named: Mapping[str, PyTree]) -> PyTree:
        """The pytree with these leaves."""
        return jax.tree_util.tree_unflatten(self.structure, [named[name] for name in self.names])
