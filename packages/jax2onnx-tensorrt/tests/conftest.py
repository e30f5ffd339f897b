"""A strict parser of what `trtexec` takes of an ONNX model: by the text of `trtexec --help` of version 10."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Callable

import pytest

__all__ = ["Command", "trtexec"]

_VALUED = {"onnx", "saveEngine"}
_FLAGS = {"fp16", "bf16", "skipInference", "noTF32", "stronglyTyped"}
_PARTS = {"minShapes": 0, "optShapes": 1, "maxShapes": 2}

Shape = tuple[int, ...]


@dataclasses.dataclass
class Command:
    """A command: its files, flags, and profiles as input → three shapes."""

    onnx: str
    engine: str
    flags: set[str]
    profiles: list[dict[str, list[Shape | None]]]


@pytest.fixture(scope="session")
def trtexec() -> Callable[[str], Command]:
    """The parser."""
    return _parse


def _parse(line: str) -> Command:
    """The command of a line of a shell; ValueError for whatever `trtexec` would not take."""
    program, *arguments = shlex.split(line)
    if program != "trtexec":
        raise ValueError(f"not trtexec: {program}")
    values: dict[str, str] = {}
    flags: set[str] = set()
    profiles: list[dict[str, list[Shape | None]]] = []
    for argument in arguments:
        match = re.fullmatch(r"--(\w+)(?:=(.+))?", argument)
        name, value = match.groups() if match else ("", None)
        if name == "profile" or name in _PARTS:
            _add(profiles, name, value or "")
        elif name in _VALUED and value and name not in values:
            values[name] = value
        elif name in _FLAGS and value is None and name not in flags:
            flags.add(name)
        else:
            raise ValueError(f"not understood: {argument}")
    for profile in profiles:
        for name, shapes in profile.items():
            _check(name, shapes)
    return Command(values["onnx"], values["saveEngine"], flags, profiles)


def _add(profiles: list[dict[str, list[Shape | None]]], name: str, value: str) -> None:
    """Begin a profile, or add shapes to the last one."""
    if name == "profile":
        if value != str(len(profiles)):
            raise ValueError(f"profiles have to be numbered from 0 on without gaps: {value}")
        profiles.append({})
        return
    if not profiles:
        profiles.append({})
    _add_shapes(profiles[-1], _PARTS[name], value)


def _add_shapes(profile: dict[str, list[Shape | None]], part: int, text: str) -> None:
    for one in text.split(","):
        match = re.fullmatch(r"([^:*']+):(\d+(?:x\d+)*)", one)
        if match is None:
            raise ValueError(f"no shape: {one}")
        name, sizes = match.groups()
        shapes = profile.setdefault(name, [None, None, None])
        if shapes[part] is not None:
            raise ValueError(f"twice: {one}")
        shapes[part] = tuple(map(int, sizes.split("x")))


def _check(name: str, shapes: list[Shape | None]) -> None:
    if None in shapes:
        raise ValueError(f"{name} lacks one of min, opt, max")
    least, usual, largest = (shape or () for shape in shapes)
    if not len(least) == len(usual) == len(largest):
        raise ValueError(f"{name} has shapes of different ranks")
    if not all(a <= b <= c for a, b, c in zip(least, usual, largest, strict=True)):
        raise ValueError(f"{name}: min <= opt <= max does not hold")
