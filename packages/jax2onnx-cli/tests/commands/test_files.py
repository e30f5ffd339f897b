"""Commands that take model files: verify, run, inspect, diff."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from jax2onnx_cli._arrays import as_json
from jax2onnx_core.plugins import discovery
from jax2onnx_graph import ir
from jax2onnx_graph.targets import find_target
from jax2onnx_runtime.runtimes import find_runtime

FOREIGN = '<ir_version: 8, opset_import: ["" : 18], producer_name: "torch", producer_version: "2.9">\n'


@pytest.fixture
def exported(jax2onnx):
    """`exported("double", "f32[B, 3]")`: the file that an object is exported to."""

    def export(name, *specs, options=()):
        inputs = [part for spec in specs for part in ("-i", spec)]
        outcome = jax2onnx("export", f"models.py:{name}", *inputs, *options, "-q")
        assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
        return f"{name}.onnx"

    return export


@pytest.fixture
def foreign(directory):
    """A model of another producer."""
    model = onnx.parser.parse_model(FOREIGN + 'g (float[N, "batch size / 2"] x) => (float[N, M] y) { y = Neg(x) }')
    onnx.save(model, "foreign.onnx")
    return "foreign.onnx"


@pytest.mark.parametrize("command", [("run", "double.onnx", "--random"), ("verify", "double.onnx", "models.py:double")])
def test_a_seed_is_a_number_from_0_on(refused, exported, command):
    exported("double", "f32[B, 3]")
    assert "Invalid value for '--seed'" in refused(*command, "--seed", "-1")


# -- verify ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "specs", "options"),
    [
        ("double", ["f32[B, 3]"], ()),
        ("double", ["i32[B, 3]"], ()),
        ("double", ["number: f32[]"], ()),
        ("tail", ["f32[2*T+1]"], ("--constraint", "T >= 2")),
        ("tail", ["f32[2*T+1]"], ("--constraint", "T >= 2", "--specialize", "T=4")),
        ("tail", ["f64[T]"], ("--x64",)),
        ("step", ["f32[3]", "f32[3]"], ()),
        ("double", ["f32[B, 2*T, 3]"], ("--input-layout", "x=NWC->NCW", "--output-layout", "0=NWC->CNW")),
        ("drive", ["batch.speed: f32[T, 1]", "batch.distance: f32[T, 1]"], ("--kwargs", "gain: f32[]")),
        ("build", ["f32[3]"], ()),
        ("build_with_inputs", [], ()),
    ],
)
def test_inputs_are_those_of_the_file(jax2onnx, exported, name, specs, options):
    outcome = jax2onnx("verify", exported(name, *specs, options=options), f"models.py:{name}")
    assert (outcome.code, outcome.err) == (0, "")
    assert f"computes what models.py:{name} does" in outcome.out


@pytest.mark.parametrize("command", ["export", "verify"])
def test_of_numbers_that_are_not_finite_nothing_is_claimed(jax2onnx, exported, command):
    arguments = [exported("not_finite", "f32[3]"), "models.py:not_finite"]
    arguments = arguments if command == "verify" else [*arguments[1:], "-i", "f32[3]", "--verify"]
    outcome = jax2onnx(command, *arguments)
    assert "It is not known whether " in outcome.out
    assert "that were compared is finite" in outcome.out
    assert jax2onnx(command, *arguments, "--json").data["largest_difference"] is None


def test_states_are_named_again(jax2onnx, exported):
    file = exported("step", "f32[3]", "f32[3]", options=("--states", "0=1"))
    assert jax2onnx("verify", file, "models.py:step", "--states", "0=1", "--json").data["largest_difference"] < 1e-6


def test_variables_of_a_model_as_states(jax2onnx, exported):
    states = ("--states", "flax.nnx:Cache")
    file = exported("counting", "x: f32[3]", options=states)
    assert jax2onnx("inspect", file, "--json").data["states"][0]["input"] == "state.count"
    assert jax2onnx("verify", file, "models.py:counting", *states).code == 0


def test_a_file_that_computes_something_else(jax2onnx, exported):
    outcome = jax2onnx("verify", exported("build", "f32[B, 3]"), "models.py:build_with_inputs")
    assert outcome.code == 1
    assert outcome.err.startswith("error: Output 'output' differs from what it should be at B = ")


def test_sizes_and_tolerances(jax2onnx, exported):
    arguments = ("--sizes", "B=5", "--sizes", "B=9", "--rtol", "100", "--atol", "100")
    assert jax2onnx("verify", exported("build", "f32[B, 3]"), "models.py:build_with_inputs", *arguments).code == 0


def test_a_file_with_another_interface(jax2onnx, exported):
    outcome = jax2onnx("verify", exported("double", "f32[B, 3]"), "models.py:double", "-i", "f32[B, 4]")
    assert outcome.code == 1
    assert "the input 'x' is float32[B, 3] in the file, float32[B, 4] in the object" in outcome.err


def test_a_model_of_another_producer_cannot_be_verified(refused, foreign):
    line = refused("verify", foreign, "models.py:double")
    assert "foreign.onnx was written by torch 2.9, not exported from JAX" in line


# -- run ------------------------------------------------------------------------------------


def test_arrays_by_order_name_archive_and_number(jax2onnx, exported):
    file = exported("drive", "batch.speed: f32[T, 1]", "batch.distance: f32[T, 1]", options=("--kwargs", "gain: f32[]"))
    ones = np.ones((2, 1), np.float32)
    np.save("ones.npy", ones)
    np.savez("more.npz", allow_pickle=False, **{"batch.speed": ones})
    arguments = ("-i", "gain=0.5", "-i", "more.npz", "-i", "batch.distance=ones.npy", "-o", "out.npz")
    assert jax2onnx("run", file, *arguments, "-q").code == 0
    with np.load("out.npz") as out:
        np.testing.assert_allclose(out["steering"], np.tanh(0.5 * ones), rtol=1e-6)
        assert out["stop"].tolist() == [[False], [False]]


def test_the_first_array_is_the_first_input(jax2onnx, exported):
    np.save("x.npy", np.arange(3, dtype=np.float32))
    outcome = jax2onnx("run", exported("double", "f32[N]"), "--input", "x.npy")
    assert outcome.out == "output: float32[3] [0., 2., 4.]\n"


def test_random_arrays_have_the_sizes_that_are_asked_for(jax2onnx, exported):
    outcome = jax2onnx("run", exported("tail", "f32[2*T+1]"), "--random", "--sizes", "T=3", "--json")
    assert outcome.data["outputs"]["output"]["shape"] == [6]


def test_types_that_numpy_has_no_name_for(jax2onnx, exported):
    jax2onnx("run", exported("double", "bf16[3]"), "--random", "-o", "out.npz")
    with np.load("out.npz") as out:
        np.save("x.npy", out["output"])
    assert jax2onnx("run", "double.onnx", "-i", "x.npy").code == 0


@pytest.mark.parametrize("dtype", ["f16", "i16"])
def test_bits_of_such_types_are_no_others(refused, exported, dtype):
    np.save("x.npy", np.ones(3, ml_dtypes.bfloat16))
    assert "type |V2" in refused("run", exported("double", f"{dtype}[3]"), "-i", "x.npy")


def test_another_target_runs_it(jax2onnx, exported):
    assert (
        jax2onnx("run", exported("double", "f32[N]"), "--random", "--target", "onnx", "--json").data["target"] == "onnx"
    )


def test_a_model_of_another_producer_runs(jax2onnx, foreign):
    assert jax2onnx("run", foreign, "--random", "--sizes", "N=3").out.startswith("y: float32[3, ")


@pytest.mark.parametrize(
    ("dtype", "numbers", "values"),
    [
        ("float32", [1.5, np.nan, -np.inf], [3.0, "nan", "-inf"]),
        ("int64", [2**53 + 1], [2**54 + 2]),
        ("bfloat16", [1.5], [3.0]),
        ("complex64", [1 + 2j], [[2.0, 4.0]]),
        ("bool", [True], [True]),
    ],
)
def test_outputs_as_json(dtype, numbers, values):
    array = np.array(numbers, dtype=dtype)
    array = array if dtype == "bool" else array + array
    assert json.loads(json.dumps(as_json(array), allow_nan=False))["values"] == values


@pytest.mark.parametrize(
    ("dtype", "text", "values"),
    [
        ("float", "0.5", 0.5), ("float", "nan", "nan"), ("float", "NaN", "nan"), ("float", "-inf", "-inf"),
        ("bool", "true", True), ("bool", "False", False), ("int64", "-3", -3),
    ],
)  # fmt: skip
def test_numbers_are_written_as_in_json_or_python(jax2onnx, directory, dtype, text, values):
    onnx.save(onnx.parser.parse_model(FOREIGN + f"g ({dtype} x) => ({dtype} y) {{ y = Identity(x) }}"), "same.onnx")
    assert jax2onnx("run", "same.onnx", "-i", f"x={text}", "--json").data["outputs"]["y"]["values"] == values


def test_strings(jax2onnx, directory):
    onnx.save(onnx.parser.parse_model(FOREIGN + "g (string[N] x) => (string[N] y) { y = Identity(x) }"), "strings.onnx")
    np.save("x.npy", np.array(["a", "bc"]))
    outcome = jax2onnx("run", "strings.onnx", "-i", "x.npy", "-o", "out.npz", "--json")
    assert outcome.data["outputs"]["y"]["values"] == ["a", "bc"]
    with np.load("out.npz") as out:
        assert out["y"].tolist() == ["a", "bc"]


def test_outputs_that_are_no_tensors(refused, directory):
    text = FOREIGN + "g (float[N] x) => (seq(float[N]) y) { y = SequenceConstruct(x, x) }"
    onnx.save(onnx.parser.parse_model(text), "sequence.onnx")
    assert "The output 'y' is sequence(float32[N])" in refused("run", "sequence.onnx", "--random")


def test_a_runtime_that_is_not_installed(jax2onnx, exported, monkeypatch):
    file = exported("double", "f32[N]")
    registry = discovery.installed_plugins().registry
    runtime = find_runtime(registry.runtimes, find_target(registry.targets, None))
    monkeypatch.setattr(type(runtime), "is_installed", False)
    for arguments in (("run", file, "--random"), ("verify", file, "models.py:double")):
        outcome = jax2onnx(*arguments)
        assert outcome.code == 0
        assert (
            "is not installed, so that the model runs in onnx.reference, which is slow. `pip install '" in outcome.err
        )


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (
            (),
            "There is no array for the input 'table': give it, --input table=table.npy, or let arrays be made up, --random",
        ),
        (("-i", "missing.npy"), "--input missing.npy: there is no such file"),
        (("-i", "tabel=wide.npy"), "there is no such file; the inputs are table, index"),
        (("-i", "models.py"), "it is no .npy or .npz file of numbers"),
        (("-i", "objects.npy"), "it is no .npy or .npz file of numbers"),
        (("-i", "broken.npz"), "it is no .npy or .npz file of numbers"),
        (("-i", "table=brains.npy", "--random"), "has type |V2, but the model takes float32"),
        (("-i", "wide.npy", "--random"), "has type float64, but the model takes float32: array.astype('float32')"),
        (("-i", "flat.npy", "--random"), "Input 'table' has shape (3,), but the program was exported for (N, 3)"),
        (("-i", "four.npy", "--random"), "Input 'table' has size 4 on axis 1, but it should be 3"),
        (("-i", "index=[1, 2]", "--random"), "there is no such file"),
        (("-i", "index=1.5", "--random"), "--input index=1.5: 1.5 is a float, which int32 does not hold"),
        (("-i", "index=true", "--random"), "--input index=true: True is a bool, which int32 does not hold"),
        (
            ("-i", "index=2147483648", "--random"),
            "2147483648 does not fit int32, which holds -2147483648 to 2147483647",
        ),
        (("-i", "table=1e39", "--random"), "--input table=1e39: 1e+39 does not fit float32: it would become infinite"),
        (("-i", "good.npy", "-i", "good.npy", "-i", "good.npy"), "for each of the 2 inputs already"),
        (("-i", "names.npz", "--random"), "There is no input 'tabel'; the inputs are table, index"),
        (("--random", "--sizes", "M=3"), "there is no symbol 'M'; the symbols are K, N"),
        (("-i", "good.npy", "--random", "--sizes", "N=4"), "N is to be 4, but an array has 2"),
        (("--random", "--sizes", "N=3,K=1", "--sizes", "N=4"), "--sizes says two things of N: 3 and 4"),
        (("--random", "--sizes", "N"), "--sizes 'N': write a symbol and its number"),
        (("--random", "-o", "out.npy"), "the outputs become an .npz file"),
        (("--random", "-o", "missing/out.npz"), "there is no directory missing"),
        (("--random", "--target", "toaster"), "--target toaster is not installed"),
    ],
)
def test_arrays_that_cannot_be_used(refused, exported, arguments, why):
    file = exported("pick", "table: f32[N, 3]", "index: i32[K]")
    np.save("wide.npy", np.ones((2, 3)))
    np.save("flat.npy", np.ones(3, np.float32))
    np.save("four.npy", np.ones((2, 4), np.float32))
    np.save("good.npy", np.ones((2, 3), np.float32))
    np.save("objects.npy", np.array([None]), allow_pickle=True)
    np.save("brains.npy", np.ones((2, 3), ml_dtypes.bfloat16))
    np.savez("whole.npz", table=np.ones((2, 3), np.float32))
    Path("broken.npz").write_bytes(Path("whole.npz").read_bytes()[:-9])
    np.savez("names.npz", tabel=np.ones((2, 3), np.float32))
    assert why in refused("run", file, *arguments)


# -- inspect and diff -----------------------------------------------------------------------


def test_what_a_model_holds(jax2onnx, exported):
    outcome = jax2onnx("inspect", exported("double", "f32[B, 3]"))
    assert outcome.code == 0
    for part in ("written by jax2onnx-core", "x  float32[B, 3]", "at least 1", "Mul 1"):
        assert part in outcome.out
    assert jax2onnx("inspect", "double.onnx", "--json").data["inputs"][0]["dims"] == ["B", 3]


def test_a_model_of_another_producer_is_inspected(jax2onnx, foreign):
    assert "written by torch 2.9" in jax2onnx("inspect", foreign).out


def test_differences_are_an_exit_code(jax2onnx, exported):
    exported("double", "f32[B, 3]")
    exported("build", "f32[B, 3]")
    same = jax2onnx("diff", "double.onnx", "double.onnx")
    assert (same.code, same.out) == (0, "The models are the same.\n")
    outcome = jax2onnx("diff", "double.onnx", "build.onnx")
    assert outcome.code == 1
    assert "weight" in outcome.out
    assert jax2onnx("diff", "double.onnx", "build.onnx", "--json").data["changes"][0]["kind"] == "weight"


COMMANDS = [("inspect",), ("run",), ("verify", "models.py:double"), ("diff", "models.py")]


@pytest.mark.parametrize(("command", "others"), [(c[0], c[1:]) for c in COMMANDS], ids=[c[0] for c in COMMANDS])
@pytest.mark.parametrize("content", ["directory", "missing", "text", "empty", "bytes"])
def test_files_that_are_no_models(refused, directory, command, others, content):
    path = directory / "file.onnx"
    if content == "directory":
        path.mkdir()
    elif content != "missing":
        path.write_bytes({"text": b"hello, no model\n", "empty": b"", "bytes": bytes(range(256))}[content])
    assert "Cannot read file.onnx: " in refused(command, "file.onnx", *others)


def test_outputs_may_be_called_anything(jax2onnx, directory):
    model = ir.from_onnx_text(FOREIGN + "g (float[2] file) => (float[2] path) { path = Neg(file) }")
    model.graph.outputs[0].name = "file/0"
    ir.save(model, "odd.onnx")
    np.save("x=1.npy", np.ones(2, np.float32))
    assert jax2onnx("run", "odd.onnx", "-i", "file=x=1.npy", "-o", "out.npz", "-q").code == 0
    with np.load("out.npz") as out:
        assert out["file/0"].tolist() == [-1, -1]


# -- inspect --nodes, and reports on files -------------------------------------------------


def test_nodes_are_listed_with_types(jax2onnx, foreign):
    outcome = jax2onnx("inspect", foreign, "--nodes")
    assert outcome.out.splitlines()[-1] == "  y: float32[N, M] = Neg(x)"
    (node,) = json.loads(jax2onnx("inspect", foreign, "--nodes", "--json").out)["node_list"]
    assert node == {"name": "", "operator": "Neg", "inputs": ["x"], "outputs": {"y": "float32[N, M]"}}


def test_the_report_on_a_file_of_another_producer(jax2onnx, foreign, directory):
    assert jax2onnx("report", foreign).out == "written to foreign.html\n"
    assert "written by torch 2.9" in (directory / "foreign.html").read_text()


def test_a_file_is_not_measured_for_its_report(refused, foreign):
    assert "--verify and --profile are for an export" in refused("report", foreign, "--profile")
