"""Odd calls of the public API: each ends in an error of ours, a sentence, and leaves nothing half-written."""

from __future__ import annotations

import json
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import errors, to_onnx

pytestmark = pytest.mark.sampled(24)

X = np.ones((2, 3), np.float32)
ROW = np.ones(4, np.float32)
NAN = float("nan")
WORD = re.compile(r"\w{2,}")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working directory with a file and a directory in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dir").mkdir()
    (tmp_path / "file").write_text("text")
    return tmp_path


@pytest.fixture(scope="module")
def programs():
    """Programs by name: small, with weights, with a state that grows, with one of fixed size."""
    weight = jax.random.normal(jax.random.key(0), (64, 64))
    growing = to_onnx(
        lambda cache, x: (jnp.concatenate([cache, x]), x.sum()), [("S", 3), ("T", 3)], states={0: 0}, constraints=["S >= 0"]
    )  # fmt: skip
    return {
        "small": to_onnx(jnp.tanh, [("B", 3)]),
        "weights": to_onnx(lambda x: jnp.tanh(x @ weight) @ weight, [("B", 64)]),
        "growing": growing,
        "state": to_onnx(lambda cache, x: (cache + x, cache.sum()), [(4,), (4,)], states={0: 0}),
    }


def check_refused(call, folder):
    """Check that a call raises an error of ours, which is a sentence, and that the files stay as they were."""
    before = {file: file.stat().st_size for file in folder.rglob("*")}
    with pytest.raises(errors.Jax2OnnxError) as caught:
        call()
    message = str(caught.value)
    assert len(WORD.findall(message)) >= 4, message
    assert message.rstrip()[-1] in ".)…" or "\n" in message, message
    assert {file: file.stat().st_size for file in folder.rglob("*")} == before


def recursive():
    nested: list[object] = []
    nested.append(nested)
    return nested


class Unreadable:
    """No array, no shape, no pytree."""


def generator(x):
    yield x


INPUTS: dict[str, Any] = {
    "none": None, "a number": 3, "a set": [{3}], "a text": ["B,4"], "bytes": [b"B"], "a negative size": [(-1,)],
    "a size beyond int64": [(10**30,)], "an array of objects": [np.array([None, 1], object)], "an array of texts": [np.array(["a"])],
    "dates": [np.array(["2020"], "M8[Y]")], "a structured array": [np.zeros(2, [("a", "f4")])], "a generator": (x for x in [(3,)]),
    "an array in place of the list": np.zeros(3), "a dtype alone": ["float32"], "no dtype": [((3,), "flot")], "objects": [((3,), object)],
    "texts": [((3,), "U3")], "long double": [((3,), np.longdouble)], "an unsolvable symbol": [("A*B",)], "half an expression": [("A+",)],
    "a division by zero": [("A/0",)], "an empty name": [("",)], "a name with a space": [("a b",)], "an unreadable object": [Unreadable()],
    "keys of several types": [{1: (3,), "a": (3,)}], "an ellipsis": [(...,)], "a slice": [(slice(3),)], "a class": [jax.ShapeDtypeStruct],
    "a nested list without end": [recursive()], "one too many": [(3,), (3,)], "one too few": [],
}  # fmt: skip


@pytest.mark.parametrize("name", INPUTS)
def test_inputs(name, folder):
    check_refused(lambda: to_onnx(jnp.tanh, INPUTS[name]), folder)


FUNCTIONS = {
    "none": None, "a text": "tanh", "an object": object(), "a generator": generator, "without a result": lambda x: None,
    "that returns a text": lambda x: "a", "that returns an object": lambda x: {"y": object()}, "that returns a text beside": lambda x: (x, "a"),
    "that returns texts": lambda x: np.array(["a"]), "that returns a function": lambda x: lambda: x, "that returns a set": lambda x: {1},
    "that returns a list without end": lambda x: recursive(), "with a keyword that is not given": lambda x, *, y: x + y,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")  # Python's and JAX's own about coroutines and generators
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name, folder):
    check_refused(lambda: to_onnx(FUNCTIONS[name], [(3,)]), folder)


OPTIONS = [
    {"kwargs": [1]}, {"kwargs": {1: (3,)}}, {"kwargs": {"y": object()}}, {"kwargs": {"x": (3,)}}, {"constraints": "B>=1"}, {"constraints": [3]},
    {"constraints": ["B !!"]}, {"constraints": ["B >= 3", "B <= 2"]}, {"constraints": [None]}, {"opset": "23"}, {"opset": 23.0}, {"opset": NAN},
    {"opset": 0}, {"opset": [23]}, {"target": 3}, {"target": ""}, {"target": "onnxruntime==0.9"}, {"target": " onnx "}, {"specialize": "B"},
    {"specialize": {"B": 1.5}}, {"specialize": {"B": -1}}, {"specialize": {"Z": 1}}, {"specialize": [("B", 1)]}, {"specialize": {"B": True}},
    {"specialize": {"B": None}}, {"x64": "yes"}, {"x64": 1}, {"input_names": "x"}, {"input_names": ["a", "a"]}, {"input_names": [3]},
    {"input_names": [""]}, {"input_names": [None]}, {"output_names": "abc"}, {"output_names": {"z": "a"}}, {"output_names": {"output": 3}}, {"input_names": {0: "a"}}, {"output_names": ["a", "b"]}, {"input_names": ["a"], "output_names": ["a"]},
    {"input_names": ["a\nb"]}, {"input_names": ["a\0b"]}, {"input_layouts": "NHWC->NCHW"}, {"input_layouts": {"zz": "NC->CN"}},
    {"input_layouts": {"x": "NC=>CN"}}, {"input_layouts": {"x": "NHWC->NCHW"}}, {"input_layouts": {0: 3}}, {"input_layouts": {7: "NC->CN"}},
    {"output_layouts": {"y": "N->N"}}, {"states": 3}, {"states": "x"}, {"states": {5: 0}}, {"states": {0: 5}}, {"states": {"zz": "yy"}},
    {"states": [0]}, {"states": {0.5: 0}}, {"states": {0: None}}, {"plugins": 3}, {"plugins": "mine"}, {"plugins": [object()]}, {"plugins": [None]},
    {"provenance": "yes"}, {"inline_functions": "yes"},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: re.sub(r" at 0x\w+", "", str(options)))
def test_options(options, folder):
    check_refused(lambda: to_onnx(jnp.tanh, [("B", 3)], **options), folder)


def deleted():
    array = jnp.ones((2, 3))
    array.delete()
    return array


ARGUMENTS = {
    "none": (), "too many": (X, X), "a text": ("a",), "nothing": (None,), "a list": ([[1.0, 2.0, 3.0]],), "a ragged list": ([[1.0], [1.0, 2.0]],),
    "an object": (object(),), "objects": (np.array([[None] * 3]),), "texts": (np.array([["a"] * 3]),), "integers": (X.astype(int),),
    "one axis": (X[0],), "another size": (X[:, :2],), "no rows": (X[:0],), "complex numbers": (X.astype(complex),),
    "a masked array": (np.ma.masked_array(X, mask=X > 0),), "a structured array": (np.zeros((2, 3), [("a", "f4")]),), "a dict": ({"x": X},),
    "a type": (jax.ShapeDtypeStruct((2, 3), jnp.float32),), "a key": (jax.random.key(0),), "booleans": (X > 0,),
    "dates": (np.zeros((2, 3), "M8[s]"),), "keys of several types": ({1: X, "a": X},), "a list without end": (recursive(),),
}  # fmt: skip


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments(name, programs, folder):
    check_refused(lambda: programs["small"](*ARGUMENTS[name]), folder)


CALLS = {
    "a deleted array": lambda p: p(deleted()), "an unknown keyword": lambda p: p(X, y=X), "an argument twice": lambda p: p(X, x=X),
    "in jit": lambda p: jax.jit(p)(X), "in vmap": lambda p: jax.vmap(p)(X[None]), "in grad": lambda p: jax.grad(lambda x: p(x).sum())(X),
    "in eval_shape": lambda p: jax.eval_shape(p, X), "in scan": lambda p: jax.lax.scan(lambda c, x: (c, p(x)), 0, X[None]),
    "in an export": lambda p: to_onnx(p, [(2, 3)]), "feeds": lambda p: p.feeds("a"), "no results": lambda p: p.results([]),
    "too many results": lambda p: p.results([X, X]), "a number of results": lambda p: p.results(3), "arguments": lambda p: p.arguments({"zz": X}),
    "arguments in a list": lambda p: p.arguments([X]), "missing arguments": lambda p: p.arguments({}), "a symbol that is none": lambda p: p.specialize(Z=1),
    "a text for a size": lambda p: p.specialize(B="a"), "size 0": lambda p: p.specialize(B=0), "half a size": lambda p: p.specialize(B=1.5),
    "a profile of nothing": lambda p: p.profile("a"), "ranges of shapes": lambda p: p.shape_profile(Z=(1, 2, 3)),
    "ranges in reverse": lambda p: p.shape_profile(B=(3, 2, 1)), "ranges of texts": lambda p: p.shape_profile(B="abc"),
    "two of three": lambda p: p.shape_profile(B=(1, 2)), "no range": lambda p: p.shape_profile(), "sizes": lambda p: list(p.random_calls(3, {}, 0)),
    "ranges": lambda p: list(p.random_calls(None, 3, 0)), "metadata": lambda p: p.with_metadata(3), "a model": lambda p: p.with_model(3),
    "weights": lambda p: p.with_weights({"a": X}), "weights that are a number": lambda p: p.with_weights(3),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_calls(name, programs, folder):
    check_refused(lambda: CALLS[name](programs["small"]), folder)


COMPARISONS: dict[str, Any] = {
    "sizes": {"sizes": 3}, "sizes without a list": {"sizes": {"B": 2}}, "a negative size": {"sizes": [{"B": -1}]}, "a text": {"sizes": [{"B": "a"}]},
    "an unknown symbol": {"sizes": [{"Z": 1}]}, "a missing symbol": {"sizes": [{}]}, "no sizes": {"sizes": []}, "size 0": {"sizes": [{"B": 0}]},
    "an unknown range": {"ranges": {"zz": (0, 1)}}, "a number as range": {"ranges": {"x": 3}}, "a range in reverse": {"ranges": {"x": (1, 0)}},
    "a text as range": {"ranges": {"x": "ab"}}, "NaN in a range": {"ranges": {"x": (NAN, 1)}}, "three bounds": {"ranges": {"x": (1, 2, 3)}},
    "a text as seed": {"seed": "a"}, "a negative seed": {"seed": -5}, "a text as inputs": {"inputs": "a"}, "an array as inputs": {"inputs": X},
    "too many arguments": {"inputs": [(X, X)]}, "no inputs": {"inputs": []}, "an infinite tolerance": {"rtol": float("inf")},
}  # fmt: skip


@pytest.mark.parametrize("name", COMPARISONS)
def test_verifications(name, programs, folder):
    check_refused(lambda: programs["small"].verify(**COMPARISONS[name]), folder)


BISECTIONS = {
    "a text": lambda p: p.bisect("a"), "arguments and sizes": lambda p: p.bisect(X, sizes=[{"B": 2}]), "a number as kwargs": lambda p: p.bisect(kwargs=3),
    "an unknown keyword": lambda p: p.bisect(kwargs={"q": X}),
}  # fmt: skip


@pytest.mark.parametrize("name", BISECTIONS)
def test_bisections(name, programs, folder):
    check_refused(lambda: BISECTIONS[name](programs["small"]), folder)


QUANTIZATIONS = {
    "no such mode": lambda p: p.quantize("int3"), "no mode": lambda p: p.quantize(None), "a list of modes": lambda p: p.quantize(["int8"]),
    "no such block": lambda p: p.quantize("int4", block_size=7), "a text as block": lambda p: p.quantize("int4", block_size="a"),
    "everything left out": lambda p: p.quantize("int8", exclude=["*"]), "nothing of a name": lambda p: p.quantize("int8", exclude=["zz"]),
    "a text as list": lambda p: p.quantize("int8", exclude="zz"), "a number in the list": lambda p: p.quantize("int8", exclude=[3]),
    "no examples": lambda p: p.quantize("static_int8"), "a number of examples": lambda p: p.quantize("static_int8", calibration=3),
    "an empty list of examples": lambda p: p.quantize("static_int8", calibration=[]), "texts": lambda p: p.quantize("static_int8", calibration=[("a",)]),
    "another shape": lambda p: p.quantize("static_int8", calibration=[(X,)]), "other names": lambda p: p.quantize("static_int8", calibration=[{"zz": X}]),
    "a text as flag": lambda p: p.quantize("float16", keep_io_types="no"), "a loss that is none": lambda p: p.quantize("int8").accuracy(loss=3),
    "a loss that gives a text": lambda p: p.quantize("int8").accuracy(loss=lambda result, x: "a"), "data": lambda p: p.quantize("int8").accuracy(data=3),
    "no data": lambda p: p.quantize("int8").accuracy(data=[]),
}  # fmt: skip


@pytest.mark.parametrize("name", QUANTIZATIONS)
def test_quantizations(name, programs, folder):
    check_refused(lambda: QUANTIZATIONS[name](programs["weights"]), folder)


def test_nothing_to_quantize(programs, folder):
    check_refused(lambda: programs["small"].quantize("int8"), folder)


SAVES = {
    "a directory": lambda p: p.save("dir"), "a file as directory": lambda p: p.save("file/m.onnx"), "no directory": lambda p: p.save("nope/m.onnx"),
    "no path": lambda p: p.save(None), "a number": lambda p: p.save(3), "an empty path": lambda p: p.save(""), "a dot": lambda p: p.save("."),
    "a NUL": lambda p: p.save("a\0b"), "a long name": lambda p: p.save("a" * 300), "a full disk": lambda p: p.save("/dev/full"),
    "data elsewhere": lambda p: p.save("m.onnx", data_file="sub/w.bin"), "data above": lambda p: p.save("m.onnx", data_file="../w.bin"),
    "data at a path": lambda p: p.save("m.onnx", data_file="/w.bin"), "data without a name": lambda p: p.save("m.onnx", data_file=""),
    "data in the model": lambda p: p.save("m.onnx", data_file="m.onnx"), "data by number": lambda p: p.save("m.onnx", data_file=3),
    "data in a dot": lambda p: p.save("m.onnx", data_file="."), "data with a NUL": lambda p: p.save("m.onnx", data_file="a\0"),
    "data in a directory": lambda p: p.save("m.onnx", data_file="dir"), "data with a long name": lambda p: p.save("m.onnx", data_file="w" * 300),
    "data with a backslash": lambda p: p.save("m.onnx", data_file="a\\b"), "a text as flag": lambda p: p.save("m.onnx", external_data="w.bin"),
    "a text as threshold": lambda p: p.save("m.onnx", threshold="a"), "half a threshold": lambda p: p.save("m.onnx", threshold=1.5),
    "a number of weights": lambda p: p.save("m.onnx", weights=3), "new names of no weights": lambda p: p.save("m.onnx", rename={"a": "b"}),
    "no variant": lambda p: p.save_variants("dir"), "a variant of nothing": lambda p: p.save_variants("dir", a={"Z": 1}),
    "a variant by number": lambda p: p.save_variants("dir", a=3),
    "a variant elsewhere": lambda p: p.save_variants("dir", **{"a/b": {"B": 1}}), "a variant above": lambda p: p.save_variants("dir", **{"../x": {"B": 1}}),
    "variants in a file": lambda p: p.save_variants("file", a={"B": 1}), "variants nowhere": lambda p: p.save_variants(None, a={"B": 1}),
    "a page in a directory": lambda p: p.save_report("dir"), "a page nowhere": lambda p: p.save_report(None),
    "a page in no directory": lambda p: p.save_report("nope/r.html"), "a page by number": lambda p: p.save_report(4),
}  # fmt: skip


@pytest.mark.parametrize("name", SAVES)
def test_saves(name, programs, folder):
    check_refused(lambda: SAVES[name](programs["weights"]), folder)


GROWING = [
    {"initial": 3}, {"initial": {"zz": X}}, {"initial": {7: X}}, {"initial": {0: X[0]}}, {"initial": {0: X.astype(int)}}, {"initial": {0: "a"}},
    {"sizes": {"Z": 1}}, {"sizes": {"S": -1}}, {"sizes": {"S": "a"}}, {"sizes": {"S": 1.5}}, {"window": {"Z": 1}}, {"window": {"S": -2}},
    {"window": {"S": "a"}}, {"limits": {"Z": 3}}, {"limits": {"S": "a"}}, {"threads": "a"}, {"threads": -1}, {"threads": 1.5}, {"threads": True},
    {"providers": "CPU"}, {"providers": ["NoSuch"]}, {"providers": [3]}, {"session_options": 3}, {"graph_optimization_level": "lots"},
    {"graph_optimization_level": 3},
]  # fmt: skip


@pytest.mark.parametrize(
    "options", GROWING, ids=lambda options: f"{next(iter(options))}={next(iter(options.values()))!r:.20}"
)
def test_sessions(options, programs, folder):
    check_refused(lambda: programs["growing"].session(**options), folder)


STEPS = {
    "nothing": lambda s: s.step(), "too much": lambda s: s.step(ROW, ROW, ROW), "a text": lambda s: s.step("a"), "another shape": lambda s: s.step(X),
    "in jit": lambda s: jax.jit(s.step)(ROW), "states into a directory": lambda s: s.state.save("dir"), "states nowhere": lambda s: s.state.save(None),
    "states of a directory": lambda s: s.state.load("dir"), "states of no file": lambda s: s.state.load("nope"),
    "states of nothing": lambda s: s.state.load(None), "states of a text": lambda s: s.state.load("file"),
    "an axis that is none": lambda s: s.reset(Z=[0]), "a size of nothing": lambda s: s.resize(Z=3),
    "a state of another type": lambda s: s.state.update(cache=X),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_steps(name, programs, folder):
    check_refused(lambda: STEPS[name](programs["state"].session()), folder)


def test_an_entry_that_an_axis_lacks(folder):
    program = to_onnx(lambda cache, x: (cache + x, x), [("B", 2), ("B", 2)], states={0: 0})
    check_refused(lambda: program.session(sizes={"B": 2}).reset(B=[5]), folder)


def test_a_step_beyond_a_limit(programs, folder):
    check_refused(lambda: programs["growing"].session(limits={"S": 1}).step(X), folder)


FILES = {
    "cut in half": lambda data: data[: len(data) // 2], "changed": lambda data: data[:60] + bytes([data[60] ^ 255]) + data[61:],
    "without its end": lambda data: data[:-5], "empty": lambda data: b"", "an empty archive": lambda data: b"PK\x05\x06" + bytes(18),
    "an array": lambda data: b"\x93NUMPY\x01\0",
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_files_of_states(name, programs, folder):
    session = programs["state"].session()
    session.step(ROW)
    path = session.state.save(folder / "states.npz")
    path.write_bytes(FILES[name](path.read_bytes()))
    check_refused(lambda: session.state.load(path), folder)
    np.testing.assert_array_equal(session.state["cache"], ROW)


def test_the_states_of_another_model(programs, folder):
    session = programs["growing"].session()
    session.step(X)
    path = session.state.save(folder / "states.npz")
    check_refused(lambda: programs["state"].session().state.load(path), folder)


@pytest.mark.parametrize(
    "text",
    ["[]", "{}", '{"weight_map": 3}', '{"weight_map": {"a": 3}}', '{"weight_map": {"a": "none"}}', "[" * 100_000, "{"],
)
def test_an_index_of_weights_that_is_none(text, programs, folder):
    path = folder / "model.safetensors.index.json"
    path.write_text(text)
    check_refused(lambda: programs["small"].with_weights(path), folder)


@pytest.mark.parametrize("key", ["jax2onnx.states", "jax2onnx.symbols"])
@pytest.mark.parametrize(
    "text", ["", "{", "3", "null", "[" * 100_000, '[{"a": 1}]', "[[1]]", json.dumps([{"input": "x", "output": "zz"}])]
)
def test_metadata_of_others(key, text, programs, folder):
    from jax2onnx_graph.metadata import read_states, read_symbols

    model = programs["growing"].model.clone()
    model.metadata_props[key] = text
    check_refused(lambda: {"jax2onnx.states": read_states, "jax2onnx.symbols": read_symbols}[key](model), folder)
