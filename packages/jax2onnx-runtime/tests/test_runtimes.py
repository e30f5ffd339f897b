"""Runtimes: which one a target has, and what one without a feature says."""

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import ExportWarning, OptionError, TargetError
from jax2onnx_graph.targets import Target, standard_target
from jax2onnx_runtime.quantization import Quantization
from jax2onnx_runtime.runtimes import MissingRuntime, Runtime, find_runtime, import_runtime, reference_runtime
from jax2onnx_runtime.states import RuntimeOptions

MODEL = """
<ir_version: 8, opset_import: ["": 18]>
agraph (float[N] x) => (float[N] y) { y = Neg(x) }
"""
UNKNOWN = MODEL.replace("Neg", "NoSuchOperator")
X = np.array([1, 2], np.float32)


class VersionedTarget(Target):
    name = "board==1.2"


class AbsentRuntime(Runtime):
    name, targets = "Board Runtime", frozenset({"board", "plank"})

    @property
    def is_installed(self) -> bool:
        return False


class NeededRuntime(AbsentRuntime):
    requirement = "board-runtime"


@pytest.fixture
def model() -> ir.Model:
    return ir.from_onnx_text(MODEL)


def test_a_runtime_serves_all_versions_of_a_target():
    runtime = AbsentRuntime()
    assert find_runtime({"board": runtime}, VersionedTarget()) is runtime


def test_a_target_without_a_runtime_has_a_missing_one():
    runtime = find_runtime({"onnx": reference_runtime}, VersionedTarget())
    assert isinstance(runtime, MissingRuntime)
    assert not runtime.is_installed
    assert runtime.targets == {"board==1.2"}


def test_a_missing_runtime_says_for_which_target(model):
    with pytest.raises(
        TargetError, match=r"No installed plugin runs models for the target board==1\.2: none has called"
    ):
        find_runtime({}, VersionedTarget()).installed()


def test_a_runtime_that_is_not_installed_says_where_to_look():
    with pytest.raises(
        TargetError, match=r"Board Runtime is not installed.* supplies the target 'board' or 'plank' says"
    ):
        AbsentRuntime().installed()


def test_an_installed_runtime_returns_itself():
    assert reference_runtime.installed() is reference_runtime


def test_a_loaded_model_takes_arrays_by_name(model):
    (y,) = reference_runtime.load(model)({"x": X})
    np.testing.assert_array_equal(y, -X)


def test_a_file_is_loaded(model, tmp_path):
    ir.save(model, tmp_path / "m.onnx")
    (y,) = reference_runtime.load(tmp_path / "m.onnx")({"x": X})
    np.testing.assert_array_equal(y, -X)


def test_a_model_that_cannot_be_loaded_is_an_error_of_the_target():
    with pytest.raises(TargetError, match=r"onnx\.reference cannot load the model: .*NoSuchOperator"):
        reference_runtime.load(ir.from_onnx_text(UNKNOWN))


def test_options_that_a_runtime_lacks_are_refused(model):
    with pytest.raises(OptionError, match="runs models without options; it has no threads, providers"):
        reference_runtime.open(model, [], RuntimeOptions(threads=2, providers=["CPU"]))


def test_a_runtime_without_times_says_so(model):
    with pytest.raises(TargetError, match="does not tell how long each node"):
        Runtime().times(model, {"x": X}, 1)


def test_a_runtime_without_a_quantizer_says_so(model):
    with pytest.raises(
        TargetError, match=r"onnx\.reference has no quantizer: export for a target whose runtime has one"
    ):
        Runtime().quantize(model, Quantization("int8"), standard_target)


def test_only_the_reference_knows_of_limitations():
    assert Runtime().limitations(standard_target) == ()
    assert reference_runtime.limitations(standard_target)


def test_the_module_of_a_runtime_is_imported():
    assert import_runtime("json", "install it").__name__ == "json"


def test_a_module_that_is_not_installed_says_how_to_install_it():
    with pytest.raises(ModuleNotFoundError, match="pip install the-board") as caught:
        import_runtime("no_such_runtime", "pip install the-board")
    assert caught.value.name == "no_such_runtime"


def test_a_module_that_a_runtime_itself_misses_is_not_mistaken_for_it(tmp_path, monkeypatch):
    (tmp_path / "half_installed.py").write_text("import no_such_part")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_part"):
        import_runtime("half_installed", "pip install half")


def test_a_runtime_that_is_not_installed_has_the_reference_in_its_place(model):
    with pytest.warns(ExportWarning, match="Board Runtime is not installed.*slow.*pip install 'board-runtime'"):
        runtime = NeededRuntime().installed_or_reference()
    assert runtime.load(model)({"x": X})[0].tolist() == [-1, -2]
    assert runtime.open(model, (), RuntimeOptions()).run({"x": X})[0].tolist() == [-1, -2]
    with pytest.raises(TargetError, match=r"onnx\.reference cannot") as raised:
        runtime.load(ir.from_onnx_text(UNKNOWN))({"x": X})
    assert raised.value.__notes__ == ["Board Runtime may: `pip install 'board-runtime'` brings it."]


def test_a_runtime_that_nothing_installs_has_none_in_its_place():
    with pytest.raises(TargetError, match="no model can be run here"):
        AbsentRuntime().installed_or_reference()
    assert reference_runtime.installed_or_reference() is reference_runtime
