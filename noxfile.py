"""What to run:

    nox -s tests                             what a change has to pass: about thirteen minutes on two cores
    nox -s tests -- packages/jax2onnx-lax/tests/indexing -k gather
                                             these tests alone
    nox -s unit -- lax nnx                   all tests of these packages; of all of them without a name
    nox -s cases -- lax f64                  every variant of the cases of a package, in one precision
    nox -s integration -- test_golden        all integration tests of a file
    nox -s lint types                        ruff and mypy; `nox -s lint -- --fix` mends what it can
    nox -s docs -- quick                     the site alone, in a minute, in site/
    nox -s demo                              train a small network, export it, compare it with JAX

Add `-P 3.13` to run a session on another Python. Each session has an environment of its own, which uv makes in three seconds.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import nox
from nox.command import CommandFailed

nox.needs_version = ">=2025.10.14"

ROOT = Path(__file__).parent
INTEGRATION, TOOLS = ROOT / "tests-integration", ROOT / "tools"
EXAMPLE_MODELS, BENCHMARKS = ROOT / "examples", ROOT / "benchmarks"
PACKAGES = sorted(file.parent.name.removeprefix("jax2onnx-") for file in ROOT.glob("packages/*/pyproject.toml"))
PRECISIONS = ["f32", "f64"]
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
BUILD_TOOLS = [line for line in (TOOLS / "build-requirements.txt").read_text().splitlines() if line[:1] != "#"]
RUFF = "ruff>=0.17,<0.18"
MYPY = "mypy>=1.18,<3"
TEST_TOOLS = ["pytest>=8.4", "pytest-xdist>=3.6", "hypothesis>=6.130", "onnxruntime>=1.24"]
# What else the tests use.
EXAMPLES = ["optax", "safetensors>=0.8", "tokenizers>=0.21"]
# The digits of the demo and of the page. Keras imports it, with SciPy's statistics, wherever it is installed.
DIGITS = "scikit-learn"
# What some tests need besides, and skip without: a runtime, libraries whose functions they export, signatures.
TESTED = ["openvino>=2025.0", "diffrax", "lineax", "optimistix", MYPY]


# -- environments ---------------------------------------------------------------------------


def package(name: str) -> Path:
    """The folder of the distribution `jax2onnx-<name>`."""
    return ROOT / "packages" / f"jax2onnx-{name}"


def install(session: nox.Session, *requirements: str, flags: Sequence[str] = (), into: Path | None = None) -> None:
    """Install requirements into the session's environment, or into another; if they are unchanged, this takes a tenth of a second."""
    if session.venv_backend != "uv":  # nox was installed without uv
        session.install("uv")
    # uv builds a folder that is named on its command line each time, and one named in a file only when it has changed.
    file = (into or Path(session.env_dir)) / "requirements.txt"
    file.write_text("\n".join(requirements))
    other = [] if into is None else ["--python", str(into)]
    session.run_install("uv", "pip", "install", "-q", *other, *flags, "-r", str(file))


def environment(session: nox.Session, name: str, *requirements: str) -> str:
    """The Python of an environment beside the session's, for requirements that do not go together with others."""
    folder = Path(f"{session.env_dir}-{name}")
    if not folder.exists():
        if session.venv_backend != "uv":
            session.install("uv")
        base = shutil.which("python", path=session.bin)
        session.run_install("uv", "venv", "-q", "--python", str(base), str(folder))
    install(session, *requirements, into=folder)
    return str(folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python"))


def editable() -> list[str]:
    """The lines of a requirements file for all packages of this repository."""
    return [f"-e ./{package(name).relative_to(ROOT).as_posix()}" for name in PACKAGES]  # sessions run in ROOT


def install_workspace(session: nox.Session, *further: str) -> None:
    """Install all packages of this repository, editable, the test tools, and further requirements."""
    install(session, *editable(), *TEST_TOOLS, *EXAMPLES, *further)


def run_script(
    session: nox.Session, file: Path, *arguments: str, python: str = "python", env: Mapping[str, str] | None = None
) -> None:
    """Run a script of this repository, which may import `examples` and the modules of `tools`."""
    path = os.pathsep.join([str(ROOT), str(TOOLS), str(BENCHMARKS)])
    command = [python, str(file), *arguments]
    session.run(*command, env={"KERAS_BACKEND": "jax", **(env or {}), "PYTHONPATH": path}, external=python != "python")


# -- tests ----------------------------------------------------------------------------------


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
        "PYTHONPATH": str(TOOLS),
    }


def run_tests(session: nox.Session, *selected: str, further: Sequence[str] = ()) -> None:
    """Run the selected tests on all cores, with further requirements."""
    install_workspace(session, *TESTED, *further)
    # `pytest_progress` of tools/ says how far the tests are, and counts skips by reason; pytest lists failures.
    # With `pytest_missing`, a test that is skipped because a package is missing fails.
    plugins = ["-p", "pytest_progress", "-p", "pytest_missing"]
    shown = ["-q", "-rfEX", "-o", "console_output_style=classic"]
    command = ["python", "-m", "pytest", *plugins, *shown, "-n", WORKERS, "--dist=worksteal"]
    session.run(*command, *selected, env=test_environment(session))


def given(session: nox.Session) -> tuple[list[str], list[str]]:
    """The words behind `--` up to the first option, and the others."""
    words = session.posargs
    first = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    return words[:first], words[first:]


def selected(session: nox.Session) -> tuple[list[str], list[str]]:
    """The names and paths behind `--`, also paths behind options; and the options of pytest."""
    names, options = given(session)
    paths = [word for before, word in pairwise(options) if before not in ("-k", "-m") and Path(word).exists()]
    return [*names, *paths], [word for word in options if word not in paths]


def tests_of(session: nox.Session, name: str) -> str:
    """The path of the tests that a word behind `--` names: a package, a file of integration tests, or a path."""
    found = [
        package(name.removeprefix("jax2onnx-")) / "tests",
        INTEGRATION / f"{name}.py",
        INTEGRATION / name,
        Path(name.partition("::")[0]),
    ]
    existing = [path for path in found if path.exists()]
    if not existing:
        session.error(f"{name!r} is no package ({', '.join(PACKAGES)}), no module of tests-integration, and no path")
    return name if existing[0] == found[-1] else str(existing[0])


SUITE = ["--pyargs", "jax2onnx_testing.suite"]
# Of each test so many parameters, all in `unit`; see `pytest.mark.sampled`.
QUICK = ["--jax2onnx-quick", "-o", "jax2onnx_sampled=2"]


def quick() -> list[str]:
    """The selection of `tests`: all tests, sampled, and at least one variant of each case."""
    return [*(str(package(name) / "tests") for name in PACKAGES), str(INTEGRATION), *SUITE]


@nox.session
def tests(session: nox.Session) -> None:
    """The tests of all packages, at least one variant of each case, the integration tests: what a change has to pass."""
    names, options = selected(session)
    run_tests(session, *([tests_of(session, name) for name in names] or quick()), *QUICK, *options)


@nox.session
def unit(session: nox.Session) -> None:
    """All tests of the packages that are no cases; `-- lax nnx` of these packages."""
    names, options = selected(session)
    run_tests(session, *(tests_of(session, name) for name in names or PACKAGES), *options)


@nox.session
def cases(session: nox.Session) -> None:
    """Every variant and transformation of the packages' cases; `-- lax f64` of a package, in one precision."""
    names, options = selected(session)
    if unknown := set(names) - {*PACKAGES, *PRECISIONS}:
        session.error(
            f"{', '.join(sorted(unknown))}: neither a package ({', '.join(PACKAGES)}) nor a precision (f32, f64)"
        )
    kinds = {name: "precision" if name in PRECISIONS else "dist" for name in names}
    run_tests(session, *SUITE, *(f"--jax2onnx-{kind}={name}" for name, kind in kinds.items()), *options)


@nox.session
def integration(session: nox.Session) -> None:
    """All integration tests; `-- test_golden` of a file."""
    names, options = selected(session)
    run_tests(session, *([tests_of(session, name) for name in names] or [str(INTEGRATION)]), *options)


@nox.session(tags=["nightly"])
def coverage(session: nox.Session) -> None:
    """Which lines of the packages the tests run; a page of each file goes to htmlcov/."""
    sources = [f"--cov={package(name) / 'src'}" for name in PACKAGES]
    shown = ["--cov-report=term:skip-covered", "--cov-report=html"]
    run_tests(session, *quick(), *QUICK, *sources, *shown, *session.posargs, further=["pytest-cov>=6"])


# Made anew each time: uv leaves what is installed, and a bound that was lowered would not be tried.
@nox.session(reuse_venv=False, tags=["ci"])
def minimums(session: nox.Session) -> None:
    """The cases with the lowest versions that the packages declare."""
    install(session, *editable(), *TEST_TOOLS, flags=["--resolution=lowest-direct"])
    session.run("python", "-m", "pytest", "-q", "-n", WORKERS, *SUITE, "--jax2onnx-precision=f32", *session.posargs)


# Made anew each time, since there is a newer one each week; `onnx-weekly` is in the place of `onnx`.
@nox.session(python=OLDEST_PYTHON, reuse_venv=False, tags=["nightly"])
def weekly(session: nox.Session) -> None:
    """The cases with ONNX of this week and the newest ONNX Runtime and IR, pre-releases too; `-- --jax2onnx-dist nnx` of a package."""
    install_workspace(session)
    newest = ["--upgrade", "--prerelease=allow"]
    install(session, "onnxruntime", "onnx-ir", flags=newest)
    session.run_install("uv", "pip", "uninstall", "-q", "onnx")
    install(session, "onnx-weekly", flags=["--no-deps", *newest])  # what requires `onnx` would bring it back
    command = ["python", "-m", "pytest", "-q", "-n", WORKERS, *SUITE, "--jax2onnx-precision=f32", *session.posargs]
    session.run(*command, env=test_environment(session))


@nox.session(python=[OLDEST_PYTHON, NEWEST_PYTHON])
def golden(session: nox.Session) -> None:
    """The exported graphs beside those of tests-integration/golden; `-- --update` rewrites these, on both Pythons.

    With the oldest JAX those are rewritten that all versions share, with the newest its variants.
    """
    install_workspace(session)
    mode = "rewrite" if session.python == OLDEST_PYTHON else "rewrite-variants"
    options = [f"--golden={mode}" if word == "--update" else word for word in session.posargs]
    session.run("python", "-m", "pytest", "-q", str(INTEGRATION / "test_golden.py"), *options)


@nox.session
def fuzz(session: nox.Session) -> None:
    """5,000 random programs and as many look-alikes of formulas; `-- --programs 100 --seed 7 --seconds 600`."""
    install_workspace(session)
    for kind in ("programs", "formulas"):
        command = ["python", "-m", "fuzzing", kind, "--programs", "5000", "--jobs", WORKERS]
        session.run(*command, *session.posargs, env={"PYTHONPATH": str(INTEGRATION)})


@nox.session(tags=["nightly"])
def mutants(session: nox.Session) -> None:
    """Changes of the sources, one at a time: the share that the tests beside the file notice; `-- --count 100 --seed 7 PATH`."""
    install_workspace(session, *TESTED, "cosmic-ray>=8.7,<9")
    run_script(session, TOOLS / "mutants.py", "--jobs", WORKERS, *session.posargs, env=test_environment(session))


# -- checks of the sources ------------------------------------------------------------------


@nox.session(tags=["ci"])
def lint(session: nox.Session) -> None:
    """ruff over everything: the rules, the imports' order, the layout; `-- --fix` mends what it can."""
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
    """mypy: strict over every package and the third-party example; over tests, examples, benchmarks and tools with fewer demands."""
    install_workspace(session, MYPY)
    mypy = ["mypy", "--config-file", str(ROOT / "pyproject.toml")]
    third_party = INTEGRATION / "third-party"
    session.run(*mypy, *[str(package(name) / "src") for name in PACKAGES], str(third_party / "src"))
    roots = [*[package(name) / "tests" for name in PACKAGES], INTEGRATION, EXAMPLE_MODELS, BENCHMARKS, TOOLS]
    for root in roots:
        files = [str(file) for file in sorted(root.rglob("*.py")) if third_party not in file.parents]
        # Tests import examples, benchmarks and tools, the scripts of folders each other.
        own = [] if root == EXAMPLE_MODELS else [root]
        path = os.pathsep.join(dict.fromkeys(map(str, [*own, ROOT, TOOLS, BENCHMARKS, INTEGRATION / "folders"])))
        session.run(*mypy, *TEST_TYPES, *files, env={"MYPYPATH": path})


@nox.session(tags=["ci"])
def docs(session: nox.Session) -> None:
    """Build the documentation into site/, check its links, run its code blocks; `-- quick` builds the site alone, in a minute."""
    # ruff lays the signatures out
    install_workspace(session, "mkdocs-material>=9.6", "mkdocstrings[python]>=0.30", RUFF, *BUILD_TOOLS)
    site = ["build", "-q", "-f", str(ROOT / "mkdocs.yml")]
    if session.posargs == ["quick"]:
        session.run("mkdocs", *site, env={"NO_MKDOCS_2_WARNING": "1"})
        return
    for table in ("coverage_table.py", "gallery.py"):
        run_script(session, TOOLS / table)
    session.run("python", "-m", "pytest", "-q", str(TOOLS / "check_docs.py"), *session.posargs)
    session.run("mkdocs", *site, "--strict", env={"NO_MKDOCS_2_WARNING": "1"})


# -- whole programs -------------------------------------------------------------------------


@nox.session(tags=["ci"])
def demo(session: nox.Session) -> None:
    """Train a small network on handwritten digits, export it, and compare the exported model with JAX."""
    install_workspace(session, DIGITS)
    run_script(session, INTEGRATION / "demo.py", *session.posargs)


@nox.session(tags=["ci"])
def generate(session: nox.Session) -> None:
    """Train a small decoder, export it with its cache, in float32 and in int4, and let it write in ONNX Runtime."""
    install_workspace(session)
    run_script(session, INTEGRATION / "generate.py", *session.posargs)


BROWSER = TOOLS / "browser"


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


@nox.session(tags=["ci"])
def browser(session: nox.Session) -> None:
    """The page of docs/demo: train and export its models, run it in Chromium, compare with JAX; `-- --serve` serves it."""
    npm_packages(session, BROWSER)
    find = ["node", str(BROWSER / "browser.mjs"), "--find"]
    if not str(session.run(*find, external=True, silent=True, success_codes=[0, 3])).strip():
        session.skip("neither Chromium nor Chrome is installed; CHROMIUM=PATH may name one")
    install_workspace(session, DIGITS)
    run_script(session, INTEGRATION / "browser_demo.py", *session.posargs)


# What the cluster needs; the tests of jax2onnx-ray do without.
RAY = "ray[data,serve]>=2.50"


@nox.session(tags=["nightly"])
def ray(session: nox.Session) -> None:
    """Programs on a local Ray cluster of several processes: results, errors, throughput, serving, stages; and its page."""
    install_workspace(session, RAY)
    # On a busy machine the processes of a cluster take their time to start.
    patience = {"RAY_raylet_start_wait_time_s": "90", "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "120"}
    environment = {**patience, "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "120", "PYTHONWARNINGS": "ignore"}
    run_script(session, INTEGRATION / "ray_cluster.py", *session.posargs, env=environment)
    pages = [str(TOOLS / "check_docs.py"), "-k", "cluster or jax2onnx-ray"]
    session.run("python", "-m", "pytest", "-q", "-W", "default", *pages, env=environment)  # warnings are Ray's


# What each script of tests-integration/folders needs besides the packages of this repository.
FOLDERS = {
    "genai": ["onnxruntime-genai==0.18.*", "google-tunix>=0.1.7", "qwix>=0.1.8"],
    "tunix_samplers": ["google-tunix>=0.1.7"],
    "transformersjs": ["tokenizers>=0.21", DIGITS],
    "optimum_onnx": ["optimum-onnx[onnxruntime]>=0.1", "pillow", "torchvision", DIGITS],
}


@nox.session(python=OLDEST_PYTHON, tags=["nightly"])
def folders(session: nox.Session) -> None:
    """Folders for other runtimes, run by these, compared with JAX and timed: the rows of docs/folders-measured.md; `-- genai` for one."""
    names, options = given(session)
    if unknown := set(names) - FOLDERS.keys():
        session.error(f"{', '.join(sorted(unknown))}: no such folders ({', '.join(FOLDERS)})")
    for name in names or FOLDERS:
        if name == "transformersjs":
            # One of its packages fetches what only GPUs need.
            npm_packages(session, INTEGRATION / "folders" / "transformersjs", "--ignore-scripts")
            npm_packages(session, BROWSER)
        # Without EXAMPLES, whose versions are others than tunix takes.
        python = environment(session, name, *editable(), "onnxruntime>=1.24", "optax", *FOLDERS[name])
        run_script(session, INTEGRATION / "folders" / f"{name}.py", *options, python=python)


# -- tables ---------------------------------------------------------------------------------


@nox.session(tags=["nightly"])
def sweep(session: nox.Session) -> None:
    """Calls of every public function of JAX through export and ONNX Runtime; writes its part of docs/conformance.md."""
    install_workspace(session)
    run_script(session, TOOLS / "sweep.py", *session.posargs)


@nox.session(tags=["nightly"])
def conformance(session: nox.Session) -> None:
    """JAX's own primitive harness through export and ONNX Runtime; writes docs/conformance.md."""
    install_workspace(session)
    run_script(session, TOOLS / "conformance.py", *session.posargs)


# Other runtimes, and old versions of ONNX Runtime, which have wheels for old Pythons only; the oldest was built for NumPy 1.
RUNTIMES = {
    "1.18": ["onnxruntime==1.18.*", "numpy<2"],
    "1.20": ["onnxruntime==1.20.*"],
    "1.22": ["onnxruntime==1.22.*"],
    "1.23": ["onnxruntime==1.23.*"],
    "openvino": ["openvino"],
    "tract": ["tract==0.23.*"],
}
# What runs there besides the runtime: the packages of this repository that know nothing of JAX.
RUNTIME_TOOLS = ["ml-dtypes", "onnx", "onnx-ir", "pluggy"]


@nox.session(python=OLDEST_PYTHON, tags=["nightly"])
def targets(session: nox.Session) -> None:
    """Models and cases in old and other runtimes, each in an environment of its own; writes docs/targets.md."""
    install_workspace(session)
    if shutil.which("npm"):
        npm_packages(session, BROWSER)
    arguments = []
    for name, needed in RUNTIMES.items():
        try:
            arguments.append(f"--runtime={name}={environment(session, name, *needed, *RUNTIME_TOOLS)}")
        except CommandFailed:
            session.warn(f"without {name}: {', '.join(needed)} cannot be installed on this machine")
    run_script(session, TOOLS / "targets.py", *arguments, *session.posargs)


# The vendors' software for accelerators, which does without them on processors of x86-64: a builder of engines, a simulation.
ACCELERATORS = {
    "tensorrt": ["tensorrt-rtx-cu13-libs==1.7.*", "tensorrt-rtx-cu13-bindings==1.7.*"],
    "qnn": ["onnxruntime-qnn==2.7.*", "onnxruntime>=1.31"],
}


def accelerator(session: nox.Session, target: str) -> None:
    """Run the tests of a target with the software for its accelerator, and give it the cases of all packages."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        session.skip(f"the software for {target} that needs no accelerator is for Linux on x86-64")
    install_workspace(session, *ACCELERATORS[target])
    session.run("python", "-m", "pytest", "-q", str(package(target) / "tests"), env=test_environment(session))
    python = shutil.which("python", path=session.bin)
    run_script(session, TOOLS / "targets.py", f"--accelerator={target}={python}", *session.posargs)


@nox.session(python=OLDEST_PYTHON, tags=["nightly"])
def tensorrt(session: nox.Session) -> None:
    """Engines of every case of every package, by the builder of TensorRT for RTX; writes its part of docs/devices.md; `-- --every 10`."""
    accelerator(session, "tensorrt")


@nox.session(python=OLDEST_PYTHON, tags=["nightly"])
def qnn(session: nox.Session) -> None:
    """Every case of every package on the simulated NPU of Qualcomm; writes its part of docs/devices.md; `-- --every 10`."""
    accelerator(session, "qnn")


# The scripts of benchmarks/ with tables, and what each needs besides the workspace.
TABLES = {
    "control": [], "conversion": [], "experts": [], "generation": [], "quantization": [], "recurrences": [], "samplers": [],
    "training": [], "training_runtimes": [], "weights": [], "optimisers": ["onnxslim>=0.1.90", "onnxsim>=0.8"],
    "winml_tables": ["pyarrow>=18"],
    # Libraries whose models are surveyed; transformers 5 has no Flax models.
    "survey": ["google-tunix>=0.1.6", "transformers>=4.57,<5", "keras-hub>=0.32", "equimo>=1.1"],
}  # fmt: skip


@nox.session
def tables(session: nox.Session) -> None:
    """Tables of timings and of what other tools find, by the scripts of benchmarks/: `-- recurrences`; its README has all of them."""
    name, *arguments = session.posargs or [""]
    if name not in TABLES:
        session.error(f"Name a table behind --: {', '.join(TABLES)}")
    # The further requirements take other versions than EXAMPLES.
    python = environment(session, name, *editable(), *TEST_TOOLS, *(TABLES[name] or EXAMPLES))
    run_script(session, BENCHMARKS / f"{name}.py", *arguments, python=python, env={"TF_CPP_MIN_LOG_LEVEL": "3"})


# -- releases -------------------------------------------------------------------------------


def built(session: nox.Session, directory: Path, *packages: Path) -> Path:
    """The directory, with nothing but a wheel and an sdist of each of the packages; needs the `BUILD_TOOLS`."""
    shutil.rmtree(directory, ignore_errors=True)
    for path in packages:
        session.run("python", "-m", "build", "-q", "--no-isolation", "-o", str(directory), str(path))
    return directory


@nox.session(tags=["ci"])
def wheels(session: nox.Session) -> None:
    """Build all wheels; install each with core only; the third-party example from its wheel."""
    install(session, *BUILD_TOOLS, "pytest>=8.4", "uv>=0.5")
    directory = built(session, ROOT / "dist", *map(package, PACKAGES))
    example = built(session, session.cache_dir / "third-party-wheels", INTEGRATION / "third-party")
    session.run(
        "python", "-m", "pytest", "-q", str(TOOLS / "check_wheels.py"), *session.posargs,
        env={"JAX2ONNX_WHEELS": str(directory.resolve()), "JAX2ONNX_EXAMPLE": str(example.resolve())},
    )  # fmt: skip


@nox.session(tags=["ci"])
def build(session: nox.Session) -> None:
    """Build a wheel and an sdist of every package into dist/, after the release check, with bills of materials."""
    install(session, *BUILD_TOOLS, "uv>=0.5", "cyclonedx-bom>=7", "twine>=6")
    session.run("python", str(TOOLS / "check_release.py"))
    directory = built(session, ROOT / "dist", *map(package, PACKAGES))
    session.run("python", "-m", "twine", "check", "--strict", *map(str, directory.iterdir()))
    wheels = sorted(map(str, directory.glob("*.whl")))
    session.run("python", str(TOOLS / "sbom.py"), *wheels, "--wheels", str(directory), "--output", str(directory))
    session.log(f"built into {directory}")


@nox.session(tags=["nightly"])
def skew(session: nox.Session) -> None:
    """The last released plugins with today's core, and today's with the oldest core they admit; `-- --only lax -- -k gelu`."""
    install(session, *BUILD_TOOLS, "uv>=0.5")
    session.run("python", str(TOOLS / "skew.py"), *session.posargs)


@nox.session(tags=["nightly"])
def history(session: nox.Session) -> None:
    """Made-up releases of all packages, some incompatible on purpose: what fits works, what does not is refused and named."""
    install(session, *BUILD_TOOLS, "uv>=0.5")
    session.run("python", str(TOOLS / "release_history.py"), *session.posargs)


@nox.session(tags=["nightly"])
def walkthrough(session: nox.Session) -> None:
    """A newcomer's steps, programs, mistakes and release with the built packages, in an empty directory; writes docs/walkthrough*."""
    install(session, *BUILD_TOOLS)
    wheels = built(session, ROOT / "dist", *map(package, PACKAGES))
    session.run("python", str(TOOLS / "walkthrough.py"), str(wheels))
