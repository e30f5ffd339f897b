"""What the file beside the models of a bundle keeps: containers, types and states, read as they were written."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import ReadError
from jax2onnx_graph.targets import Target, standard_target
from jax2onnx_runtime.call_interface import CallInterface, LeafType, TemplateForm
from jax2onnx_runtime.manifest import ARRAYS, MANIFEST, described, files_of, interface_of, made
from jax2onnx_runtime.pytrees import Foreign, Record, Template
from jax2onnx_runtime.runtimes import Runtime, reference_runtime

MODEL = ir.from_onnx_text("""<ir_version: 10, opset_import: ["" : 23]>
    g (float[2] x, bfloat16[3] k) => (float[2] y, bfloat16[3] n) { y = Neg(x) n = Identity(k) }""")
LEAVES = [LeafType("x", np.dtype("float32"), (1, 0), np.dtype("float64")), LeafType("k", np.dtype(ml_dtypes.bfloat16))]
CONTAINERS: list[Template] = [
    None, 0, (0, [1]), {"a": 0, "b": {"c": (None, 1)}}, {1: 0, 2.5: 1}, (), [], {}, Foreign("Params"),
    Record("typing", "Pair", {"first": 0, "second": None}),
]  # fmt: skip


def interface(container: Template, states: dict[str, np.ndarray] | None = None) -> CallInterface:
    call = TemplateForm(((container,), {"kwarg": 1}), [container], [0, 1])
    step = TemplateForm(((), {}), container, [1])
    return CallInterface(LEAVES, LEAVES[::-1], call, step, states or {}, x64=True)


def files(of: CallInterface) -> dict[str, bytes]:
    program = SimpleNamespace(interface=of, runtime=reference_runtime, target=standard_target)
    return files_of({"main": program}, [{"from": "y", "to": "x"}])


def arrays(of: CallInterface) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(files(of)[ARRAYS])) as file:
        return dict(file)


def read_again(of: CallInterface) -> CallInterface:
    entries, _, _ = described(files(of)[MANIFEST].decode())
    return interface_of(entries["main"], MODEL, lambda name: arrays(of)[f"main/{name}"])


@pytest.mark.parametrize("container", CONTAINERS, ids=str)
def test_an_interface_is_read_as_it_was_written(container):
    written = interface(container)
    read = read_again(written)
    assert (list(read.inputs), list(read.outputs), read.x64) == (LEAVES, LEAVES[::-1], True)
    assert (read.call, read.step) == (written.call, written.step)


def test_keys_that_json_does_not_have_are_opened_by_jax_alone():
    call = read_again(interface({(0, 1): 0})).call
    assert isinstance(call, TemplateForm)
    assert call.given[0] == (Foreign("dict whose keys are neither texts nor numbers"),)


@pytest.mark.parametrize("value", [[1, 2, 3], [0, 0, 0], [0.0, -0.0, 0.0], [np.nan] * 3])
def test_states_keep_their_bits_and_equal_ones_take_one_element(value):
    written = interface(0, {"k": np.array(value, ml_dtypes.bfloat16)})
    (state,) = read_again(written).variables.values()
    expected = np.array(value, state.dtype)
    np.testing.assert_array_equal(state.view(np.uint16), expected.view(np.uint16))
    assert arrays(written)["main/k"].size == (1 if len({*map(str, value)}) == 1 else 3)


def test_programs_without_states_need_no_file_of_arrays():
    assert list(files(interface(0))) == [MANIFEST]


def test_links_and_runtime_are_described():
    _, links, runtime = described(files(interface(0))[MANIFEST].decode())
    assert links == [{"from": "y", "to": "x"}]
    assert made(runtime, Runtime).name == reference_runtime.name


def test_a_later_format_is_refused():
    manifest = json.loads(files(interface(0))[MANIFEST])
    with pytest.raises(ValueError, match="format is 2"):
        described(json.dumps({**manifest, "format": 2}))


@pytest.mark.parametrize(
    ("maker", "message"),
    [("nowhere:Class", "is not here.*Install the distribution of nowhere"), ("json:Missing", "is not here"),
     ("json:dumps", "is no Target"), ("json:JSONDecoder", "is no Target"), ("", "is not here")],
)  # fmt: skip
def test_what_makes_no_target_is_refused(maker, message):
    with pytest.raises(ReadError, match=message):
        made(maker, Target)
