"""Saving a model: atomic, with external data where a single file could not hold the weights."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from jax2onnx_core._ir import ir
from jax2onnx_core.errors import SaveError

__all__ = ["save_model", "weights_size"]

# A protobuf file ends at 2 GiB; the nodes need some of it.
_SINGLE_FILE_LIMIT = 1_800_000_000


def weights_size(model: ir.Model) -> int:
    """The bytes of all initializers."""
    return sum(v.const_value.nbytes for v in model.graph.initializers.values() if v.const_value is not None)


def save_model(model: ir.Model, path: str | os.PathLike[str], external_data: bool | None = None) -> Path:
    """Write the model to `path`; its weights to `<path>.data` if `external_data`, or if they need it (None).

    Everything is written beside the destination first and then renamed, so that a file that was
    there before stays whole whatever happens. Raises SaveError.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise SaveError(f"Cannot save to {path}: the directory {path.parent} does not exist; create it first.")
    if path.is_dir():
        raise SaveError(f"Cannot save to {path}: it is a directory; give the name of a file.")
    if external_data is None:
        external_data = weights_size(model) > _SINGLE_FILE_LIMIT
    data_name = _free_data_name(path) if external_data else None
    try:
        with _workspace(path) as workspace:
            written = workspace / path.name
            ir.save(model, written, external_data=data_name)
            if data_name is not None and (workspace / data_name).exists():
                os.replace(workspace / data_name, path.parent / data_name)
            os.replace(written, path)
    except OSError as error:
        raise SaveError(f"Cannot save to {path}: {error.strerror or error}. Nothing was changed there.") from error
    for stale in {f"{path.name}.data", f"{path.name}.data1"} - {data_name}:
        (path.parent / stale).unlink(missing_ok=True)
    return path


def _free_data_name(path: Path) -> str:
    """A data file beside the one that an older model of this name may be using."""
    name = f"{path.name}.data"
    return f"{name}1" if (path.parent / name).exists() else name


@contextlib.contextmanager
def _workspace(path: Path):  # type: ignore[no-untyped-def]
    workspace = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield workspace
    finally:
        shutil.rmtree(workspace, ignore_errors=True)
