"""Optimisation profiles: their forms, and what cannot be one. What TensorRT's tools get is parsed back."""

from __future__ import annotations

import re

import onnx
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import OptionError, SymbolError
from jax2onnx_graph.metadata import SymbolInfo, write_symbols
from jax2onnx_tensorrt import engine_profiles
from jax2onnx_tensorrt.profiles import read_profile

# The keys that https://onnxruntime.ai/docs/execution-providers/TensorRT-ExecutionProvider.html documents.
DOCUMENTED = {
    "device_id", "user_compute_stream", "trt_max_workspace_size", "trt_max_partition_iterations", "trt_min_subgraph_size", "trt_fp16_enable",
    "trt_int8_enable", "trt_engine_cache_enable", "trt_engine_cache_path", "trt_timing_cache_enable", "trt_timing_cache_path",
    "trt_profile_min_shapes", "trt_profile_max_shapes", "trt_profile_opt_shapes", "trt_cuda_graph_enable", "trt_builder_optimization_level",
}  # fmt: skip

TEXT = """<ir_version: 10, opset_import: ["" : 18]>
controller (float["T", 8] frames, float["S", 8] cache, float["274*T", "S + 274*T"] mask) => (float["T", 8] y) {
    y = Abs(frames)
}"""
PROFILES: dict[str, dict[str, int | tuple[int, int, int]]] = {
    "first": {"T": (1, 6, 6), "S": 0},
    "step": {"T": 1, "S": (274, 1370, 1370)},
}


@pytest.fixture
def model() -> ir.Model:
    model = ir.from_proto(
        onnx.parser.parse_model(TEXT.replace('"274*T", "S + 274*T"', "Mt, Ms").replace('"T"', "T").replace('"S"', "S"))
    )
    model.graph.inputs[2].shape = ir.Shape(["274*T", "S + 274*T"])
    table = {
        "T": SymbolInfo("T", 1, None, (("frames", 0, "T"),)),
        "S": SymbolInfo("S", 0, None, (("cache", 0, "S"),)),
    }
    write_symbols(model, table, ["T <= 6"])
    return model


def test_a_command_builds_one_engine_with_all_profiles(model, trtexec):
    command = trtexec(engine_profiles(model, PROFILES).trtexec_line("full model.onnx", "model.engine", fp16=True))
    assert (command.onnx, command.engine) == ("full model.onnx", "model.engine")
    assert command.flags == {"fp16", "skipInference"}
    assert command.profiles == [
        {
            "frames": [(1, 8), (6, 8), (6, 8)],
            "cache": [(0, 8), (0, 8), (0, 8)],
            "mask": [(274, 274), (1644, 1644), (1644, 1644)],
        },
        {
            "frames": [(1, 8), (1, 8), (1, 8)],
            "cache": [(274, 8), (1370, 8), (1370, 8)],
            "mask": [(274, 548), (274, 1644), (274, 1644)],
        },
    ]


def test_a_static_model_needs_no_profile(model, trtexec):
    model.graph.inputs[:] = []
    command = trtexec(engine_profiles(model, {}).trtexec_line("m.onnx", "m.engine"))
    assert command.profiles == []
    assert command.flags == {"skipInference"}


def test_options_of_the_provider_repeat_the_inputs_for_each_profile(model):
    options = engine_profiles(model, PROFILES).provider_options(fp16=True)
    assert options.keys() <= DOCUMENTED
    assert options["trt_profile_min_shapes"] == "frames:1x8,cache:0x8,mask:274x274,frames:1x8,cache:274x8,mask:274x548"
    names = [one.partition(":")[0] for one in options["trt_profile_max_shapes"].split(",")]
    assert names == ["frames", "cache", "mask"] * 2
    assert options["trt_fp16_enable"] == "True"


def test_the_profile_for_sizes(model):
    profiles = engine_profiles(model, PROFILES)
    assert [profiles.profile_for(T=6, S=0), profiles.profile_for(T=1, S=1370)] == ["first", "step"]
    with pytest.raises(
        SymbolError, match=re.escape("No profile is for T = 2, S = 5: first for T = 1 to 6, S = 0; step for")
    ):
        profiles.profile_for(T=2, S=5)


@pytest.mark.parametrize(
    ("profiles", "message"),
    [
        ({"first": {"T": 6}}, "Profile 'first': The profile says nothing of S"),
        ({"first": {"T": 6, "S": 0, "K": 1}}, "Profile 'first': The profile gives sizes for K, but no input has that symbol"),
        ({"first": {"T": (6, 1, 6), "S": 0}}, "Profile 'first': T=(6, 1, 6): a profile needs (least, usual, largest)"),
        ({"first": {"T": 7, "S": 0}}, "Profile 'first': The min shapes of the profile are not possible: the model was exported for T <= 6"),
        ({"first": {"T": (1, 1, 7), "S": 0}}, "Profile 'first': The max shapes of the profile are not possible"),
        ({"a": {"T": (1, 1, 6), "S": (0, 0, 9)}, "b": {"T": 1, "S": (5, 5, 20)}}, "The profiles 'a' and 'b' overlap at T = 1, S = 5"),
        ({}, "an engine for it needs profiles"),
    ],
)  # fmt: skip
def test_what_is_no_profile_is_said(model, profiles, message):
    with pytest.raises((SymbolError, OptionError), match=re.escape(message)):
        engine_profiles(model, profiles)


def test_names_that_the_tools_would_cut_are_refused(model):
    model.graph.inputs[0].name = "frames:0"
    with pytest.raises(OptionError, match="'frames:0' cannot be written"):
        engine_profiles(model, PROFILES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("first:T=1..6,S=0", ("first", {"T": (1, 6, 6), "S": (0, 0, 0)})),
        (" step : T = 1 , S=0..5..9", ("step", {"T": (1, 1, 1), "S": (0, 5, 9)})),
    ],
)
def test_profiles_of_the_command_line(text, expected):
    assert read_profile(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "first",
        "first:",
        ":T=1",
        "first:T",
        "first:T=",
        "first:T=1..2..3..4",
        "first:T=-1",
        "first:T=1,T=2",
        "a b:T=1",
    ],
)
def test_other_texts_are_refused(text):
    with pytest.raises(OptionError, match=re.escape(repr(text))):
        read_profile(text)


@pytest.mark.parametrize(
    "line",
    [
        "trtexec --onnx=a --saveEngine=b --profile=1 --minShapes=x:1 --optShapes=x:1 --maxShapes=x:1",
        "trtexec --onnx=a --saveEngine=b --profile=0 --minShapes=x:1 --optShapes=x:1",
        "trtexec --onnx=a --saveEngine=b --profile=0 --minShapes=x:2 --optShapes=x:1 --maxShapes=x:3",
        "trtexec --onnx=a --saveEngine=b --fp17",
        "trtexec --onnx=a --saveEngine=b --minShapes=x:1,x:2",
    ],
)
def test_the_parser_of_these_tests_is_strict(trtexec, line):
    with pytest.raises(ValueError):  # noqa: PT011 (what it says is for people)
        trtexec(line)
