"""Folders for other runtimes: `--for`, and the options of the installed writers."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jax2onnx_cli._terminal import BadInput, Command

if TYPE_CHECKING:
    from jax2onnx_runtime.folders import FolderOption, FolderWriter
    from jax2onnx_runtime.program import Program

    from jax2onnx_cli._exporting import Request

__all__ = ["Folder", "FolderCommand"]

# The first-party writers, by the names of their runtimes.
_SUPPLIERS = {name: f"jax2onnx-{name}" for name in ("genai", "transformersjs", "tensorrt")}
# The options that the command has itself; a writer that has one, too, is given its value.
_QUANTIZE, _VARIANT = "quantize", "variant"


class _WriterOption(click.Option):
    """An option that stands under a heading of its own in the help."""

    heading: str


class FolderCommand(Command):
    """A command with the options of the installed writers of folders."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The command's own options, and those of the writers."""
        return [*super().get_params(ctx), *_writer_options()]


@functools.cache
def _writer_options() -> list[click.Option]:
    """An option for each name that writers declare; the first writer says of which type it is."""
    from jax2onnx_runtime.folders import folder_writers

    found: dict[str, list[tuple[str, FolderOption]]] = {}
    for runtime, writer in folder_writers().writers.items():
        for option in writer.options:
            found.setdefault(option.name, []).append((runtime, option))
    return [_option(declared) for name, declared in found.items() if name not in (_QUANTIZE, _VARIANT)]


def _option(declared: list[tuple[str, FolderOption]]) -> click.Option:
    option = declared[0][1]
    runtimes = " and ".join(runtime for runtime, _ in declared)
    kind = click.Path(path_type=Path) if option.type is Path else option.type
    made = _WriterOption(
        [f"--{option.name.replace('_', '-')}", option.name], type=click.Choice(option.choices) if option.choices else kind,
        help=option.help, multiple=option.is_list, is_flag=option.type is bool,
        default=None, metavar=option.metavar,
    )  # fmt: skip
    made.heading = f"Options of --for {runtimes}"
    return made


@dataclasses.dataclass(frozen=True)
class Folder:
    """A folder that the command line asks for.

    Attributes:
      runtime: the name of the runtime.
      writer: its writer.
      options: the options for the writer that were given.
    """

    runtime: str
    writer: FolderWriter
    options: Mapping[str, object]

    @classmethod
    def from_options(cls, runtime: str | None, given: Mapping[str, object]) -> Folder | None:
        """The folder that is asked for.

        Args:
          runtime: the value of `--for`.
          given: the options of all writers, with None or nothing for those that were not given.

        Raises:
          BadInput: an option is none of this runtime, or there is no runtime.
          OptionError: no writer of that name is installed.
        """
        from jax2onnx_runtime.folders import folder_writers

        options = {name: value for name, value in given.items() if value is not None and value != ()}
        flags = [f"--{name.replace('_', '-')}" for name in options]
        if runtime is None:
            if options:
                owners = [
                    name for name, one in folder_writers().writers.items()
                    if next(iter(options)) in {option.name for option in one.options}
                ]  # fmt: skip
                raise BadInput(f"{flags[0]} is an option for the folder of a runtime: add --for {' or '.join(owners)}.")
            return None

        writer = folder_writers().named(runtime, _SUPPLIERS)
        known = {option.name for option in writer.options}
        for name, flag in zip(options, flags, strict=True):
            if name not in known:
                raise BadInput(f"{flag} is no option for {runtime}.")
        return cls(runtime, writer, options)

    @property
    def quantizes(self) -> bool:
        """Whether the writer quantises the model itself."""
        return any(option.name == _QUANTIZE for option in self.writer.options)

    def quantized(self, mode: str) -> Folder:
        """The folder with a model in fewer bits."""
        return dataclasses.replace(self, options={**self.options, _QUANTIZE: mode})

    @property
    def takes_variants(self) -> bool:
        """Whether the writer makes static models of variants."""
        return any(option.name == _VARIANT for option in self.writer.options)

    def with_variants(self, texts: Sequence[str]) -> Folder:
        """The folder with static models of these sizes, too, as the command line gives them."""
        return dataclasses.replace(self, options={**self.options, _VARIANT: tuple(texts)}) if texts else self

    def path(self, request: Request, output: Path | None) -> Path:
        """The folder's path.

        Args:
          request: the command line.
          output: the path that the user gave, if any; by default a folder here with the last part of the object's name.
        """
        return Path(request.subject.rpartition(":")[2].rpartition(".")[2]) if output is None else output

    def write(self, program: Program, path: Path) -> list[Path]:
        """Write the folder; the files that were written."""
        return self.writer.write(program, path, **self.options)
