"""`write`: a program as a folder that transformers.js and Optimum read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

from jax2onnx_generation.texts.tokenizer_files import GivenTokenizer, TokenizerFiles
from jax2onnx_graph import ir
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.saving.writing import save_model, weights_size
from jax2onnx_runtime.folders import complete_folder
from jax2onnx_runtime.program import Program

from jax2onnx_transformersjs.dtypes import Dtype, check_dtypes, default_dtype, file_name, in_precision
from jax2onnx_transformersjs.feature_extraction import feature_extraction
from jax2onnx_transformersjs.image_classification import Images, image_classification
from jax2onnx_transformersjs.task_model import TaskModel
from jax2onnx_transformersjs.text_generation import text_generation

__all__ = ["Task", "write"]

#: The tasks, as transformers.js' `pipeline` names them.
Task = Literal["text-generation", "image-classification", "feature-extraction"]

_SPECIAL = ("bos", "eos", "pad", "unk", "cls", "sep", "mask")
# Browsers load files of more than 2 GiB in no piece; the nodes need room, too.
_SINGLE_FILE_LIMIT = 1_800_000_000


def write(
    program: Program, folder: str | os.PathLike[str], task: Task, *, dtypes: Sequence[Dtype] = ("fp32",),
    model_type: str | None = None, roles: Mapping[str, str] | None = None, labels: Sequence[str] | None = None,
    images: Images | None = None, tokenizer: GivenTokenizer | None = None,
    special_tokens: Mapping[str, str] | None = None, context_length: int | None = None,
    config: Mapping[str, object] | None = None,
) -> list[Path]:  # fmt: skip
    """Write a program as a folder for a pipeline of transformers.js; the models of Optimum read the same folder.

    The folder has a model for each precision, `onnx/model.onnx`, `onnx/model_quantized.onnx` and so on, `config.json`, and what
    the task needs: `preprocessor_config.json` or the files of the tokenizer.

    Args:
      program: the program, in full precision, which stays as it is.
      folder: the folder, which does not exist or is empty.
      task: the task. "text-generation": tokens and caches → logits and caches; "image-classification": images → a number for each class; "feature-extraction": tokens → features of each.
      dtypes: the precisions, as the option `dtype` of transformers.js names them.
      model_type: the `model_type` of `config.json`, by which transformers.js and Optimum choose a class; by default one that does
        for any model of the task: "llama", "vit" or "bert".
      roles: what inputs and outputs are, where names and types do not tell: "images", "logits"; "tokens", "mask", "positions",
        "logits"; "tokens", "mask", "segments", "features" → the name of an input or output.
      labels: for images, the names of the classes; by default `LABEL_0` and so on.
      images: for images, what happens to their pixels.
      tokenizer: for text, the tokenizer: a folder, a `tokenizer.json`, or a `tokenizers.Tokenizer`.
      special_tokens: for text, the tokens of special meaning, where the tokenizer has no settings that name them:
        {"pad": "<pad>", "eos": "</s>"}.
      context_length: for generation, the most tokens of a text; by default what the model or the tokenizer's folder tells.
      config: further entries of `config.json`.

    Returns:
      The files that were written.

    Raises:
      OptionError: an option is wrong, the model is none for the task, or the tokenizer does not fit it.
      ReadError: a file of the tokenizer cannot be read.
      SaveError: the folder exists, or writing failed. Nothing is left half-written.
      TargetError: the program's runtime has no quantizer.
    """
    check_dtypes(dtypes)
    _check_options(
        task,
        labels=labels,
        images=images,
        tokenizer=tokenizer,
        special_tokens=special_tokens,
        context_length=context_length,
    )
    files = None if tokenizer is None else TokenizerFiles.read(tokenizer, _checked_special(special_tokens or {}))
    roles, portable = roles or {}, program.portable()
    if task == "image-classification":
        made = image_classification(portable, labels, images or Images(), roles)
    elif files is None:
        raise OptionError(f"The task {task!r} begins with text: give the tokenizer, tokenizer='folder'.")
    elif task == "feature-extraction":
        made = feature_extraction(portable, roles)
    else:
        made = text_generation(portable, model_type, files, context_length, roles)
    if files is not None:
        files.check_fits(made.vocabulary)
    chosen = {} if model_type is None else {"model_type": model_type}
    whole = {**made.config, **chosen, **(config or {})}
    if whole["model_type"] != made.config["model_type"]:
        whole.pop("architectures", None)
    with complete_folder(folder) as part:
        models = {dtype: in_precision(made.model, dtype, portable) for dtype in dtypes}
        names = [*_write_models(part, models), *_write_files(part, made, whole | _for_js(models), files)]
    return [Path(folder) / name for name in names]


# The options that are about images or text, and the tasks that have them.
_OF_TASKS: Mapping[str, Sequence[Task]] = {
    "labels": ("image-classification",), "images": ("image-classification",), "context_length": ("text-generation",),
    "tokenizer": ("text-generation", "feature-extraction"), "special_tokens": ("text-generation", "feature-extraction"),
}  # fmt: skip


def _check_options(task: Task, **options: object) -> None:
    """Raise OptionError for an unknown task, or an option that is none of the task."""
    if task not in get_args(Task):
        raise OptionError(f"There is no task {task!r}; the tasks are {', '.join(get_args(Task))}.")
    if others := [name for name, value in options.items() if value is not None and task not in _OF_TASKS[name]]:
        raise OptionError(f"{others[0]} is no option of the task {task!r}.")


def _checked_special(special: Mapping[str, str]) -> Mapping[str, str]:
    if unknown := [kind for kind in special if kind not in _SPECIAL]:
        raise OptionError(f"special_tokens: there is no kind {unknown[0]!r}; the kinds are {', '.join(_SPECIAL)}.")
    return special


# -- files --------------------------------------------------------------------------------------


def _is_large(model: ir.Model) -> bool:
    return weights_size(model) > _SINGLE_FILE_LIMIT


def _for_js(models: Mapping[Dtype, ir.Model]) -> dict[str, object]:
    """The entry of `config.json` that only transformers.js reads."""
    entry: dict[str, object] = {}
    if (dtype := default_dtype([*models])) is not None:
        entry["dtype"] = dtype
    if large := {file_name(dtype): 1 for dtype, model in models.items() if _is_large(model)}:
        entry["use_external_data_format"] = large
    return {"transformers.js_config": entry} if entry else {}


def _write_models(folder: Path, models: Mapping[Dtype, ir.Model]) -> list[Path]:
    """Write the models below a folder; the paths from there."""
    directory = folder / "onnx"
    directory.mkdir()
    for dtype, model in models.items():
        name = file_name(dtype)
        save_model(model, directory / name, data_file=f"{name}_data" if _is_large(model) else None)
    return sorted(file.relative_to(folder) for file in directory.iterdir())


def _write_files(
    folder: Path, made: TaskModel, config: Mapping[str, object], tokenizer: TokenizerFiles | None
) -> list[Path]:
    """Write the files beside the models; their names."""
    contents = {"config.json": _as_json(config), **{name: _as_json(entries) for name, entries in made.files.items()}}
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return [*map(Path, [*contents, *([] if tokenizer is None else tokenizer.write(folder))])]


def _as_json(entries: Mapping[str, object]) -> bytes:
    try:
        return (json.dumps(entries, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()
    except (TypeError, ValueError) as error:
        raise OptionError(f"config: what is no text, number, list or dict has no place in JSON: {error}.") from error
