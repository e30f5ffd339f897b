"""Files that models are written to: where a path leads, and new files that are locked until they are in use."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from jax2onnx_graph.errors import SaveError
from jax2onnx_graph.saving.serialization import Piece, piece_blocks

if sys.platform == "win32":
    _BINARY = os.O_BINARY
else:
    import fcntl

    _BINARY = 0

__all__ = ["Destination", "check_name", "checked_path", "claim", "locked", "new_file", "synchronise", "write_stream"]

_DAY = 86_400.0
# Bytes that are written at once: they stay in the cache of the processor where they were just made.
_AT_ONCE = 1 << 20
_LONGEST = 255
"""The bytes of a name in the common file systems."""


@dataclass(frozen=True)
class Destination:
    """The file that a path leads to, with its permissions and kind.

    Attributes:
      path: the path as it was given.
      file: the file that it leads to, through links.
      mode: the permissions of the file that is there, None if there is none.
      is_stream: whether it is a pipe or a device, into which one can only write.
    """

    path: Path
    file: Path
    mode: int | None
    is_stream: bool = False

    @classmethod
    def at(cls, path: str | os.PathLike[str]) -> Destination:
        """The destination of a path; raises SaveError or OSError if no file can be written there."""
        path = checked_path(path)
        mode = _mode(path)
        if not path.parent.is_dir():
            raise SaveError(f"Cannot save to {path}: the directory {path.parent} does not exist; create it first.")
        file = Path(os.path.realpath(path))
        if mode is None:
            return cls(path, file, None)
        if stat.S_ISDIR(mode):
            raise SaveError(f"Cannot save to {path}: it is a directory; give the name of a file.")
        if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
            return cls(path, path, None, is_stream=True)
        if not stat.S_ISREG(mode):
            raise SaveError(f"Cannot save to {path}: it is neither a file nor a pipe.")
        if not os.access(path, os.W_OK):
            raise SaveError(f"Cannot save to {path}: the file that is there is write-protected.")
        return cls(path, file, stat.S_IMODE(mode))

    def check_takes_data(self) -> None:
        """Raise SaveError if a model there could not find a data file beside it."""
        if self.is_stream:
            raise SaveError(
                f"Cannot save to {self.path} with external data: there is no directory beside a pipe or a device."
            )
        if self.path.is_symlink() and self.file.parent != Path(os.path.realpath(self.path.parent)):
            raise SaveError(
                f"Cannot save to {self.path} with external data: it is a link into another directory, and no runtime "
                f"finds the data through such a link. Save to {self.file} itself, or remove the link."
            )


def checked_path(path: str | os.PathLike[str]) -> Path:
    """The path; raises SaveError if it is of a type or has characters that no path has."""
    name: object = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(name, str):
        raise SaveError(f"Cannot save to {path!r}: a path is a string or a pathlib.Path.")
    if "\0" in name:
        raise SaveError(f"Cannot save to {path!r}: it has a NUL character.")
    try:
        os.fsencode(name)
    except UnicodeEncodeError as error:
        raise SaveError(f"Cannot save to {path!r}: it has a character that no path here can have.") from error
    return Path(name)


def _mode(path: Path) -> int | None:
    """The type and permissions of the file or directory at a path; None if there is none."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def check_name(name: str, use: str) -> None:
    """Raise SaveError unless this is the name of a file in the model's own directory."""
    if not isinstance(name, str) or not name.strip(".") or set(name) & set("/\\\0"):
        raise SaveError(f"Cannot save: {use} is {name!r}; it has to be the name of a file, without a directory.")
    try:
        encoded = name.encode()
    except UnicodeEncodeError as error:
        raise SaveError(f"Cannot save: {use} is {name!r}, which UTF-8 cannot express.") from error
    if len(encoded) > _LONGEST:
        raise SaveError(f"Cannot save: {use} is {name[:20]!r}… of {len(encoded)} bytes; file systems take {_LONGEST}.")


# -- writing ----------------------------------------------------------------------------------


def write_stream(path: Path, pieces: Iterable[Piece]) -> None:
    """Write pieces into a pipe or a device, which is no regular file."""
    descriptor = os.open(path, os.O_WRONLY | _BINARY)
    try:
        _write(descriptor, pieces)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def new_file(file: Path, pieces: Iterable[Piece], mode: int | None) -> Iterator[None]:
    """A new file, on disk, locked during the block.

    Args:
      file: its path.
      pieces: its content.
      mode: its permissions; None for those that the process gives new files.
    """
    descriptor = _create(file, mode)
    with contextlib.ExitStack() as stack:
        stack.callback(_release, descriptor)
        _write(descriptor, pieces)
        os.fsync(descriptor)
        if mode is not None:
            file.chmod(mode)
        if sys.platform == "win32":
            stack.close()  # Windows does not rename open files
        yield


def _create(file: Path, mode: int | None) -> int:
    while True:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o666 if mode is None else mode)
        _lock(descriptor)
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)  # another save found it before it was locked, and removed it


def _write(descriptor: int, pieces: Iterable[Piece]) -> None:
    for are_bytes, group in itertools.groupby(pieces, lambda piece: isinstance(piece, bytes)):
        parts = itertools.chain.from_iterable(map(piece_blocks, group))
        for part in [b"".join(parts)] if are_bytes else parts:
            rest = memoryview(part)
            while rest:
                rest = rest[os.write(descriptor, rest[:_AT_ONCE]) :]
            del part, rest  # before the next is read


def synchronise(directory: Path) -> None:
    """Let the renames in a directory outlive a power failure."""
    if sys.platform != "win32":
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):  # not every file system can; the renames have happened
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


# -- locks, which end with the process that holds them ---------------------------------------------


def _lock(descriptor: int) -> None:
    if sys.platform != "win32":
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)


def _release(descriptor: int) -> None:
    if sys.platform != "win32":
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # a child process may have the descriptor, too
    os.close(descriptor)


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """One block at a time for a directory, where the system can lock it."""
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        _lock(descriptor)
        yield
    finally:
        _release(descriptor)


@contextlib.contextmanager
def claim(file: Path, *, is_finished: bool) -> Iterator[bool]:
    """Whether nobody holds the lock of a file; during the block nobody takes it.

    Where there are no locks: whether the file is finished, or was not written to for a day.
    """
    if sys.platform == "win32":
        yield is_finished or _is_old(file)
        return
    descriptor = os.open(file, os.O_RDWR | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_free = True
        except BlockingIOError:
            is_free = False
        except OSError:
            is_free = is_finished or _is_old(file)
        yield is_free
    finally:
        _release(descriptor)


def _is_old(file: Path) -> bool:
    return time.time() - file.stat().st_mtime > _DAY
