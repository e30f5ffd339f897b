"""Signatures of model files, by the OpenSSF package model-signing: a model whose bytes were changed is found out.

The keys are files and nothing is asked of a network. See https://github.com/sigstore/model-transparency for other ways to sign.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Protocol, TypeVar, runtime_checkable

from jax2onnx_graph._ir import ir
from jax2onnx_graph.errors import OptionError, SignatureError
from jax2onnx_graph.saving.reading import read_model

__all__ = ["Signer", "Verifier", "checked_signer", "sign_model", "signature_path", "verify_signature"]

_Configured = TypeVar("_Configured")


@runtime_checkable
class Signer(Protocol):
    """An object that signs, such as a `model_signing.signing.Config` with a certificate."""

    def sign(self, model_path: Path, signature_path: Path) -> None:
        """Write the signature of what is in a folder."""
        ...


@runtime_checkable
class Verifier(Protocol):
    """An object that verifies signatures, such as a `model_signing.verifying.Config` with certificates."""

    def verify(self, model_path: Path, signature_path: Path) -> None:
        """Raise ValueError if the signature is not that of what is in the folder."""
        ...


@runtime_checkable
class _Hashing(Protocol):
    """A configuration of the library, of signing or of verifying."""

    def set_hashing_config(self, hashing_config: object) -> object: ...


def signature_path(path: str | os.PathLike[str]) -> Path:
    """The file for the signature of the model in a file: `m.onnx.sig` beside `m.onnx`."""
    return Path(f"{os.fspath(path)}.sig")


def checked_signer(key: str | os.PathLike[str] | Signer) -> Signer:
    """The signer with a private key.

    Args:
      key: the PEM file of a private key of an elliptic curve, or a `Signer` of the library.

    Raises:
      OptionError: the file holds no such key, or model-signing is not installed.
    """
    if isinstance(key, Signer):
        return _with_links(key)
    try:
        made: Signer = _library("signing").Config().use_elliptic_key_signer(private_key=_file(key))
    except (OSError, ValueError, TypeError) as error:
        raise OptionError(f"Cannot sign with {os.fspath(key)}: {_reason(error)}") from error
    return _with_links(made)


def sign_model(path: str | os.PathLike[str], key: str | os.PathLike[str] | Signer) -> Path:
    """Sign the model in a file, with its data files.

    Args:
      path: the model, of any producer.
      key: the PEM file of a private key of an elliptic curve (`openssl ecparam -name prime256v1 -genkey -noout -out key.pem`
        makes one), or a `Signer`, for keys that are kept elsewhere.

    Returns:
      The file with the signature, a Sigstore bundle: `m.onnx.sig` beside `m.onnx`.

    Raises:
      OptionError: the file holds no such key, or model-signing is not installed.
      ReadError: there is no model.
      SignatureError: a data file is missing, or the signature cannot be written.
    """
    signer, signature = checked_signer(key), signature_path(path)
    with _signed_files(Path(path)) as folder:
        new = Path(f"{signature}.new")
        try:
            signer.sign(folder, new)
            new.replace(signature)
        except (OSError, ValueError) as error:
            new.unlink(missing_ok=True)
            raise SignatureError(f"Cannot sign {path}: {_reason(error)}") from error
    return signature


def verify_signature(
    path: str | os.PathLike[str],
    key: str | os.PathLike[str] | Verifier,
    *,
    signature: str | os.PathLike[str] | None = None,
) -> list[Path]:
    """Verify the signature of the model in a file.

    Args:
      path: the model.
      key: the PEM file of the public key, or a `Verifier`.
      signature: the file with the signature; by default `m.onnx.sig` beside `m.onnx`.

    Returns:
      The files that are as they were when they were signed: the model, and its data files.

    Raises:
      OptionError: the file holds no public key, or model-signing is not installed.
      ReadError: there is no model.
      SignatureError: there is no signature, it was made by another key, or a file is not the one that was signed.
    """
    file = signature_path(path) if signature is None else Path(signature)
    verifier = _checked_verifier(key)
    if not file.is_file():
        raise SignatureError(f"{path} has no signature: there is no file {file}.")
    with _signed_files(Path(path)) as folder:
        try:
            verifier.verify(folder, file)
        # A file that is no signature fails in each of the libraries that read it, in its own way.
        except Exception as error:
            raise SignatureError(f"{path} is not what was signed in {file}: {_reason(error)}") from error
        return [Path(path).parent / found.relative_to(folder) for found in sorted(folder.rglob("*")) if found.is_file()]


def _checked_verifier(key: str | os.PathLike[str] | Verifier) -> Verifier:
    if isinstance(key, Verifier):
        return _with_links(key)
    try:
        made: Verifier = _library("verifying").Config().use_elliptic_key_verifier(public_key=_file(key))
    except (OSError, ValueError, TypeError) as error:
        raise OptionError(f"Cannot verify with {os.fspath(key)}: {_reason(error)}") from error
    return _with_links(made)


def _file(key: str | os.PathLike[str]) -> Path:
    if not isinstance(key, str | os.PathLike):
        raise OptionError(f"A key is the path of a PEM file, not {key!r:.80}.")
    return Path(key)


def _library(module: str) -> ModuleType:
    try:
        return importlib.import_module(f"model_signing.{module}")
    except ImportError as error:
        raise OptionError('Signatures need model-signing: pip install "jax2onnx-graph[signing]".') from error


def _with_links(config: _Configured) -> _Configured:
    """A configuration of the library that follows links, which is how it is shown the files of one model alone."""
    if isinstance(config, _Hashing):
        config.set_hashing_config(_library("hashing").Config().set_allow_symlinks(True))
    return config


@contextlib.contextmanager
def _signed_files(path: Path) -> Iterator[Path]:
    """Inside, a folder with links to a model and its data files, and nothing else."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, path.stem)
        for name in (path.name, *_data_files(read_model(path))):
            link, file = folder / name, path.parent / name
            if not file.is_file():
                raise SignatureError(f"{path} refers to {file}, and there is no such file.")
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(file.resolve())
        yield folder


def _data_files(model: ir.Model) -> list[str]:
    """The names of the data files of a model."""
    tensors = [value.const_value for graph in model.graphs() for value in graph.initializers.values()]
    return sorted({os.fspath(tensor.location) for tensor in tensors if isinstance(tensor, ir.ExternalTensor)})


_CHANGED = re.compile(r"Hash mismatch for \\?'(.+?)\\?'")


def _reason(error: BaseException) -> str:
    """The sentence of an error; of files that were changed, the names without the bytes of their digests."""
    if changed := _CHANGED.findall(str(error)):
        return f"Hash mismatch for {', '.join(map(repr, changed))}."
    return f"{str(error) or type(error).__name__}".rstrip(".") + "."
