"""`Folder`: replacing models beside their data files, so that each is whole at every moment, and none loses its data.

A model is replaced by renaming a finished file over it. Its data has a file of a new name, so that the older model keeps
its own until that moment. Both are locked until the model refers to the data: what is not locked, and to which no model
refers, was left by a save that was killed.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from jax2onnx_graph.errors import SaveError
from jax2onnx_graph.saving.files import claim, new_file, synchronise
from jax2onnx_graph.saving.serialization import LARGEST_FILE, Piece, reference

__all__ = ["Folder"]

_TEMPORARY = re.compile(r"\.jax2onnx-[0-9a-f]{16}\.tmp")
_DATA = re.compile(r"(.+)\.[0-9a-f]{16}\.data")
# The key of the field `ir_version`.
_FIRST = b"\x08"
# Bytes of a name: what common file systems take, less what the name of a data file adds.
_LONGEST_STEM = 255 - len(".0123456789abcdef.data")
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Folder:
    """A directory with models, at the path `directory`."""

    directory: Path

    @contextlib.contextmanager
    def data_file(self, stem: str, pieces: Iterable[Piece], mode: int | None) -> Iterator[Path]:
        """A new data file, which stays if a model refers to it after the block.

        Args:
          stem: the beginning of its name; the rest is random, so that no model can be using it.
          pieces: its content.
          mode: its permissions; None for those that the process gives new files.
        """
        file = self.directory / f"{_shortened(stem)}.{secrets.token_hex(8)}.data"
        with self._kept_if_used(file), new_file(file, pieces, mode):
            yield file

    def replace(self, new: Mapping[Path, tuple[Iterable[Piece], int | None]]) -> None:
        """Write these models, content and permissions, in the place of older ones; data that only those used goes."""
        with contextlib.ExitStack() as stack:
            written = {}
            for file, (pieces, mode) in new.items():
                written[file] = self._temporary()
                stack.enter_context(self._kept_if_used(written[file]))
                stack.enter_context(new_file(written[file], pieces, mode))
            outdated = {data for file in new for data in self._data_of(file)}
            for file, temporary in written.items():
                os.replace(temporary, file)
        synchronise(self.directory)
        self._remove_unused(outdated)

    @contextlib.contextmanager
    def replacement(self, file: Path, mode: int | None) -> Iterator[IO[bytes]]:
        """A stream into a new file, which takes the place of an older one after the block, whole or not at all."""
        temporary = self._temporary()
        with self._kept_if_used(temporary), new_file(temporary, [], mode):
            with temporary.open("r+b") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, file)
        synchronise(self.directory)

    def check_data_name(self, name: str, model: Path) -> None:
        """Raise SaveError unless this name is free for the data of the model, or is that of its data already."""
        file = self.directory / name
        for other in self._models():
            if not (model.exists() and other.samefile(model)) and _refers(other, name):
                raise SaveError(f"Cannot save data to {file}: {other.name} uses it; choose another name.")
        unfinished = [data for data in self._data_of(model) if _stem(data) == _shortened(name)]
        if os.path.lexists(file) and not (_refers(model, name) or unfinished):
            raise SaveError(
                f"Cannot save data to {file}: the file exists, and is no data of {model.name}. Choose another name, or "
                "remove it."
            )

    def replace_data(self, name: str, pieces: Iterable[Piece], mode: int | None) -> None:
        """Write a data file in the place of an older one.

        Args:
          name: its name, which `check_data_name` accepted, and to which no model refers at the moment.
          pieces: its content.
          mode: its permissions; None for those that the process gives new files.
        """
        temporary = self._temporary()
        with self._kept_if_used(temporary), new_file(temporary, pieces, mode):
            os.replace(temporary, self.directory / name)
        synchronise(self.directory)

    def remove_leftovers(self, *stems: str) -> None:
        """Remove the leftovers of killed saves: temporary files, and data files of these stems to which no model refers."""
        shortened = {_shortened(stem) for stem in stems}
        data = [file for file in self._files(_DATA) if _stem(file) in shortened]
        self._remove_unused([*self._files(_TEMPORARY), *data], are_finished=False)

    def _temporary(self) -> Path:
        return self.directory / f".jax2onnx-{secrets.token_hex(8)}.tmp"

    @contextlib.contextmanager
    def _kept_if_used(self, file: Path) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._remove_unused([file])
            raise

    def _remove_unused(self, files: Iterable[Path], *, are_finished: bool = True) -> None:
        for file in files:
            # What cannot be read or removed stays: no save fails because of what an earlier one left.
            with contextlib.suppress(OSError), claim(file, is_finished=are_finished) as is_free:
                # Only now: until the file is claimed, a model that refers to it may appear.
                if is_free and not any(_refers(model, file.name) for model in self._models()):
                    file.unlink()

    def _models(self) -> Iterator[Path]:
        """The files there that may be models, whatever their names are: an older one is kept as `model.onnx.bak`, too."""
        for file in self.directory.iterdir():
            is_ours = _DATA.fullmatch(file.name) or _TEMPORARY.fullmatch(file.name)
            if not is_ours and file.is_file() and (file.suffix == ".onnx" or _begins_as_model(file)):
                yield file

    def _data_of(self, model: Path) -> list[Path]:
        """The data files of a model that have names of our making."""
        return [data for data in self._files(_DATA) if _refers(model, data.name)]

    def _files(self, pattern: re.Pattern[str]) -> list[Path]:
        with os.scandir(self.directory) as entries:
            names = [e.name for e in entries if pattern.fullmatch(e.name) and e.is_file(follow_symlinks=False)]
        return [self.directory / name for name in sorted(names)]


def _begins_as_model(file: Path) -> bool:
    """Whether a file begins with the first field that a model has, the version of the format."""
    with contextlib.suppress(OSError), file.open("rb") as content:
        return content.read(1) == _FIRST
    return False


def _shortened(stem: str) -> str:
    return stem.encode(errors="ignore")[:_LONGEST_STEM].decode(errors="ignore")


def _stem(data: Path) -> str:
    return data.name.rsplit(".", 2)[0]


def _refers(model: Path, data_name: str) -> bool:
    """Whether a model file refers to a data file of that name."""
    if not model.is_file() or model.stat().st_size > LARGEST_FILE:
        return False
    wanted, last = reference(data_name), b""
    with model.open("rb") as file:
        while chunk := file.read(_CHUNK):
            if wanted in last + chunk:
                return True
            last = (last + chunk)[-len(wanted) :]
    return False
