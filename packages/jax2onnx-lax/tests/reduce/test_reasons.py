"""Rules of reductions decline for the reasons that they name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from reasons import Declining, reasons_of


def _max(
    window: Sequence[object], strides: Sequence[int] | None = None, padding: object = "VALID"
) -> Callable[..., jax.Array]:
    return lambda x: lax.reduce_window(x, -np.inf, lax.max, window, strides or (1,) * len(window), padding)


_CUBE = _max((2, 2, 2))

CASES = [
    Declining("nothing to pool", _max((2, 1), None, [(1, 1), (0, 0)]), [(0, 3)]),
    Declining("only one to three axes can be pooled", _max((2, 2, 2, 2)), [(3, 3, 3, 3)]),
    Declining("windows of symbolic size", lambda x: _max((x.shape[0] - 1, 1))(x), [("N + 2", 3)]),
    Declining("padding that depends on symbolic dimensions", lambda x: _max((2, 1), None, [(x.shape[1], 0), (0, 0)])(x), [(5, "N")]),
    Declining("negative padding, or padding as wide as a window", _max((3, 1), None, [(3, 0), (0, 0)]), [(5, 3)]),
    Declining("negative padding, or padding as wide as a window", _max((3, 1), None, [(0, -1), (0, 0)]), [(5, 3)]),
    Declining("half precision is rounded once, at the end", lax.cumprod, [((5,), "float16")], {"target": "onnx", "opset": 26}),
    Declining("uint64 is compared as int64 of the same order", lambda x: jnp.max(x, axis=0), [((5, 3), "uint64")], {"x64": True}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_rule_of_a_reduction_declines(case: Declining):
    assert case.reason in reasons_of(case)


@pytest.mark.parametrize("fn", [_max((3, 1), None, [(2, 2), (0, 0)]), _CUBE], ids=["padding", "axes"])
def test_windows_at_the_limits_of_the_operator_are_pooled(fn):
    reasons = reasons_of(Declining("", fn, [(5, 4) if fn is not _CUBE else (3, 4, 5)]))
    assert not {case.reason for case in CASES} & reasons
