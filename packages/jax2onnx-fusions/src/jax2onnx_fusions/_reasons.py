"""Reasons why a formula did not become an operator that several passes give."""

from __future__ import annotations

__all__ = ["UnreadableError", "no_operator"]

from jax2onnx_graph import ir


class UnreadableError(Exception):
    """A formula cannot be read as an operator; the message is the reason for `Declined`."""


def no_operator(op_type: str, value: ir.Value) -> str:
    """The reason that the target lacks the operator for the element type of `value`."""
    return (
        f"the target has no {op_type} for {'an unknown element type' if value.dtype is None else value.dtype.numpy()}"
    )
