"""What can be run here, and what CI runs: `nox -l` lists it."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nox

nox.options.sessions = ["tests"]
nox.options.default_venv_backend = "none"  # sessions of one Python share an environment, see `environment`

ROOT = Path(__file__).parent
INTEGRATION = ROOT / "tests-integration"
FRAMEWORKS = ["nnx", "linen", "equinox", "haiku", "keras"]
PACKAGES = [
    "graph",
    "runtime",
    "report",
    "core",
    "onnxruntime",
    "openvino",
    "lax",
    *FRAMEWORKS,
    "functions",
    "testing",
    "cli",
]
# Those with cases.
PLUGINS = ["lax", *FRAMEWORKS, "functions"]
PRECISIONS = ["f32", "f64"]
THIS_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
# JAX 0.10 is the newest for the first, 0.12 for the second.
OLDEST_PYTHON, NEWEST_PYTHON = "3.11", "3.13"
WORKERS = str(min(os.cpu_count() or 1, 4))

BUILD_TOOLS = ["build>=1.2", "hatchling>=1.27", "packaging>=24"]
RUFF = "ruff>=0.17,<0.18"
TEST_TOOLS = ["pytest>=8.4", "pytest-xdist>=3.6", "hypothesis>=6.130", "onnxruntime>=1.24"]
# What else the tests and the demo use.
EXAMPLES = ["optax", "safetensors>=0.8", "scikit-learn"]


def package(name: str) -> Path:
    """The folder of the distribution `jax2onnx-<name>`."""
    return ROOT / "packages" / f"jax2onnx-{name}"


def interpreter(version: str) -> str | None:
    """A runnable Python of this version, or None."""
    if version == THIS_PYTHON:
        return sys.executable
    found = shutil.which(f"python{version}")
    if found and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0:
        return found
    return None


def environment(
    session: nox.Session, name: str, requirements: list[str], version: str = THIS_PYTHON, *flags: str
) -> str:
    """The Python of the environment `.nox/<name>-<version>`, made once, brought up to date when its list changes."""
    base = interpreter(version)
    if base is None:
        session.skip(f"Python {version} is not installed")
    directory = ROOT / ".nox" / f"{name}-{version}"
    python = str(directory / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
    stamp = directory / "requirements.txt"
    wanted = "\n".join([*flags, *requirements])
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(directory, ignore_errors=True)
        session.run(base, "-m", "venv", str(directory), external=True, silent=True)
        session.run(python, "-m", "pip", "install", "-q", "uv", external=True, silent=True)
        session.run(
            python, "-m", "uv", "pip", "install", "-q", "--python", python, *flags, *requirements, external=True
        )
        stamp.write_text(wanted)
    return python


def workspace(session: nox.Session, version: str = THIS_PYTHON) -> str:
    """The Python of the environment that has all packages of this repository, editable, and the test tools."""
    editable = [part for name in PACKAGES for part in ("-e", str(package(name)))]
    return environment(session, "workspace", [*editable, *TEST_TOOLS, *EXAMPLES], version)


def test_environment(session: nox.Session, python: str) -> dict[str, str]:
    """What tests find in their environment: Keras computes with JAX, and XLA compiles quickly.

    Compiling takes most of the time of the tests, and what is compiled runs once.
    """
    flags = ["--xla_backend_optimization_level=0", "--xla_cpu_parallel_codegen_split_count=1"]
    asked = "from importlib.metadata import version; print(version('jaxlib'))"
    jaxlib = session.run(python, "-c", asked, external=True, silent=True)
    if str(jaxlib).startswith("0.10."):  # later versions have no choice of emitters
        flags.append("--xla_cpu_use_fusion_emitters=false")
    return {"KERAS_BACKEND": "jax", "XLA_FLAGS": " ".join(flags), "PYTHONPATH": str(ROOT / "tools")}


def tests_of(name: str) -> Path:
    """The folder of a package's own tests, or of the integration tests."""
    return INTEGRATION if name == "integration" else package(name) / "tests"


def pytest(session: nox.Session, version: str, selected: list[str], posargs: list[str]) -> None:
    """Run the selected tests on all cores, with further arguments of pytest."""
    python = workspace(session, version)
    # `pytest_progress` of tools/ says how far the tests are, and counts skips by reason; pytest lists failures.
    shown = ["-q", "-rfEX", "-p", "pytest_progress", "-o", "console_output_style=classic"]
    command = ["-m", "pytest", *shown, "-n", WORKERS, "--dist=worksteal", *selected, *posargs]
    session.run(python, *command, external=True, env=test_environment(session, python))


@nox.session(python=False)
def tests(session: nox.Session) -> None:
    """The tests of all packages, at least one variant of each case, the integration tests: what a change has to pass."""
    pytest(session, THIS_PYTHON, quick(), session.posargs)


def quick() -> list[str]:
    """What `tests` selects: all tests, sampled, and at least one variant of each case."""
    directories = [str(tests_of(name)) for name in [*PACKAGES, "integration"]]
    return [*directories, "--pyargs", "jax2onnx_testing.suite", "--jax2onnx-quick"]


@nox.session(python=False)
def full(session: nox.Session) -> None:
    """All tests, every variant and transformation of the cases; `-- lax nnx --precision f64 --python 3.13 -k gelu` chooses."""
    parser = argparse.ArgumentParser("nox -s full --")
    parser.add_argument("packages", nargs="*", help=f"of {', '.join([*PACKAGES, 'integration'])}; by default all")
    parser.add_argument("--precision", choices=PRECISIONS, help="by default both; tests that are no cases run with f32")
    parser.add_argument("--python", default=THIS_PYTHON)
    options, posargs = parser.parse_known_args(session.posargs)
    names = options.packages or [*PACKAGES, "integration"]
    if unknown := set(names) - {*PACKAGES, "integration"}:
        parser.error(f"there is no package {', '.join(sorted(unknown))}")
    selected = [] if options.precision == "f64" else [str(tests_of(name)) for name in names]
    plugins = [f"--jax2onnx-dist=jax2onnx-{name}" for name in names if name in PLUGINS]
    if plugins:
        precision = [f"--jax2onnx-precision={options.precision}"] if options.precision else []
        selected += ["--pyargs", "jax2onnx_testing.suite", *plugins, *precision]
    if not selected:
        session.error(f"{', '.join(names)}: there are no cases, and only these have a precision")
    pytest(session, options.python, selected, posargs)


@nox.session(python=False)
def coverage(session: nox.Session) -> None:
    """Which lines of the packages the tests run; a page of each file goes to htmlcov/."""
    python = workspace(session)
    session.run(python, "-m", "uv", "pip", "install", "-q", "--python", python, "pytest-cov>=6", external=True)
    sources = [f"--cov={package(name) / 'src'}" for name in PACKAGES]
    shown = ["--cov-report=term:skip-covered", "--cov-report=html"]
    pytest(session, THIS_PYTHON, [*quick(), *sources, *shown], session.posargs)


@nox.session(python=False)
def golden(session: nox.Session) -> None:
    """Compare the exported graphs with those in tests-integration/golden; `-- --update` rewrites them."""
    command = ["-m", "pytest", "-q", str(ROOT / "tests-integration" / "test_golden.py")]
    if "--update" not in session.posargs:
        session.run(workspace(session), *command, *session.posargs, external=True)
        return
    # The oldest Python has the oldest JAX: its graphs are those that all share. The newest has the newest.
    posargs = [a for a in session.posargs if a != "--update"]
    session.run(workspace(session, OLDEST_PYTHON), *command, "--golden=rewrite", *posargs, external=True)
    if interpreter(NEWEST_PYTHON) is None:
        session.warn(f"Python {NEWEST_PYTHON} is not installed: the texts of the newest JAX are left as they were")
        return
    session.run(workspace(session, NEWEST_PYTHON), *command, "--golden=rewrite-variants", *posargs, external=True)


@nox.session(python=False)
def demo(session: nox.Session) -> None:
    """Train a small network on handwritten digits, export it, and compare the exported model with JAX."""
    python = workspace(session)
    session.run(python, str(ROOT / "tests-integration" / "demo.py"), *session.posargs, external=True)


@nox.session(python=False)
def generate(session: nox.Session) -> None:
    """Train a small decoder, export it with its cache, in float32 and in int4, and let it write in ONNX Runtime."""
    python = workspace(session)
    session.run(python, str(ROOT / "tests-integration" / "generate.py"), *session.posargs, external=True)


@nox.session(python=False)
def sweep(session: nox.Session) -> None:
    """Calls of every public function of JAX through export and ONNX Runtime; writes its part of docs/conformance.md."""
    session.run(workspace(session), str(ROOT / "tools" / "sweep.py"), *session.posargs, external=True)


@nox.session(python=False)
def conformance(session: nox.Session) -> None:
    """JAX's own primitive harness through export and ONNX Runtime; writes docs/conformance.md."""
    python = workspace(session)
    session.run(python, str(ROOT / "tools" / "conformance.py"), *session.posargs, external=True)


# What runs there besides the runtime: the packages of this repository that know nothing of JAX.
RUNTIME_TOOLS = ["ml-dtypes", "onnx", "onnx-ir", "pluggy"]
# Old versions of ONNX Runtime, which have wheels for old Pythons only; the oldest of them was built for NumPy 1.
RUNTIMES = {
    "1.18": ["onnxruntime==1.18.*", "numpy<2"],
    "1.20": ["onnxruntime==1.20.*"],
    "1.22": ["onnxruntime==1.22.*"],
    "1.23": ["onnxruntime==1.23.*"],
}


@nox.session(python=False)
def targets(session: nox.Session) -> None:
    """Models and cases in old and other runtimes, each in an environment of its own; writes docs/targets.md."""
    arguments = []
    for number, requirements in RUNTIMES.items():
        python = environment(session, f"onnxruntime-{number}", [*requirements, *RUNTIME_TOOLS], OLDEST_PYTHON)
        arguments += ["--runtime", f"{number}={python}"]
    python = environment(session, "openvino", ["openvino", *RUNTIME_TOOLS])
    arguments += ["--runtime", f"openvino={python}"]
    tool = str(ROOT / "tools" / "targets.py")
    session.run(workspace(session), tool, *arguments, *session.posargs, external=True)


@nox.session(python=False)
def optimisers(session: nox.Session) -> None:
    """What onnxslim, onnxsim and ONNX Runtime's basic optimisations still find in nineteen models, as a table."""
    python = workspace(session)
    tools = ["onnxslim>=0.1.90", "onnxsim>=0.8"]
    session.run(python, "-m", "uv", "pip", "install", "-q", "--python", python, *tools, external=True)
    session.run(python, str(ROOT / "tools" / "optimisers.py"), *session.posargs, external=True)


BROWSER = ROOT / "tools" / "browser"


def browser_packages(session: nox.Session) -> None:
    """Install the npm packages of `tools/browser`, or skip the session."""
    npm = shutil.which("npm")
    if npm is None:
        session.skip("npm is not installed: it comes with Node.js")
    stamp, wanted = BROWSER / "node_modules" / "installed.json", (BROWSER / "package-lock.json").read_text()
    if not stamp.exists() or stamp.read_text() != wanted:
        session.run(npm, "ci", "--no-audit", "--no-fund", "--prefix", str(BROWSER), external=True, silent=True)
        stamp.write_text(wanted)
    found = session.run(
        "node", str(BROWSER / "browser.mjs"), "--find", external=True, silent=True, success_codes=[0, 3]
    )
    if not str(found).strip():
        session.skip("neither Chromium nor Chrome is installed; CHROMIUM=PATH may name one")


@nox.session(python=False)
def browser(session: nox.Session) -> None:
    """The page of docs/demo: train and export its models, run it in Chromium, compare with JAX; `-- --serve` serves it."""
    python = workspace(session)
    browser_packages(session)
    session.run(python, str(INTEGRATION / "browser_demo.py"), *session.posargs, external=True)


@nox.session(python=False)
def fuzz(session: nox.Session) -> None:
    """Random programs, 5,000 by default, as many processes as cores; `-- --programs 100 --seed 7 --seconds 600`."""
    python = Path(workspace(session))
    command = python.with_name("jax2onnx-testing")
    defaults = ["--programs", "5000", "--jobs", WORKERS]
    session.run(str(command), "fuzz", *defaults, *session.posargs, external=True)


@nox.session(python=False)
def wheels(session: nox.Session) -> None:
    """Build all wheels; install each with core only; the third-party example from its wheel."""
    directory = built(session, ROOT / "dist", *map(package, PACKAGES))
    example = built(session, ROOT / ".nox" / "third-party-wheels", INTEGRATION / "third-party")
    python = environment(session, "wheels", ["pytest>=8.4", "uv>=0.5"])
    session.run(
        python, "-m", "pytest", "-q", str(ROOT / "tools" / "check_wheels.py"), external=True,
        env={"JAX2ONNX_WHEELS": str(directory), "JAX2ONNX_EXAMPLE": str(example)},
    )  # fmt: skip


def built(session: nox.Session, directory: Path, *packages: Path) -> Path:
    """The directory, with nothing but a wheel and an sdist of each of the packages."""
    python = environment(session, "build", BUILD_TOOLS)
    shutil.rmtree(directory, ignore_errors=True)
    for path in packages:
        session.run(python, "-m", "build", "-q", "--no-isolation", "-o", str(directory), str(path), external=True)
    return directory


@nox.session(python=False)
def build(session: nox.Session) -> None:
    """Build a wheel and an sdist of every package into dist/, after the release check."""
    python = environment(session, "build", BUILD_TOOLS)
    session.run(python, str(ROOT / "tools" / "check_release.py"), external=True)
    session.log(f"built into {built(session, ROOT / 'dist', *map(package, PACKAGES))}")


@nox.session(python=False)
def skew(session: nox.Session) -> None:
    """The last released plugins with today's core, and today's with the oldest core they admit; `-- --only lax -- -k gelu`."""
    python = environment(session, "skew", [*BUILD_TOOLS, "uv>=0.5"])
    session.run(python, str(ROOT / "tools" / "skew.py"), *session.posargs, external=True)


@nox.session(python=False)
def minimums(session: nox.Session) -> None:
    """The tests with the lowest versions that the packages declare."""
    editable = [part for name in PACKAGES for part in ("-e", str(package(name)))]
    flags = ["--resolution=lowest-direct"]
    python = environment(session, "minimums", [*editable, *TEST_TOOLS], THIS_PYTHON, *flags)
    suite = ["--pyargs", "jax2onnx_testing.suite", "--jax2onnx-precision=f32"]
    session.run(python, "-m", "pytest", "-q", "-n", WORKERS, *suite, *session.posargs, external=True)


@nox.session(python=False)
def lint(session: nox.Session) -> None:
    """ruff over everything: the rules, the imports' order, the layout. `nox -s lint -- --fix` mends what it can."""
    python = environment(session, "lint", [RUFF])
    fix = "--fix" in session.posargs
    session.run(python, "-m", "ruff", "check", "--no-cache", *session.posargs, str(ROOT), external=True)
    session.run(python, "-m", "ruff", "format", "--no-cache", *([] if fix else ["--check"]), str(ROOT), external=True)


# Test functions need no annotation, and onnx_ir's optional attributes no proof: a None in a test is a test that fails.
TEST_TYPES = [
    "--allow-untyped-defs", "--allow-incomplete-defs", "--allow-untyped-calls", "--allow-untyped-decorators",
    "--allow-subclassing-any", "--disable-error-code=union-attr", "--explicit-package-bases",
    f"--cache-dir={ROOT / '.mypy_cache' / 'tests'}",
]  # fmt: skip


@nox.session(python=False)
def types(session: nox.Session) -> None:
    """mypy: strict over every package and the third-party example; over the tests and tools with fewer demands."""
    python = workspace(session)
    session.run(python, "-m", "uv", "pip", "install", "-q", "--python", python, "mypy>=1.18,<3", external=True)
    mypy = [python, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
    third_party = ROOT / "tests-integration" / "third-party"
    session.run(*mypy, *[str(package(name) / "src") for name in PACKAGES], str(third_party / "src"), external=True)
    for root in [*[package(name) / "tests" for name in PACKAGES], ROOT / "tests-integration", ROOT / "tools"]:
        files = [str(file) for file in sorted(root.rglob("*.py")) if third_party not in file.parents]
        session.run(*mypy, *TEST_TYPES, *files, env={"MYPYPATH": str(root)}, external=True)


@nox.session(python=False)
def docs(session: nox.Session) -> None:
    """Build the documentation, check its links, run its code blocks."""
    python = workspace(session)
    tools = ["mkdocs-material>=9.6", "mkdocstrings[python]>=0.30", RUFF]  # ruff lays the signatures out
    session.run(python, "-m", "uv", "pip", "install", "-q", "--python", python, *tools, external=True)
    for table in ("coverage_table.py", "gallery.py"):
        session.run(python, str(ROOT / "tools" / table), external=True)
    session.run(python, "-m", "pytest", "-q", str(ROOT / "tools" / "check_docs.py"), external=True)
    site = ["mkdocs", "build", "-q", "--strict", "-f", str(ROOT / "mkdocs.yml")]
    session.run(python, "-m", *site, external=True, env={"NO_MKDOCS_2_WARNING": "1"})


@nox.session(python=False)
def walkthrough(session: nox.Session) -> None:
    """Fifteen steps of a newcomer with the built packages, in an empty directory; writes docs/walkthrough.md."""
    wheels = built(session, ROOT / "dist", *map(package, PACKAGES))
    session.run(sys.executable, str(ROOT / "tools" / "walkthrough.py"), str(wheels), external=True)


@nox.session(python=False)
def bench(session: nox.Session) -> None:
    """Benchmarks: start-up, conversion time against model size and tracing, memory of saving; prints ratios."""
    python = workspace(session)
    session.run(python, str(ROOT / "tools" / "bench.py"), *session.posargs, external=True)


# PyTorch is installed by pip, which takes a build without CUDA where one is at hand.
RIVALS = ["torch==2.13.0", "transformers>=5.23,<6", "onnxruntime-genai==0.18.*", "onnxscript"]


@nox.session(python=False)
def bench_generation(session: nox.Session) -> None:
    """Decoders: one token on caches of several lengths, and a prompt, beside JAX, onnxruntime-genai and torch.onnx."""
    python, folder = workspace(session), Path(session.create_tmp())
    rivals = environment(session, "rivals", ["pip"], OLDEST_PYTHON)
    try:
        session.run(rivals, "-m", "pip", "install", "-q", *RIVALS, external=True)
        shutil.rmtree(folder / "rivals", ignore_errors=True)
        session.run(rivals, str(ROOT / "tools" / "rival_decoders.py"), str(folder / "rivals"), external=True)
    except nox.command.CommandFailed:
        session.warn("The other exporters cannot be installed or run here: measured without them")
    tool = str(ROOT / "tools" / "bench_generation.py")
    session.run(python, tool, "--rivals", str(folder / "rivals"), *session.posargs, external=True)
