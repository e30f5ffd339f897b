"""A path holds the old model or the new one, whole, whatever happens to the save and whoever else is saving."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.numpy_helper
import pytest
from jax2onnx_graph import ir
from jax2onnx_graph.errors import SaveError
from jax2onnx_graph.saving import _folder as folder
from jax2onnx_graph.saving import serialization, writing
from jax2onnx_graph.saving.writing import replaced_file, save_model, save_several, save_sharing_weights

SIZE = 3000
DATA = r"\.[0-9a-f]{16}\.data"
posix = pytest.mark.skipif(sys.platform == "win32", reason="links, permissions and locks of POSIX")


def model_of(*arrays: np.ndarray) -> ir.Model:
    """`x + w0 + w1 …`"""
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(["N"]))
    nodes, total, weights = [], x, []
    for i, array in enumerate(arrays):
        tensor = ir.Tensor(array, name=f"w{i}")
        weights.append(ir.Value(name=f"w{i}", type=ir.TensorType(tensor.dtype), shape=tensor.shape, const_value=tensor))
        nodes.append(ir.Node("", "Add", [total, weights[-1]], num_outputs=1))
        total = nodes[-1].outputs[0]
        total.name, total.type, total.shape = f"y{i}", x.type, ir.Shape(["M"])
    graph = ir.Graph([x], [total], nodes=nodes, initializers=weights, name="main", opset_imports={"": 21})
    return ir.Model(graph, ir_version=10, producer_name="test", doc_string="of a test")


def filled(number: float) -> ir.Model:
    """A model all of whose weights are this number; two of them are large."""
    return model_of(*(np.full(n, number, np.float32) for n in (SIZE, 2, SIZE)))


def number_in(path: Path) -> float:
    """The number that all weights of the model are."""
    onnx.checker.check_model(str(path))
    weights = [onnx.numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer]
    assert [w.size for w in weights] == [SIZE, 2, SIZE]
    (number,) = {float(x) for w in weights for x in w}
    return number


def names(directory: Path) -> list[str]:
    """The files there; the random part of their names as ***."""
    return sorted(re.sub(r"[0-9a-f]{16}", "***", path.name) for path in directory.iterdir())


def data_files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if re.search(DATA, path.name))


@pytest.fixture(autouse=True)
def no_waiting_for_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `fsync`: what a killed process has written stays all the same."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def python(code: str, *args: object) -> bytes:
    """The output of code that uses this module, in an interpreter of its own in which nothing else is loaded."""
    return subprocess.run(command(code, *args), check=True, stdout=subprocess.PIPE).stdout


def command(code: str, *args: object) -> list[str]:
    code = f"import sys; sys.path.insert(0, sys.argv[1]); from test_writing import *\nos.fsync = lambda _: None\n{code}"
    return [sys.executable, "-c", code, str(Path(__file__).parent), *map(str, args)]


WAYS: dict[str, dict[str, Any]] = {"inline": {}, "external": {"external_data": True}, "named": {"data_file": "w.data"}}
LEFT = {"inline": ["m.onnx"], "external": ["m.onnx", "m.onnx.***.data"], "named": ["m.onnx", "w.data"]}
every_way = pytest.mark.parametrize("way", WAYS)


# -- the file -----------------------------------------------------------------------------------


ARRAYS = {
    "float32": np.arange(SIZE, dtype=np.float32),
    "scalar": np.float32(3),
    "empty": np.zeros((0, 3), np.float32),
    "transposed": np.arange(SIZE * 2, dtype=np.int64).reshape(SIZE, 2).T,
    "bool": np.arange(SIZE) % 3 == 0,
    "complex": np.full(SIZE, 1 + 2j, np.complex64),
    "bfloat16": np.arange(SIZE).astype(ml_dtypes.bfloat16),
    "int4": (np.arange(SIZE + 1) % 7).astype(ml_dtypes.int4),
    "float8": np.ones(SIZE, ml_dtypes.float8_e4m3fn),
}


@pytest.mark.parametrize("arrays", [(a,) for a in ARRAYS.values()] + [tuple(ARRAYS.values())], ids=[*ARRAYS, "all"])
def test_the_file_has_the_bytes_of_the_message(arrays: tuple[np.ndarray, ...], tmp_path: Path) -> None:
    model = model_of(*arrays)
    assert save_model(model, tmp_path / "m.onnx").read_bytes() == ir.to_proto(model).SerializeToString()


@pytest.mark.parametrize("arrays", [(a,) for a in ARRAYS.values()] + [tuple(ARRAYS.values())], ids=[*ARRAYS, "all"])
def test_data_files_hold_the_same_values(arrays: tuple[np.ndarray, ...], tmp_path: Path) -> None:
    save_model(model_of(*arrays), tmp_path / "m.onnx", external_data=True, threshold=0)
    found = [onnx.numpy_helper.to_array(t) for t in onnx.load(tmp_path / "m.onnx").graph.initializer]
    for expected, array in zip(arrays, found, strict=True):
        np.testing.assert_array_equal(array.astype(expected.dtype), expected)


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 2**31 - 1, 2**35 + 5])
def test_integers_of_protobuf(number: int) -> None:
    dims = onnx.TensorProto(dims=[number]).SerializeToString()
    assert dims == b"\x08" + serialization._varint(number)


def test_strings_stay_in_the_model(tmp_path: Path) -> None:
    model = model_of(np.zeros(2, np.float32))
    tensor = ir.StringTensor([b"x" * 2000], shape=ir.Shape([1]), name="s")
    model.graph.register_initializer(ir.Value(name="s", type=ir.TensorType(ir.DataType.STRING), const_value=tensor))
    for external in (False, True):
        save_model(model, tmp_path / "m.onnx", external_data=external, threshold=0)
        assert onnx.load(tmp_path / "m.onnx").graph.initializer[1].string_data == [b"x" * 2000]


def test_the_model_in_memory_is_left_alone(tmp_path: Path) -> None:
    model = filled(1)
    before = [value.const_value for value in model.graph.initializers.values()]
    for options in WAYS.values():
        save_model(model, tmp_path / "m.onnx", **options)
    assert [value.const_value for value in model.graph.initializers.values()] == before


@pytest.mark.parametrize(("threshold", "external"), [(4 * SIZE, 2), (4 * SIZE + 1, 0), (8, 3)])
def test_the_threshold(tmp_path: Path, threshold: int, external: int) -> None:
    save_model(filled(1), tmp_path / "m.onnx", external_data=True, threshold=threshold)
    tensors = onnx.load(tmp_path / "m.onnx", load_external_data=False).graph.initializer
    assert sum(t.data_location == onnx.TensorProto.EXTERNAL for t in tensors) == external
    assert len(data_files(tmp_path)) == (external > 0)
    assert number_in(tmp_path / "m.onnx") == 1


def huge() -> ir.Model:
    """A model with a tensor of 2 GiB, all of whose elements are one byte in memory."""
    return model_of(np.broadcast_to(np.uint8(0), 2**31))


@pytest.mark.parametrize("options", [{"external_data": False}, {"external_data": True, "threshold": 2**40}])
def test_more_than_a_file_holds(tmp_path: Path, options: dict[str, Any]) -> None:
    save_model(filled(1), tmp_path / "m.onnx")
    with pytest.raises(SaveError) as raised:
        save_model(huge(), tmp_path / "m.onnx", **options)
    assert str(raised.value) == (
        f"Cannot save to {tmp_path / 'm.onnx'}: the file would take 2.00 GiB, but an ONNX file holds at most 2 GiB. Let "
        "the weights go to a data file: external_data=True, or a lower threshold."
    )
    assert number_in(tmp_path / "m.onnx") == 1


MEMORY = """
import resource
model = model_of(*(np.full(16 << 20, i, np.float32) for i in range(4)))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
save_model(model, sys.argv[2], external_data=bool(sys.argv[3]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@posix
@pytest.mark.parametrize("external", [False, True])
def test_saving_needs_little_memory(tmp_path: Path, external: bool) -> None:
    grown = python(MEMORY, tmp_path / "m.onnx", external or "")
    assert int(grown) * (1 if sys.platform == "darwin" else 1024) < 0.2 * 2**28
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == pytest.approx(2**28, rel=1e-4)


# -- one model after the other ------------------------------------------------------------------


@pytest.mark.parametrize("first", WAYS)
@pytest.mark.parametrize("second", WAYS)
def test_the_second_model_takes_the_place_of_the_first(tmp_path: Path, first: str, second: str) -> None:
    path = tmp_path / "m.onnx"
    for number, way in enumerate((first, second)):
        assert save_model(filled(number), path, **WAYS[way]) == path
        assert number_in(path) == number
    kept = {"w.data"} & set(LEFT[first])  # a file that the user named is the user's
    assert names(tmp_path) == sorted({*LEFT[second], *kept})


@every_way
def test_files_of_others_stay(tmp_path: Path, way: str) -> None:
    others = [
        "m.onnx.data", "m.onnx.data1", "m.data", "weights.data", "other.onnx.0123456789abcdef.data", ".m.onnx.swp",
        "m.onnx.0123456789abcde.data", ".jax2onnx-x.tmp",
    ]  # fmt: skip
    for name in others:
        (tmp_path / name).write_text(name)
    for number in range(2):
        save_model(filled(number), tmp_path / "m.onnx", **WAYS[way])
    assert {name: (tmp_path / name).read_text() for name in others} == {name: name for name in others}


@pytest.mark.parametrize("copy", ["copy.onnx", "m.bin"])
def test_data_that_a_copy_of_the_model_uses_stays(tmp_path: Path, copy: str) -> None:
    path = save_model(filled(1), tmp_path / "m.onnx", external_data=True)
    if copy == "m.bin":
        path = path.rename(tmp_path / "n.bin")
    (tmp_path / copy).write_bytes(path.read_bytes())
    for number in (2, 3):
        save_model(filled(number), path, external_data=True)
    assert number_in(tmp_path / copy) == 1
    assert number_in(path) == 3
    assert len(data_files(tmp_path)) == 2


def test_a_data_file_by_name(tmp_path: Path) -> None:
    for number in range(3):
        save_model(filled(number), tmp_path / "m.onnx", data_file="my weights.bin")
        assert number_in(tmp_path / "m.onnx") == number
        assert names(tmp_path) == ["m.onnx", "my weights.bin"]


def test_a_data_file_that_another_model_uses_is_refused(tmp_path: Path) -> None:
    save_model(filled(1), tmp_path / "other.onnx", data_file="w.data")
    with pytest.raises(SaveError, match=re.escape("w.data: other.onnx uses it; choose another name.")):
        save_model(filled(2), tmp_path / "m.onnx", data_file="w.data")
    assert number_in(tmp_path / "other.onnx") == 1
    assert names(tmp_path) == ["other.onnx", "w.data"]


def test_a_foreign_data_file_is_refused(tmp_path: Path) -> None:
    save_model(filled(1), tmp_path / "m.onnx", data_file="new.data")
    (tmp_path / "w.data").write_text("precious")
    with pytest.raises(SaveError, match=re.escape("w.data: the file exists, and is no data of m.onnx. Choose another")):
        save_model(filled(2), tmp_path / "m.onnx", data_file="w.data")
    assert (tmp_path / "w.data").read_text() == "precious"
    assert number_in(tmp_path / "m.onnx") == 1


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../w", "a\\b", "a\0b", "/w", "\ud800", b"w", 3])
def test_names_that_are_none(tmp_path: Path, name: str) -> None:
    with pytest.raises(SaveError, match=r"Cannot save: data_file is .*(without a directory|UTF-8 cannot express)"):
        save_model(filled(1), tmp_path / "m.onnx", data_file=name)
    with pytest.raises(SaveError, match=r"Cannot save: the name of a variant is .*(without a directory|UTF-8 cannot)"):
        save_sharing_weights(tmp_path, {name: 1.0}, filled)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data_file": "M.onnx"}, "data_file='M.onnx' is the name of the model itself"),
        ({"data_file": "w", "external_data": False}, "data_file='w' contradicts external_data=False"),
    ],
)
def test_options_that_contradict(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SaveError, match=re.escape(message)):
        save_model(filled(1), tmp_path / "m.onnx", **options)


# -- variants -----------------------------------------------------------------------------------


def test_variants_share_their_weights(tmp_path: Path) -> None:
    paths = save_sharing_weights(tmp_path, {"a": 1.0, "b": 1.0, "c": 2.0}, filled)
    assert [number_in(path) for path in paths] == [1, 1, 2]
    assert names(tmp_path) == ["a.onnx", "b.onnx", "c.onnx", "weights.***.data"]
    assert data_files(tmp_path)[0].stat().st_size < 3 * 4096 * 4


def test_variants_beside_older_ones(tmp_path: Path) -> None:
    save_sharing_weights(tmp_path, {"a": 1.0, "b": 1.0}, filled)
    save_sharing_weights(tmp_path, {"b": 2.0, "c": 2.0}, filled)
    assert [number_in(tmp_path / f"{name}.onnx") for name in "abc"] == [1, 2, 2]
    assert len(data_files(tmp_path)) == 2
    save_model(filled(3), tmp_path / "a.onnx")
    assert [number_in(tmp_path / f"{name}.onnx") for name in "abc"] == [3, 2, 2]
    assert len(data_files(tmp_path)) == 1


def test_variants_without_large_weights(tmp_path: Path) -> None:
    save_sharing_weights(tmp_path, {"a": 1.0}, lambda number: model_of(np.full(2, number, np.float32)))
    assert names(tmp_path) == ["a.onnx"]


def test_weights_of_other_shapes_are_one_if_their_bytes_are(tmp_path: Path) -> None:
    arrays = {"a": np.ones((64, 64), np.float32), "b": np.ones(4096, np.float32)}
    save_sharing_weights(tmp_path, arrays, model_of)
    assert data_files(tmp_path)[0].stat().st_size == arrays["a"].nbytes


def test_files_beside_the_models(tmp_path: Path) -> None:
    for content in (b"old", b"new"):
        save_sharing_weights(tmp_path, {"a": 1.0}, filled, beside={"list.json": content})
    assert names(tmp_path) == ["a.onnx", "list.json", "weights.***.data"]
    assert (tmp_path / "list.json").read_bytes() == b"new"


@posix
@pytest.mark.parametrize("other", ["b", "A"])
def test_variants_of_one_file_are_refused(tmp_path: Path, other: str) -> None:
    save_model(filled(1), tmp_path / "a.onnx")
    if other == "b":
        (tmp_path / "b.onnx").symlink_to("a.onnx")
    with pytest.raises(SaveError, match=rf"{other}.onnx: it is the file of the variant 'a', too, by a link or but for"):
        save_sharing_weights(tmp_path, {"a": 2.0, other: 3.0}, filled)
    assert number_in(tmp_path / "a.onnx") == 1


def test_a_folder_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, **_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(SaveError, match=r"Cannot save to .*new: Permission denied"):
        save_sharing_weights(tmp_path / "new", {"a": 1.0}, filled)


@pytest.mark.parametrize("name", ["m.onnx.bak", "older", "m.data"])
@pytest.mark.parametrize("way", ["external", "named"])
def test_a_model_that_was_renamed_keeps_its_data(tmp_path: Path, name: str, way: str) -> None:
    save_model(filled(1), tmp_path / "m.onnx", **WAYS[way])
    (tmp_path / "m.onnx").rename(tmp_path / name)
    if way == "named":
        with pytest.raises(SaveError, match=f"{name} uses it; choose another name"):
            save_model(filled(2), tmp_path / "m.onnx", **WAYS[way])
    else:
        save_model(filled(2), tmp_path / "m.onnx", **WAYS[way])
        assert number_in(tmp_path / "m.onnx") == 2
    assert number_in((tmp_path / name).rename(tmp_path / "again.onnx")) == 1


def test_several_models_have_data_files_where_they_are_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = model_of(np.ones(2, np.float32))
    for number in (1, 2):
        monkeypatch.setattr(writing, "_SINGLE_FILE_LIMIT", 8)
        assert save_several(tmp_path / "new", {"a": filled(number), "b": small}) == [
            tmp_path / "new" / "a.onnx",
            tmp_path / "new" / "b.onnx",
        ]
        assert names(tmp_path / "new") == ["a.onnx", "a.onnx.***.data", "b.onnx"]
        assert number_in(tmp_path / "new" / "a.onnx") == number


def test_none_of_several_models_is_replaced_where_one_cannot_be_written(tmp_path: Path) -> None:
    save_several(tmp_path, {"a": filled(1), "b": filled(1)}, beside={"list": b"1"})
    (tmp_path / "b.onnx").unlink()
    (tmp_path / "b.onnx").mkdir()
    with pytest.raises(SaveError, match=r"b\.onnx: it is a directory"):
        save_several(tmp_path, {"a": filled(2), "b": filled(2)}, beside={"list": b"2"})
    assert number_in(tmp_path / "a.onnx") == 1
    assert (tmp_path / "list").read_bytes() == b"1"


def test_no_variant(tmp_path: Path) -> None:
    with pytest.raises(SaveError, match="name at least one variant"):
        save_sharing_weights(tmp_path, {}, filled)


# -- paths --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (b"m.onnx", "Cannot save to b'm.onnx': a path is a string or a pathlib.Path."),
        (3, "Cannot save to 3: a path is a string or a pathlib.Path."),
        ("a\0b", r"Cannot save to 'a\x00b': it has a NUL character."),
        ("\ud800", r"Cannot save to '\ud800': it has a character that no path here can have."),
        ("", "Cannot save to .: it is a directory; give the name of a file."),
        ("no/m.onnx", "Cannot save to no/m.onnx: the directory no does not exist; create it first."),
        ("x" * 300, f"Cannot save to {'x' * 300}: File name too long. What was there is whole."),
        (
            "x" * 300 + "/m.onnx",
            f"Cannot save to {'x' * 300}/m.onnx: File name too long. What was there is whole.",
        ),
    ],
)
@every_way
def test_paths_that_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, message: str, way: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SaveError) as raised:
        save_model(filled(1), path, **WAYS[way])
    assert str(raised.value) == message
    assert names(tmp_path) == []


@pytest.mark.parametrize("path", [b"out", "a\0b", "no/where", "x" * 300])
def test_directories_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SaveError, match="Cannot save to "):
        save_sharing_weights(path, {"a": 1.0}, filled)


@every_way
def test_the_longest_name(tmp_path: Path, way: str) -> None:
    path = tmp_path / ("ü" * 125 + ".onnx")
    for number in range(2):
        save_model(filled(number), path, **WAYS[way])
        assert number_in(path) == number
    assert len(names(tmp_path)) == len(LEFT[way])


@posix
@every_way
def test_a_link_stays_a_link(tmp_path: Path, way: str) -> None:
    link, path = tmp_path / "link.onnx", tmp_path / "m.onnx"
    link.symlink_to("m.onnx")
    for number in range(2):  # the first save finds nothing where the link leads
        assert save_model(filled(number), link, **WAYS[way]) == link
        assert link.is_symlink()
        assert number_in(path) == number_in(link) == number
    assert names(tmp_path) == sorted(["link.onnx", *LEFT[way]])


@posix
def test_a_link_into_another_directory(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link, path = tmp_path / "link.onnx", tmp_path / "there" / "m.onnx"
    link.symlink_to(path)
    save_model(filled(1), link)
    assert number_in(path) == number_in(link) == 1
    with pytest.raises(
        SaveError, match=f"with external data: it is a link into another directory.*Save to {path} itse"
    ):
        save_model(filled(2), link, external_data=True)
    assert number_in(path) == 1


@posix
def test_a_link_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").symlink_to("b.onnx")
    (tmp_path / "b.onnx").symlink_to("a.onnx")
    with pytest.raises(SaveError, match="Too many levels of symbolic links"):
        save_model(filled(1), tmp_path / "a.onnx")


@posix
def test_a_directory_reached_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "here").symlink_to("there")
    save_model(filled(1), tmp_path / "here" / "m.onnx", external_data=True)
    assert names(tmp_path / "there") == LEFT["external"]


@posix
@every_way
@pytest.mark.parametrize("mode", [0o600, 0o664])
def test_permissions_are_kept(tmp_path: Path, way: str, mode: int) -> None:
    path = save_model(filled(1), tmp_path / "m.onnx")
    path.chmod(mode)
    save_model(filled(2), path, **WAYS[way])
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {mode}


@posix
@every_way
@pytest.mark.parametrize("umask", [0o022, 0o007])
def test_new_files_have_the_permissions_of_new_files(tmp_path: Path, way: str, umask: int) -> None:
    before = os.umask(umask)
    try:
        save_model(filled(1), tmp_path / "m.onnx", **WAYS[way])
    finally:
        os.umask(before)
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o666 & ~umask}


def test_a_protected_file_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save_model(filled(1), tmp_path / "m.onnx")
    path.chmod(0o444)
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # tests may run as root, who may write everything
    with pytest.raises(SaveError, match="the file that is there is write-protected"):
        save_model(filled(2), path)
    assert number_in(path) == 1


@posix
def test_a_pipe_is_written_into(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor(1) as pool:
        received = pool.submit((tmp_path / "pipe").read_bytes)
        save_model(filled(1), tmp_path / "pipe")
        assert received.result() == ir.to_proto(filled(1)).SerializeToString()
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    with pytest.raises(SaveError, match="with external data: there is no directory beside a pipe or a device"):
        save_model(filled(1), tmp_path / "pipe", external_data=True)


@posix
def test_standard_output_is_written_into() -> None:
    assert python("save_model(filled(1), '/dev/stdout')") == ir.to_proto(filled(1)).SerializeToString()


# -- faults -------------------------------------------------------------------------------------

# What a save asks of the operating system. Everything but what it reads goes through these.
CALLS = ["open", "write", "fsync", "replace", "unlink", "chmod", "close"]


def save_stream(directory: Path, number: float) -> None:
    """The model as the content of a file whose writer gets a stream."""
    with replaced_file(directory / "m.onnx") as stream:
        stream.write(ir.to_proto(filled(number)).SerializeToString())


SAVES: dict[str, Callable[[Path, float], object]] = {
    "inline": lambda directory, n: save_model(filled(n), directory / "m.onnx"),
    "external": lambda directory, n: save_model(filled(n), directory / "m.onnx", external_data=True),
    "named": lambda directory, n: save_model(filled(n), directory / "m.onnx", data_file="w.data"),
    "variants": lambda directory, n: save_sharing_weights(directory, {"m": n, "m2": n}, filled),
    "stream": save_stream,
    "several": lambda directory, n: save_several(
        directory, {"m": filled(n), "m2": filled(n)}, beside={"list.json": b"[1]"}
    ),
    "bundle": lambda directory, n: save_sharing_weights(directory, {"m": n}, filled, beside={"list.json": b"[1]"}),
}
every_save = pytest.mark.parametrize("save", SAVES)


@contextlib.contextmanager
def fault(number: int, happen: Callable[[], None]) -> Iterator[list[str]]:
    """In the call of that number, before it is made, something happens; the calls so far."""
    made: list[str] = []

    def counting(name: str, call: Callable[..., object]) -> Callable[..., object]:
        def counted(*args: object, **kwargs: object) -> object:
            made.append(name)
            if len(made) == number:
                happen()
            return call(*args, **kwargs)

        return counted

    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, counting(name, getattr(os, name)))
        yield made


def check_models(directory: Path, allowed: set[float]) -> None:
    models = sorted(directory.glob("*.onnx"))
    assert models
    for model in models:
        assert number_in(model) in allowed


def check_next_save(directory: Path, save: str) -> None:
    """The next save removes what the interrupted one left."""
    SAVES[save](directory, 3.0)
    check_models(directory, {3.0})
    several = {
        "variants": ["m.onnx", "m2.onnx", "weights.***.data"],
        "stream": ["m.onnx"],
        "several": ["list.json", "m.onnx", "m2.onnx"],
        "bundle": ["list.json", "m.onnx", "weights.***.data"],
    }
    assert names(directory) == {**LEFT, **several}[save]


def count_of_calls(directory: Path, save: str) -> int:
    directory.mkdir()
    SAVES[save](directory, 1.0)
    with fault(0, lambda: None) as made:
        SAVES[save](directory, 2.0)
    assert {"open", "fsync", "replace"} <= set(made)
    return len(made)


def refusal_of(save: Callable[[Path, float], object], directory: Path, number: float) -> str | None:
    try:
        save(directory, number)
    except SaveError as error:
        return str(error)
    return None


@every_save
def test_no_space_at_every_call(tmp_path: Path, save: str) -> None:
    def no_space() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for number in range(1, count_of_calls(tmp_path / "counted", save) + 1):
        directory = tmp_path / str(number)
        directory.mkdir()
        SAVES[save](directory, 1.0)
        with fault(number, no_space) as made:
            refusal = refusal_of(SAVES[save], directory, 2.0)
        if refusal is not None:
            assert refusal.endswith("No space left on device. What was there is whole.")
        assert len(made) >= number
        check_models(directory, {2.0} if refusal is None else {1.0, 2.0})
        check_next_save(directory, save)


@every_save
def test_an_interrupt_at_every_call(tmp_path: Path, save: str) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    for number in range(1, count_of_calls(tmp_path / "counted", save) + 1):
        directory = tmp_path / str(number)
        directory.mkdir()
        SAVES[save](directory, 1.0)
        with fault(number, interrupt), contextlib.suppress(KeyboardInterrupt):
            SAVES[save](directory, 2.0)
        check_models(directory, {1.0, 2.0})
        check_next_save(directory, save)


def kill_at_every_call(directory: Path, save: str, is_first: bool) -> None:
    for number in range(1, count_of_calls(directory / "counted", save) + 1):
        attempt = directory / str(number)
        attempt.mkdir()
        if not is_first:
            SAVES[save](attempt, 1.0)
        if (child := os.fork()) == 0:
            with fault(number, lambda: os._exit(9)):
                SAVES[save](attempt, 2.0)
            os._exit(0)
        os.waitpid(child, 0)
        if not is_first:
            check_models(attempt, {1.0, 2.0})
        elif list(attempt.glob("*.onnx")):
            check_models(attempt, {2.0})
        check_next_save(attempt, save)


@posix
@every_save
@pytest.mark.parametrize("is_first", [False, True])
def test_a_kill_at_every_call(tmp_path: Path, save: str, is_first: bool) -> None:
    python("kill_at_every_call(Path(sys.argv[2]), sys.argv[3], bool(sys.argv[4]))", tmp_path, save, is_first or "")


# -- at the same time ---------------------------------------------------------------------------

SAVER = """
for _ in range(6):
    SAVES[sys.argv[3]](Path(sys.argv[2]), float(sys.argv[4]))
"""


@posix
@pytest.mark.parametrize(
    "saves", [("external",) * 3, ("named",) * 3, ("inline", "external", "external"), ("variants",) * 2]
)
def test_savers_and_readers_at_the_same_time(tmp_path: Path, saves: tuple[str, ...]) -> None:
    SAVES[saves[0]](tmp_path, 0.0)
    with contextlib.ExitStack() as stack:
        commands = [command(SAVER, tmp_path, save, i) for i, save in enumerate(saves)]
        savers = [stack.enter_context(subprocess.Popen(c)) for c in commands]
        while any(saver.poll() is None for saver in savers):
            if "named" in saves:
                break  # a reader could find the data of the next model under the name
            # A reader may find the data of its model gone, but never that of another one.
            with contextlib.suppress(onnx.checker.ValidationError, RuntimeError, FileNotFoundError):
                assert number_in(tmp_path / "m.onnx") < len(saves)
    assert [saver.returncode for saver in savers] == [0] * len(savers)
    check_models(tmp_path, {float(i) for i in range(len(saves))})
    check_next_save(tmp_path, saves[-1])


def test_threads_saving_one_model(tmp_path: Path) -> None:
    model = filled(1)
    with ThreadPoolExecutor(4) as pool:
        for way in (*WAYS, *WAYS, *WAYS):
            pool.submit(save_model, model, tmp_path / "m.onnx", **WAYS[way])
    assert number_in(tmp_path / "m.onnx") == 1


@posix
def test_a_save_that_is_still_writing_keeps_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written, finish = threading.Event(), threading.Event()
    place = folder.Folder.replace

    def slow(self: folder.Folder, new: Any) -> None:
        written.set()
        finish.wait()
        place(self, new)

    monkeypatch.setattr(folder.Folder, "replace", slow)
    with ThreadPoolExecutor(1) as pool:
        slow_save = pool.submit(save_model, filled(1), tmp_path / "m.onnx", external_data=True)
        written.wait()
        monkeypatch.setattr(folder.Folder, "replace", place)
        save_model(filled(2), tmp_path / "m.onnx", external_data=True)
        assert len(data_files(tmp_path)) == 2
        finish.set()
        slow_save.result()
    assert number_in(tmp_path / "m.onnx") == 1
    assert names(tmp_path) == LEFT["external"]


@posix
@pytest.mark.parametrize(("age", "left"), [(0, 2), (100_000, 0)])
def test_without_locks_only_old_files_count_as_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age: float, left: int
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOTSUP, "no locks here")

    monkeypatch.setattr("fcntl.flock", no_locks)
    for name in (".jax2onnx-0123456789abcdef.tmp", "m.onnx.0123456789abcdef.data"):
        (tmp_path / name).write_text("half of a mo")
        os.utime(tmp_path / name, (0, (tmp_path / name).stat().st_mtime - age))
    for number in range(2):
        save_model(filled(number), tmp_path / "m.onnx", external_data=True)
    assert number_in(tmp_path / "m.onnx") == 1
    assert len(names(tmp_path)) == 2 + left


@posix
def test_a_stream_follows_links_and_keeps_permissions(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    with replaced_file(tmp_path / "link") as stream:
        stream.write(b"new")
        assert (tmp_path / "real").read_bytes() == b"old"
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o640


def test_a_writer_that_fails_leaves_the_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), replaced_file(tmp_path / "a") as stream:
        stream.writelines(bytes([1 // (2 - i)]) for i in range(3))
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a"]
