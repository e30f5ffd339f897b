"""The script that builds engines, run against a module that records what TensorRT would be asked."""

from __future__ import annotations

import ast
import sys
import types

import pytest
from jax2onnx_runtime.profiles import ShapeProfile
from jax2onnx_tensorrt import EngineProfiles, build_script

PROFILES = EngineProfiles(
    {"first": {"T": (1, 6, 6)}, "step": {"T": (1, 1, 1)}},
    {
        "first": ShapeProfile({"batch.camera": ((1, 1, 3), (1, 6, 3), (1, 6, 3))}),
        "step": ShapeProfile({"batch.camera": ((1, 1, 3), (1, 1, 3), (1, 1, 3))}),
    },
)
STATIC = EngineProfiles({}, {})


Calls = list[tuple[object, ...]]


class Profile:
    """Notes the shapes that it is given."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls

    def set_shape(self, *arguments: object) -> None:
        self.calls.append(("set_shape", *arguments))

    def set_shape_input(self, *arguments: object) -> None:
        self.calls.append(("set_shape_input", *arguments))


class Config:
    """Notes flags and profiles."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls

    def set_flag(self, flag: str) -> None:
        self.calls.append(("set_flag", flag))

    def add_optimization_profile(self, profile: Profile) -> None:
        self.calls.append(("add_optimization_profile", profile))


class Network:
    """A network whose second input decides sizes."""

    num_inputs = 2

    def get_input(self, index: int) -> types.SimpleNamespace:
        name, shape = (("batch.camera", (-1, -1, 3)), ("count", (1,)))[index]
        return types.SimpleNamespace(name=name, shape=shape, is_shape_tensor=index == 1)


class Builder:
    """Makes the others, and an engine unless it is told not to."""

    def __init__(self, calls: Calls, *, builds: bool) -> None:
        self.calls, self.builds = calls, builds

    def create_network(self, flags: int) -> Network:
        self.calls.append(("create_network", flags))
        return Network()

    def create_builder_config(self) -> Config:
        return Config(self.calls)

    def create_optimization_profile(self) -> Profile:
        return Profile(self.calls)

    def build_serialized_network(self, network: Network, config: Config) -> bytes | None:
        self.calls.append(("build", network, config))
        return b"engine" if self.builds else None


class Parser:
    """Notes the files that it reads."""

    num_errors = 2

    def __init__(self, calls: Calls, *, parses: bool) -> None:
        self.calls, self.parses = calls, parses

    def parse_from_file(self, path: str) -> bool:
        self.calls.append(("parse_from_file", path))
        return self.parses

    def get_error(self, index: int) -> str:
        return f"error {index}"


class ILogger:
    """The logger's base."""

    Severity = types.SimpleNamespace(ERROR=1)


class Recorder:
    """A stand-in for the module `tensorrt`, whose objects note what they are told."""

    def __init__(self, version: str, *, parses: bool = True, builds: bool = True) -> None:
        calls: Calls = []
        names = {"FP16": "FP16"} if not version.startswith("11") else {}
        batch = {"EXPLICIT_BATCH": 0} if int(version.partition(".")[0]) < 10 else {}
        self.calls = calls
        self.module = types.ModuleType("tensorrt")
        vars(self.module).update(
            __version__=version, ILogger=ILogger, Builder=lambda logger: Builder(calls, builds=builds),
            OnnxParser=lambda network, logger: Parser(calls, parses=parses),
            BuilderFlag=types.SimpleNamespace(__members__=names, **names),
            NetworkDefinitionCreationFlag=types.SimpleNamespace(__members__=batch),
        )  # fmt: skip

    def named(self, name: str) -> Calls:
        return [call[1:] for call in self.calls if call[0] == name]


@pytest.fixture
def run(tmp_path, monkeypatch):
    def run(text: str, recorder: Recorder) -> Recorder:
        path = tmp_path / "build_engine.py"
        monkeypatch.setitem(sys.modules, "tensorrt", recorder.module)
        exec(compile(text, str(path), "exec"), {"__name__": "__main__", "__file__": str(path)})
        return recorder

    return run


def test_the_engines_are_a_literal_of_the_script():
    module = ast.parse(build_script({"model": PROFILES, "full": STATIC}))
    (value,) = [n.value for n in module.body if isinstance(n, ast.AnnAssign) and ast.unparse(n.target) == "ENGINES"]
    assert value is not None
    assert ast.literal_eval(value) == {
        "model": {name: dict(profile.shapes) for name, profile in PROFILES.shapes.items()},
        "full": {},
    }


def test_it_imports_nothing_but_the_standard_library_by_name():
    module = ast.parse(build_script({"model": PROFILES}))
    names = [alias.name for n in ast.walk(module) if isinstance(n, ast.Import) for alias in n.names]
    names += [n.module for n in ast.walk(module) if isinstance(n, ast.ImportFrom) and n.module is not None]
    assert set(names) <= sys.stdlib_module_names | {"collections.abc"}


def test_each_profile_is_added_with_its_shapes(run, tmp_path):
    recorder = run(build_script({"model": PROFILES}, fp16=True), Recorder("10.15.1"))
    assert recorder.named("set_shape") == [
        ("batch.camera", (1, 1, 3), (1, 6, 3), (1, 6, 3)),
        ("batch.camera", (1, 1, 3), (1, 1, 3), (1, 1, 3)),
    ]
    assert len(recorder.named("add_optimization_profile")) == 2
    assert recorder.named("set_flag") == [("FP16",)]
    assert recorder.named("parse_from_file") == [(str(tmp_path / "model.onnx"),)]
    assert (tmp_path / "model.engine").read_bytes() == b"engine"


def test_the_numbers_of_an_input_that_decides_sizes_are_its_profile(run):
    profiles = EngineProfiles({"all": {}}, {"all": ShapeProfile({"count": ((1,), (4,), (8,))})})
    recorder = run(build_script({"model": profiles}), Recorder("10.15.1"))
    assert recorder.named("set_shape_input") == [("count", (1,), (4,), (8,))]


def test_an_input_that_decides_sizes_may_be_any_number_without_a_profile(run):
    recorder = run(build_script({"model": STATIC}), Recorder("10.15.1"))
    assert recorder.named("set_shape_input") == [("count", [-(2**31)], [0], [2**31 - 1])]


def test_without_tensorrt_it_says_what_to_install(monkeypatch, tmp_path):
    for name in ("tensorrt", "tensorrt_rtx", "tensorrt_rtx_bindings"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SystemExit, match="pip install tensorrt-rtx-cu13-libs"):
        exec(build_script({"model": STATIC}), {"__name__": "__main__", "__file__": str(tmp_path / "build_engine.py")})


def test_each_model_has_an_engine(run, tmp_path):
    recorder = run(build_script({"full": STATIC, "step": STATIC}), Recorder("10.3.0"))
    assert len(recorder.named("build")) == 2
    assert recorder.named("set_flag") == recorder.named("set_shape") == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full.engine", "step.engine"]


@pytest.mark.parametrize(("version", "flags"), [("8.6.1", 1), ("9.2.0", 1), ("10.0.1", 0), ("11.4.0", 0)])
def test_batch_dimensions_are_explicit_in_every_version(run, version, flags):
    assert run(build_script({"model": STATIC}), Recorder(version)).named("create_network") == [(flags,)]


@pytest.mark.parametrize(
    ("recorder", "fp16", "message"),
    [
        (Recorder("10.3.0", parses=False), False, "error 0\nerror 1"),
        (Recorder("10.3.0", builds=False), False, "No engine of model.onnx: TensorRT does not build the engine"),
        (Recorder("11.4.0"), True, "export a model in float16 instead"),
    ],
)
def test_what_fails_ends_the_script(run, tmp_path, recorder, fp16, message):
    with pytest.raises(SystemExit, match=message):
        run(build_script({"model": STATIC}, fp16=fp16), recorder)
    assert not list(tmp_path.iterdir())
