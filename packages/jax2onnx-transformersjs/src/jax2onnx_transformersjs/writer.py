"""`writer`: what `jax2onnx export --for transformersjs` calls."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jax2onnx_graph.errors import OptionError, ReadError
from jax2onnx_runtime.folders import FolderOption

if TYPE_CHECKING:
    from jax2onnx_runtime.program import Program

    from jax2onnx_transformersjs.image_classification import Images

__all__ = ["TransformersJsWriter", "writer"]

_TASKS = ("text-generation", "image-classification", "feature-extraction")
_DTYPES = ("fp32", "fp16", "q8", "q4", "q4f16")
_KINDS = ("eos", "bos", "pad")
_OPTIONS = (
    FolderOption("task", str, "The pipeline that is to run the model.", choices=_TASKS),
    FolderOption("precision", str, "A precision that is written, as dtype names it in transformers.js; repeat it for more.", choices=_DTYPES, is_list=True),
    FolderOption("model_type", str, "The model_type of config.json.", metavar="TYPE"),
    FolderOption("role", str, "What an input or output is, where names and types do not tell: images=x.", is_list=True, metavar="ROLE=NAME"),
    FolderOption("tokenizer", Path, "The folder of a tokenizer, or its tokenizer.json.", metavar="PATH"),
    *(FolderOption(f"{kind}_token", str, f"The tokenizer's token {kind}.", metavar="TOKEN") for kind in _KINDS),
    FolderOption("context_length", int, "The most tokens of a prompt and its continuation.", metavar="N"),
    FolderOption("labels", Path, "A text file with the name of a class in each line.", metavar="FILE"),
    FolderOption("image_layout", str, "Whether the channels of images are last or first.", choices=("NHWC", "NCHW")),
    FolderOption("image_size", int, "The height and the width of images, each by one option, or one for both.", is_list=True, metavar="N"),
    FolderOption("image_rescale", float, "The factor of each pixel; 1/255 by default.", metavar="FACTOR"),
    FolderOption("image_mean", float, "What is subtracted from pixels; repeat it for each channel.", is_list=True, metavar="MEAN"),
    FolderOption("image_std", float, "What pixels are divided by; repeat it for each channel.", is_list=True, metavar="STD"),
    FolderOption("shortest_edge", int, "The shorter edge of an image before its centre is cut out.", metavar="N"),
)  # fmt: skip


class TransformersJsWriter:
    """The writer of folders for transformers.js; see `jax2onnx_transformersjs.write`."""

    description = "transformers.js and Optimum: text, images and features in browsers, Node.js and Python"
    options: Sequence[FolderOption] = _OPTIONS

    def write(self, program: Program, folder: str | os.PathLike[str], **options: Any) -> list[Path]:
        """Write the folder.

        Args:
          program: the program.
          folder: the folder, which does not exist or is empty.
          **options: those that `options` lists.

        Raises:
          OptionError: the task is missing, or see `write`.
        """
        from jax2onnx_transformersjs.writing import write

        task = options.pop("task", None)
        if task is None:
            raise OptionError(
                f"Say which task the folder is for: task={_TASKS[0]!r} or another of {', '.join(_TASKS)}."
            )
        special = {kind: options.pop(f"{kind}_token") for kind in _KINDS if f"{kind}_token" in options}
        return write(
            program, folder, task, dtypes=options.pop("precision", ("fp32",)), roles=_roles(options.pop("role", ())),
            labels=_labels(options.pop("labels", None)), images=_images(options), special_tokens=special or None, **options,
        )  # fmt: skip


def _roles(texts: Sequence[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    if wrong := [text for text, (role, _, name) in zip(texts, pairs, strict=True) if not role or not name]:
        raise OptionError(f"role {wrong[0]!r}: write a role and a name, such as images=x.")
    found: dict[str, str] = {}
    for role, _, name in pairs:
        if found.setdefault(role, name) != name:
            raise OptionError(f"role says two things of {role!r}: {found[role]} and {name}; which of them is meant?")
    return found


def _labels(file: Path | None) -> list[str] | None:
    if file is None:
        return None
    try:
        with file.open(encoding="utf-8-sig") as lines:  # `splitlines` ends a line at other characters, too
            return [line.removesuffix("\n") for line in lines]
    except (OSError, UnicodeDecodeError) as error:
        raise ReadError(f"The labels in {file} cannot be read: {error}") from error


def _images(options: dict[str, Any]) -> Images | None:
    """The options about images, which are taken out of `options`, as `Images`; None where there are none."""
    from jax2onnx_transformersjs.image_classification import Images

    names = {"image_layout": "layout", "image_rescale": "rescale", "image_mean": "mean", "image_std": "std", "shortest_edge": "shortest_edge"}  # fmt: skip
    found = {field: options.pop(name) for name, field in names.items() if name in options}
    if "image_size" in options:
        size: Sequence[int] = options.pop("image_size")
        if len(size) not in (1, 2):
            raise OptionError(f"image_size is a height and a width, not {len(size)} numbers.")
        found["size"] = (size[0], size[-1])
    return Images(**found) if found else None


writer = TransformersJsWriter()
