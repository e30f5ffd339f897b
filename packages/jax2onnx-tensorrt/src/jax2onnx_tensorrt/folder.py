"""`write_folder`: models for TensorRT with the script that builds their engines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from jax2onnx_graph.errors import OptionError, TargetError
from jax2onnx_graph.saving.reading import read_model
from jax2onnx_graph.saving.writing import save_model
from jax2onnx_runtime.feeds import symbol_space
from jax2onnx_runtime.folders import complete_folder
from jax2onnx_runtime.program import Program

from jax2onnx_tensorrt.profiles import EngineProfiles, engine_profiles
from jax2onnx_tensorrt.script import build_script

__all__ = ["write_folder"]

_MODEL = "model"
_SHELL = (
    "#!/bin/sh",
    "# Builds the TensorRT engines of the models beside this file. Written by jax2onnx-tensorrt.",
    "set -e",
    'cd "$(dirname "$0")"',
)


def write_folder(
    program: Program, folder: str | os.PathLike[str], profiles: Mapping[str, Mapping[str, tuple[int, int, int]]],
    variants: Mapping[str, Mapping[str, int]], *, fp16: bool = False, build: bool = False,
) -> list[Path]:  # fmt: skip
    """Write the folder of `jax2onnx_tensorrt.writer.TensorRtFolder`.

    Args:
      program: the program; one with its function if there are variants.
      folder: the folder, which does not exist or is empty.
      profiles: name → symbol → (least, usual, largest), of the dynamic model.
      variants: name → symbol → size, of static models.
      fp16: whether TensorRT may compute in float16.
      build: whether the engines are built here, too, in a process of their own; TensorRT or TensorRT for RTX has to be installed.

    Returns:
      The files that were written.
    """
    model = program.portable().model
    if not model.graph.inputs:
        raise OptionError("The program has no inputs: there is nothing that an engine could be given.")
    if _MODEL in variants:
        raise OptionError(f"No variant can be called {_MODEL!r}, as the model with symbols is.")
    is_dynamic = bool(profiles) or not variants
    engines = {_MODEL: engine_profiles(model, profiles)} if is_dynamic else {}
    with complete_folder(folder) as part:
        written = [save_model(model, part / f"{_MODEL}.onnx")] if is_dynamic else []
        if variants:
            written += program.save_variants(part, **variants)
            engines |= {name: _static(part / f"{name}.onnx", sizes) for name, sizes in variants.items()}
        written += _write_scripts(part, engines, fp16=fp16)
        if build:
            _build(part)
        names = sorted(path.name for path in part.iterdir())
    return [Path(folder) / name for name in names]


def _static(path: Path, sizes: Mapping[str, int]) -> EngineProfiles:
    """The profiles of a static model: none."""
    model = read_model(path)
    if left := symbol_space(model).names:
        given = ", ".join(f"{symbol}={size}" for symbol, size in sizes.items())
        raise OptionError(f"The variant {path.stem}:{given} leaves {', '.join(left)} open: give {left[0]} a size, too.")
    return engine_profiles(model, {})


def _write_scripts(part: Path, engines: Mapping[str, EngineProfiles], *, fp16: bool) -> list[Path]:
    lines = [profiles.trtexec_line(f"{name}.onnx", f"{name}.engine", fp16=fp16) for name, profiles in engines.items()]
    table = {"engines": [_entry(name, profiles, fp16=fp16) for name, profiles in engines.items()]}
    texts = {
        "trtexec.sh": "\n".join([*_SHELL, *lines, ""]),
        "build_engine.py": build_script(engines, fp16=fp16),
        "profiles.json": json.dumps(table, indent=1) + "\n",
    }
    for name, text in texts.items():
        (part / name).write_text(text, encoding="utf-8")
    (part / "trtexec.sh").chmod(0o755)
    return [part / name for name in texts]


def _build(part: Path) -> None:
    """Run the script that builds the engines; the builder may end its process."""
    found = subprocess.run([sys.executable, "build_engine.py"], cwd=part, capture_output=True, text=True, check=False)
    if found.returncode:
        reason = found.stderr.strip() or f"the process of the builder ended with {found.returncode}"
        raise TargetError(f"No engine was built: {reason}")


def _entry(name: str, profiles: EngineProfiles, *, fp16: bool) -> dict[str, object]:
    return {
        "model": f"{name}.onnx", "engine": f"{name}.engine",
        "profiles": [
            {"name": profile, "sizes": dict(profiles.sizes[profile]), "shapes": dict(shapes.shapes)}
            for profile, shapes in profiles.shapes.items()
        ],
        "provider_options": profiles.provider_options(fp16=fp16),
    }  # fmt: skip
