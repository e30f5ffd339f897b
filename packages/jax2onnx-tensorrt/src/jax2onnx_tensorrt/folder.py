"""`TensorRtFolder`: the folder that `jax2onnx export --for tensorrt` writes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.saving.reading import read_model
from jax2onnx_graph.saving.writing import save_model
from jax2onnx_runtime.feeds import symbol_space
from jax2onnx_runtime.folders import ExportedProgram, FolderOption, complete_folder

from jax2onnx_tensorrt.profiles import EngineProfiles, engine_profiles, read_profile
from jax2onnx_tensorrt.script import build_script

__all__ = ["TensorRtFolder", "write_folder", "writer"]

_MODEL = "model"
_SHELL = (
    "#!/bin/sh",
    "# Builds the TensorRT engines of the models beside this file. Written by jax2onnx-tensorrt.",
    "set -e",
    'cd "$(dirname "$0")"',
)


@runtime_checkable
class _Specializable(Protocol):
    """A program that can be lowered for fixed sizes of its symbols."""

    def save_variants(self, directory: str | os.PathLike[str], **variants: Mapping[str, int]) -> list[Path]: ...


class TensorRtFolder:
    """Writes models for TensorRT with what builds their engines, on a machine with a GPU.

    * `model.onnx`: the model with its symbols, if there are profiles or no symbols;
    * `NAME.onnx`: a static model of each variant, all of which share their weights;
    * `trtexec.sh`: a command for each engine;
    * `build_engine.py`: the same by TensorRT's Python API;
    * `profiles.json`: the engines with their profiles, by symbols and by shapes, and options of ONNX Runtime's TensorRT provider.
    """

    description = "TensorRT: the models, and scripts that build their engines"
    options: Sequence[FolderOption] = (
        FolderOption("profile", str, "An optimisation profile of the dynamic model; repeat it for several, which must not overlap.", is_list=True,
                     metavar="NAME:SYMBOL=MIN..OPT..MAX,…"),
        FolderOption("fp16", bool, "Let TensorRT (up to version 10) compute in float16."),
        FolderOption("variant", str, "A static model of fixed sizes, with an engine of its own.", is_list=True, metavar="NAME:SYMBOL=N,…"),
    )  # fmt: skip

    def write(self, program: ExportedProgram, folder: str | os.PathLike[str], **options: object) -> list[Path]:
        """Write the folder, as a whole or not at all.

        Args:
          program: the program; one with its function if there are variants.
          folder: the folder, which does not exist or is empty.
          **options: `profile` and `variant`, texts such as "step:T=1,S=0..1370..1370", and `fp16`.

        Returns:
          The files that were written.

        Raises:
          OptionError: an option is wrong.
          SymbolError: a profile or a variant has sizes that are not possible.
          SaveError: the folder exists, or writing failed.
        """
        profiles = _named("profile", options.pop("profile", ()))
        variants = _named("variant", options.pop("variant", ()))
        fp16 = bool(options.pop("fp16", False))
        if options:
            raise OptionError(f"A folder for TensorRT has no option {min(options)}.")
        for name, sizes in variants.items():
            for symbol, three in sizes.items():
                if len(set(three)) > 1:
                    raise OptionError(f"The variant {name!r} is static: give {symbol} one size.")
        static = {name: {symbol: three[0] for symbol, three in sizes.items()} for name, sizes in variants.items()}
        return write_folder(program, folder, profiles, static, fp16=fp16)


#: What the entry point names.
writer = TensorRtFolder()


def _named(option: str, texts: object) -> dict[str, dict[str, tuple[int, int, int]]]:
    if not isinstance(texts, (tuple, list)):
        raise OptionError(f"{option} takes a sequence of texts, not {texts!r:.80}.")
    found: dict[str, dict[str, tuple[int, int, int]]] = {}
    for text in texts:
        name, sizes = read_profile(text)
        if name in found:
            raise OptionError(f"The {option} {name!r} is given twice.")
        found[name] = sizes
    return found


def write_folder(
    program: ExportedProgram, folder: str | os.PathLike[str], profiles: Mapping[str, Mapping[str, tuple[int, int, int]]],
    variants: Mapping[str, Mapping[str, int]], *, fp16: bool = False,
) -> list[Path]:  # fmt: skip
    """Write the folder of `TensorRtFolder`.

    Args:
      program: the program; one with its function if there are variants.
      folder: the folder, which does not exist or is empty.
      profiles: name → symbol → (least, usual, largest), of the dynamic model.
      variants: name → symbol → size, of static models.
      fp16: whether TensorRT may compute in float16.

    Returns:
      The files that were written.
    """
    model = program.portable().model
    if not model.graph.inputs:
        raise OptionError("The program has no inputs: there is nothing that an engine could be given.")
    if _MODEL in variants:
        raise OptionError(f"No variant can be called {_MODEL!r}, as the model with symbols is.")
    if variants and not isinstance(program, _Specializable):
        raise OptionError(
            "Variants are made of the exported program with its function, not of one in fewer bits or from another process."
        )
    is_dynamic = bool(profiles) or not variants
    engines = {_MODEL: engine_profiles(model, profiles)} if is_dynamic else {}
    with complete_folder(folder) as part:
        written = [save_model(model, part / f"{_MODEL}.onnx")] if is_dynamic else []
        if variants and isinstance(program, _Specializable):
            written += program.save_variants(part, **variants)
            engines |= {name: _static(part / f"{name}.onnx", sizes) for name, sizes in variants.items()}
        written += _write_scripts(part, engines, fp16=fp16)
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


def _entry(name: str, profiles: EngineProfiles, *, fp16: bool) -> dict[str, object]:
    return {
        "model": f"{name}.onnx", "engine": f"{name}.engine",
        "profiles": [
            {"name": profile, "sizes": dict(profiles.sizes[profile]), "shapes": dict(shapes.shapes)}
            for profile, shapes in profiles.shapes.items()
        ],
        "provider_options": profiles.provider_options(fp16=fp16),
    }  # fmt: skip
