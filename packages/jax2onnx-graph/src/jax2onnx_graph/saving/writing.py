"""Saving models: each path holds the old model or the new one, whole, at every moment and whatever happens."""

from __future__ import annotations

import contextlib
import functools
import operator
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO, TypeVar

from jax2onnx_graph._ir import ir
from jax2onnx_graph.errors import ReadError, SaveError
from jax2onnx_graph.progress import steps
from jax2onnx_graph.saving._folder import Folder
from jax2onnx_graph.saving.contents import Contents
from jax2onnx_graph.saving.files import Destination, check_name, checked_path, locked, write_stream
from jax2onnx_graph.saving.serialization import (
    LARGE,
    LARGEST_FILE,
    Piece,
    Segment,
    large_tensors,
    lay_out,
    model_pieces,
    size,
)

__all__ = ["replaced_file", "save_model", "save_several", "save_sharing_weights", "save_text", "weights_size"]

# Weights of more bytes get a data file: the nodes need room, too, and so does what shape inference adds.
_SINGLE_FILE_LIMIT = 1_800_000_000
_GIB = 2**30

# The stem of the data file that variants share.
_SHARED = "weights"

_Variant = TypeVar("_Variant")


def weights_size(model: ir.Model) -> int:
    """The bytes of all initializers."""
    return sum(v.const_value.nbytes for v in model.graph.initializers.values() if v.const_value is not None)


def save_model(
    model: ir.Model, path: str | os.PathLike[str], external_data: bool | None = None, *, threshold: int = LARGE,
    data_file: str | None = None,
) -> Path:  # fmt: skip
    """Write a model to a file.

    Args:
      model: the model, which stays as it is.
      path: the file; links are followed, its permissions are kept. A pipe or a device is written into.
      external_data: whether the weights go to a data file beside it; None: if one file cannot hold them, or if the data
        file is named.
      threshold: tensors of at least so many bytes go to the data file.
      data_file: the name of the data file, which is then written twice, since an older model may be using it. None takes
        a new name, `<name of the model>.<16 digits>.data`.

    Returns:
      The path.

    Raises:
      SaveError: no model can be written there, or writing failed. The model that was there is whole.
    """
    with _explained(path):
        destination = Destination.at(path)
        if data_file is not None:
            _check_data_file(destination, data_file, external_data)
            external_data = True
        elif external_data is None:
            external_data = weights_size(model) > _SINGLE_FILE_LIMIT
        tensors = large_tensors(model, threshold) if external_data else {}
        if not tensors:
            _save_inline(model, destination)
        elif data_file is None:
            _save_with_data(model, destination, tensors)
        else:
            _save_with_named_data(model, destination, tensors, data_file)
    return destination.path


def save_text(text: str, path: str | os.PathLike[str]) -> Path:
    """Write a text to a file, whole or not at all. Returns the path; raises SaveError."""
    with _explained(path):
        destination = Destination.at(path)
        _replace(destination, [text.encode(errors="backslashreplace")])
        return destination.path


@contextlib.contextmanager
def replaced_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A stream whose content takes the place of a file after the block, whole or not at all.

    Args:
      path: the file; links are followed, its permissions are kept. A pipe or a device is written into.

    Raises:
      SaveError: nothing can be written there.
    """
    with _explained(path):
        destination = Destination.at(path)
        if destination.is_stream:
            with destination.path.open("wb") as stream:
                yield stream
            return
        folder = _folder(destination)
        folder.remove_leftovers(destination.file.name)
        with folder.replacement(destination.file, destination.mode) as stream:
            yield stream


def _check_data_file(destination: Destination, name: str, external_data: bool | None) -> None:
    check_name(name, "data_file")
    if name.casefold() == destination.file.name.casefold():
        raise SaveError(f"Cannot save to {destination.path}: data_file={name!r} is the name of the model itself.")
    if external_data is False:
        raise SaveError(f"Cannot save to {destination.path}: data_file={name!r} contradicts external_data=False.")


def _save_inline(model: ir.Model, destination: Destination) -> None:
    _replace(destination, _model_pieces(model, destination))


def _replace(destination: Destination, pieces: Sequence[Piece]) -> None:
    """Write a file that has no data file beside it."""
    if destination.is_stream:
        write_stream(destination.path, pieces)
        return
    folder = _folder(destination)
    folder.remove_leftovers(destination.file.name)
    folder.replace({destination.file: (steps("save", pieces), destination.mode)})


def _save_with_data(model: ir.Model, destination: Destination, tensors: Mapping[str, ir.TensorProtocol]) -> None:
    destination.check_takes_data()
    file, mode, folder = destination.file, destination.mode, _folder(destination)
    folder.remove_leftovers(file.name)
    data_pieces, segments = lay_out(tensors)
    with folder.data_file(file.name, steps("save", data_pieces), mode) as data:
        folder.replace({file: (_model_pieces(model, destination, data.name, segments), mode)})


def _save_with_named_data(
    model: ir.Model, destination: Destination, tensors: Mapping[str, ir.TensorProtocol], name: str
) -> None:
    """The older model may have its data under that name, so the new one refers to a copy until the name is free."""
    destination.check_takes_data()
    file, mode, folder = destination.file, destination.mode, _folder(destination)
    data_pieces, segments = lay_out(tensors)
    with locked(folder.directory):
        folder.check_data_name(name, file)
        folder.remove_leftovers(file.name, name)
        with folder.data_file(name, steps("save", data_pieces), mode) as data:
            folder.replace({file: (_model_pieces(model, destination, data.name, segments), mode)})
            folder.replace_data(name, data_pieces, mode)
        folder.replace({file: (_model_pieces(model, destination, name, segments), mode)})


def save_sharing_weights(
    directory: str | os.PathLike[str], variants: Mapping[str, _Variant], make: Callable[[_Variant], ir.Model], *,
    beside: Mapping[str, bytes] = MappingProxyType({}),
) -> list[Path]:  # fmt: skip
    """Write several models as `<name>.onnx` into a directory, their weights once, into `weights.<16 digits>.data`.

    Weights are the same where they are the same bytes in a file. Older models of these names are replaced when everything has
    been written; other models in the directory keep their own weights.

    Args:
      directory: the directory; it is made if the one that it is in exists.
      variants: name → a value that stands for the variant.
      make: makes the model of a variant.
      beside: further small files, name → content, which are replaced after the models.

    Raises:
      SaveError: a name is none, or writing failed. Each model that was there is whole.
    """
    with _explained(directory):
        folder = _checked_folder(directory, variants)
    with _present(folder):
        with _explained(directory):
            destinations = _variant_destinations(folder, variants)
        models = [(destinations[name], make(variant)) for name, variant in variants.items()]
        with _explained(directory):
            _save_together(models, _files_beside(folder, beside))
    return [destination.path for destination in destinations.values()]


def save_several(
    directory: str | os.PathLike[str], models: Mapping[str, ir.Model], *, beside: Mapping[str, bytes] = MappingProxyType({}),
) -> list[Path]:  # fmt: skip
    """Write several models as `<name>.onnx` into a directory, each as `save_model` does; none is replaced before all are written.

    Args:
      directory: the directory; it is made if the one that it is in exists.
      models: name → model.
      beside: further small files, name → content, which are replaced after the models.

    Raises:
      SaveError: a name is none, or writing failed. Each model that was there is whole.
    """
    with _explained(directory):
        folder = _checked_folder(directory, models)
        with _present(folder), contextlib.ExitStack() as stack:
            destinations = _variant_destinations(folder, models)
            files, new = Folder(Path(os.path.realpath(folder))), dict[Path, tuple[Iterable[Piece], int | None]]()
            files.remove_leftovers(*(destination.file.name for destination in destinations.values()))
            for destination, model in zip(destinations.values(), models.values(), strict=True):
                file, mode, data, segments = destination.file, destination.mode, Path(), dict[str, Segment]()
                if weights_size(model) > _SINGLE_FILE_LIMIT:
                    data_pieces, segments = lay_out(large_tensors(model))
                    data = stack.enter_context(files.data_file(file.name, steps("save", data_pieces), mode))
                new[file] = _model_pieces(model, destination, data.name, segments), mode
            files.replace({**new, **_files_beside(folder, beside)})
    return [destination.path for destination in destinations.values()]


def _files_beside(folder: Path, beside: Mapping[str, bytes]) -> dict[Path, tuple[Iterable[Piece], int | None]]:
    """Further files of a folder, with their permissions."""
    destinations = {Destination.at(folder / name): content for name, content in beside.items()}
    return {destination.file: ([content], destination.mode) for destination, content in destinations.items()}


@contextlib.contextmanager
def _present(folder: Path) -> Iterator[None]:
    """Make a folder that exists during the block; one that was made here is removed if the block fails."""
    is_new = not folder.exists()
    with _explained(folder):
        folder.mkdir(exist_ok=True)
    try:
        yield
    except BaseException:
        if is_new and not any(folder.iterdir()):
            folder.rmdir()
        raise


def _checked_folder(directory: str | os.PathLike[str], names: Collection[str]) -> Path:
    """The directory; SaveError if it cannot be made, or variants cannot have these names."""
    folder = checked_path(directory)
    if not folder.parent.is_dir():
        raise SaveError(f"Cannot save to {folder}: the directory {folder.parent} does not exist; create it first.")
    if folder.exists() and not folder.is_dir():
        raise SaveError(f"Cannot save to {folder}: it is no directory.")
    if not names:
        raise SaveError(f"Cannot save to {folder}: name at least one variant.")
    for name in names:
        check_name(name, "the name of a variant")
    return folder


def _variant_destinations(folder: Path, names: Iterable[str]) -> dict[str, Destination]:
    destinations = {name: Destination.at(folder / f"{name}.onnx") for name in names}
    known: dict[str, str] = {}
    for name, destination in destinations.items():
        destination.check_takes_data()
        other = known.setdefault(str(destination.file).casefold(), name)
        if other != name:
            raise SaveError(
                f"Cannot save to {destination.path}: it is the file of the variant {other!r}, too, by a link or but for the case of "
                "letters. Remove the link, or choose another name."
            )
    return destinations


def _save_together(
    models: Sequence[tuple[Destination, ir.Model]], beside: Mapping[Path, tuple[Iterable[Piece], int | None]]
) -> None:
    large, known = [large_tensors(model) for _, model in models], Contents()
    contents = [{name: known.content(tensor) for name, tensor in tensors.items()} for tensors in large]
    different = {contents[i][name]: tensor for i, tensors in enumerate(large) for name, tensor in tensors.items()}
    data_pieces, segments = lay_out(different)
    modes = [destination.mode for destination, _ in models if destination.mode is not None]
    # Who may not read one of the models does not get to read its weights either.
    mode = functools.reduce(operator.and_, modes) if modes else None
    folder = _folder(models[0][0])
    folder.remove_leftovers(_SHARED)
    with (
        folder.data_file(_SHARED, steps("save", data_pieces), mode)
        if different
        else contextlib.nullcontext(Path()) as data
    ):
        new: dict[Path, tuple[Iterable[Piece], int | None]] = {}
        for (destination, model), found in zip(models, contents, strict=True):
            own = {name: segments[content] for name, content in found.items()}
            new[destination.file] = _model_pieces(model, destination, data.name, own), destination.mode
        folder.replace({**new, **beside})


def _model_pieces(
    model: ir.Model,
    destination: Destination,
    data_file: str = "",
    segments: Mapping[str, Segment] = MappingProxyType({}),
) -> list[Piece]:
    pieces = model_pieces(model, data_file, segments)
    if (needed := size(pieces)) > LARGEST_FILE:
        raise SaveError(
            f"Cannot save to {destination.path}: the file would take {needed / _GIB:.2f} GiB, but an ONNX file holds at "
            "most 2 GiB. Let the weights go to a data file: external_data=True, or a lower threshold."
        )
    return pieces


def _folder(destination: Destination) -> Folder:
    return Folder(destination.file.parent)


@contextlib.contextmanager
def _explained(path: object) -> Iterator[None]:
    try:
        yield
    except (ReadError, SaveError):
        raise
    except OSError as error:
        raise SaveError(f"Cannot save to {path}: {error.strerror or error}. What was there is whole.") from error
