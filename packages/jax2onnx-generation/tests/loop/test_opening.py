"""Generators of decoders in files: the sizes that their states begin with, and the options of these."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_generation import Generator, open_decoder
from jax2onnx_generation.loop.opening import first_sizes
from jax2onnx_graph.errors import ContextFullError, OptionError
from jax2onnx_graph.metadata import StatePair, write_states
from jax2onnx_runtime.runtimes import reference_runtime

#: A token is followed by the sum of those in the cache and itself.
NODES = """depth = Constant<value = int64 {11}>() pair = Constant<value = float[2] {0, 1}>() first = Constant<value = int64[1] {1}>()
    eleven = Constant<value = float {11}>() zero = Constant<value = int64 {1}>() new = Cast<to = 1>(tokens)"""
END = "i = Mod<fmod = 1>(sums, eleven) j = Cast<to = 7>(i) logits = OneHot(j, depth, pair)"
GROWS = f"""{NODES} next = Concat<axis = 1>(cache, new) before = ReduceSum<keepdims = 1>(cache, first)
    after = CumSum(new, zero) sums = Add(before, after) {END}"""
WRITTEN = f"""{NODES} next = ScatterElements<axis = 1>(cache, positions, new) sum = ReduceSum<keepdims = 1>(next, first)
    n = Mul(new, nothing) sums = Add(sum, n) {END}"""
POSITIONS = ", int64[B,T] positions"


def model(cache: str = "float[B,S]", nodes: str = GROWS, *, further: str = "", grows: int | None = 1) -> ir.Model:
    text = (
        f'<ir_version: 10, opset_import: ["" : 18]> main (int64[B,T] tokens, {cache} cache{further}) '
        f"=> (float[B,T,11] logits, {cache.replace('S', 'P')} next) {{ nothing = Constant<value = float {{0}}>() {nodes} }}"
    )
    made = ir.from_onnx_text(text)
    for value in made.graph.outputs:
        value.shape = ir.Shape([{"P": "S + T"}.get(str(dim), dim) for dim in value.shape or ()])
    write_states(made, [StatePair("cache", "next", grows)])
    return made


def opened(path: Path, made: ir.Model, **options: object) -> Generator:
    ir.save(made, path / "decoder.onnx")
    return open_decoder(path / "decoder.onnx", reference_runtime, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cache", "further", "grows", "sizes"),
    [
        ("float[B,S]", "", 1, {"B": 1}),
        ("float[B,C]", POSITIONS, None, {"B": 1, "C": 64}),
        ("float[B,16]", POSITIONS, None, {"B": 1}),
        ("float[1,C]", POSITIONS, None, {"C": 64}),
        ("float[C,D]", POSITIONS, None, {"C": 64, "D": 64}),
    ],
)
def test_the_sizes_that_states_begin_with(cache, further, grows, sizes):
    nodes = GROWS if grows else WRITTEN
    assert first_sizes(model(cache, nodes, further=further, grows=grows)) == sizes


@pytest.mark.parametrize(
    ("options", "written"),
    [
        ({}, [3, 6, 1, 2, 4]),
        ({"window": {"S": 1}}, [3, 5, 8, 2, 10]),
        ({"initial": {"cache": np.array([[5.0]], np.float32)}}, [8, 5, 10, 9, 7]),
    ],
)
def test_a_decoder_in_a_file_goes_on(tmp_path, options, written):
    assert opened(tmp_path, model(), **options).generate([1, 2], max_new_tokens=5).ids == [written]


def test_a_limit_is_kept(tmp_path):
    generator = opened(tmp_path, model(), limits={"S": 3})
    assert generator.generate([1, 2], max_new_tokens=9).ids == [[3, 6]]
    with pytest.raises(ContextFullError, match="S = 3"):
        generator.generate([1, 2, 3])


@pytest.mark.parametrize(("sizes", "places"), [(None, 64), ({"C": 3}, 3)])
def test_a_capacity_begins_with_64_places_or_as_many_as_are_said(tmp_path, sizes, places):
    generator = opened(tmp_path, model("float[B,C]", WRITTEN, further=POSITIONS, grows=None), sizes=sizes)
    assert generator.session.state["cache"].shape == (1, places)
    assert generator.generate([1, 2], max_new_tokens=3).ids == [[3, 6, 1]]


def test_roles_of_other_names_are_said(tmp_path):
    made = model(
        "float[B,C]", WRITTEN.replace("positions", "p"), further=POSITIONS.replace("positions", "p"), grows=None
    )
    with pytest.raises(OptionError, match="p"):
        opened(tmp_path, made).generate([1, 2], max_new_tokens=1)
    assert opened(tmp_path, made, roles={"positions": "p"}).generate([1, 2], max_new_tokens=3).ids == [[3, 6, 1]]
