"""`module_of`: the modules of a model, which the names of its nodes tell."""

from __future__ import annotations

import re

from jax2onnx_graph._ir import ir

__all__ = ["module_of"]

_NUMBER = re.compile(r"\d+")


def module_of(node: ir.Node) -> tuple[str, ...]:
    """The modules that a node is in, the outermost first; a number belongs to the name before it.

    Names are `<modules>/<operator>`; other exporters have slashes where ours have dots.

    >>> module_of(ir.Node("", "Add", [], name="blocks.0.attn/Add_1"))
    ('blocks.0', 'attn')
    >>> module_of(ir.Node("", "Tanh", [], name="tanh.Tanh"))
    ()
    """
    modules: list[str] = []
    for part in filter(None, re.split(r"[./]", (node.name or "").rpartition("/")[0])):
        if modules and _NUMBER.fullmatch(part):
            modules[-1] += f".{part}"
        else:
            modules.append(part)
    return tuple(modules)
