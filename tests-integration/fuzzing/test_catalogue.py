"""The catalogue of statements: every line of it can become a statement."""

from __future__ import annotations

import random
import warnings

import jax
import jax.numpy as jnp
import pytest

from fuzzing.programs import evaluate_shape
from fuzzing.statements import GROUPS, Variable, Writer

SHAPES = [(3, 4), (3,), (3, 4), (), (3, 4, 2)]
DTYPES = ["float32", "int32", "bool", "complex64", "float16", "float64", "uint8"]
VARIABLES = [
    Variable(f"x{i}", jax.ShapeDtypeStruct(shape, jnp.dtype(dtype)))
    for i, (shape, dtype) in enumerate((s, d) for s in SHAPES for d in DTYPES if d != "float64")
]


def can_be_filled(template: str) -> bool:
    writer = Writer(random.Random(template), VARIABLES, x64=False)
    for _ in range(60):
        try:
            evaluate_shape(writer.fill(template), VARIABLES)
        except Exception:  # noqa: BLE001 - whatever JAX says of what makes no sense
            continue
        return True
    return False


@pytest.mark.parametrize("group", GROUPS)
def test_every_template_can_be_filled(group):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dead = [template for template in GROUPS[group] if not can_be_filled(template)]
    assert not dead, "\n".join(dead)


def test_no_template_stands_there_twice():
    lines = [template for group in GROUPS.values() for template in group]
    assert len(lines) == len(set(lines)) or {line for line in lines if lines.count(line) > 1} == {
        "{x:any.1}[{s:slices x}]"
    }
