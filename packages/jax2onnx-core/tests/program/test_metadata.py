"""Name, version and further metadata in the file of a model."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import onnx
import pytest
from jax2onnx_core import errors, to_onnx
from jax2onnx_graph import ir
from jax2onnx_graph.metadata import ModelMetadata, read_exporter

METADATA = ModelMetadata(
    name="doubler", version=3, doc_string="Twice the input.", domain="org.example", producer_version="1.2",
    properties={"license": "Apache-2.0"},
)  # fmt: skip


def check(model: onnx.ModelProto) -> None:
    assert model.graph.name == "doubler"
    assert (model.model_version, model.doc_string, model.domain) == (3, "Twice the input.", "org.example")
    assert model.producer_version == "1.2"
    assert {"license": "Apache-2.0"}.items() <= {p.key: p.value for p in model.metadata_props}.items()


def test_the_file_has_the_metadata(tmp_path: Path) -> None:
    program = to_onnx(lambda x: 2 * x, [("B",)]).with_metadata(METADATA)
    check(onnx.load(program.save(tmp_path / "m.onnx")))
    program.verify()


def test_symbols_stay() -> None:
    program = to_onnx(lambda x: 2 * x, [("B",)])
    described = program.with_metadata(METADATA)
    assert program.model.metadata_props.items() <= described.model.metadata_props.items()
    assert "license" not in program.model.metadata_props


def test_what_is_not_given_stays() -> None:
    program = to_onnx(lambda x: 2 * x, [("B",)])
    described = program.with_metadata(ModelMetadata(version=4))
    assert described.model.graph.name == program.model.graph.name
    assert described.model.producer_name == program.model.producer_name


def test_the_file_says_which_distributions_of_which_versions_wrote_it(tmp_path: Path) -> None:
    program = to_onnx(lambda x: 2 * x, [("B",)])
    program.save(tmp_path / "m.onnx")
    model = ir.load(tmp_path / "m.onnx")
    assert (model.producer_name, model.producer_version) == ("jax2onnx-core", version("jax2onnx-core"))
    written = read_exporter(model)
    assert written["jax"] == jax.__version__
    assert written["jax2onnx-lax"] == version("jax2onnx-lax")
    assert read_exporter(program.specialize(B=2).model) == written


def test_specializations_and_programs_in_fewer_bits_have_it() -> None:
    weight = jnp.ones((64, 64))
    program = to_onnx(lambda x: x @ weight, [("B", 64)]).with_metadata(METADATA)
    check(program.specialize(B=2).model_proto)
    check(program.quantize("int8").model_proto)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": 3},
        {"version": -1},
        {"version": "1"},
        {"properties": {"a": 1}},
        {"properties": {"jax2onnx.symbols": ""}},
    ],
)
def test_what_is_no_metadata_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(errors.OptionError, match="metadata: "):
        ModelMetadata(**wrong)  # type: ignore[arg-type]
