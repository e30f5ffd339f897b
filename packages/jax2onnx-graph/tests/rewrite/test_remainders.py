"""Truncated remainders whose sign is corrected, and what only looks like one."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from jax2onnx_graph.rewrite.remainders import floored_remainder

REMAINDER = "r = Mod<fmod = 1>(x, n) moved = Add(r, n) below = Less(r, zero) same = Equal(r, zero) other = Not(same)"
CONSTANTS = "int64 n = {7}, int64 m = {6}, int64 zero = {0}, int64 negative = {-7}, bool no = {0}, bool yes = {1}"


def found(body: str, dtype: str = "int64") -> bool:
    text = (
        f'<ir_version: 10, opset_import: ["" : 23]> g ({dtype}[N] x, {dtype}[N] z, bool[N] c) => ({dtype}[N] y) '
        f"<{CONSTANTS.replace('int64', dtype)}> {{ {body} }}"
    )
    model = ir.from_onnx_text(text)
    numbers = model.graph.inputs[0].dtype
    assert numbers is not None
    for node in model.graph:
        for value in node.outputs:
            is_condition = node.op_type in ("Less", "Equal", "Not", "And", "Xor")
            value.type = ir.TensorType(ir.DataType.BOOL if is_condition else numbers)
    mod = floored_remainder(model.graph[-1])
    assert mod in (None, model.graph[0])
    return mod is not None


@pytest.mark.parametrize(
    "condition",
    [
        "both = And(below, other)",
        "both = And(other, below)",
        "differs = Xor(below, no) both = And(differs, other)",
        "differs = Xor(no, below) both = And(other, differs)",
    ],
)
@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_a_remainder_whose_sign_is_corrected(condition, dtype):
    assert found(f"{REMAINDER} {condition} y = Where(both, moved, r)", dtype)
    assert found(f"{REMAINDER.replace('Add(r, n)', 'Add(n, r)')} {condition} y = Where(both, moved, r)", dtype)


CORRECTED = f"{REMAINDER} both = And(below, other) y = Where(both, moved, r)"
LOOK_ALIKES = {
    "a floored remainder": ("Mod<fmod = 1>", "Mod"),
    "another number is added": ("Add(r, n)", "Add(r, m)"),
    "another value is moved": ("Add(r, n)", "Add(z, n)"),
    "a difference": ("Add(r, n)", "Sub(r, n)"),
    "a negative divisor": (", n)", ", negative)"),
    "a divisor of 0": (", n)", ", zero)"),
    "a divisor that is not known": (", n)", ", z)"),
    "the branches are exchanged": ("Where(both, moved, r)", "Where(both, r, moved)"),
    "either is enough": ("And(below, other)", "Or(below, other)"),
    "one condition alone": ("And(below, other)", "And(below, below)"),
    "the other condition alone": ("And(below, other)", "And(other, other)"),
    "any condition": ("Where(both", "Where(c"),
    "above 0": ("Less(r, zero)", "Less(zero, r)"),
    "below another number": ("Less(r, zero)", "Less(r, n)"),
    "another value below 0": ("Less(r, zero)", "Less(z, zero)"),
    "equal to another number": ("Equal(r, zero)", "Equal(r, n)"),
    "another value equal to 0": ("Equal(r, zero)", "Equal(z, zero)"),
    "equal to 0": ("other = Not(same)", "other = Identity(same)"),
    "the sign is that of a negative number": ("And(below, other)", "And(differs, other)"),
    "the sign is any": ("And(below, other)", "And(either, other)"),
    "another value is the remainder": ("Where(both, moved, r)", "Where(both, moved, z)"),
}


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_what_is_no_corrected_remainder(name):
    before, after = LOOK_ALIKES[name]
    body = CORRECTED.replace("both =", "differs = Xor(below, yes) either = Xor(below, c) both =")
    assert found(body)
    assert not found(body.replace(before, after))


def test_a_remainder_of_floats_is_none():
    assert not found(CORRECTED, "float")
