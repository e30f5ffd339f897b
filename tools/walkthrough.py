"""Write docs/walkthrough.md: what a newcomer does in fifteen steps, each run in an empty directory with only Python.

Usage: python tools/walkthrough.py WHEELS, the folder of the built packages
"""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
#: Lines of output that are shown of a step.
SHOWN = 16

INTRODUCTION = """# Fifteen steps

From an empty directory to a plugin of your own; everything below was run as it stands here, one step after another, and has
the output that it gave. Until the packages are released, `pip` takes them from a folder of wheels, which
`python3 -m nox -s build` puts into `dist/` of a checkout: add `--find-links path/to/dist` to each `pip install`.
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
print(small.verify())
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
         "pip install -q build twine && python -m build jax2onnx-acme > build.log && twine check jax2onnx-acme/dist/*"),
]  # fmt: skip


def outcome(step: Step, folder: Path, wheels: Path) -> list[str]:
    """Run the command of a step, and return the lines that it prints.

    Args:
      step: the step.
      folder: the directory where it is run.
      wheels: the directory of our wheels.
    """
    if step.file is not None:
        (folder / step.file[0]).write_text(step.file[1])
    activate = ". .venv/bin/activate; " if (folder / ".venv").exists() else ""
    environment = {
        "PIP_FIND_LINKS": str(wheels),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "COLUMNS": "110",
        "NO_COLOR": "1",
    }
    exports = "".join(f"export {name}='{value}'; " for name, value in environment.items())
    done = subprocess.run(
        ["bash", "-c", exports + activate + step.command], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode != step.code:
        raise SystemExit(f"{step.command}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    text = done.stdout.replace(str(folder.resolve()), "~/try").replace(str(folder), "~/try")
    text = re.sub(r"Linux-\S+", "Linux", text)  # the kernel's name is that of one machine
    return [line.rstrip() for line in text.splitlines()]


def section(number: int, step: Step, folder: Path, wheels: Path) -> Iterator[str]:
    """Run a step, and return the lines of the page about it.

    Args:
      number: the number of the step.
      step: the step.
      folder: the directory where it is run.
      wheels: the directory of our wheels.
    """
    yield f"\n## {number}. {step.text}\n"
    if number == 4:
        (folder / "digits.py").write_text(DIGITS)
        yield f'```py title="digits.py"\n{DIGITS}```\n'
    if step.file is not None:
        yield f'```py title="{step.file[0]}"\n{step.file[1]}```\n'
    start = time.monotonic()
    lines = outcome(step, folder, wheels)
    print(f"{number:3}. {time.monotonic() - start:6.1f} s  {step.command}", flush=True)
    if len(lines) > SHOWN:
        lines = [*lines[:SHOWN], "…"]
    yield "\n".join(["```text", f"$ {step.command}", *lines, "```"])


def main() -> None:
    wheels = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        parts = [line for n, step in enumerate(STEPS, 1) for line in section(n, step, Path(folder), wheels)]
    (ROOT / "docs" / "walkthrough.md").write_text("\n".join([INTRODUCTION.rstrip("\n"), *parts]) + "\n")


if __name__ == "__main__":
    main()
