"""Bundles of models given as text: their weights once, their links, and what is none."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import OptionError, ReadError, RuntimeInputError, SaveError, WeightsError
from jax2onnx_graph.metadata import StatePair, write_states
from jax2onnx_runtime.bundles.bundle import Bundle, load_bundle
from jax2onnx_runtime.bundles.links import read_links
from jax2onnx_runtime.program import Program, program_of
from jax2onnx_runtime.runtimes import Runtime, reference_runtime
from onnx_ir.passes.common import ShapeInferencePass

W = np.random.default_rng(0).normal(size=(32, 32)).astype(np.float32)
X = np.random.default_rng(1).normal(size=(2, 32)).astype(np.float32)


def program(body: str, inputs: str = "float[2,32] x", outputs: str = "float[2,32] y", *states: StatePair,
            weight: np.ndarray = W, runtime: Runtime = reference_runtime) -> Program:  # fmt: skip
    """The program of a model with a weight `w`."""
    model = ir.from_onnx_text(f'<ir_version: 8, opset_import: ["": 18]> g ({inputs}) => ({outputs}) {{ {body} }}')
    value = ir.Value(name="w", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(weight.shape))
    value.const_value = ir.tensor(weight, name="w")
    for node in model.graph:
        for index, used in enumerate(node.inputs):
            if used is not None and used.name == "w":
                node.replace_input_with(index, value)
    model.graph.register_initializer(value)
    write_states(model, states)
    return program_of(ShapeInferencePass()(model).model, runtime)


def encoder(weight: np.ndarray = W) -> Program:
    return program(
        "memory = MatMul(x, w) total = ReduceSum(x)", outputs="float[2,32] memory, float[1,1] total", weight=weight
    )


def decoder() -> Program:
    return program("h = MatMul(x, w) y = Add(h, memory)", "float[2,32] memory, float[2,32] x")


def counter() -> Program:
    body = "new = Add(total, x) h = MatMul(new, w) y = Neg(h)"
    return program(
        body, "float[2,32] total, float[2,32] x", "float[2,32] y, float[2,32] new", StatePair("total", "new")
    )


@pytest.fixture
def bundle() -> Bundle:
    return Bundle({"encode": encoder(), "decode": decoder()}, links={"encode.memory": "decode.memory"})


def test_a_bundle_maps_names_to_programs(bundle: Bundle) -> None:
    assert ([*bundle], len(bundle), repr(bundle)) == (["encode", "decode"], 2, "Bundle('encode', 'decode')")
    np.testing.assert_allclose(bundle["encode"]({"x": X})["memory"], X @ W, rtol=1e-5, atol=1e-5)
    with pytest.raises(KeyError, match="There is no program 'draft'; the programs are encode, decode"):
        bundle["draft"]


FORMS: dict[str, Callable[[Bundle, Path], Bundle]] = {
    "made": lambda bundle, _: bundle,
    "loaded": lambda bundle, path: load_bundle(bundle.save(path / "a"), runtime=reference_runtime),
    "pickled": lambda bundle, _: pickle.loads(pickle.dumps(bundle)),
    "saved again": lambda bundle, path: load_bundle(load_bundle(bundle.save(path / "a")).save(path / "b")),
}


@pytest.mark.parametrize("form", FORMS)
def test_an_output_is_the_input_of_another_program(bundle: Bundle, form: str, tmp_path: Path) -> None:
    session = FORMS[form](bundle, tmp_path).session()
    with pytest.raises(RuntimeInputError, match="decode takes 'memory' from encode, which has not run yet"):
        session.step("decode", {"x": X})
    session.step("encode", {"x": X})
    np.testing.assert_allclose(session.step("decode", {"x": 2 * X})["y"], 3 * (X @ W), rtol=1e-4, atol=1e-4)


def test_a_weight_of_two_programs_is_there_once(bundle: Bundle, tmp_path: Path) -> None:
    assert bundle.nbytes == W.nbytes
    assert Bundle({"one": encoder(), "other": encoder(2 * W)}).nbytes == 2 * W.nbytes
    folder = bundle.save(tmp_path / "folder")
    (data,) = folder.glob("*.data")
    assert W.nbytes <= data.stat().st_size < 2 * W.nbytes
    assert sorted(file.name for file in folder.glob("*.[jo]*")) == ["bundle.json", "decode.onnx", "encode.onnx"]
    assert len(pickle.dumps(bundle)) < 2 * W.nbytes


@pytest.mark.parametrize(
    ("weight", "is_same"),
    [(W.copy(), True), (W.T.copy(), True), (2 * W, False), (W[::-1].copy() + 1, False), (W[:, :16].copy(), True)],
)
def test_weights_of_one_model_are_equal_but_for_their_axes(weight: np.ndarray, is_same: bool) -> None:
    other = program("y = MatMul(x, w)", outputs="float[2,N] y", weight=weight)
    if is_same:
        assert len(Bundle({"one": encoder(), "other": other}, same_weights=True)) == 2
    else:
        with pytest.raises(WeightsError, match="The weight 'w' of other has other numbers than that of one"):
            Bundle({"one": encoder(), "other": other}, same_weights=True)


class _Other(Runtime):
    name = "other"


@pytest.mark.parametrize(
    ("programs", "message"),
    [
        ({}, "A bundle holds at least one program"),
        ({"one": 1}, "'one' → 1 is none"),
        ({1: encoder()}, "A bundle maps names to programs; 1 → "),
        ({"one": encoder(), "other": program("y = MatMul(x, w)", runtime=_Other())}, "are for one runtime, but one is for .*, other is for other"),
    ],
)  # fmt: skip
def test_what_is_no_bundle(programs: dict[str, Program], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Bundle(programs)


@pytest.mark.parametrize(
    ("links", "message"),
    [
        (
            {"encode.nothing": "decode.memory"},
            r"there is no output 'encode\.nothing'; there are encode\.memory, encode\.total",
        ),
        ({"encode.memory": "decode.keys"}, r"there is no input 'decode\.keys'"),
        ({"encode.memory": "encode.x"}, "within one program"),
        ({"encode.memory": 5}, "links map outputs to inputs of other programs, .*; 5 is no input"),
        ({"encode.memory": [5]}, "; 5 is no input"),
        ({5: "decode.memory"}, "; 5 is no output"),
    ],
)
def test_links_that_do_not_fit(links: dict[Any, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Bundle({"encode": encoder(), "decode": decoder()}, links=links)


def test_states_of_one_name_are_one_state() -> None:
    session = Bundle({"one": counter(), "other": counter()}).session()
    for name in ("one", "other", "one"):
        session.step(name, {"x": X})
    np.testing.assert_allclose(session.state["total"], 3 * X, rtol=1e-5)


def test_states_of_several_programs_are_set_all_or_none() -> None:
    session = Bundle({"one": counter(), "other": counter()}).session()
    session.step("one", {"x": X})
    with pytest.raises(KeyError, match="There is no state 'sum'; the states are total"):
        session.state.update({"total": np.zeros_like(X), "sum": X})
    np.testing.assert_array_equal(session.state["total"], X)
    session.state.update(total=2 * X)
    np.testing.assert_array_equal(session.state["total"], 2 * X)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no folder": (
        lambda folder: (folder / "bundle.json").unlink(),
        r"Cannot read a bundle from .*: bundle\.json: No such file",
    ),
    "no model": (lambda folder: (folder / "decode.onnx").unlink(), r"decode\.onnx: No such file"),
    "no weights": (
        lambda folder: next(folder.glob("*.data")).unlink(),
        "which has the weights of (en|de)code, is missing",
    ),
    "half of the list": (lambda folder: (folder / "bundle.json").write_text("{"), "Cannot read a bundle from"),
    "another model": (
        lambda folder: (folder / "decode.onnx").write_bytes((folder / "encode.onnx").read_bytes()),
        r"decode\.onnx has other inputs than bundle\.json says: it was written by another save",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_folder_that_is_not_whole_is_refused(bundle: Bundle, damage: str, tmp_path: Path) -> None:
    harm, message = DAMAGE[damage]
    harm(bundle.save(tmp_path / "out"))
    with pytest.raises(ReadError, match=message):
        load_bundle(tmp_path / "out")


def test_names_that_no_file_has(tmp_path: Path) -> None:
    with pytest.raises(SaveError, match="the name of a variant is 'a/b'"):
        Bundle({"a/b": encoder()}).save(tmp_path / "out")


def test_only_programs_that_are_there_are_quantised(bundle: Bundle) -> None:
    with pytest.raises(OptionError, match="There is no program 'draft'; the programs are encode, decode"):
        bundle.quantize("int8", programs=["draft"])


def test_a_link_that_two_programs_could_mean_is_refused() -> None:
    programs = {"encode": encoder(), "encode.step": encoder(2 * W), "decode": decoder()}
    programs["encode"].model.graph.outputs[0].name = "step.memory"
    with pytest.raises(
        OptionError, match=r"'encode\.step\.memory' is an output of several programs, encode, encode\.step"
    ):
        read_links({"encode.step.memory": "decode.memory"}, programs)
