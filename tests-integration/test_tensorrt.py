"""Ordinary models, decoders and a control transformer for TensorRT: by its operator table, and by their values in ONNX Runtime."""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import onnx
import pytest
from flax import nnx
from jax2onnx_core import OnnxProgram, to_onnx
from jax2onnx_core.lowering.physical import physical_array
from jax2onnx_graph.errors import Jax2OnnxError
from jax2onnx_runtime.comparison import compare
from jax2onnx_tensorrt import engine_profiles

from examples.cached_models import ControlTransformer, causal_mask
from examples.ten_models import MODELS, Model

#: Models with bitwise operators on uint32, which TensorRT does not have.
REFUSED = ("linalg", "random")
#: What decides at run time what is computed; only a model whose author wrote so may have it.
CONTROL_FLOW = {"If", "Loop", "Scan", "ArgMin", "NonZero"}
SHORT = {
    "FLOAT": "f32",
    "FLOAT16": "f16",
    "BFLOAT16": "bf16",
    "INT32": "i32",
    "INT64": "i64",
    "BOOL": "b8",
    "UINT8": "u8",
}


def table(version: str) -> Mapping[str, Sequence[str]]:
    """Operator → the short names of the element types of its main operand, read from the published table."""
    text = importlib.resources.files("jax2onnx_tensorrt").joinpath("operators.json").read_text(encoding="utf-8")
    lines = json.loads(text)["versions"][version]["operators"]
    return {operator: types.split() for types, names in lines.items() for operator in names.split()}


def nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph and of the graphs in it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from nodes(attribute.g)


def types_of(graph: onnx.GraphProto) -> dict[str, str]:
    """The short names of the element types of the values of a graph and of those in it."""
    found = {tensor.name: SHORT[onnx.TensorProto.DataType.Name(tensor.data_type)] for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        found[value.name] = SHORT[onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type)]
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found |= types_of(attribute.g)
    return found


def outside(program: OnnxProgram, version: str = "10.15") -> list[str]:
    """The operators of a program that the table does not have, or not for the type of their main operand."""
    graph, known = program.model_proto.graph, table(version)
    types = types_of(graph)
    found = []
    for node in nodes(graph):
        main = node.input[1] if node.op_type == "Where" else next(name for name in (*node.input, *node.output) if name)
        if node.domain or types[main] not in known.get(node.op_type, ()):
            found.append(f"{node.op_type} of {types[main]}")
    return found


def operators(program: OnnxProgram) -> set[str]:
    return {node.op_type for node in nodes(program.model_proto.graph)}


def assert_equal_to_jax(program: OnnxProgram, model: Model) -> None:
    expected = [physical_array(leaf) for leaf in jax.tree_util.tree_leaves(model.fn(*model.arguments))]
    actual = program.loaded(program.feeds(*model.arguments))
    for got, want in zip(actual, expected, strict=True):
        assert compare(got, want).is_close


@pytest.mark.parametrize(
    ("name", "version"),
    [*((name, "10.15") for name in MODELS if name not in REFUSED), ("GPT", "9.2"), ("CNN", "9.2"), ("LSTM", "9.2")],
)
def test_an_ordinary_model(name: str, version: str) -> None:
    model = MODELS[name]()
    program = to_onnx(model.fn, model.inputs, constraints=model.constraints, target=f"tensorrt=={version}")
    assert outside(program, version) == []
    assert name == "scan, while, cond" or CONTROL_FLOW.isdisjoint(operators(program))
    assert_equal_to_jax(program, model)


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_that_tensorrt_lacks_operators_for_is_refused(name: str) -> None:
    model = MODELS[name]()
    with pytest.raises(Jax2OnnxError, match="UINT32"):
        to_onnx(model.fn, model.inputs, constraints=model.constraints, target="tensorrt")


# -- decoders ----------------------------------------------------------------------------------


WRITINGS = [
    ("qwen", "einsum of grouped heads"),
    ("qwen", "repeated keys"),
    ("qwen", "dot_product_attention"),
    ("qwen", "dot_product_attention, caches of heads first"),
    ("gemma", "repeated keys"),
    ("mamba", "states without a length"),
]


@pytest.mark.parametrize(("kind", "writing"), WRITINGS)
def test_a_step_of_a_decoder(small_decoders: Any, kind: str, writing: str) -> None:
    decoder = small_decoders.DECODERS[kind][writing]
    arguments = decoder.arguments(1, 7, 12)
    specs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arguments]
    program = to_onnx(decoder.step, specs, target="tensorrt")
    assert outside(program) == []
    assert CONTROL_FLOW.isdisjoint(operators(program))
    assert_equal_to_jax(program, Model(decoder.step, specs, arguments))


def test_long_caches_have_no_branch_on_what_is_in_them(small_decoders: Any) -> None:
    """ONNX Runtime's target reads those that are mostly empty up to the last entry, by a branch."""
    decoder = small_decoders.DECODERS["qwen"]["dot_product_attention"]
    arguments = decoder.arguments(1, 7, 2048)
    programs = {target: to_onnx(decoder.step, list(arguments), target=target) for target in ("onnxruntime", "tensorrt")}
    assert {name: "If" in operators(program) for name, program in programs.items()} == {
        "onnxruntime": True,
        "tensorrt": False,
    }
    assert outside(programs["tensorrt"]) == []


# -- a control transformer ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def controller() -> OnnxProgram:
    batch = {"camera": (1, "T", 8, 8, 3), "speed": (1, "T", 1), "waypoints": (1, "T", 4, 2)}
    states = {"cached_projected_embeddings": "projected_embeddings", "cached_kv": "kv_cache"}
    inputs = [batch, (1, "S", 24), (2, 2, 1, "S", 24), (("9*T", "S + 9*T"), bool)]
    return to_onnx(
        ControlTransformer(rngs=nnx.Rngs(1)), inputs, constraints=["S >= 0"], states=states, target="tensorrt"
    )


def test_the_controller_is_made_of_the_table(controller: OnnxProgram) -> None:
    assert outside(controller) == []
    assert CONTROL_FLOW.isdisjoint(operators(controller))


@pytest.mark.parametrize(("frames", "cached"), [(6, 0), (1, 45), (2, 9)])
def test_the_controller_at_the_shapes_of_its_profiles(controller: OnnxProgram, frames: int, cached: int) -> None:
    profiles = engine_profiles(
        controller, {"first": {"T": 6, "S": 0}, "step": {"T": 1, "S": (9, 45, 45)}, "other": {"T": 2, "S": (0, 9, 9)}}
    )
    shapes = profiles.shapes[profiles.profile_for(T=frames, S=cached)].shapes
    rng = np.random.default_rng(0)
    batch = {
        name: rng.standard_normal((1, frames, *shape), dtype=np.float32)
        for name, shape in (("camera", (8, 8, 3)), ("speed", (1,)), ("waypoints", (4, 2)))
    }
    caches = [rng.standard_normal((*lead, cached, 24), dtype=np.float32) for lead in ((1,), (2, 2, 1))]
    arguments: tuple[Any, ...] = (batch, *caches, np.asarray(causal_mask(9 * frames, cached + 9 * frames)))
    feeds = controller.feeds(*arguments)
    assert {name: array.shape for name, array in feeds.items() if name in shapes} == {
        n: usual for n, (_, usual, _) in shapes.items()
    }
    expected = ControlTransformer(rngs=nnx.Rngs(1))(*arguments)
    actual = controller(*arguments)
    for name in expected:
        np.testing.assert_allclose(actual[name], expected[name], rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("sizes", [{"T": 6, "S": 0}, {"T": 1, "S": 45}])
def test_its_static_variants_are_made_of_the_table(controller: OnnxProgram, sizes: Mapping[str, int]) -> None:
    static = controller.specialize(**sizes)
    assert outside(static) == []
    assert engine_profiles(static, {}).provider_options() == {}


def test_half_precision_is_a_model_of_its_own() -> None:
    """TensorRT 11 computes in the types of the model."""
    half = to_onnx(nnx.Linear(3, 4, rngs=nnx.Rngs(0)), [("B", 3)], target="tensorrt").quantize("float16")
    assert {onnx.TensorProto.DataType.Name(t.data_type) for t in half.model_proto.graph.initializer} == {"FLOAT16"}
