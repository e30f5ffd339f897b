"""Forms of the inputs and of the logits of decoders, by their shapes."""

from __future__ import annotations

import numpy as np
import pytest
from jax2onnx_generation.decoders.forms import decoder_forms
from jax2onnx_generation.decoders.signature import DecoderSignature
from jax2onnx_graph import ir
from jax2onnx_graph.errors import OptionError
from jax2onnx_runtime.states import StateType

BATCH, TIME, KEYS, ONE = "batch", "time", "keys", "one"
GROWING = StateType("c", np.dtype(np.float32), ("B", "S", 4), ("B", "S", "4"), 1, ("B", "S + T", 4))
FIXED = StateType("c", np.dtype(np.float32), ("B", 16, 4), ("B", "16", "4"), None, ("B", 16, 4))


def value(name: str, dims, dtype: ir.DataType) -> ir.Value:
    return ir.val(name, dtype, dims)


def forms(tokens, logits, *, positions=None, mask=None, mask_type=ir.DataType.BOOL, states=(), adds=False):
    inputs = {"ids": value("ids", tokens, ir.DataType.INT64)}
    if positions is not None:
        inputs["positions"] = value("positions", positions, ir.DataType.INT32)
    if mask is not None:
        inputs["mask"] = value("mask", mask, mask_type)
    outputs = [value("other", (1,), ir.DataType.FLOAT), value("logits", logits, ir.DataType.FLOAT)]
    model = ir.Model(ir.Graph(list(inputs.values()), outputs, nodes=[], name="g"), ir_version=10)
    signature = DecoderSignature(
        "ids", "logits", "positions" if positions is not None else None, "mask" if mask is not None else None, adds
    )
    return decoder_forms(model, signature, {state.name: state for state in states})


@pytest.mark.parametrize(
    ("tokens", "axes", "batch", "time", "states"),
    [
        (("B", "T"), (BATCH, TIME), "B", "T", ()),
        ((3, 1), (BATCH, TIME), 3, 1, ()),
        (("T",), (TIME,), 1, "T", ()),
        (("B",), (BATCH,), "B", 1, (GROWING,)),
        ((2,), (BATCH,), 2, 1, ()),
        ((1,), (TIME,), 1, 1, ()),
        ((), (), 1, 1, ()),
    ],
)
def test_tokens(tokens, axes, batch, time, states):
    found = forms(tokens, (*tokens, 9), states=states).tokens
    assert (found.name, found.dtype, found.axes, found.batch, found.time) == ("ids", np.int64, axes, batch, time)
    assert found.made(
        np.zeros((5, 7), np.int32)[: 5 if BATCH in axes else 1, : 7 if TIME in axes else 1]
    ).shape == tuple({BATCH: 5, TIME: 7}[axis] for axis in axes)


@pytest.mark.parametrize("time", [2, 4])
def test_a_fixed_number_of_tokens_is_refused(time):
    with pytest.raises(OptionError, match=f"The model takes {time} tokens in each run"):
        forms(("B", time), ("B", time, 9))


@pytest.mark.parametrize(
    ("tokens", "logits", "added", "has_all", "vocabulary"),
    [
        (("B", "T"), ("B", "T", 9), (), True, 9),
        (("B", "T"), ("B", "T", "V"), (), True, None),
        (("B", "T"), (2, "T", "V"), (), True, None),
        ((2, "T"), (2, 9), (1,), False, 9),
        (("B", "T"), ("B", 9), (1,), False, 9),
        (("B", "T"), ("B", 1, 9), (), False, 9),
        (("T",), ("T", 9), (0,), True, 9),
        (("T",), (9,), (0, 1), False, 9),
        (("B", 1), ("B", 9), (1,), True, 9),
        ((), (9,), (0, 1), True, 9),
        (("T", "T"), ("T", 9), (1,), True, 9),
    ],
)
def test_logits(tokens, logits, added, has_all, vocabulary):
    found = forms(tokens, logits).logits
    assert (found.name, found.number) == ("logits", 1)
    assert (found.axes, found.has_all, found.vocabulary) == (added, has_all, vocabulary)


@pytest.mark.parametrize(
    ("tokens", "logits"),
    [
        (("B", "T"), ("T", "B", 9)),
        (("B", "T"), ("B*T", 9)),
        (("B", "T"), ("2*B", "T", 9)),
        (("B", "T"), ("B", 4, 9)),
        (("B", 1), ("B", 4, 9)),
        (("T",), (3, 9)),
    ],
)
def test_logits_of_other_axes_than_the_tokens_are_refused(tokens, logits):
    with pytest.raises(OptionError, match=r"they can be \[B, T, V\], or \[B, V\]"):
        forms(tokens, logits)


@pytest.mark.parametrize(
    ("positions", "axes"),
    [
        (("B", "T"), (BATCH, TIME)),
        ((1, "T"), (ONE, TIME)),
        (("T",), (TIME,)),
        (("B",), (BATCH,)),
        ((), ()),
        (("T", "B"), None),
        (("T", "T"), None),
        (("B", "B"), None),
        (("B", "S"), None),
        ((3,), None),
    ],
)
def test_positions(positions, axes):
    if axes is None:
        with pytest.raises(OptionError, match=r"they can be \[B, T\], \[T\], \[B\], or \[\]"):
            forms(("B", "T"), ("B", "T", 9), positions=positions)
        return
    found = forms(("B", "T"), ("B", "T", 9), positions=positions).positions
    assert (found.axes, found.dtype, found.is_of_rows, found.is_of_tokens) == (
        axes, np.int32, BATCH in axes, TIME in axes,
    )  # fmt: skip
    sizes = {BATCH: 2, TIME: 3, ONE: 1}
    made = found.made(np.arange(6).reshape(2, 3))
    assert made.shape == tuple(sizes[axis] for axis in axes)
    assert made.reshape(-1)[0] == 0


@pytest.mark.parametrize(
    ("mask", "mask_type", "states", "axes", "cache", "grows"),
    [
        (("B", "S + T"), "BOOL", (GROWING,), (BATCH, KEYS), ("c", 1), True),
        (("B", "T", "S + T"), "FLOAT", (GROWING,), (BATCH, TIME, KEYS), ("c", 1), True),
        (("B", 1, "T", "S + T"), "INT64", (GROWING,), (BATCH, ONE, TIME, KEYS), ("c", 1), True),
        (("B", 6, "T", "S + T"), "BOOL", (GROWING,), (BATCH, ONE, TIME, KEYS), ("c", 1), True),
        (("T", "S + T"), "FLOAT", (GROWING,), (TIME, KEYS), ("c", 1), True),
        ((1, "S + T"), "BOOL", (GROWING,), (ONE, KEYS), ("c", 1), True),
        (("B", "K"), "BOOL", (GROWING,), (BATCH, KEYS), ("c", 1), True),
        (("B", 16), "BOOL", (FIXED,), (BATCH, KEYS), ("c", 1), False),
        (("B", "T"), "BOOL", (), (BATCH, KEYS), None, False),
        (("B", "K"), "BOOL", (), (BATCH, KEYS), None, False),
        (("B", "S + 2*T"), "BOOL", (GROWING,), None, None, False),
        (("B", "S"), "BOOL", (GROWING,), None, None, False),
        (("B", 15), "BOOL", (FIXED,), None, None, False),
        (("B", "S + T"), "FLOAT", (GROWING,), None, None, False),
        (("T", "B", "S + T"), "BOOL", (GROWING,), None, None, False),
        (("B", "H", "T", "S + T"), "BOOL", (GROWING,), None, None, False),
        (("T", 1, "S + T"), "BOOL", (GROWING,), None, None, False),
    ],
)
def test_masks(mask, mask_type, states, axes, cache, grows):
    given = {"mask": mask, "mask_type": ir.DataType[mask_type], "states": states}
    if axes is None:
        with pytest.raises(OptionError, match="If it is no such mask"):
            forms(("B", "T"), ("B", "T", 9), **given)
        return
    found = forms(("B", "T"), ("B", "T", 9), **given).mask
    assert (found.axes, found.dims, found.cache, found.grows, found.adds) == (axes, mask, cache, grows, False)
    visible = np.array([[[True, False, True]] * 2, [[False, True, True]] * 2])
    visible[:, -1] = [[True, True, True], [False, False, True]]
    made, sizes = found.made(visible), {BATCH: 2, TIME: 2, KEYS: 3}
    assert made.shape == tuple(sizes.get(axis, dim) for axis, dim in zip(axes, mask, strict=True))
    assert made.reshape(-1, 3)[-1].astype(bool).tolist() == [BATCH not in axes, BATCH not in axes, True]
    assert found.made_of_all((2, 2, 3)).all()
    assert found.made_of_all((2, 2, 3)).shape == made.shape


def test_a_mask_that_is_added_hides_by_the_least_number():
    mask = forms(
        ("B", "T"), ("B", "T", 9), mask=("T", "S + T"), mask_type=ir.DataType.FLOAT16, states=(GROWING,), adds=True
    ).mask
    made = mask.made(np.array([[[True, False]]]))
    assert made.dtype == np.float16
    assert made.tolist() == [[0.0, float(np.finfo(np.float16).min)]]
    assert not mask.made_of_all((1, 1, 2)).any()
