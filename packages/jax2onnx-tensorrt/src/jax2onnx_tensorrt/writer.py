"""`writer`: the writer of folders behind `jax2onnx export --for tensorrt`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jax2onnx_graph.errors import OptionError
from jax2onnx_runtime.folders import FolderOption

if TYPE_CHECKING:
    from jax2onnx_runtime.program import Program

__all__ = ["TensorRtFolder", "writer"]


class TensorRtFolder:
    """Writes models for TensorRT with the script that builds their engines, on a machine with a GPU.

    * `model.onnx`: the model with its symbols, if there are profiles or no symbols;
    * `NAME.onnx`: a static model of each variant, all of which share their weights;
    * `trtexec.sh`: a command for each engine;
    * `build_engine.py`: the same by TensorRT's Python API;
    * `NAME.engine`: the engines, where `build` is asked for;
    * `profiles.json`: the engines with their profiles, by symbols and by shapes, and options of ONNX Runtime's TensorRT provider.
    """

    description = "TensorRT: the models, and scripts that build their engines"
    options: Sequence[FolderOption] = (
        FolderOption("profile", str, "An optimisation profile of the dynamic model; repeat it for several, which must not overlap.", is_list=True,
                     metavar="NAME:SYMBOL=MIN..OPT..MAX,…"),
        FolderOption("fp16", bool, "Let TensorRT (up to version 10) compute in float16."),
        FolderOption("build", bool, "Build the engines here, where TensorRT, or TensorRT for RTX without a GPU, is installed."),
        FolderOption("variant", str, "A static model of fixed sizes, with an engine of its own.", is_list=True, metavar="NAME:SYMBOL=N,…"),
    )  # fmt: skip

    def write(self, program: Program, folder: str | os.PathLike[str], **options: object) -> list[Path]:
        """Write the folder, as a whole or not at all.

        Args:
          program: the program; one with its function if there are variants.
          folder: the folder, which does not exist or is empty.
          **options: `profile` and `variant`, texts such as "step:T=1,S=0..1370..1370", `fp16`, and `build`.

        Returns:
          The files that were written.

        Raises:
          OptionError: an option is wrong.
          SymbolError: a profile or a variant has sizes that are not possible.
          SaveError: the folder exists, or writing failed.
          TargetError: an engine cannot be built here.
        """
        from jax2onnx_tensorrt.folder import write_folder

        profiles = _named("profile", options.pop("profile", ()))
        variants = _named("variant", options.pop("variant", ()))
        fp16 = bool(options.pop("fp16", False))
        build = bool(options.pop("build", False))
        if options:
            raise OptionError(f"A folder for TensorRT has no option {min(options)}.")
        for name, sizes in variants.items():
            for symbol, three in sizes.items():
                if len(set(three)) > 1:
                    raise OptionError(f"The variant {name!r} is static: give {symbol} one size.")
        static = {name: {symbol: three[0] for symbol, three in sizes.items()} for name, sizes in variants.items()}
        return write_folder(program, folder, profiles, static, fp16=fp16, build=build)


#: What the entry point names.
writer = TensorRtFolder()


def _named(option: str, texts: object) -> dict[str, dict[str, tuple[int, int, int]]]:
    if not isinstance(texts, (tuple, list)):
        raise OptionError(f"{option} takes a sequence of texts, not {texts!r:.80}.")
    from jax2onnx_tensorrt.profiles import read_profile

    found: dict[str, dict[str, tuple[int, int, int]]] = {}
    for text in texts:
        name, sizes = read_profile(text)
        if name in found:
            raise OptionError(f"The {option} {name!r} is given twice.")
        found[name] = sizes
    return found
