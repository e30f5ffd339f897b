"""Folders for other runtimes: `FolderWriter`, which a distribution registers as an entry point of the group `jax2onnx.folders`.

A runtime that this project does not drive itself reads a folder: a model whose inputs have the names that it expects, a configuration,
the files of a tokenizer. The name of the entry point is what `jax2onnx export --for NAME` takes:

```toml
[project.entry-points."jax2onnx.folders"]
acme = "jax2onnx_acme.folder:writer"
```
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.metadata
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from jax2onnx_graph.errors import OptionError, PluginError, SaveError

if TYPE_CHECKING:
    from jax2onnx_runtime.program import Program

__all__ = [
    "FolderOption", "FolderWriter", "FolderWriters", "complete_folder", "folder_writers", "load_folder_writers",
]  # fmt: skip

_GROUP = "jax2onnx.folders"


@dataclasses.dataclass(frozen=True)
class FolderOption:
    """An option of a writer, for the command line.

    Attributes:
      name: the keyword argument of `FolderWriter.write`; `--context-length` on the command line is `context_length`.
      type: the type of its value: str, int, float, bool (a flag), or Path.
      help: a sentence.
      choices: the texts that it takes, if not any.
      is_list: whether it can be repeated; its value is then a tuple.
      metavar: what the help shows for the value; by default the type.
    """

    name: str
    type: type[str | int | float | bool | Path]
    help: str
    choices: Sequence[str] = ()
    is_list: bool = False
    metavar: str | None = None


@runtime_checkable
class FolderWriter(Protocol):
    """A writer of folders for one runtime.

    The module that an entry point names should be quick to import: the command line imports it to know the options.

    Attributes:
      description: the runtime, in a few words.
      options: what `write` takes besides the program and the folder.
    """

    @property
    def description(self) -> str: ...

    @property
    def options(self) -> Sequence[FolderOption]: ...

    def write(self, program: Program, folder: str | os.PathLike[str], **options: object) -> list[Path]:
        """Write the folder, as a whole or not at all; see `complete_folder`.

        Args:
          program: the program, which stays as it is.
          folder: the folder, which does not exist or is empty.
          **options: those of the writer; what is not given is left out.

        Returns:
          The files that were written.

        Raises:
          OptionError: an option is wrong, or the program is none that the runtime can run.
          SaveError: the folder exists, or writing failed.
        """
        ...


@dataclasses.dataclass(frozen=True)
class FolderWriters:
    """The writers that are installed.

    Attributes:
      writers: name → writer.
      failures: the names of those that could not be loaded → the error.
    """

    writers: Mapping[str, FolderWriter]
    failures: Mapping[str, BaseException]

    def named(self, name: str, suppliers: Mapping[str, str] = MappingProxyType({})) -> FolderWriter:
        """The writer of a name.

        Args:
          name: the name.
          suppliers: name → the distribution that has a writer of this name, for the error.

        Raises:
          OptionError: there is none.
          PluginError: it could not be loaded.
        """
        if name in self.failures:
            error = self.failures[name]
            raise PluginError(
                f"The writer of folders for {name!r} could not be loaded ({type(error).__name__}: {str(error).rstrip('.')}). Mend or "
                "reinstall its distribution."
            ) from error
        if name in self.writers:
            return self.writers[name]
        installed = f"installed are {', '.join(self.writers)}" if self.writers else "none is installed"
        missing = {known: supplier for known, supplier in suppliers.items() if known not in self.writers}
        if name in missing:
            raise OptionError(f"Folders for {name!r} need a further package: pip install {missing[name]}")
        others = "".join(f"; pip install {supplier} for {known}" for known, supplier in missing.items())
        raise OptionError(f"There is no writer of folders for {name!r}: {installed}{others}.")


@functools.cache
def folder_writers() -> FolderWriters:
    """The writers that are installed in this environment, loaded at the first call."""
    return load_folder_writers(importlib.metadata.entry_points(group=_GROUP))


def load_folder_writers(entry_points: Iterable[importlib.metadata.EntryPoint]) -> FolderWriters:
    """Load the writers behind entry points; one that fails does not stop the others."""
    writers: dict[str, FolderWriter] = {}
    failures: dict[str, BaseException] = {}
    for entry_point in sorted(set(entry_points), key=lambda e: (e.name, e.value)):
        name = entry_point.name
        # A stranger's module may fail in any way; the error is shown when the writer is asked for.
        try:
            writer = entry_point.load()
            _check(writer, entry_point, writers)
        except (Exception, SystemExit) as error:  # noqa: BLE001 (kept and shown)
            failures[name] = error
        else:
            writers[name] = writer
    return FolderWriters({name: writer for name, writer in writers.items() if name not in failures}, failures)


def _check(writer: object, entry_point: importlib.metadata.EntryPoint, others: Mapping[str, FolderWriter]) -> None:
    if not isinstance(writer, FolderWriter):
        raise PluginError(f"{entry_point.value} is no FolderWriter: it needs description, options and write.")
    if entry_point.name in others:
        raise PluginError(f"Two distributions register the name {entry_point.name!r}. Uninstall one of them.")


@contextlib.contextmanager
def complete_folder(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """A new folder to write into, which gets its name at the end of the block, and is removed where the block fails.

    Args:
      folder: the path that it shall have; nothing may be there but an empty folder.

    Raises:
      SaveError: something is there, or the folder that it shall be in does not exist or cannot be written to.
    """
    path = Path(folder)
    if os.path.lexists(path) and not (path.is_dir() and not any(path.iterdir())):
        raise SaveError(f"Cannot write the folder {path}: it exists. Remove it, or choose another name.")
    if not path.absolute().parent.is_dir():
        raise SaveError(f"Cannot write the folder {path}: there is no directory {path.parent}. Make it first.")
    place = Path(os.path.realpath(path))  # where a link leads
    part = place.with_name(f".{place.name}.{secrets.token_hex(8)}.part")
    try:
        part.mkdir()
        yield part
        if place.is_dir():
            place.rmdir()
        part.replace(place)
    except SaveError:
        raise
    except OSError as error:
        raise SaveError(f"Cannot write the folder {path}: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
