"""The options of quantization: those that fit together, and the words for those that do not."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import OptionError
from jax2onnx_runtime.quantization import Mode, Quantization, WeightMemory

EXAMPLES = [{"x": np.ones(2, np.float32)}]


@pytest.mark.parametrize("mode", get_args(Mode))
def test_every_mode_takes_its_options(mode):
    options: dict[str, Any] = {"calibration": EXAMPLES} if mode == "static_int8" else {}
    assert Quantization(mode, **options).weights_per_scale == 32
    if mode in ("int4", "int8", "int4_qdq"):
        assert Quantization(mode, block_size=16).weights_per_scale == 16
    if mode in ("float16", "bfloat16"):
        assert not Quantization(mode, keep_io_types=False).keep_io_types
    if mode in ("int4", "int8", "static_int8"):
        assert Quantization(mode, tolerance=0.5, calibration=EXAMPLES).tolerance == 0.5


@pytest.mark.parametrize(
    ("mode", "options", "message"),
    [
        ("int2", {}, "There is no mode 'int2'"),
        ("float16", {"block_size": 32}, "block_size is for weights in blocks"),
        ("static_int8", {"block_size": 32, "calibration": EXAMPLES}, "block_size is for weights in blocks"),
        ("int4", {"block_size": 8}, "block_size is one of 16, 32, 64, 128, 256, not 8"),
        ("int4", {"block_size": 512}, "block_size is one of"),
        ("int4", {"block_size": 32.0}, "block_size is one of 16, 32, 64, 128, 256, not 32.0"),
        ("int4", {"exclude": "head"}, r"write exclude=\['head'\]"),
        ("int4", {"exclude": [3]}, "and 3 is no text"),
        ("int4", {"exclude": 3}, "exclude"),
        ("int4", {"keep_io_types": False}, "keep_io_types is for float16 and bfloat16"),
        ("float16", {"keep_io_types": 1}, "keep_io_types"),
        ("static_int8", {}, "static_int8 reads the ranges of activations from examples"),
        ("static_int8", {"calibration": []}, "static_int8 reads the ranges of activations from examples"),
        ("int4", {"calibration": EXAMPLES}, "calibration is for static_int8"),
        ("float16", {"calibration": EXAMPLES}, "calibration is for static_int8"),
        (
            "float16",
            {"tolerance": 0.1, "calibration": EXAMPLES},
            "tolerance is for int4, int8 and static_int8, not for float16",
        ),
        ("int4_qdq", {"tolerance": 0.1, "calibration": EXAMPLES}, "tolerance is for"),
        ("int4", {"tolerance": 0, "calibration": EXAMPLES}, "tolerance=0: it is the share"),
        ("int4", {"tolerance": 1, "calibration": EXAMPLES}, "tolerance=1: it is the share"),
        ("int4", {"tolerance": True, "calibration": EXAMPLES}, "tolerance=True: it is the share"),
        ("int4", {"tolerance": "0.1", "calibration": EXAMPLES}, "tolerance='0.1': it is the share"),
        ("int4", {"tolerance": 0.1}, "A tolerance is measured on examples"),
    ],
)
def test_what_does_not_fit_together_is_refused(mode, options, message):
    with pytest.raises(OptionError, match=message):
        Quantization(mode, **options)


def test_what_was_made_of_a_weight_is_made_once():
    memory, made = WeightMemory(), list[None]()
    weight, equal = (ir.tensor(np.arange(6, dtype=np.float32)) for _ in range(2))
    others = [ir.tensor(np.arange(6, dtype=np.float32) + 1), ir.tensor(np.arange(6, dtype=np.float32).reshape(2, 3))]

    def make() -> int:
        made.append(None)
        return len(made)

    assert memory.get(weight, 4, make) == memory.get(equal, 4, make) == 1
    assert memory.get(weight, 8, make) == 2
    assert [memory.get(other, 4, make) for other in others] == [3, 4]
