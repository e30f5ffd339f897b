"""The notes on errors of a trace: which ones an error gets, and no others."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import to_onnx

VALUES = {
    "if": "Python's if, while, and, or, not cannot look at them. jax.numpy.where",
    "numpy": "NumPy computes with numbers, which an array does not have while a function is traced",
    "range": "so range() and lists of Python cannot take them",
    "int": "so int() and float() cannot take them",
}
CONTAINER = "An input is a container of arrays where the function takes one array"
GIVEN = "The inputs are "
OF_INTEGERS = (
    "Inputs are of floating point unless their dtype is given: (('B', 'T'), 'int32'). The inputs are x float32["
)


def halved(x: jax.Array) -> jax.Array:
    return jnp.pad(x, (0, x.shape[0] % 2))[::2] + x[: 2 * (x.shape[0] // 2) : 2]


def raised(error: Exception) -> Callable[..., Any]:
    def fn(x: jax.Array) -> jax.Array:
        raise error

    return fn


#: The function, its inputs, and the beginnings or parts of all notes.
NOTES: dict[str, tuple[Callable[..., Any], Sequence[object], Sequence[str]]] = {
    "an array is true": (lambda x: x if x.sum() > 0 else -x, [(3,)], [VALUES["if"]]),
    "an array for NumPy": (lambda x: np.sin(x), [(3,)], [VALUES["numpy"]]),
    "an array counts": (lambda x: jnp.stack([x for _ in range(x.astype(int))]), [()], [VALUES["range"]]),
    "an array is a number": (lambda x: x * int(x), [()], [VALUES["int"]]),
    "a Python number is true": (
        lambda x, n: x if n > 2 else -x, [(3,), 1.0],
        [VALUES["if"], "The inputs given as Python numbers (n) are inputs of the model"],
    ),
    "NumPy takes an array beside a number": (lambda x, n: np.sin(x) * n, [(3,), 1.0], [VALUES["numpy"]]),
    "a tuple for an array": (lambda x: jnp.sin(x), [[(3,), (3,)]], [f"{CONTAINER}. The shape of an array is a tuple"]),
    "floats for an index": (lambda x: jnp.arange(4)[x], [(3,)], [OF_INTEGERS]),
    "floats for indices": (lambda x: jnp.take(jnp.arange(4), x), [(3,)], [OF_INTEGERS]),
    "a float for a first index": (lambda x: jax.lax.dynamic_slice(x, (x[0],), (1,)), [(3,)], [OF_INTEGERS]),
    "shapes of numbers": (
        lambda x, y: x + y, [(3,), (4,)], ["The inputs are x float32[3], y float32[4]. It is at"],
    ),
    "shapes with one symbol": (
        lambda x, y: x + y, [("A",), (4,)], ["A may have any size, so it fits no number: give the dimension"],
    ),
    "shapes with two symbols": (
        lambda x, y: x + y, [("A",), ("B",)], ["A and B are symbols of different names, so their sizes may differ"],
    ),
    "shapes with three symbols": (
        lambda x, y: x + y, [("A", "B"), ("B", "C")], ["A and B and C are symbols of different names"],
    ),
    "a part of a symbol": (
        lambda x: x[:4] + x, [("A",)], ["may be equal where A <= 4. Say so, if it is meant: constraints=('A <= 4',)."],
    ),
    "halves of a symbol": (
        halved, [("A",)], ["The two shapes agree where A are multiples of a number: give the input's dimensions as '2*A'"],
    ),
    "halves of a symbol that may be 0": (
        lambda x, y: x[::2] * y, [("2*A",), ("A + 1",)], ["A may have any size"],
    ),
    "a remainder": (
        lambda x: jnp.split(x, 2), [("A",)], ["Say that the parts are equal: constraints=('mod(A, 2) == 0',). It is at"],
    ),
    "NumPy takes a size": (
        lambda x: x * np.array(x.shape[0]), [("A",)], ["NumPy takes no symbolic size as a number"],
    ),
    "another error": (raised(ValueError("no such thing")), [("A",)], []),
    "another error about shapes": (raised(ValueError("a bad shape")), [("A",)], [GIVEN]),
    "another error about a symbol": (raised(ValueError("no A")), [("A",)], []),
    "another error about the shape of a symbol": (raised(ValueError("a bad shape: A")), [("A",)], []),
    "a type": (
        raised(TypeError("no ShapeDtypeStruct")), [(2,)], ["A weight that is a type only is given its place in models"],
    ),
    "an error without a text": (raised(KeyError()), [("A",)], []),
    "a mesh": (raised(ValueError("but 4 does not evenly divide A")), [("A",)], ["A elements are divided over 4 devices"]),
    "a mesh and a number": (raised(ValueError("but 4 does not evenly divide 6")), [("A",)], []),
    "a static argument": (
        functools.partial(jax.jit(lambda x, n: x, static_argnums=1), n=jnp.ones(2)), [(2,)],
        ["A static argument is no input of the model: bind it"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("fn", "inputs", "note"),
    [
        (lambda x, y: x + y, [("S",), ("T",)], "S and T are symbols of different names"),
        (lambda x, y: jnp.concatenate([x, y], 1), [("S", 2), ("T", 2)], "S and T are symbols of different names"),
        (lambda x, y: x + y, [("S",), (3,)], "S may have any size, so it fits no number"),
    ],
)
def test_notes_on_sizes_that_may_be_0_name_them(fn, inputs, note):
    with pytest.raises(TypeError) as caught:
        to_onnx(fn, inputs, constraints=["S >= 0"])
    assert note in caught.value.__notes__[-2]
    assert "Sizes that may be 0 leave open how they compare" in caught.value.__notes__[-1]


@pytest.mark.parametrize("name", NOTES)
def test_notes_on_an_error(name):
    fn, inputs, notes = NOTES[name]
    with pytest.raises(Exception) as caught:  # noqa: PT011  (those of JAX and Python)
        to_onnx(fn, list(inputs))
    found = [note for note in vars(caught.value).get("__notes__", []) if not note.startswith("---")]
    assert len(found) == len(notes), found
    for note, part in zip(found, notes, strict=True):
        assert part in note
