from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest


def inputs_of(file):
    return {
        value.name: [d.dim_value or d.dim_param for d in value.type.tensor_type.shape.dim]
        for value in onnx.load(file).graph.input
    }


@pytest.mark.parametrize(
    ("subject", "file"),
    [
        ("models.py:double", "double.onnx"),
        ("models:double", "double.onnx"),
        ("models.py:scale", "scale.onnx"),
        ("models.py:scale.__call__", "__call__.onnx"),
        ("models.py:build", "build.onnx"),
    ],
)
def test_functions_models_and_builders_become_files(jax2onnx, directory, subject, file):
    outcome = jax2onnx("export", subject, "--input", "f32[B, 3]")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.endswith(f"written to {file}\n")
    assert inputs_of(file) == {"x": ["B", 3]}


def test_a_builder_may_return_its_inputs(jax2onnx):
    assert jax2onnx("export", "models.py:build_with_inputs", "--verify").code == 0
    assert inputs_of("build_with_inputs.onnx") == {"x": ["B", 3]}


def test_inputs_have_the_names_that_they_are_given(jax2onnx):
    jax2onnx("export", "models.py:step", "-i", "before: f32[3]", "-i", "more: f32[3]")
    assert inputs_of("step.onnx") == {"before": [3], "more": [3]}


def test_parts_of_arguments_and_keywords(jax2onnx):
    specs = ("-i", "batch.speed: f32[T, 1]", "-i", "batch.distance: f32[T, 1]", "--kwargs", "gain: f32[]")
    assert jax2onnx("export", "models.py:drive", *specs, "--verify").code == 0
    assert inputs_of("drive.onnx") == {"batch.distance": ["T", 1], "batch.speed": ["T", 1], "gain": []}


def test_options_of_the_export(jax2onnx):
    options = (
        "--constraint",
        "T >= 2",
        "--specialize",
        "T=4",
        "--opset",
        "20",
        "--target",
        "onnx",
        "--x64",
        "-o",
        "out.onnx",
    )
    outcome = jax2onnx("export", "models.py:tail", "-i", "x: f64[2*T+1]", *options, "--json")
    assert outcome.data["file"] == "out.onnx"
    assert outcome.data["model"]["opsets"] == {"": 20}
    assert outcome.data["model"]["constraints"] == ["T >= 2"]
    assert inputs_of("out.onnx") == {"x": [9]}


def test_assumptions(jax2onnx):
    outcome = jax2onnx("export", "models.py:double", "-i", "f32[3]", "--assume", "finite", "--json")
    assert outcome.data["model"]["assumptions"] == ["finite"]


def test_an_unknown_assumption_is_an_error(jax2onnx):
    outcome = jax2onnx("export", "models.py:double", "-i", "f32[3]", "--assume", "small")
    assert outcome.code == 2
    assert "there is no assumption 'small'" in outcome.err


def test_layouts(jax2onnx):
    layouts = ("--input-layout", "x=NWC->NCW", "--output-layout", "0=NCW")
    assert jax2onnx("export", "models.py:double", "-i", "f32[B, T, 3]", *layouts, "--verify").code == 0
    assert inputs_of("double.onnx") == {"x": ["B", 3, "T"]}


@pytest.mark.parametrize("pair", ["0=1", "cache=output_1"])
def test_states(jax2onnx, pair):
    outcome = jax2onnx("export", "models.py:step", "-i", "f32[3]", "-i", "f32[3]", "--states", pair, "--json")
    assert outcome.data["model"]["states"] == [{"input": "cache", "output": "output_1", "grows": None}]


def test_a_file_that_exists_is_replaced(jax2onnx):
    jax2onnx("export", "models.py:double", "-i", "f32[3]")
    jax2onnx("export", "models.py:double", "-i", "f32[4]")
    assert inputs_of("double.onnx") == {"x": [4]}


def test_an_export_that_fails_leaves_the_file(jax2onnx):
    jax2onnx("export", "models.py:double", "-i", "f32[3]")
    assert jax2onnx("export", "models.py:fails", "-i", "f32[3]", "-o", "double.onnx").code == 2
    assert inputs_of("double.onnx") == {"x": [3]}


def test_a_file_with_the_name_of_a_module_replaces_none(jax2onnx, directory):
    import json

    (directory / "json.py").write_text("def double(x):\n    return 2 * x\n")
    assert jax2onnx("export", "json.py:double", "-i", "f32[3]", "-q").code == 0
    import json as again

    assert again is json


def test_a_file_finds_its_neighbours(jax2onnx, directory):
    (directory / "inner").mkdir()
    (directory / "inner" / "neighbour_of_it.py").write_text("FACTOR = 2\n")
    (directory / "inner" / "it.py").write_text(
        "import neighbour_of_it\ndef f(x):\n    return x * neighbour_of_it.FACTOR\n"
    )
    assert jax2onnx("export", "inner/it.py:f", "-i", "f32[3]", "-q").code == 0


def test_what_a_file_prints_is_no_part_of_the_outcome(jax2onnx, directory):
    (directory / "talks.py").write_text("print('training')\ndef f(x):\n    print('tracing')\n    return x + 1\n")
    outcome = jax2onnx("export", "talks.py:f", "-i", "f32[3]", "--json")
    assert outcome.data["file"] == "f.onnx"
    assert outcome.err.splitlines()[:2] == ["training", "tracing"]


def test_a_report_is_a_page(jax2onnx):
    outcome = jax2onnx("report", "models.py:build_with_inputs", "--verify", "--profile")
    assert outcome.code == 0
    assert outcome.out.endswith("written to build_with_inputs.html\n")
    assert "equal to JAX; the largest difference is" in outcome.out
    page = Path("build_with_inputs.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "models.py:" in page


def test_progress_is_shown_on_a_terminal_only(jax2onnx, monkeypatch):
    arguments = ("export", "models.py:double", "-i", "f32[3]", "--verify")
    assert jax2onnx(*arguments).err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert "exporting models.py:double" in jax2onnx(*arguments).err
    assert jax2onnx(*arguments, "-q").err == ""


# -- bad input ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subject", "why"),
    [
        ("models.py", "'models.py' names no object: write module:object or file.py:object"),
        ("models.py:", "names no object"),
        ("model.py:double", "There is no file model.py"),
        ("no_such_module:double", "There is no module 'no_such_module'"),
        ("no.such.module:double", "There is no module 'no.such.module'"),
        ("models.py:doubel", "models.py has no 'doubel'; did you mean 'double'?"),
        ("models.py:scale.nothing", "the Scale in models.py has no 'nothing'"),
        ("models.py:number", "not int: 3"),
        ("models.py:Scale", "models.py:Scale is the class Scale, not a model"),
        ("jax.numpy:linalg", "jax.numpy:linalg is a module"),
    ],
)
def test_unknown_objects_and_such_that_are_no_models(refused, subject, why):
    assert why in refused("export", subject, "-i", "f32[3]")


def test_a_file_that_needs_what_is_not_installed(refused, directory):
    (directory / "needs.py").write_text("import no_such_library\n")
    assert "needs.py imports 'no_such_library', which is not installed" in refused("export", "needs.py:f")


def test_a_file_that_ends_the_program(refused, directory):
    (directory / "script.py").write_text("import sys\nsys.exit(0)\n")
    assert "script.py ends the program while it is imported" in refused("export", "script.py:f")


def test_a_file_with_an_error_names_the_line(refused, directory):
    (directory / "wrong.py").write_text("x = 1\ny = x / 0\n")
    line = refused("export", "wrong.py:f")
    assert "ZeroDivisionError: division by zero" in line
    assert "wrong.py:2)" in line


def test_a_file_that_is_no_python(refused, directory):
    (directory / "wrong.py").write_text("def f(:\n")
    assert "SyntaxError: invalid syntax (wrong.py, line 1)" in refused("export", "wrong.py:f")


def test_plugins_that_are_missing_are_named(directory):
    command = [sys.executable, "-m", "jax2onnx_cli", "export", "models.py:double", "-i", "f32[3]"]
    result = subprocess.run(
        command, env={**os.environ, "JAX2ONNX_PLUGINS": ""}, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: No installed plugin can lower these primitives:\n  mul: once, at ")
    assert "Traceback" not in result.stderr


def test_a_builder_that_fails_names_its_line(refused):
    assert "models.py:" in refused("export", "models.py:broken")


def test_a_function_that_fails_names_its_line(jax2onnx):
    outcome = jax2onnx("export", "models.py:fails", "-i", "f32[3]")
    line, note = outcome.err.splitlines()
    assert outcome.code == 2
    assert "incompatible shapes" in line
    assert "models.py:" in line
    assert note.startswith("The inputs are x float32[3]. It is at ")


def test_debug_shows_the_traceback(jax2onnx):
    outcome = jax2onnx("export", "models.py:broken", "--debug")
    assert outcome.code == 2
    assert "Traceback" in outcome.err
    assert "return 1 / 0" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("-i", "x: f33[3]"), "at character 4: 'f33' is no type"),
        (("-i", "f32[3]", "-i", "f32[3]"), "cannot be called with 2 positional inputs"),
        ((), "tail takes x: say the type and the dimensions of each, in this order"),
        (("-i", "x: f32[B +]"), "'B +' is not a dimension"),
        (("-i", "f32[3]", "--specialize", "T=four"), "--specialize 'T=four': write a symbol and its number"),
        (("-i", "f32[3]", "--specialize", "T=4"), "T"),
        (("-i", "f32[T]", "--specialize", "T=4,T=5"), "--specialize says two things of T: 4 and 5; which of them is meant?"),
        (("-i", "f32[3]", "--input-layout", "x=NCHW", "--input-layout", "x=NHWC"), "--input-layout says two things of x: NCHW and NHWC"),
        (("-i", "f32[3]", "--output-names", "output=a,output=b"), "--output-names says two things of output: a and b"),
        (("-i", "f32[3]", "--states", "0=0", "--states", "0=1"), "--states says two things of 0: 0 and 1"),
        (("-i", "f32[3]", "--constraint", "T >= 4"), "no input has that symbol"),
        (("-i", "f32[3]", "--opset", "3"), "3"),
        (("-i", "f32[3]", "--opset", "many"), "'many' is not a valid integer"),
        (("-i", "f32[3]", "--target", "toaster"), "--target toaster is not installed"),
        (("-i", "f32[3]", "--input-layout", "NCHW"), "--input-layout 'NCHW': write a name and a layout, such as x=NCHW"),
        (("-i", "f32[3]", "--input-layout", "x=NCHW"), "'x' has 1 axes"),
        (("-i", "f32[3]", "--output-layout", "3=C"), "there is no output 3"),
        (("-i", "f32[3]", "--states", "a=b", "--states", "c"), "several states are pairs"),
        (("-i", "f32[3]", "--states", "0=0"), "states"),
        (("-i", "f32[3]", "--states", "models:Missing"), "models has no 'Missing'"),
        (("-i", "f32[3]", "-o", "missing/x.onnx"), "There is no directory missing for x.onnx"),
        (("-i", "f32[3]", "-o", "."), ". is a directory"),
        (("--frob",), "No such option '--frob'"),
    ],
)  # fmt: skip
def test_options_that_cannot_be_used(refused, arguments, why):
    assert why in refused("export", "models.py:tail", *arguments)


def test_an_input_in_the_place_of_another(refused):
    line = refused("export", "models.py:step", "-i", "x: f32[3]", "-i", "cache: f32[3]")
    assert "The input 'x' is in place 1, but the parameter of step in place 2" in line


def test_a_warning_is_a_line(jax2onnx):
    outcome = jax2onnx("export", "models.py:double", "-i", "f64[3]")
    assert outcome.code == 0
    assert outcome.err.startswith("warning: ")
    assert len(outcome.err.splitlines()) == 1


def test_a_model_in_fewer_bits(jax2onnx, directory):
    outcome = jax2onnx("export", "models.py:dense", "-i", "f32[B, 64]", "--quantize", "int8", "--verify")
    assert outcome.code == 0
    assert " dB" in outcome.out
    assert any(
        node.op_type == "DequantizeLinear" or "NBits" in node.op_type for node in onnx.load("dense.onnx").graph.node
    )


def test_names_of_inputs_and_outputs(jax2onnx, directory):
    names = ("--input-names", "a, b", "--output-names", "total,next")
    assert jax2onnx("export", "models.py:step", "-i", "f32[3]", "-i", "f32[3]", *names).code == 0
    assert inputs_of("step.onnx") == {"a": [3], "b": [3]}
    assert [value.name for value in onnx.load("step.onnx").graph.output] == ["total", "next"]
    assert jax2onnx("verify", "step.onnx", "models.py:step").code == 0


def test_new_names_for_some_outputs(jax2onnx, directory):
    names = ("--output-names", "output_1=next")
    assert jax2onnx("export", "models.py:step", "-i", "f32[3]", "-i", "f32[3]", *names).code == 0
    assert [value.name for value in onnx.load("step.onnx").graph.output] == ["output_0", "next"]


def test_names_are_a_list_or_pairs(refused):
    message = refused("export", "models.py:step", "-i", "f32[3]", "-i", "f32[3]", "--output-names", "a,output_1=b")
    assert "write names, a,b, or pairs of an own name and a new one, x=a,y=b" in message


def test_weights_in_a_data_file(jax2onnx, directory):
    assert jax2onnx("export", "models.py:dense", "-i", "f32[B, 64]", "--external-data").code == 0
    assert len(list(Path().glob("dense.onnx.*.data"))) == 1


def test_nodes_name_their_lines(jax2onnx, directory):
    assert jax2onnx("export", "models.py:double", "-i", "f32[3]", "--provenance").code == 0
    (node,) = onnx.load("double.onnx").graph.node
    assert any("models.py" in entry.value for entry in node.metadata_props)


def test_variants_share_their_weights(jax2onnx, directory):
    variants = ("--variant", "one:B=1", "--variant", "many:B=64")
    outcome = jax2onnx("export", "models.py:dense", "-i", "f32[B, 64]", "-o", "out", *variants)
    assert outcome.code == 0
    assert {path.suffix for path in Path("out").iterdir()} == {".onnx", ".data", ".json"}
    assert inputs_of("out/many.onnx") == {"x": [64, 64]}


def test_two_variants_of_one_name_are_refused(refused):
    given = ("--variant", "one:B=1", "--variant", " one:B=2")
    assert "--variant says two things of one" in refused(
        "export", "models.py:dense", "-i", "f32[B, 64]", "-o", "out", *given
    )


def test_variants_need_a_directory(refused):
    assert "--output names their directory" in refused(
        "export", "models.py:dense", "-i", "f32[B, 64]", "--variant", "one:B=1"
    )


def test_notes_of_an_error_are_shown(jax2onnx, directory):
    Path("noted.py").write_text(
        "def fail(x):\n    error = KeyError('w')\n    error.add_note('Restore the checkpoint first.')\n    raise error\n"
    )
    assert "Restore the checkpoint first." in jax2onnx("export", "noted.py:fail", "-i", "f32[3]").err
