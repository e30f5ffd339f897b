"""Each wheel with core only: it installs, its entry point loads; the third party's package and that of the template work
from their wheels. What its README says works as it is written, from its sdist.

The wheels are in the directory named by JAX2ONNX_WHEELS, that of the third party's package in JAX2ONNX_EXAMPLE.
"""

from __future__ import annotations

import email
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

WHEELS = Path(os.environ["JAX2ONNX_WHEELS"])
EXAMPLE = Path(os.environ["JAX2ONNX_EXAMPLE"])
WITHOUT_JAX = ["graph", "fusions", "runtime", "report"]
ON_CLUSTERS = ["ray"]
FOLDER_WRITERS = ["genai", "transformersjs", "tensorrt"]
FRAMEWORKS = ["nnx", "linen", "equinox", "haiku", "keras"]
PACKAGES = Path(__file__).parent.parent / "packages"
DISTRIBUTIONS = sorted(path.parent.name.removeprefix("jax2onnx-") for path in PACKAGES.glob("*/pyproject.toml"))
# uv's cache has wheels by their versions: an older one of the same version is none of these.
REFRESH = [part for name in (*DISTRIBUTIONS, "ripple") for part in ("--refresh-package", f"jax2onnx-{name}")]

ENTRY_POINTS = """
import importlib.metadata
for entry in importlib.metadata.entry_points(group="jax2onnx"):
    if entry.dist.name == {name!r}:
        plugin = entry.load()
        assert plugin.JAX2ONNX_API == 1
        print("loaded", entry.name)
"""

WRITERS = """
from jax2onnx_runtime.folders import folder_writers
print(*folder_writers().writers)
"""

CORE_ALONE = """
import jax.numpy as jnp
from jax2onnx_core import to_onnx
try:
    to_onnx(jnp.tanh, [(3,)])
except NotImplementedError as error:
    assert "jax2onnx-lax" in str(error), error
else:
    raise AssertionError("core alone lowered something")
"""

THIRD_PARTY = """
import ripple, jax.numpy as jnp
from jax2onnx_core import to_onnx
layer = ripple.Damping(4)
program = to_onnx(lambda x: layer(ripple.sawtooth(x)), [("B", 4)])
operators = [node.op_type for node in program.model.graph]
assert operators == ["Floor", "Sub", "Softsign", "Mul"], operators
program.verify()
"""

MODEL = """
from flax import nnx

def build():
    return nnx.Sequential(nnx.Linear(8, 4, rngs=nnx.Rngs(0)), nnx.relu), [("B", 8)]
"""


@pytest.fixture(scope="session")
def environments(tmp_path_factory):
    made = {}

    def get(*names: str) -> str:
        if names not in made:
            directory = tmp_path_factory.mktemp("environment")
            subprocess.run([sys.executable, "-m", "venv", directory], check=True)
            python = str(directory / "bin" / "python")
            uv = [
                sys.executable,
                "-m",
                "uv",
                "pip",
                "install",
                "-q",
                "--python",
                python,
                "--find-links",
                str(WHEELS),
                "--find-links",
                str(EXAMPLE),
            ]
            subprocess.run([*uv, *REFRESH, *names], check=True)
            made[names] = python
        return made[names]

    return get


def run(python: str, code: str) -> str:
    result = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def installed(python: str) -> set[str]:
    code = "import importlib.metadata as m; print(*sorted({d.name.lower() for d in m.distributions()}))"
    return set(run(python, code).split())


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_every_distribution_has_a_wheel_and_an_sdist(name):
    assert list(WHEELS.glob(f"jax2onnx_{name}-*.whl"))
    assert list(WHEELS.glob(f"jax2onnx_{name}-*.tar.gz"))


def test_nothing_else_would_be_released():
    names = {file.name.split("-")[0] for file in WHEELS.iterdir()}
    assert names == {f"jax2onnx_{name}" for name in DISTRIBUTIONS}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_building_it_again_gives_the_same_bytes(name, tmp_path):
    source = tmp_path / f"jax2onnx-{name}"  # elsewhere, and of other times
    shutil.copy(PACKAGES.parent / ".gitignore", tmp_path)  # hatchling puts the one that it finds above into an sdist
    shutil.copytree(
        PACKAGES / f"jax2onnx-{name}", source, ignore=shutil.ignore_patterns("__pycache__"), copy_function=shutil.copy
    )
    subprocess.run([sys.executable, "-m", "build", "-q", "--no-isolation", "-o", tmp_path, source], check=True)
    for suffix in ("*.whl", "*.tar.gz"):
        (again,), (first,) = tmp_path.glob(suffix), WHEELS.glob(f"jax2onnx_{name}-{suffix}")
        assert again.read_bytes() == first.read_bytes(), again.name


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_its_wheel_has_the_licence_and_what_a_page_on_pypi_shows(name):
    (wheel,) = WHEELS.glob(f"jax2onnx_{name}-*.whl")
    with zipfile.ZipFile(wheel) as files:
        (metadata,) = [file for file in files.namelist() if file.endswith(".dist-info/METADATA")]
        folder = metadata.removesuffix("METADATA")
        assert "Apache License" in files.read(f"{folder}licenses/LICENSE").decode()
        fields = email.message_from_string(files.read(metadata).decode())
        assert f"jax2onnx_{name}/py.typed" in files.namelist()
    for field in ("Author", "Project-URL", "Classifier", "Keywords", "License-Expression", "License-File", "Summary"):
        assert fields[field], field
    assert "pip install" in fields.get_payload()


# `nox -s ray` runs what needs a cluster.
@pytest.mark.parametrize("name", [name for name in DISTRIBUTIONS if name not in ON_CLUSTERS])
def test_what_its_readme_says_works_from_its_sdist(name, tmp_path):
    (sdist,) = WHEELS.glob(f"jax2onnx_{name}-*.tar.gz")
    with tarfile.open(sdist) as files:
        readme = files.extractfile(f"{sdist.name.removesuffix('.tar.gz')}/README.md").read().decode()
    console = "".join(re.findall(r"^```console\n(.*?)^```", readme, re.MULTILINE | re.DOTALL))
    _, _, *requirements = shlex.split(next(line for line in console.splitlines() if line.startswith("pip install ")))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "new"], check=True)
    python = str(tmp_path / "new" / "bin" / "python")
    install = [sys.executable, "-m", "uv", "pip", "install", "-q", "--python", python, "--find-links", str(WHEELS)]
    subprocess.run([*install, *REFRESH, "--no-binary", f"jax2onnx-{name}", *requirements], check=True)
    (tmp_path / "digits.py").write_text(MODEL)
    (tmp_path / "readme.py").write_text("".join(re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)))
    written = [shlex.split(line) for line in console.splitlines() if line.startswith("jax2onnx ")]
    for command_line in [[python, "readme.py"], *([command(python, tool), *rest] for tool, *rest in written)]:
        result = subprocess.run(command_line, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("name", ["lax", *FRAMEWORKS, "functions", "onnxruntime", "openvino", "qnn", "tensorrt"])
def test_its_entry_point_loads(environments, name):
    python = environments("jax2onnx-core", f"jax2onnx-{name}")
    assert "loaded" in run(python, ENTRY_POINTS.format(name=f"jax2onnx-{name}"))


def test_core_alone_says_what_is_missing(environments):
    run(environments("jax2onnx-core"), CORE_ALONE)


@pytest.mark.parametrize("name", FOLDER_WRITERS)
def test_its_writer_of_folders_is_found(environments, name):
    assert run(environments(f"jax2onnx-{name}"), WRITERS).split() == [name]


@pytest.mark.parametrize("name", [*WITHOUT_JAX, *ON_CLUSTERS, *FOLDER_WRITERS])
def test_what_knows_no_jax_pulls_none(environments, name):
    assert not installed(environments(f"jax2onnx-{name}")) & {"jax", "jaxlib", "jax2onnx-core", "onnxruntime"}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_framework_pulls_nothing_that_it_does_not_use(environments, name):
    libraries = {"equinox", "dm-haiku", "keras"} - {name, f"dm-{name}"}
    found = installed(environments("jax2onnx-core", f"jax2onnx-{name}")) - {f"jax2onnx-{name}"}
    others = {package for package in found if package.startswith("jax2onnx-")}
    assert others == {f"jax2onnx-{needed}" for needed in (*WITHOUT_JAX, "core", "lax", "onnxruntime")}
    assert not found & {"onnxruntime", "pytest", "torch", "tensorflow", *libraries}


def test_a_third_partys_package(environments):
    python = environments("jax2onnx-lax", "jax2onnx-onnxruntime[cpu]", "jax2onnx-testing", "jax2onnx-ripple")
    run(python, THIRD_PARTY)
    suite = ["-m", "pytest", "-q", "--pyargs", "jax2onnx_testing.suite", "--jax2onnx-dist=jax2onnx-ripple"]
    # Not in this checkout, whose settings of pytest are for its own tests.
    elsewhere = Path(python).parent
    result = subprocess.run([python, *suite], cwd=elsewhere, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
    assert "passed" in result.stdout


def test_the_command_line_alone_says_what_is_missing(environments):
    python = environments("jax2onnx-cli")
    assert not installed(python) & {"jax2onnx-lax", "onnxruntime", "pytest"}
    result = subprocess.run([command(python, "jax2onnx"), "doctor"], capture_output=True, text=True, check=False)
    assert result.returncode == 1, result.stderr
    assert "pip install jax2onnx-lax" in result.stdout


def test_the_command_line_of_a_new_user(environments, tmp_path):
    python = environments("jax2onnx-cli", "jax2onnx-nnx", "jax2onnx-onnxruntime[cpu]")
    (tmp_path / "model.py").write_text(MODEL)
    for arguments in (
        ["doctor"],
        ["export", "model.py:build", "--verify"],
        ["verify", "build.onnx", "model.py:build"],
        ["inspect", "build.onnx"],
        ["run", "build.onnx", "--random", "--output", "out.npz"],
        ["report", "model.py:build"],
        ["diff", "build.onnx", "build.onnx"],
    ):
        result = subprocess.run(
            [command(python, "jax2onnx"), *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stdout + result.stderr
    assert {path.name for path in tmp_path.iterdir()} >= {"build.onnx", "out.npz", "build.html"}


def test_a_plugin_from_the_template(environments, tmp_path):
    made = tmp_path / "jax2onnx-acme"
    subprocess.run([command(environments("jax2onnx-cli"), "jax2onnx"), "new-plugin", "acme"], cwd=tmp_path, check=True)
    subprocess.run([sys.executable, "-m", "uv", "build", "-q", "--wheel", "-o", tmp_path, made], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    python = environments(f"jax2onnx-acme[test] @ {wheel.as_uri()}")
    for tool in (["pytest", "-q"], ["mypy", "--strict"], ["ruff", "check"], ["ruff", "format", "--check"]):
        result = subprocess.run([python, "-m", *tool], cwd=made, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr


def command(python: str, name: str) -> str:
    """A command of an environment."""
    return str(Path(python).with_name(name))
