"""The sessions that are run here and by CI: `nox -l` lists them.

Every session has an environment of its own. uv makes one in three seconds, with links into its cache.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import nox

nox.needs_version = ">=2025.10.14"

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
    "ray",
    "genai",
    "transformersjs",
    "tensorrt",
    "lax",
    *FRAMEWORKS,
    "functions",
    "testing",
    "cli",
]
# Those with cases.
PLUGINS = ["lax", *FRAMEWORKS, "functions"]
PRECISIONS = ["f32", "f64"]
# Those that the packages say they run on.
PYTHONS = nox.project.python_versions(nox.project.load_toml(ROOT / "packages" / "jax2onnx-core" / "pyproject.toml"))
# JAX 0.10 is the newest for the first, 0.12 for the second.
OLDEST_PYTHON, NEWEST_PYTHON = "3.11", "3.13"
WORKERS = str(min(os.cpu_count() or 1, 4))

nox.options.sessions = ["tests"]
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_venv = "yes"
# A session without a Python of its own runs on the one that runs nox, and so does not find the environment of another.
nox.options.envdir = f".nox/{sys.version_info.major}.{sys.version_info.minor}"
# A session whose Python is not installed is skipped. CI asks for an error.
nox.options.download_python = "never"
nox.options.error_on_missing_interpreters = False

# Of fixed versions, so that a tag that is built again gives the same bytes.
BUILD_TOOLS = [line for line in (ROOT / "tools" / "build-requirements.txt").read_text().splitlines() if line[:1] != "#"]
RUFF = "ruff>=0.17,<0.18"
MYPY = "mypy>=1.18,<3"
TEST_TOOLS = ["pytest>=8.4", "pytest-xdist>=3.6", "hypothesis>=6.130", "onnxruntime>=1.24"]
# What else the tests and the demo use.
EXAMPLES = ["optax", "safetensors>=0.8", "scikit-learn", "tokenizers>=0.21"]
# What some tests need besides, and skip without: a runtime, libraries whose functions they export, signatures.
TESTED = ["openvino>=2025.0", "diffrax", "lineax", "optimistix", MYPY]


def package(name: str) -> Path:
    """The folder of the distribution `jax2onnx-<name>`."""
    return ROOT / "packages" / f"jax2onnx-{name}"


def install(session: nox.Session, *requirements: str, flags: Sequence[str] = ()) -> None:
    """Install what the session needs; where all of it is installed and unchanged, this takes a tenth of a second."""
    if session.venv_backend != "uv":  # nox was installed without uv
        session.install("uv")
    # uv builds a folder that is named on its command line each time, and one named in a file only when it has changed.
    file = Path(session.env_dir) / "requirements.txt"
    file.write_text("\n".join(requirements))
    session.run_install("uv", "pip", "install", "-q", *flags, "-r", str(file))


def install_workspace(session: nox.Session, *further: str) -> None:
    """Install all packages of this repository, editable, the test tools, and further requirements."""
    install(session, *editable(), *TEST_TOOLS, *EXAMPLES, *further)


def editable() -> list[str]:
    """The lines of a requirements file for all packages of this repository."""
    return [f"-e ./{package(name).relative_to(ROOT).as_posix()}" for name in PACKAGES]  # sessions run in ROOT


def test_environment(session: nox.Session) -> dict[str, str]:
    """The environment variables of tests: Keras computes with JAX, and XLA compiles quickly, and each program once.

    Compiling takes most of the time of the tests, and what is compiled runs once. The programs are kept beside the environments,
    for all processes of this run and of the next one; so is Python's bytecode, even where the user wants none beside his sources,
    since many tests start processes, and each would compile JAX again.
    """
    flags = ["--xla_backend_optimization_level=0", "--xla_cpu_parallel_codegen_split_count=1"]
    jaxlib = session.run(
        "python", "-c", "from importlib.metadata import version; print(version('jaxlib'))", silent=True
    )
    if str(jaxlib).startswith("0.10."):  # later versions have no choice of emitters
        flags.append("--xla_cpu_use_fusion_emitters=false")
    cache = session.cache_dir.resolve()  # some tests change the directory
    return {
        "KERAS_BACKEND": "jax",
        "XLA_FLAGS": " ".join(flags),
        "JAX_COMPILATION_CACHE_DIR": str(cache / "programs"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(cache / "bytecode"),
        "PYTHONPATH": str(ROOT / "tools"),
    }


def run_tests(session: nox.Session, selected: list[str], *further: str) -> None:
    """Run the selected tests on all cores, with the session's further arguments of pytest and requirements."""
    install_workspace(session, *TESTED, *further)
    # `pytest_progress` of tools/ says how far the tests are, and counts skips by reason; pytest lists failures.
    # With `pytest_missing`, a test that is skipped because a package is missing fails.
    plugins = ["-p", "pytest_progress", "-p", "pytest_missing"]
    shown = ["-q", "-rfEX", "-o", "console_output_style=classic"]
    command = ["python", "-m", "pytest", *plugins, *shown, "-n", WORKERS, "--dist=worksteal", *selected]
    session.run(*command, *session.posargs, env=test_environment(session))


def quick() -> list[str]:
    """The selection of `tests`: all tests, sampled, and at least one variant of each case."""
    directories = [str(package(name) / "tests") for name in PACKAGES]
    return [*directories, str(INTEGRATION), "--pyargs", "jax2onnx_testing.suite", "--jax2onnx-quick"]


@nox.session
def tests(session: nox.Session) -> None:
    """The tests of all packages, at least one variant of each case, the integration tests: what a change has to pass."""
    run_tests(session, quick())


# A session for each Python, by names of their own: `nox -s tests` is the tests on one Python.
for version in PYTHONS:
    nox.session(python=version, name=f"tests-{version}", tags=["ci"])(tests)


@nox.session(python=PYTHONS, tags=["nightly"])
@nox.parametrize("name", PACKAGES, ids=PACKAGES)
def unit(session: nox.Session, name: str) -> None:
    """All tests of a package that are no cases."""
    run_tests(session, [str(package(name) / "tests")])


@nox.session(python=PYTHONS, tags=["nightly"])
@nox.parametrize("precision", PRECISIONS, ids=PRECISIONS)
@nox.parametrize("plugin", PLUGINS, ids=PLUGINS)
def cases(session: nox.Session, plugin: str, precision: str) -> None:
    """Every variant and transformation of a package's cases."""
    chosen = [f"--jax2onnx-dist=jax2onnx-{plugin}", f"--jax2onnx-precision={precision}"]
    run_tests(session, ["--pyargs", "jax2onnx_testing.suite", *chosen])


@nox.session(python=PYTHONS, tags=["nightly"])
def integration(session: nox.Session) -> None:
    """All integration tests."""
    run_tests(session, [str(INTEGRATION)])


@nox.session(tags=["nightly"])
def coverage(session: nox.Session) -> None:
    """Which lines of the packages the tests run; a page of each file goes to htmlcov/."""
    sources = [f"--cov={package(name) / 'src'}" for name in PACKAGES]
    run_tests(session, [*quick(), *sources, "--cov-report=term:skip-covered", "--cov-report=html"], "pytest-cov>=6")


GOLDEN = ["python", "-m", "pytest", "-q", str(INTEGRATION / "test_golden.py")]


@nox.session
def golden(session: nox.Session) -> None:
    """Compare the exported graphs with those in tests-integration/golden."""
    install_workspace(session)
    session.run(*GOLDEN, *session.posargs)


@nox.session(python=[OLDEST_PYTHON, NEWEST_PYTHON])
def golden_update(session: nox.Session) -> None:
    """Rewrite the golden graphs: with the oldest JAX those that all versions share, with the newest its variants."""
    install_workspace(session)
    mode = "rewrite" if session.python == OLDEST_PYTHON else "rewrite-variants"
    session.run(*GOLDEN, f"--golden={mode}", *session.posargs)


@nox.session(tags=["ci"])
def demo(session: nox.Session) -> None:
    """Train a small network on handwritten digits, export it, and compare the exported model with JAX."""
    install_workspace(session)
    session.run("python", str(ROOT / "tests-integration" / "demo.py"), *session.posargs)


@nox.session(tags=["ci"])
def generate(session: nox.Session) -> None:
    """Train a small decoder, export it with its cache, in float32 and in int4, and let it write in ONNX Runtime."""
    install_workspace(session)
    session.run("python", str(ROOT / "tests-integration" / "generate.py"), *session.posargs)


# What the cluster needs; the tests of jax2onnx-ray do without.
RAY = "ray[data,serve]>=2.50"


@nox.session(tags=["nightly"])
def ray(session: nox.Session) -> None:
    """Programs on a local Ray cluster of several processes: results, errors, throughput, serving, stages; and its page."""
    install_workspace(session, RAY)
    # On a busy machine the processes of a cluster take their time to start.
    patience = {"RAY_raylet_start_wait_time_s": "90", "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "120"}
    environment = {**patience, "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "120", "PYTHONWARNINGS": "ignore"}
    session.run("python", str(INTEGRATION / "ray_cluster.py"), *session.posargs, env=environment)
    pages = [str(ROOT / "tools" / "check_docs.py"), "-k", "cluster or jax2onnx-ray"]
    session.run("python", "-m", "pytest", "-q", "-W", "default", *pages, env=environment)  # warnings are Ray's


# What each script of tests-integration/runners needs besides the packages of this repository.
RUNNERS = {
    "genai": ["onnxruntime-genai==0.18.*", "google-tunix>=0.1.7", "qwix>=0.1.8"],
    "tunix_samplers": ["google-tunix>=0.1.7"],
    "transformersjs": ["tokenizers>=0.21"],
    "optimum_onnx": ["optimum-onnx[onnxruntime]>=0.1", "pillow", "torchvision"],
}
TRANSFORMERS_JS = INTEGRATION / "runners" / "transformersjs"


@nox.session(python=OLDEST_PYTHON, tags=["nightly"])
@nox.parametrize("runner", list(RUNNERS), ids=list(RUNNERS))
def runners(session: nox.Session, runner: str) -> None:
    """Folders for other runners, run by these: compared with JAX, timed, and written as rows of docs/runners.md."""
    if runner == "transformersjs":
        npm_packages(session, TRANSFORMERS_JS, "--ignore-scripts")  # of which one fetches what only GPUs need
        npm_packages(session, BROWSER)
    # Without EXAMPLES, whose versions are others than tunix takes.
    install(session, *editable(), "onnxruntime>=1.24", *RUNNERS[runner])
    # The models of onnxruntime-genai's builder, where `rivals` has written them.
    rivals = session.cache_dir / "rivals"
    options = [f"--rivals={rivals}"] if runner == "genai" and rivals.exists() else []
    session.run("python", str(INTEGRATION / "runners" / f"{runner}.py"), *options, *session.posargs)


@nox.session(tags=["nightly"])
def sweep(session: nox.Session) -> None:
    """Calls of every public function of JAX through export and ONNX Runtime; writes its part of docs/conformance.md."""
    install_workspace(session)
    session.run("python", str(ROOT / "tools" / "sweep.py"), *session.posargs)


@nox.session(tags=["nightly"])
def conformance(session: nox.Session) -> None:
    """JAX's own primitive harness through export and ONNX Runtime; writes docs/conformance.md."""
    install_workspace(session)
    session.run("python", str(ROOT / "tools" / "conformance.py"), *session.posargs)


# What runs there besides the runtime: the packages of this repository that know nothing of JAX.
RUNTIME_TOOLS = ["ml-dtypes", "onnx", "onnx-ir", "pluggy"]
# OpenVINO, and old versions of ONNX Runtime, which have wheels for old Pythons only; the oldest was built for NumPy 1.
RUNTIMES = {
    "1.18": ["onnxruntime==1.18.*", "numpy<2"],
    "1.20": ["onnxruntime==1.20.*"],
    "1.22": ["onnxruntime==1.22.*"],
    "1.23": ["onnxruntime==1.23.*"],
    "openvino": ["openvino"],
}


def interpreter_file(session: nox.Session, number: str) -> Path:
    """Where `runtime` writes the path of its Python, for `targets`."""
    return session.cache_dir / f"runtime-{number}"


@nox.session(python=OLDEST_PYTHON)
@nox.parametrize("number", list(RUNTIMES), ids=list(RUNTIMES))
def runtime(session: nox.Session, number: str) -> None:
    """The environment of an old or another runtime, which `targets` needs."""
    install(session, *RUNTIMES[number], *RUNTIME_TOOLS)
    interpreter_file(session, number).write_text(str(shutil.which("python", path=session.bin)))


@nox.session(tags=["nightly"], requires=["runtime"])
def targets(session: nox.Session) -> None:
    """Models and cases in old and other runtimes, each in an environment of its own; writes docs/targets.md."""
    files = {number: interpreter_file(session, number) for number in RUNTIMES}
    if not all(file.exists() for file in files.values()):
        session.skip(f"Python {OLDEST_PYTHON}, which old runtimes need, is not installed")
    install_workspace(session)
    arguments = [f"--runtime={number}={file.read_text()}" for number, file in files.items()]
    session.run("python", str(ROOT / "tools" / "targets.py"), *arguments, *session.posargs)


@nox.session(tags=["nightly"])
def optimisers(session: nox.Session) -> None:
    """A table of what onnxslim, onnxsim and ONNX Runtime's basic optimisations still find in nineteen models."""
    install_workspace(session, "onnxslim>=0.1.90", "onnxsim>=0.8")
    session.run("python", str(ROOT / "tools" / "optimisers.py"), *session.posargs)


BROWSER = ROOT / "tools" / "browser"


def npm_packages(session: nox.Session, folder: Path, *flags: str) -> None:
    """Install the npm packages of a folder, or skip the session."""
    npm = shutil.which("npm")
    if npm is None:
        session.skip("npm is not installed: it comes with Node.js")
    stamp, wanted = folder / "node_modules" / "installed.json", (folder / "package-lock.json").read_text()
    if not stamp.exists() or stamp.read_text() != wanted:
        command = [npm, "ci", "--no-audit", "--no-fund", *flags, "--prefix", str(folder)]
        session.run_install(*command, external=True, silent=True)
        stamp.write_text(wanted)


def browser_packages(session: nox.Session) -> None:
    """Install the npm packages of `tools/browser`, or skip the session."""
    npm_packages(session, BROWSER)
    found = session.run(
        "node", str(BROWSER / "browser.mjs"), "--find", external=True, silent=True, success_codes=[0, 3]
    )
    if not str(found).strip():
        session.skip("neither Chromium nor Chrome is installed; CHROMIUM=PATH may name one")


@nox.session(tags=["ci"])
def browser(session: nox.Session) -> None:
    """The page of docs/demo: train and export its models, run it in Chromium, compare with JAX; `-- --serve` serves it."""
    browser_packages(session)
    install_workspace(session)
    session.run("python", str(INTEGRATION / "browser_demo.py"), *session.posargs)


@nox.session
def fuzz(session: nox.Session) -> None:
    """5,000 random programs and as many look-alikes of formulas, in all processes; `-- --programs 100 --seed 7 --seconds 600`."""
    install_workspace(session)
    for command in ("fuzz", "formulas"):
        session.run("jax2onnx-testing", command, "--programs", "5000", "--jobs", WORKERS, *session.posargs)


@nox.session(tags=["ci"])
def wheels(session: nox.Session) -> None:
    """Build all wheels; install each with core only; the third-party example from its wheel."""
    install(session, *BUILD_TOOLS, "pytest>=8.4", "uv>=0.5")
    directory = built(session, ROOT / "dist", *map(package, PACKAGES))
    example = built(session, session.cache_dir / "third-party-wheels", INTEGRATION / "third-party")
    session.run(
        "python", "-m", "pytest", "-q", str(ROOT / "tools" / "check_wheels.py"), *session.posargs,
        env={"JAX2ONNX_WHEELS": str(directory.resolve()), "JAX2ONNX_EXAMPLE": str(example.resolve())},
    )  # fmt: skip


def built(session: nox.Session, directory: Path, *packages: Path) -> Path:
    """The directory, with nothing but a wheel and an sdist of each of the packages; needs the `BUILD_TOOLS`."""
    shutil.rmtree(directory, ignore_errors=True)
    for path in packages:
        session.run("python", "-m", "build", "-q", "--no-isolation", "-o", str(directory), str(path))
    return directory


@nox.session(tags=["ci"])
def build(session: nox.Session) -> None:
    """Build a wheel and an sdist of every package into dist/, after the release check, with bills of materials."""
    install(session, *BUILD_TOOLS, "uv>=0.5", "cyclonedx-bom>=7")
    session.run("python", str(ROOT / "tools" / "check_release.py"))
    directory = built(session, ROOT / "dist", *map(package, PACKAGES))
    wheels = sorted(map(str, directory.glob("*.whl")))
    session.run(
        "python", str(ROOT / "tools" / "sbom.py"), *wheels, "--wheels", str(directory), "--output", str(directory)
    )
    session.log(f"built into {directory}")


@nox.session(tags=["nightly"])
def skew(session: nox.Session) -> None:
    """The last released plugins with today's core, and today's with the oldest core they admit; `-- --only lax -- -k gelu`."""
    install(session, *BUILD_TOOLS, "uv>=0.5")
    session.run("python", str(ROOT / "tools" / "skew.py"), *session.posargs)


@nox.session(tags=["nightly"])
def history(session: nox.Session) -> None:
    """Made-up releases of all packages, some incompatible on purpose: what fits works, what does not is refused and named."""
    install(session, *BUILD_TOOLS, "uv>=0.5")
    session.run("python", str(ROOT / "tools" / "release_history.py"), *session.posargs)


# Made anew each time: uv leaves what is installed, and a bound that was lowered would not be tried.
@nox.session(reuse_venv=False, tags=["ci"])
def minimums(session: nox.Session) -> None:
    """The tests with the lowest versions that the packages declare."""
    install(session, *editable(), *TEST_TOOLS, flags=["--resolution=lowest-direct"])
    suite = ["--pyargs", "jax2onnx_testing.suite", "--jax2onnx-precision=f32"]
    session.run("python", "-m", "pytest", "-q", "-n", WORKERS, *suite, *session.posargs)


@nox.session(tags=["ci"])
def lint(session: nox.Session) -> None:
    """ruff over everything: the rules, the imports' order, the layout. `nox -s lint -- --fix` mends what it can."""
    install(session, RUFF)
    fix = "--fix" in session.posargs
    session.run("ruff", "check", "--no-cache", *session.posargs, str(ROOT))
    session.run("ruff", "format", "--no-cache", *([] if fix else ["--check"]), str(ROOT))


# Test functions need no annotation, and onnx_ir's optional attributes no proof: a None in a test is a test that fails.
TEST_TYPES = [
    "--allow-untyped-defs", "--allow-incomplete-defs", "--allow-untyped-calls", "--allow-untyped-decorators",
    "--allow-subclassing-any", "--disable-error-code=union-attr", "--explicit-package-bases",
    f"--cache-dir={ROOT / '.mypy_cache' / 'tests'}",
]  # fmt: skip


# The annotations of JAX and NumPy differ between their versions: ours are compared with those of one Python.
@nox.session(python=OLDEST_PYTHON, tags=["ci"])
def types(session: nox.Session) -> None:
    """mypy: strict over every package and the third-party example; over the tests and tools with fewer demands."""
    install_workspace(session, MYPY)
    mypy = ["mypy", "--config-file", str(ROOT / "pyproject.toml")]
    third_party = ROOT / "tests-integration" / "third-party"
    session.run(*mypy, *[str(package(name) / "src") for name in PACKAGES], str(third_party / "src"))
    for root in [*[package(name) / "tests" for name in PACKAGES], ROOT / "tests-integration", ROOT / "tools"]:
        files = [str(file) for file in sorted(root.rglob("*.py")) if third_party not in file.parents]
        # Some tests import tools, the scripts of runners each other.
        path = os.pathsep.join(dict.fromkeys([str(root), str(ROOT / "tools"), str(INTEGRATION / "runners")]))
        session.run(*mypy, *TEST_TYPES, *files, env={"MYPYPATH": path})


@nox.session(tags=["ci"])
def docs(session: nox.Session) -> None:
    """Build the documentation, check its links, run its code blocks."""
    # ruff lays the signatures out
    install_workspace(session, "mkdocs-material>=9.6", "mkdocstrings[python]>=0.30", RUFF)
    for table in ("coverage_table.py", "gallery.py"):
        session.run("python", str(ROOT / "tools" / table), env={"KERAS_BACKEND": "jax"})
    session.run("python", "-m", "pytest", "-q", str(ROOT / "tools" / "check_docs.py"))
    site = ["build", "-q", "--strict", "-f", str(ROOT / "mkdocs.yml")]
    session.run("mkdocs", *site, env={"NO_MKDOCS_2_WARNING": "1"})


@nox.session(tags=["nightly"])
def walkthrough(session: nox.Session) -> None:
    """A newcomer's steps, programs, mistakes and release with the built packages, in an empty directory; writes docs/walkthrough*."""
    install(session, *BUILD_TOOLS)
    wheels = built(session, ROOT / "dist", *map(package, PACKAGES))
    session.run("python", str(ROOT / "tools" / "walkthrough.py"), str(wheels))


@nox.session(tags=["nightly"])
def bench(session: nox.Session) -> None:
    """Benchmarks: start-up, conversion time against model size and tracing, memory of saving; prints ratios."""
    install_workspace(session)
    session.run("python", str(ROOT / "tools" / "bench.py"), *session.posargs)


@nox.session
def experts(session: nox.Session) -> None:
    """Mixtures of experts as several authors write them, timed beside JAX; writes its table of docs/guide/experts.md."""
    install_workspace(session)
    session.run("python", str(ROOT / "tools" / "bench_experts.py"), "--update", *session.posargs)


@nox.session(tags=["nightly"])
def control(session: nox.Session) -> None:
    """A control transformer as one dynamic model and two static ones, timed; writes its table of docs/guide/states.md."""
    install_workspace(session)
    session.run("python", str(ROOT / "tools" / "control_table.py"), *session.posargs)


@nox.session(tags=["nightly"])
def recurrences(session: nox.Session) -> None:
    """Recurrences over time beside `jax.jit`, in each way of writing; writes the tables of docs/guide/recurrences.md."""
    install_workspace(session)
    session.run("python", str(ROOT / "tools" / "recurrence_table.py"), *session.posargs)


# The libraries whose models are surveyed; transformers 5 has no Flax models.
SURVEYED = ["google-tunix>=0.1.6", "transformers>=4.57,<5", "keras-hub>=0.32", "equimo>=1.1"]


@nox.session(python=OLDEST_PYTHON, tags=["nightly"])
def survey(session: nox.Session) -> None:
    """Attention, rotations and norms that are one operator each in models of libraries; writes the table of docs/fusions.md."""
    # Without EXAMPLES, whose versions are others than tunix takes.
    install(session, *editable(), "onnxruntime>=1.24", *SURVEYED)
    environment = {"KERAS_BACKEND": "jax", "TF_CPP_MIN_LOG_LEVEL": "3"}
    session.run("python", str(ROOT / "tools" / "fusion_survey.py"), *session.posargs, env=environment)


# PyTorch is installed by pip, which takes a build without CUDA where one is at hand.
RIVALS = ["torch==2.13.0", "transformers>=5.23,<6", "onnxruntime-genai==0.18.*", "onnxscript"]


@nox.session(python=OLDEST_PYTHON)
def rivals(session: nox.Session) -> None:
    """Export decoders by torch.onnx and onnxruntime-genai, for `bench_generation`; skipped where they cannot be installed."""
    install(session, "pip")
    folder = session.cache_dir / "rivals"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        session.run_install("python", "-m", "pip", "install", "-q", *RIVALS)
        session.run("python", str(ROOT / "tools" / "rival_decoders.py"), str(folder))
    except nox.command.CommandFailed:
        session.skip("the other exporters cannot be installed or run here")


@nox.session(tags=["nightly"], requires=["rivals"])
def bench_generation(session: nox.Session) -> None:
    """Decoders: one token on caches of several lengths, and a prompt, beside JAX, onnxruntime-genai and torch.onnx."""
    install_workspace(session)
    folder = str(session.cache_dir / "rivals")
    session.run("python", str(ROOT / "tools" / "bench_generation.py"), "--rivals", folder, *session.posargs)
