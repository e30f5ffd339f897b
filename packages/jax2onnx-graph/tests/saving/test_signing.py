"""A signed model is found out when a byte of it, of its data file or of its signature was changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from jax2onnx_graph import ir
from jax2onnx_graph.errors import OptionError, ReadError, SaveError, SignatureError
from jax2onnx_graph.saving.signing import sign_model, signature_path, verify_signature
from jax2onnx_graph.saving.writing import save_model

pytest.importorskip("model_signing")
serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
elliptic = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ec")


def write_keys(folder: Path, name: str) -> tuple[Path, Path]:
    """The files of a new private and a public key."""
    pem, private = serialization.Encoding.PEM, elliptic.generate_private_key(elliptic.SECP256R1())
    open_ = serialization.NoEncryption()
    key, public = folder / f"{name}.pem", folder / f"{name}.pub"
    key.write_bytes(private.private_bytes(pem, serialization.PrivateFormat.PKCS8, open_))
    public.write_bytes(private.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo))
    return key, public


@pytest.fixture
def keys(tmp_path):
    folder = tmp_path / "keys"
    folder.mkdir()
    return write_keys(folder, "release")


@pytest.fixture
def model():
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([1000]))
    tensor = ir.Tensor(np.arange(1000, dtype=np.float32), name="w")
    w = ir.Value(name="w", type=ir.TensorType(tensor.dtype), shape=tensor.shape, const_value=tensor)
    add = ir.Node("", "Add", [x, w])
    add.outputs[0].name = "y"
    return ir.Model(ir.Graph([x], add.outputs, nodes=[add], initializers=[w], opset_imports={"": 18}), ir_version=8)


def flip(file: Path, place: int) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)


def test_a_model_is_as_signed(tmp_path, keys, model):
    save_model(model, tmp_path / "m.onnx", sign=keys[0])
    assert verify_signature(tmp_path / "m.onnx", keys[1]) == [tmp_path / "m.onnx"]


def test_data_files_are_signed_with_the_model(tmp_path, keys, model):
    save_model(model, tmp_path / "m.onnx", external_data=True, sign=keys[0])
    (data,) = tmp_path.glob("*.data")
    assert verify_signature(tmp_path / "m.onnx", keys[1]) == sorted([tmp_path / "m.onnx", data])


@pytest.mark.parametrize("suffix", ["onnx", "data"])
def test_a_changed_byte_is_found(tmp_path, keys, model, suffix):
    save_model(model, tmp_path / "m.onnx", data_file="m.data", sign=keys[0])
    flip(tmp_path / f"m.{suffix}", -5)
    with pytest.raises((SignatureError, ReadError)):
        verify_signature(tmp_path / "m.onnx", keys[1])


def test_a_changed_weight_of_a_single_file_is_named(tmp_path, keys, model):
    save_model(model, tmp_path / "m.onnx", sign=keys[0])
    content = (tmp_path / "m.onnx").read_bytes()
    place = content.index(np.arange(1000, dtype=np.float32).tobytes())
    flip(tmp_path / "m.onnx", place + 40)
    with pytest.raises(SignatureError, match=r"m\.onnx is not what was signed.*Hash mismatch for 'm\.onnx'\.$"):
        verify_signature(tmp_path / "m.onnx", keys[1])


def test_another_models_signature_is_none(tmp_path, keys, model):
    save_model(model, tmp_path / "m.onnx", sign=keys[0])
    save_model(model, tmp_path / "other.onnx")
    signature_path(tmp_path / "m.onnx").rename(signature_path(tmp_path / "other.onnx"))
    with pytest.raises(SignatureError, match="Extra files"):
        verify_signature(tmp_path / "other.onnx", keys[1])


def test_another_key_is_found(tmp_path, keys, model):
    save_model(model, tmp_path / "m.onnx", sign=keys[0])
    _, stranger = write_keys(tmp_path, "stranger")
    with pytest.raises(SignatureError, match="is not what was signed"):
        verify_signature(tmp_path / "m.onnx", stranger)


def test_the_signature_of_an_older_model_does_not_hold(tmp_path, keys, model):
    save_model(model, tmp_path / "m.onnx", sign=keys[0])
    model.doc_string = "newer"
    save_model(model, tmp_path / "m.onnx")
    with pytest.raises(SignatureError, match="Hash mismatch"):
        verify_signature(tmp_path / "m.onnx", keys[1])


def test_files_beside_the_model_are_not_signed(tmp_path, keys, model):
    (tmp_path / "notes.txt").write_text("before")
    save_model(model, tmp_path / "m.onnx", sign=keys[0])
    (tmp_path / "notes.txt").write_text("after")
    assert verify_signature(tmp_path / "m.onnx", keys[1])


def test_a_model_that_is_there_is_signed(tmp_path, keys, model):
    save_model(model, tmp_path / "m.onnx")
    assert sign_model(tmp_path / "m.onnx", keys[0]) == tmp_path / "m.onnx.sig"
    assert verify_signature(tmp_path / "m.onnx", keys[1])


def test_the_signing_configuration_of_the_library_signs(tmp_path, keys, model):
    from model_signing import signing, verifying

    save_model(model, tmp_path / "m.onnx", sign=signing.Config().use_elliptic_key_signer(private_key=keys[0]))
    config = verifying.Config().use_elliptic_key_verifier(public_key=keys[1])
    assert verify_signature(tmp_path / "m.onnx", config)


@pytest.mark.parametrize("text", ["", "no key"])
def test_a_file_without_a_key_is_refused_before_anything_is_written(tmp_path, model, text):
    (tmp_path / "key.pem").write_text(text)
    with pytest.raises(OptionError, match=r"Cannot sign with .*key\.pem"):
        save_model(model, tmp_path / "m.onnx", sign=tmp_path / "key.pem")
    with pytest.raises(OptionError, match=r"Cannot sign with .*none\.pem"):
        save_model(model, tmp_path / "m.onnx", sign=tmp_path / "none.pem")
    assert not (tmp_path / "m.onnx").exists()


def test_a_pipe_takes_no_signature(keys, model):
    with pytest.raises(SaveError, match="no directory beside"):
        save_model(model, "/dev/null", sign=keys[0])


def test_a_missing_signature_is_named(tmp_path, keys, model):
    save_model(model, tmp_path / "m.onnx")
    with pytest.raises(SignatureError, match=r"there is no file .*m\.onnx\.sig"):
        verify_signature(tmp_path / "m.onnx", keys[1])


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\xfe", b'{"mediaType": 3}'])
def test_a_file_that_is_no_signature_is_named(tmp_path, keys, model, content):
    save_model(model, tmp_path / "m.onnx")
    signature_path(tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(SignatureError, match="is not what was signed"):
        verify_signature(tmp_path / "m.onnx", keys[1])


def test_a_missing_data_file_is_named(tmp_path, keys, model):
    save_model(model, tmp_path / "m.onnx", data_file="m.data", sign=keys[0])
    (tmp_path / "m.data").unlink()
    with pytest.raises(SignatureError, match=r"refers to .*m\.data"):
        verify_signature(tmp_path / "m.onnx", keys[1])
