"""Write docs/walkthrough.md and docs/walkthrough/: what a newcomer does, each step run in an empty directory with only Python.

Fifteen steps, fifteen programs (tools/newcomer/programs), thirty mistakes (tools/newcomer/mistakes.md), a plugin and a release. What
went otherwise than a newcomer expects is listed under *Friction*, and the exit code is 1: a step that failed or wrote to the standard error,
a message without the words that help.

Usage: python tools/walkthrough.py WHEELS, the folder of the built packages
"""

from __future__ import annotations

import ast
import dataclasses
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
NEWCOMER = ROOT / "tools" / "newcomer"
#: Lines of output that are shown of a step, and how many of them are the last.
SHOWN, LAST = 16, 3
#: What pip says of the places where a machine lets it look for packages.
_OF_PIP = re.compile(r"WARNING: Location '.*' is ignored: .*\n+")

INTRODUCTION = """# Fifteen steps

From an empty directory to a plugin of your own; everything below was run as it stands here, one step after another, and has
the output that it gave. Until the packages are released, `pip` takes them from a folder of wheels, which
`python3 -m nox -s build` puts into `dist/` of a checkout: add `--find-links path/to/dist` to each `pip install`.

In the same directory: [fifteen programs](walkthrough/programs.md), [thirty mistakes](walkthrough/mistakes.md) and
[a plugin and its release](walkthrough/release.md).
"""

PROGRAMS = """# Fifteen programs

Programs of many kinds, each exported, compared with JAX, and shown with what it printed. They were run as they stand here after the
[fifteen steps](../walkthrough.md), in the same directory.
"""

MISTAKES = """# Thirty mistakes

What is written, and what is printed. Errors of Python are shown without the traceback above them, which ends at the line of the program.
"""

RELEASE = """# A plugin and its release

The package that step 13 of the [fifteen steps](../walkthrough.md) made has a primitive of JAX, `acme_sawtooth`, with a rule, and a function
that a composite shows as one operation. Here it is checked, built, signed, and installed where nothing else of its author is; a
model is signed, too.
"""

MORE_PACKAGES = "pip install -q jax2onnx-linen jax2onnx-equinox jax2onnx-haiku optax"

USE = """from jax2onnx_acme.primitives import sawtooth
from jax2onnx_core import to_onnx

program = to_onnx(lambda x: sawtooth(x, period=2.0) + 1, [("n",)])
print(program)
print("largest difference:", program.verify())
"""

DIGITS = """import jax.numpy as jnp
from flax import nnx


class Digits(nnx.Module):
    def __init__(self, rngs):
        self.conv = nnx.Conv(1, 16, (3, 3), rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.out = nnx.Linear(256, 10, rngs=rngs)

    def __call__(self, images):
        x = nnx.relu(self.norm(self.conv(images)))
        x = nnx.max_pool(x, (2, 2), strides=(2, 2))
        return nnx.softmax(self.out(x.reshape(x.shape[0], 256)))


def build():
    model = Digits(nnx.Rngs(0))
    model.eval()  # this is the place to restore a checkpoint
    return model, [("batch", 8, 8, 1)]
"""

PROGRAM = """import numpy as np
from digits import build
from jax2onnx_core import to_onnx

model, inputs = build()
program = to_onnx(model, inputs)
images = np.random.default_rng(0).random((5, 8, 8, 1), np.float32)
print("largest difference from JAX:", abs(program(images) - model(images)).max())
"""

WRONG = """import jax.numpy as jnp
from jax2onnx_core import Rules, hookimpl, to_onnx

rules = Rules(overrides=True)


@rules.lower("tanh")
def not_tanh(ctx, x, **_):
    return ctx.op.Sin(x)


class Plugin:
    @hookimpl
    def jax2onnx_register(self, registry):
        registry.add(rules)


program = to_onnx(lambda x: jnp.tanh(2 * x) + 1, [("B", 3)], plugins=[Plugin()])
print(program.bisect())
"""

QUANTIZE = """from digits import build
from jax2onnx_core import to_onnx

small = to_onnx(*build()).quantize("int8")
print(small.accuracy())
small.save("small.onnx")
"""


@dataclasses.dataclass(frozen=True)
class Step:
    """A step of the walkthrough.

    Attributes:
      text: its heading.
      command: the command that is run.
      file: the name and the content of a file that is written first.
      code: the expected exit code.
    """

    text: str
    command: str
    file: tuple[str, str] | None = None
    code: int = 0


STEPS = [
    Step("An environment.", "python3 -m venv .venv && . .venv/bin/activate && python --version"),
    Step("The packages: the engine, Flax NNX, ONNX Runtime, the command line.",
         'pip install -q jax2onnx-core jax2onnx-nnx "jax2onnx-onnxruntime[cpu]" jax2onnx-cli'),
    Step("Is everything there?", "jax2onnx doctor"),
    Step("A model in a file, exported and run from Python.", "python program.py", ("program.py", PROGRAM)),
    Step("The same from the shell.", "jax2onnx export digits.py:build -o digits.onnx"),
    Step("Does the file compute what JAX does, at any batch size?", "jax2onnx verify digits.onnx digits.py:build"),
    Step("What is in it?", "jax2onnx inspect digits.onnx"),
    Step("Run it without JAX: only the runtime reads the file.", "jax2onnx run digits.onnx --random --sizes batch=2"),
    Step("A page that shows the graph, the weights and what became of each line; open it in a browser.",
         "jax2onnx report digits.py:build --verify -o digits.html"),
    Step("Where do numbers part? A rule that is wrong on purpose, and what finds it.", "python wrong.py", ("wrong.py", WRONG)),
    Step("Weights in eight bits, and how far the results are from float32.", "python quantize.py", ("quantize.py", QUANTIZE)),
    Step("What is the difference?", "jax2onnx diff digits.onnx small.onnx", code=1),
    Step("A plugin of your own, from a template.", "jax2onnx new-plugin acme"),
    Step("It is a package with tests; they pass, and it is found like any other plugin.",
         'pip install -q -e "jax2onnx-acme[test]" && (cd jax2onnx-acme && python -m pytest -q) && jax2onnx plugins'),
    Step("Ready to be published: the wheel and the source distribution, checked but not uploaded.",
         "pip install -q build twine && python -m build jax2onnx-acme > build.log 2>&1 && twine check jax2onnx-acme/dist/*"),
]  # fmt: skip


PROGRAM_FILES = [
    "mlp.py", "cnn.py", "transformer.py", "rnn.py", "while_loop.py", "integers.py", "dictionaries.py", "static_arguments.py",
    "sampling.py", "optimiser_step.py", "equinox_model.py", "linen_batch_stats.py", "haiku_net.py", "preprocessing.py", "decoder.py",
]  # fmt: skip

RELEASE_STEPS = [
    Step("The primitive in a model.", "python use.py", ("use.py", USE)),
    Step("Its types, strictly, and its layout.", "cd jax2onnx-acme && mypy --strict && ruff check && ruff format --check"),
    Step("A second build gives the same bytes.",
         "python -m build --wheel -o again jax2onnx-acme &> again.log && cmp again/*.whl jax2onnx-acme/dist/*.whl && echo the same"),
    Step("A pair of keys. The private one stays with you.",
         "openssl ecparam -name prime256v1 -genkey -noout -out key.pem && openssl ec -in key.pem -pubout -out release.pub 2> key.log"),
    Step("A signed model.",
         "pip install -q model-signing pyopenssl && mkdir release && jax2onnx export digits.py:build -o release/digits.onnx"
         " && python -m model_signing sign key release --private_key key.pem --signature release.sig"),
    Step("Signed packages: the signature is for all files of the directory.",
         "python -m model_signing sign key jax2onnx-acme/dist --private_key key.pem --signature dist.sig"),
    Step("Whoever loads the model checks it.", "python -m model_signing verify key release --public_key release.pub --signature release.sig"),
    Step("A model that was changed is refused.",
         "cp -r release changed && sed -i s/Softmax/Sigmoid/ changed/digits.onnx"
         " && python -m model_signing verify key changed --public_key release.pub --signature release.sig",
         code=1),
    Step("Whoever installs the packages checks them.",
         "python -m model_signing verify key jax2onnx-acme/dist --public_key release.pub --signature dist.sig"),
    Step("A second environment, with the package from its wheel.",
         "python3 -m venv second && . second/bin/activate && pip install -q jax2onnx-acme/dist/*.whl jax2onnx-lax"
         ' "jax2onnx-onnxruntime[cpu]" jax2onnx-cli && jax2onnx plugins'),
    Step("The primitive there.", ". second/bin/activate && python use.py"),
    Step("The model there.",
         ". second/bin/activate && jax2onnx run release/digits.onnx --random --sizes batch=2"),
]  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Mistake:
    """A mistake.

    Attributes:
      heading: what it is.
      language: "py", or "console" for a command.
      code: the program, or the command.
      helps: words of a message that helps.
    """

    heading: str
    language: str
    code: str
    helps: str


def mistakes() -> list[Mistake]:
    """Mistakes that tools/newcomer/mistakes.md lists."""
    text = (NEWCOMER / "mistakes.md").read_text()
    form = re.compile(r"^## (.+?)\n\n```(py|console)\n(.+?)\n```\n\nhelps: (.+?)$", re.MULTILINE | re.DOTALL)
    return [Mistake(*match) for match in form.findall(text)]


class Newcomer:
    """A newcomer who takes the steps.

    Attributes:
      folder: the directory where everything happens.
      wheels: the directory of our wheels.
      friction: what went otherwise than a newcomer expects.
    """

    def __init__(self, folder: Path, wheels: Path) -> None:
        self.folder, self.wheels = folder, wheels
        self.friction: list[str] = []

    def run(self, command: str, code: int = 0) -> list[str]:
        """Run a command in the shell, and return the lines that it prints, with those of the standard error if it is to fail.

        Args:
          command: the command.
          code: the expected exit code.
        """
        activate = ". .venv/bin/activate; " if (self.folder / ".venv").exists() else ""
        environment = {
            "PIP_FIND_LINKS": str(self.wheels),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "COLUMNS": "110",
            "NO_COLOR": "1",
        }
        exports = "".join(f"export {name}='{value}'; " for name, value in environment.items())
        start = time.monotonic()
        done = subprocess.run(
            ["bash", "-c", exports + activate + command], cwd=self.folder, capture_output=True, text=True, check=False
        )
        print(f"{time.monotonic() - start:6.1f} s  {command}", flush=True)
        errors = _OF_PIP.sub("", done.stderr)
        if done.returncode != code:
            self.note(
                f"`{command}` ends with exit code {done.returncode}, not {code}: {done.stdout[-500:]} {errors[-2000:]}"
            )
        elif errors and code == 0:
            self.note(f"`{command}` writes to the standard error: {errors}")
        return self.lines(done.stdout + (errors if code else ""))

    def lines(self, text: str) -> list[str]:
        """The lines of an output, without what is true of one machine only."""
        text = text.replace(str(self.folder.resolve()), "~/try").replace(str(self.folder), "~/try")
        text = re.sub(r"Linux-\S+", "Linux", text)  # the kernel's name
        return [line.rstrip() for line in text.splitlines()]

    def note(self, friction: str) -> None:
        """Note what went otherwise than expected."""
        print("friction:", friction, flush=True)
        self.friction.append(" ".join(self.lines(friction)))

    def write(self, name: str, content: str) -> str:
        """Write a file, and return the block that shows it."""
        (self.folder / name).write_text(content)
        return f'```py title="{name}"\n{content}```\n'


def block(command: str, lines: Sequence[str], *, last: int = 0) -> str:
    """A command with the lines that it printed: the first of them, and so many of the last."""
    if len(lines) > SHOWN:
        lines = [*lines[: SHOWN - last], "…", *lines[len(lines) - last :]]
    return "\n".join(["```text", f"$ {command}", *lines, "```"])


def steps_page(newcomer: Newcomer, introduction: str, steps: Sequence[Step]) -> Iterator[str]:
    """Take steps, and return the lines of the page about them."""
    yield introduction.rstrip("\n")
    for number, step in enumerate(steps, 1):
        yield f"\n## {number}. {step.text}\n"
        if step.file is not None and step.file[0] == "program.py":
            yield newcomer.write("digits.py", DIGITS)
        if step.file is not None:
            yield newcomer.write(*step.file)
        yield block(step.command, newcomer.run(step.command, step.code))


def programs_page(newcomer: Newcomer) -> Iterator[str]:
    """Run the programs, and return the lines of the page about them."""
    yield PROGRAMS
    yield block(MORE_PACKAGES, newcomer.run(MORE_PACKAGES))
    for number, file in enumerate(PROGRAM_FILES, 1):
        source = (NEWCOMER / "programs" / file).read_text()
        first, _, rest = source.partition("\n\n")
        yield f"\n## {number}. {ast.literal_eval(first)}\n"
        yield newcomer.write(file, rest)
        yield block(f"python {file}", newcomer.run(f"python {file}"), last=LAST)


def mistakes_page(newcomer: Newcomer) -> Iterator[str]:
    """Make the mistakes, and return the lines of the page about them."""
    yield MISTAKES.rstrip("\n")
    found = mistakes()
    files = []
    for number, mistake in enumerate(found, 1):
        if mistake.language == "py":
            files.append(f"mistake_{number}.py")
            newcomer.write(files[-1], f"{mistake.code}\n")
    command = f"python {NEWCOMER / 'make_mistakes.py'} {' '.join(files)}"
    said = iter(json.loads("\n".join(newcomer.run(command)) or "[]"))
    for number, mistake in enumerate(found, 1):
        is_program = mistake.language == "py"
        lines = str(next(said, "")).splitlines() if is_program else newcomer.run(mistake.code, 2)
        if mistake.helps not in "\n".join(lines):
            newcomer.note(f"{mistake.heading}: the message lacks *{mistake.helps}*: {' '.join(lines)}")
        yield f"\n## {number}. {mistake.heading}\n"
        yield f"```py\n{mistake.code}\n```\n\n```text" if is_program else f"```text\n$ {mistake.code}"
        yield "\n".join([*newcomer.lines("\n".join(lines)), "```"])


def friction_lines(newcomer: Newcomer) -> Iterator[str]:
    """The last section of the first page, where something went otherwise than a newcomer expects."""
    if newcomer.friction:
        yield "\n## Friction\n"
        yield "What went otherwise than a newcomer expects, in the steps above and on the three other pages:"
        yield from (f"\n* {entry}" for entry in newcomer.friction)


def main() -> int:
    wheels = Path(sys.argv[1]).resolve()
    (DOCS / "walkthrough").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        newcomer = Newcomer(Path(folder), wheels)
        first = list(steps_page(newcomer, INTRODUCTION, STEPS))
        pages = {
            "programs": list(programs_page(newcomer)),
            "mistakes": list(mistakes_page(newcomer)),
            "release": list(steps_page(newcomer, RELEASE, RELEASE_STEPS)),
        }
    for name, lines in pages.items():
        (DOCS / "walkthrough" / f"{name}.md").write_text("\n".join(lines) + "\n")
    (DOCS / "walkthrough.md").write_text("\n".join([*first, *friction_lines(newcomer)]) + "\n")
    return 1 if newcomer.friction else 0


if __name__ == "__main__":
    raise SystemExit(main())
