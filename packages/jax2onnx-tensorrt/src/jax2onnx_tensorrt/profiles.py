"""Optimisation profiles: the shapes for which TensorRT chooses the kernels of an engine, as its tools take them."""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from jax2onnx_graph import ir
from jax2onnx_graph.errors import OptionError, SymbolError
from jax2onnx_graph.labels import symbols_in
from jax2onnx_graph.metadata import SymbolInfo, read_symbols
from jax2onnx_graph.saving.reading import read_model
from jax2onnx_graph.traversal import given_inputs
from jax2onnx_runtime.feeds import symbol_space
from jax2onnx_runtime.profiles import ShapeProfile, SymbolRange, shape_profile
from jax2onnx_runtime.sizes import SymbolSpace

__all__ = ["EngineProfiles", "HasModel", "engine_profiles", "read_profile"]

_PARTS = ("min", "opt", "max")
_SEPARATORS = re.compile(r"[:,*'\s]")


@runtime_checkable
class HasModel(Protocol):
    """A program, with its model."""

    @property
    def model(self) -> ir.Model: ...


@dataclass(frozen=True)
class EngineProfiles:
    """The optimisation profiles of one engine, by name, in the order of their numbers.

    Attributes:
      sizes: profile → symbol → its least, usual and largest size.
      shapes: profile → the shapes of the inputs.
    """

    sizes: Mapping[str, Mapping[str, tuple[int, int, int]]]
    shapes: Mapping[str, ShapeProfile]

    def trtexec(
        self, model: str | os.PathLike[str], engine: str | os.PathLike[str], *, fp16: bool = False
    ) -> list[str]:
        """The arguments of the command that builds the engine; `shlex.join` makes a line of them.

        Args:
          model: the ONNX file.
          engine: the file of the engine, which is written.
          fp16: whether TensorRT may compute in float16; up to version 10, see the guide.
        """
        precision = ["--fp16"] if fp16 else []
        flags = ["trtexec", f"--onnx={os.fspath(model)}", f"--saveEngine={os.fspath(engine)}", *precision]
        for number, profile in enumerate(self.shapes.values()):
            flags += [f"--profile={number}", *(f"--{part}Shapes={text}" for part, text in _texts(profile).items())]
        return [*flags, "--skipInference"]

    def trtexec_line(self, model: str | os.PathLike[str], engine: str | os.PathLike[str], *, fp16: bool = False) -> str:
        """The command that builds the engine, as a line for a shell; see `trtexec`."""
        return shlex.join(self.trtexec(model, engine, fp16=fp16))

    def provider_options(self, *, fp16: bool = False) -> dict[str, str]:
        """Options of ONNX Runtime's `TensorrtExecutionProvider`: a profile after the other in each of them."""
        texts = [_texts(profile) for profile in self.shapes.values()]
        options = (
            {f"trt_profile_{part}_shapes": ",".join(text[part] for text in texts) for part in _PARTS} if texts else {}
        )
        return options | ({"trt_fp16_enable": "True"} if fp16 else {})

    def profile_for(self, **sizes: int) -> str:
        """The name of the profile for some sizes of the symbols.

        Raises:
          SymbolError: there is none.
        """
        for name, ranges in self.sizes.items():
            if all(least <= sizes.get(symbol, -1) <= largest for symbol, (least, _, largest) in ranges.items()):
                return name
        given = ", ".join(f"{symbol} = {size}" for symbol, size in sizes.items())
        raise SymbolError(
            f"No profile is for {given or 'no sizes'}: {'; '.join(map(self._shown, self.sizes)) or 'there is none'}."
        )

    def _shown(self, name: str) -> str:
        return f"{name} for {', '.join(f'{symbol} = {_range_text(r)}' for symbol, r in self.sizes[name].items())}"


def _range_text(three: tuple[int, int, int]) -> str:
    least, _, largest = three
    return str(least) if least == largest else f"{least} to {largest}"


def _texts(profile: ShapeProfile) -> dict[str, str]:
    """The shapes as trtexec and ONNX Runtime write them: `x:1x3,y:1x0`."""
    return {
        part: ",".join(f"{name}:{'x'.join(map(str, shapes[i]))}" for name, shapes in profile.shapes.items())
        for i, part in enumerate(_PARTS)
    }


def engine_profiles(
    program: HasModel | ir.Model | Path | str, profiles: Mapping[str, Mapping[str, SymbolRange]]
) -> EngineProfiles:
    """The optimisation profiles of a program, or of a model that jax2onnx exported.

    Args:
      program: the program, the model or its file.
      profiles: name → symbol → (least, usual, largest), or one number for all three:
        `{"first": {"T": (1, 6, 6), "S": 0}, "step": {"T": 1, "S": (1, 1370, 1370)}}`.

    Raises:
      OptionError: there are no profiles for a model with symbols, or the name of an input cannot be written.
      SymbolError: a profile lacks a symbol, has an unknown one or sizes that are not possible, or two have sizes in common.
    """
    model = _model(program)
    space, names = symbol_space(model), [value.name or "" for value in given_inputs(model.graph)]
    if space.names and not profiles:
        example = ", ".join(f"{name!r}: (1, 1, 8)" for name in space.names)
        raise OptionError(
            f"The model has the symbols {', '.join(space.names)}: an engine for it needs profiles, such as "
            f"{{'all': {{{example}}}}}."
        )
    symbols = _symbols(model, space, names)
    found = EngineProfiles(
        {name: {symbol: _three(size) for symbol, size in sizes.items()} for name, sizes in profiles.items()},
        {name: _profile(name, space, names, symbols, sizes) for name, sizes in profiles.items()},
    )
    _check_apart(found.sizes)
    for profile in found.shapes.values():
        _check_names(profile)
    return found


def _model(program: HasModel | ir.Model | Path | str) -> ir.Model:
    if isinstance(program, ir.Model):
        return program
    return read_model(program) if isinstance(program, (str, Path)) else program.model


def _symbols(model: ir.Model, space: SymbolSpace, names: Sequence[str]) -> dict[str, SymbolInfo]:
    """The symbols of a model, of its metadata and of the labels of its inputs."""
    known = {info.name: info for info in read_symbols(model)}
    for symbol in space.names:
        labels = (
            (name, axis, space.label(dim))
            for name, dims in zip(names, space.inputs, strict=True)
            for axis, dim in enumerate(dims)
        )
        origins = tuple(origin for origin in labels if symbol in symbols_in(origin[2]))
        known.setdefault(symbol, SymbolInfo(symbol, space.minimum(symbol), None, origins))
    return known


def _three(size: SymbolRange) -> tuple[int, int, int]:
    return (size, size, size) if isinstance(size, int) else size


def _profile(
    name: str, space: SymbolSpace, names: Sequence[str], symbols: Mapping[str, SymbolInfo], sizes: Mapping[str, SymbolRange]
) -> ShapeProfile:  # fmt: skip
    try:
        return shape_profile(space, names, symbols, sizes)
    except SymbolError as error:
        raise SymbolError(f"Profile {name!r}: {error}") from error


def _check_apart(profiles: Mapping[str, Mapping[str, tuple[int, int, int]]]) -> None:
    """Raise SymbolError for two profiles that have sizes in common: which to take would be left open."""
    for (one, a), (other, b) in itertools.combinations(profiles.items(), 2):
        shared = {symbol: (max(a[symbol][0], b[symbol][0]), min(a[symbol][2], b[symbol][2])) for symbol in a}
        if all(low <= high for low, high in shared.values()):
            where = ", ".join(f"{symbol} = {low}" for symbol, (low, _) in shared.items())
            raise SymbolError(
                f"The profiles {one!r} and {other!r} overlap at {where}: which of the two is to be taken there? Let one of them end "
                "before the other."
            )


def _check_names(profile: ShapeProfile) -> None:
    for name in profile.shapes:
        if _SEPARATORS.search(name):
            raise OptionError(
                f"The shapes of the input {name!r} cannot be written for TensorRT's tools, which separate by ':', ',' and spaces: give the "
                "inputs other names by to_onnx(..., input_names=[...])."
            )


def read_profile(text: str) -> tuple[str, dict[str, tuple[int, int, int]]]:
    """A profile in the syntax of the command line: `first:T=1..6,S=0`, `step:T=1,S=0..1370..1370`.

    `N` is a size, `N..M` the least and the largest, which is also the usual one, `N..U..M` the least, the usual and the largest.

    Returns:
      The name of the profile, and the sizes of the symbols.

    Raises:
      OptionError: it is none.
    """
    name, colon, rest = text.partition(":")
    sizes: dict[str, tuple[int, int, int]] = {}
    for part in rest.split(",") if rest.strip() else ():
        symbol, _, size = map(str.strip, part.partition("="))
        numbers = [number.strip() for number in size.split("..")]
        if not symbol.isidentifier() or symbol in sizes or not all(map(str.isdecimal, numbers)) or len(numbers) > 3:
            raise OptionError(
                f"{part.strip()!r} in the profile {text!r} is no size: write each symbol once, as T=6, T=1..6 (the least and the "
                "largest) or T=1..3..6 (with the usual one between)."
            )
        values = [int(number) for number in numbers]
        sizes[symbol] = values[0], values[1] if len(values) == 3 else values[-1], values[-1]
    if not colon or not name.strip().isidentifier() or not sizes:
        raise OptionError(
            f"{text!r} is no profile: write a name and the sizes of the symbols, such as first:T=1..6,S=0."
        )
    return name.strip(), sizes
