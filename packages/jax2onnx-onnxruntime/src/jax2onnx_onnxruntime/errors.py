"""Errors of ONNX Runtime, in the words of the caller."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import NoReturn, TypeVar

from jax2onnx_graph.errors import RuntimeInputError, TargetError

from jax2onnx_onnxruntime._compat import refusals

__all__ = ["explained", "explained_run"]

T = TypeVar("T")

_NODE = re.compile(r"while running (\w+) node\. Name:'([^']*)'")
#: The messages of the kernels of convolutions and poolings for images of which a spatial axis, or that of the result, has no elements.
_NO_ELEMENTS = re.compile(r"Invalid input shape: \{|Only N can be zero|Computed output dimension is <= 0")
#: Those of the kernels that read one of no elements.
_NOTHING_TO_READ = re.compile(r"within the inclusive range \[0,-1\]|must be 1 instead of 0")


def _run_errors() -> tuple[type[Exception], ...]:
    """The errors of runs: ONNX Runtime's own classes, and others in a branch or a loop."""
    return (*refusals(), RuntimeError)


def _raise_explained(error: Exception) -> NoReturn:
    """Raise RuntimeInputError where a kernel refused an axis without elements, else the error."""
    *_, node = [None, *_NODE.finditer(str(error))]
    if node is not None and _NOTHING_TO_READ.search(str(error)) is not None:
        raise RuntimeInputError(
            f"At these sizes an axis has no elements, of which {node[1]} is to read one (node {node[2]!r}). Give larger inputs."
        ) from error
    if node is None or _NO_ELEMENTS.search(str(error)) is None:
        raise error
    raise RuntimeInputError(
        f"At these sizes an image has an axis without elements, which {node[1]} of ONNX Runtime does not take (node {node[2]!r}); in JAX "
        "the result is empty, or of padding only. Give larger inputs; with to_onnx(..., constraints=['H >= 8']) too small sizes are "
        "refused by their names."
    ) from error


def explained_run(run: Callable[..., T], *args: object) -> T:
    """Call what runs a model.

    Raises:
      RuntimeInputError: a kernel refused an axis without elements.
    """
    try:
        return run(*args)
    except _run_errors() as error:
        _raise_explained(error)


@contextlib.contextmanager
def explained(refusal: str = "ONNX Runtime cannot load the model") -> Iterator[None]:
    """Raise TargetError where ONNX Runtime is missing or refuses a model; `refusal` is how the message begins."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise TargetError(str(error)) from error
    except refusals() as error:
        raise TargetError(f"{refusal}: {error}") from error
