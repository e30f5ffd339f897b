"""`template_of`: the containers of a pytree as processes without JAX know them."""

from __future__ import annotations

from jax2onnx_runtime.pytrees import Foreign, Record, Template

from jax2onnx_core.jax_types import PyTree

__all__ = ["template_of"]


def template_of(tree: PyTree) -> Template:
    """The template of a pytree that has the number of an array at each leaf."""
    if tree is None or type(tree) is int:
        return tree
    if type(tree) is dict:
        return {key: template_of(child) for key, child in tree.items()}
    if type(tree) in (tuple, list):
        return type(tree)(map(template_of, tree))
    kind = type(tree)
    if isinstance(tree, tuple) and "_asdict" in dir(kind):  # a named tuple
        named: PyTree = tree
        fields = {name: template_of(child) for name, child in named._asdict().items()}
        return Record(kind.__module__, kind.__qualname__, fields)
    return Foreign(kind.__qualname__)
