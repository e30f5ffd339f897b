"""The target: what its tables answer, and the models that are made for it."""

from __future__ import annotations

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_graph.errors import ConversionError, Jax2OnnxError, OptionError
from jax2onnx_graph.traversal import all_nodes
from jax2onnx_tensorrt import TensorRt

NEWEST, OLD = TensorRt(), TensorRt("10.3")


def operators(program):
    return [node.op_type for node in all_nodes(program.model)]


@pytest.mark.parametrize(
    ("op_type", "dtype"),
    [("Add", np.int64), ("MatMul", np.float32), ("And", np.bool_), ("Gather", np.bool_), ("Cast", np.uint8), ("Attention", np.float16),
     ("ScatterElements_add", np.float32), ("Equal", np.bool_), ("BitwiseNot", np.int32), ("CumSum", np.int32), ("Pad", np.bool_),
     ("ScatterND_add", np.float32), ("MatMul", np.int32)],
)  # fmt: skip
def test_what_the_table_lists_or_others_stand_for_is_supported(op_type, dtype):
    assert NEWEST.supports(op_type, np.dtype(dtype), 23)


@pytest.mark.parametrize(
    ("op_type", "dtype"),
    [("Add", np.float64), ("Add", np.int8), ("Gather", np.uint32), ("BitwiseXor", np.int32), ("BitShift", np.uint32), ("Det", np.float32),
     ("DFT", np.float32), ("Attention", np.float32), ("Cast", np.float64), ("LogSoftmax", np.float32)],
)  # fmt: skip
def test_what_the_table_lacks_is_not_supported(op_type, dtype):
    assert not NEWEST.supports(op_type, np.dtype(dtype), 23)


@pytest.mark.parametrize("op_type", ["Attention", "RMSNormalization", "RotaryEmbedding", "Gelu"])
def test_an_older_version_lacks_what_came_later(op_type):
    assert NEWEST.supports(op_type, np.dtype(np.float16), 23)
    assert not OLD.supports(op_type, np.dtype(np.float16), 19)


def test_a_version_has_the_newest_table_that_is_not_newer():
    assert OLD.name == "tensorrt==10.3"
    assert OLD.opsets == range(18, 20)
    assert TensorRt("11.4").opsets == range(18, 25)
    assert list(NEWEST.versions) == ["9.2", "10.15"]


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("8.6", r"TensorRT 8\.6 is older than all versions that are known; the oldest is 9\.2"),
        ("new", "'new' is no version of TensorRT"),
    ],
)
def test_a_version_without_a_table_is_refused(version, message):
    with pytest.raises(OptionError, match=message):
        NEWEST.of_version(version)


def test_a_model_for_an_old_version_has_an_old_opset_and_its_operators():
    program = to_onnx(lambda x: jax.nn.gelu(x, approximate=False), [("B", 4)], target="tensorrt==10.3", opset=19)
    assert program.opset == 19
    assert operators(program).count("Erf") == 1
    assert program.model.ir_version <= 9


def attend(q, k, v):
    return jax.nn.dot_product_attention(q, k, v)


def test_attention_has_heads_as_an_axis():
    program = to_onnx(attend, [(("B", "T", 2, 16), jnp.float16)] * 3, target="tensorrt")
    (node,) = [node for node in all_nodes(program.model) if node.op_type == "Attention"]
    assert [value.shape.rank() for value in node.inputs] == [4, 4, 4]
    program.verify()


@pytest.mark.parametrize(("dtype", "size"), [(jnp.float32, 16), (jnp.float16, 4), (jnp.float16, 264)])
def test_attention_without_a_kernel_is_written_out(dtype, size):
    program = to_onnx(attend, [(("B", "T", 2, size), dtype)] * 3, target="tensorrt")
    assert "Attention" not in operators(program)
    assert "Softmax" in operators(program)
    program.verify()


def test_a_soft_cap_is_written_out():
    def capped(q, k, v):
        logits = 50 * jnp.tanh(q @ k.swapaxes(-1, -2) / 50)
        return jax.nn.softmax(logits, axis=-1) @ v

    program = to_onnx(capped, [(2, 3, 5, 4)] * 3, target="tensorrt")
    assert {"Attention"}.isdisjoint(operators(program))
    assert "Tanh" in operators(program)
    program.verify()


def test_pooling_over_one_axis():
    def pool(x):
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 3), (1, 1, 2), "VALID")

    program = to_onnx(pool, [("B", 2, 9)], target="tensorrt")
    assert "MaxPool" in operators(program)
    program.verify()


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x == jnp.array([True, False, True]),
        lambda x: jnp.cumsum(x.astype(jnp.int32), axis=1),
        lambda x: jnp.cumsum(x.astype(jnp.int32), axis=0, dtype=jnp.int32)[::-1],
        lambda x: x.astype(jnp.int32) @ jnp.arange(6).reshape(3, 2),
        lambda x: ~x.astype(jnp.int32),
        lambda x: jnp.clip(x.astype(jnp.int32) * 5, 1, 3),
    ],
)
def test_integers_and_booleans_that_need_another_form(fn):
    to_onnx(fn, [(("B", 3), bool)], target="tensorrt").verify()


@pytest.mark.parametrize(
    ("reduction", "dtype", "shape"),
    [("add", jnp.float32, (5, 2, 3)), ("multiply", jnp.int32, (5,)), ("min", jnp.float32, (5, 3)), ("max", jnp.int32, (5, 2, 3))],
)  # fmt: skip
def test_reductions_into_places(reduction, dtype, shape):
    def scatter(x, places, values):
        return getattr(x.at[places], reduction)(values)

    program = to_onnx(scatter, [(shape, dtype), (("N",), jnp.int32), (("N", *shape[1:]), dtype)], target="tensorrt")
    assert not {"ScatterElements", "ScatterND"} & set(operators(program))
    program.verify()


@pytest.mark.parametrize("places", [[0, -1, 2, 2, 7, -9], [4, 4, 4, 4, 4, 4]])
def test_what_is_written_elsewhere_reaches_no_place(places):
    values = np.array([np.nan, np.inf, -0.0, 1.5, np.nan, -np.inf], np.float32)
    program = to_onnx(lambda x, i, v: x.at[i].add(v), [(5,), ((6,), jnp.int32), (6,)], target="tensorrt")
    arguments = np.zeros(5, np.float32), np.array(places, np.int32), values
    np.testing.assert_array_equal(program(*arguments), jnp.zeros(5).at[np.array(places)].add(values))


def test_elements_along_an_inner_axis():
    def scatter(x, i, v):
        return jnp.put_along_axis(x, i, v, axis=1, inplace=False)

    def add(x, i, v):
        return x.at[jnp.arange(2)[:, None], i].add(v)

    for fn in (scatter, add):
        to_onnx(fn, [(2, 5), ((2, 3), jnp.int32), (2, 3)], target="tensorrt").verify()


def test_the_position_of_an_extreme_of_a_vector():
    program = to_onnx(lambda x: (jnp.argmax(x), jnp.argmin(x)), [("N",)], target="tensorrt")
    ranks = [node.inputs[0].shape.rank() for node in all_nodes(program.model) if node.op_type.startswith("Arg")]
    assert ranks == [2, 2]
    program.verify()


def test_a_scan_without_states_gets_one():
    program = to_onnx(lambda x: jax.lax.map(jnp.sin, x), [("T", 3000)], target="tensorrt")
    scans = [node for node in all_nodes(program.model) if node.op_type == "Scan"]
    assert all(node.attributes["num_scan_inputs"].as_int() < len(node.inputs) for node in scans)
    program.verify()


@pytest.mark.parametrize("fn", [lambda x: jax.lax.top_k(x, 2), lambda x: jnp.sort(x), lambda x: jnp.argmax(x, axis=1)])
def test_no_branch_on_data_is_put_in(fn):
    program = to_onnx(fn, [("B", 5)], target="tensorrt")
    assert "If" not in operators(program)
    program.verify()


def test_booleans_are_counted_without_uint8_between():
    program = to_onnx(lambda x: (jnp.argmax(x > 0, axis=1), jnp.any(x > 0)), [("B", 5)], target="tensorrt")
    between = [value.dtype for node in all_nodes(program.model) for value in node.outputs]
    assert all(dtype.numpy() != np.uint8 for dtype in between)
    program.verify()


def test_sums_into_places_of_two_axes():
    def scatter(x, rows, columns, values):
        return x.at[rows, columns].add(values)

    spec = [("B", 4, 3), (("N",), jnp.int32), (("N",), jnp.int32), ("N", 3)]
    to_onnx(scatter, spec, target="tensorrt", constraints=["B >= 2"]).verify()


@pytest.mark.parametrize(
    ("fn", "spec", "message"),
    [
        (lambda x: x + 1, [((3,), jnp.int8)], "int8"),
        (lambda x: x, [((3,), jnp.int16)], "int16"),
        (lambda key: jax.random.normal(key, (3,)), [((2,), jnp.uint32)], "UINT32"),
        (lambda x: jax.lax.top_k(x, 4000), [(5000,)], "TopK with the 4000 greatest elements; it finds up to 3839"),
        (lambda x: jnp.fft.fft(x).real, [("N",)], "DOUBLE"),
        (lambda x: x.reshape(1, 1, 1, 1, 1, 1, 1, 1, 3), [(3,)], "9 axes"),
    ],
)
def test_what_tensorrt_does_not_read_is_refused(fn, spec, message):
    with pytest.raises(Jax2OnnxError, match=f"(?i){message}"):
        to_onnx(fn, spec, target="tensorrt")


def test_double_precision_is_refused():
    with pytest.raises(ConversionError, match=r"float64|DOUBLE"):
        to_onnx(lambda x: x * 2, [((3,), jnp.float64)], target="tensorrt", x64=True)


def test_limitations_say_that_nothing_was_measured():
    subjects = {limitation.subject for limitation in NEWEST.limitations()}
    assert {"double precision", "integers", "NaN and infinities", "TopK", "Loop", "data-dependent shapes"} <= subjects


def test_registering_the_target_reads_no_table():
    code = "import sys, jax2onnx_tensorrt.plugin as p; print('jax2onnx_tensorrt._table' in sys.modules, 'onnx' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split()[0] == "False"
