"""`Bundle`: several programs that are saved with their weights once, loaded without JAX, and run together."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import Jax2OnnxError, OptionError, ReadError, WeightsError
from jax2onnx_graph.options import check_flag, check_mapping
from jax2onnx_graph.saving.contents import Content, Contents
from jax2onnx_graph.saving.packing import PackedModel
from jax2onnx_graph.saving.reading import FileVersion, read_model
from jax2onnx_graph.saving.serialization import large_tensors
from jax2onnx_graph.saving.writing import save_sharing_weights

from jax2onnx_runtime.array_files import UNREADABLE, read_arrays
from jax2onnx_runtime.bundles.links import Link, check_common_states, read_links, written_links
from jax2onnx_runtime.bundles.session import BundleSession, Loadable
from jax2onnx_runtime.manifest import ARRAYS, MANIFEST, described, files_of, interface_of, made, target_of
from jax2onnx_runtime.program import Program, unpickled
from jax2onnx_runtime.quantization import Mode, WeightMemory
from jax2onnx_runtime.runtimes import Runtime
from jax2onnx_runtime.sizes import Sizes
from jax2onnx_runtime.state_values import StateSizes
from jax2onnx_runtime.states import RuntimeOptions
from jax2onnx_runtime.unstacking import Stack, unstacked

__all__ = ["Bundle", "load_bundle"]

# Models with more bytes of weights are loaded from files, which the runtime maps into memory instead of copying them.
_IN_MEMORY = 1 << 24


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Bundle(Mapping[str, Program]):
    """Several programs by their names, such as the prefill and the steps of a decoder, or an encoder and a decoder.

    In files, and in a pickle, weights whose bytes are the same are stored once, though the programs were exported apart. In
    a session, states of the same name are one state, which a program with an input of that name reads, too.

    >>> from jax2onnx_runtime.bundles.bundle import Bundle
    >>> Bundle({})
    Traceback (most recent call last):
    jax2onnx_graph.errors.OptionError: A bundle holds at least one program: Bundle({'prefill': program, 'decode': other}).

    Attributes:
      programs: the programs, without their functions.
      links: outputs of programs that are inputs of others.
    """

    programs: Mapping[str, Program]
    links: Sequence[Link]

    def __init__(
        self, programs: Mapping[str, Program], *, links: Mapping[str, str | Sequence[str]] | None = None,
        same_weights: bool = False,
    ) -> None:  # fmt: skip
        """Put programs together.

        Args:
          programs: name → program. A name is that of the model's file, too.
          links: outputs that are inputs of other programs: `{"encode.memory": "decode.memory"}`; several inputs in a list.
          same_weights: whether all programs are of one model, so that weights of one name have to be equal.

        Raises:
          OptionError: something is no program, a link does not fit, or the programs are for different runtimes.
          WeightsError: weights of a program are absent, or differ from those of another in spite of `same_weights`.
        """
        check_mapping("Bundle", programs, "names to programs, {'prefill': program, 'decode': other}")
        check_flag("same_weights", same_weights)
        if not programs:
            raise OptionError("A bundle holds at least one program: Bundle({'prefill': program, 'decode': other}).")
        for name, program in programs.items():
            if not isinstance(program, Program) or not isinstance(name, str):
                raise OptionError(f"A bundle maps names to programs; {name!r:.40} → {program!r:.80} is none.")
        portable = {name: program.portable() for name, program in programs.items()}
        _check_runtimes(portable)
        if same_weights:
            _check_weights(portable)
        object.__setattr__(self, "programs", portable)
        object.__setattr__(self, "links", read_links(links or {}, portable))

    def __getitem__(self, name: str) -> Program:
        if name not in self.programs:
            raise KeyError(f"There is no program {name!r}; the programs are {', '.join(self.programs)}.")
        return self.programs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.programs)

    def __len__(self) -> int:
        return len(self.programs)

    def __repr__(self) -> str:
        return f"Bundle({', '.join(map(repr, self.programs))})"

    def __reduce__(self) -> tuple[object, ...]:
        contents, packed = Contents(), {}
        arrays: dict[Content, Array] = {}
        for name, program in self.programs.items():
            model = PackedModel.from_model(program.model)
            tensors = large_tensors(program.model)
            shared = {
                key: arrays.setdefault(contents.content(tensors[key]), array) for key, array in model.arrays.items()
            }
            packed[name] = (
                dataclasses.replace(model, arrays=shared), program.interface, program.runtime, program.target, program.steps,
                program.measurements, program.pickled_reporter,
            )  # fmt: skip
        return _unpickled, (packed, written_links(self.links))

    @property
    def nbytes(self) -> int:
        """The bytes of the weights, those that several programs have in common counted once."""
        contents = Contents()
        return sum(
            size
            for size, _ in {
                contents.content(t) for program in self.values() for t in large_tensors(program.model).values()
            }
        )

    # -- files ---------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the programs to a folder, which is made: a model file each, one file of weights, and `bundle.json`.

        Everything is written before anything that was there is replaced. Files of other models in the folder stay.

        Returns:
          The folder.

        Raises:
          SaveError: nothing can be written there. What was there is whole.
        """
        models = {name: program.model for name, program in self.programs.items()}
        save_sharing_weights(
            folder, models, lambda model: model, beside=files_of(self.programs, [*map(dataclasses.asdict, self.links)])
        )
        return Path(folder)

    # -- running -------------------------------------------------------------------------------

    def session(
        self, *, initial: Mapping[str, Array] | None = None, sizes: Sizes | None = None, window: Sizes | None = None,
        limits: Sizes | None = None, threads: int | None = None, providers: Sequence[object] | None = None,
        session_options: object = None, graph_optimization_level: str | None = None, share_weights: bool = False,
        arena: bool = True, flush_denormals: bool = False,
    ) -> BundleSession:  # fmt: skip
        """Load each program once, to run them step by step with the states that they have in common.

        Programs with more than 16 MiB of weights are loaded from files (temporary ones if the bundle was not loaded from a
        folder), of which the runtime needs no copy; its kernels rearrange some weights for their own use.

        Args:
          initial: first values of states by the names of inputs. Others begin with those of their module, or with zeros.
          sizes: the sizes of symbols in the states.
          window: how many entries of a growing axis are kept, by its symbol: the last ones.
          limits: how many entries of a growing axis there may be, by its symbol.
          threads: how many threads compute one operator.
          providers: the runtime's execution providers, each a name or a pair of a name and options.
          session_options: an options object of the runtime.
          graph_optimization_level: "all", "extended", "basic" or "disabled".
          share_weights: whether the programs share the weights as they are in the file, of which there is one copy in memory
            then. Products of several rows take longer, and those of weights in blocks (int4, int8) very much longer.
          arena: whether each program keeps the memory of its intermediate values after a run, where the runtime has a choice.
          flush_denormals: whether denormal numbers are taken for zeros, as JAX does on processors, where the runtime has a choice;
            without, processors are slow with them.

        Raises:
          OptionError: an option fits no state, a state has no first value, or states of one name differ in type.
          TargetError: the runtime is not installed, or cannot run the models.
        """
        check_flag("share_weights", share_weights)
        check_flag("arena", arena)
        check_flag("flush_denormals", flush_denormals)
        check_common_states(self.programs, self.links)
        options = RuntimeOptions(
            threads, providers, session_options, graph_optimization_level, share_weights or None, None if arena else False,
            flush_denormals or None,
        )  # fmt: skip
        state_sizes = StateSizes(sizes or {}, window or {}, limits or {})
        with self._loadable(needs_files=share_weights) as programs:
            return BundleSession(programs, self.links, state_sizes, initial or {}, options)

    @contextlib.contextmanager
    def _loadable(self, *, needs_files: bool) -> Iterator[Mapping[str, Loadable]]:
        """The programs as the runtime loads them, in temporary files during the block if it is large and in none yet."""
        found = _unstacked(self.programs)
        bytes_of = [sum(t.nbytes for t in large_tensors(program.model).values()) for program in self.values()]
        if all(one.file for one in found.values()) or not (needs_files or sum(bytes_of) > _IN_MEMORY):
            yield found
            return
        with tempfile.TemporaryDirectory(prefix="jax2onnx-", ignore_cleanup_errors=True) as folder:
            files = save_sharing_weights(folder, found, lambda one: one.model)
            yield {
                name: dataclasses.replace(one, file=file)
                for (name, one), file in zip(found.items(), files, strict=True)
            }

    # -- fewer bits ------------------------------------------------------------------------------

    def quantize(
        self, mode: Mode, *, programs: Sequence[str] | None = None, block_size: int | None = None, exclude: Sequence[str] = (),
        calibration: Mapping[str, Iterable[object]] | None = None, keep_io_types: bool = True,
    ) -> Bundle:  # fmt: skip
        """The bundle in fewer bits; this one stays as it is. Weights that programs have in common are so afterwards, too.

        Args:
          mode: "int4", "int8", "dynamic_int8", "static_int8", "float16" or "bfloat16".
          programs: the names of those that are quantised; by default all.
          block_size: how many weights share a scale in blocks, from 16 to 256; by default 32.
          exclude: patterns of names of nodes, weights or modules that stay.
          calibration: for "static_int8", program → typical calls.
          keep_io_types: whether inputs and outputs stay float32 in half precision.

        Raises:
          OptionError, TargetError: an option is wrong, nothing can be quantised, or the target has no quantizer; the program is
            named.
        """
        check_mapping("calibration", calibration, "names of programs to typical calls, {'decode': [(x,)]}")
        chosen = list(self.programs) if programs is None else list(programs)
        for name in [*chosen, *(calibration or {})]:
            if name not in self.programs:
                raise OptionError(f"There is no program {name!r}; the programs are {', '.join(self.programs)}.")
        found: dict[str, Program] = {}
        memory = WeightMemory()
        for name, program in self.programs.items():
            calls = (calibration or {}).get(name)
            try:
                found[name] = program if name not in chosen else program.quantize(
                    mode, block_size=block_size, exclude=exclude, calibration=calls, keep_io_types=keep_io_types, memory=memory,
                )  # fmt: skip
            except Jax2OnnxError as error:
                raise type(error)(f"The program {name!r}: {error}") from error
        _share(program.model for name, program in found.items() if name in chosen)
        return Bundle(found, links=written_links(self.links))


def _unstacked(programs: Mapping[str, Program]) -> dict[str, Loadable]:
    """Programs as the runtime loads them: stacked states are states of their own where all programs that have them agree on it."""
    stacks: dict[str, list[Stack | None]] = {}
    for program in programs.values():
        found = unstacked(program.model)
        for value in program.model.graph.inputs:
            stack = None if found is None else found.stacks.get(str(value.name))
            stacks.setdefault(str(value.name), []).append(stack)
    common = {name for name, forms in stacks.items() if len(set(forms)) == 1}
    loadable = {}
    for name, program in programs.items():
        found = unstacked(program.model, common)
        loadable[name] = Loadable(program, found, program.file if found is None else None)
    return loadable


def load_bundle(folder: str | os.PathLike[str], *, runtime: Runtime | None = None) -> Bundle:
    """The bundle in a folder that `Bundle.save` has written; needs no JAX. Weights are read when they are needed.

    Args:
      folder: the folder.
      runtime: what runs the programs; by default the runtime that they were exported with.

    Raises:
      ReadError: there is no bundle, or a file of it is missing or of another save.
    """
    folder = Path(folder)
    try:
        entries, read, maker = described((folder / MANIFEST).read_text())
        links = [Link(**link) for link in read]
        runs = made(maker, Runtime) if runtime is None else runtime
        programs = {name: _read_program(folder, name, entry, runs) for name, entry in entries.items()}
    except OSError as error:
        if isinstance(error, ReadError):
            raise
        raise ReadError(f"Cannot read a bundle from {folder}: {MANIFEST}: {error.strerror or error}.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReadError(f"Cannot read a bundle from {folder}: {type(error).__name__}: {error}.") from error
    _check_data_files(folder, programs)
    return Bundle(programs, links=written_links(links))


def _read_program(folder: Path, name: str, entry: Mapping[str, object], runtime: Runtime) -> Program:
    file = folder / f"{name}.onnx"
    model = read_model(file)

    def held(state: str) -> Array:
        try:
            return read_arrays(folder / ARRAYS)[f"{name}/{state}"]
        except (*UNREADABLE, KeyError) as error:
            raise ReadError(
                f"Cannot read {folder / ARRAYS}: it has no values of states of {name} ({error})."
            ) from error

    interface = interface_of(entry, model, held)
    for what, known, values in (
        ("inputs", interface.inputs, model.graph.inputs), ("outputs", interface.outputs, model.graph.outputs),
    ):  # fmt: skip
        if [leaf.name for leaf in known] != [value.name for value in values]:
            raise ReadError(
                f"{file} has other {what} than {MANIFEST} says: it was written by another save. Save the bundle again."
            )
    return Program(model, interface, runtime, target_of(entry["target"], model), stored=FileVersion(file))


def _check_data_files(folder: Path, programs: Mapping[str, Program]) -> None:
    """Raise ReadError unless all weights are in one file that is there."""
    found = {
        str(tensor.location): name
        for name, program in programs.items()
        for tensor in large_tensors(program.model).values()
        if isinstance(tensor, ir.ExternalTensor)
    }
    for location, name in found.items():
        if not (folder / location).is_file():
            raise ReadError(
                f"Cannot read the bundle in {folder}: {location}, which has the weights of {name}, is missing."
            )
    if len(found) > 1:
        raise ReadError(
            f"Cannot read the bundle in {folder}: {' and '.join(found.values())} have their weights in different files, {', '.join(found)}: "
            "they are of two saves, one of which did not end. Save the bundle again."
        )


def _check_runtimes(programs: Mapping[str, Program]) -> None:
    runtimes = {program.runtime.name: name for name, program in programs.items()}
    if len(runtimes) > 1:
        shown = ", ".join(f"{name} is for {runtime}" for runtime, name in runtimes.items())
        raise OptionError(f"The programs of a bundle are for one runtime, but {shown}. Export them for one target.")


def _check_weights(programs: Mapping[str, Program]) -> None:
    """Raise WeightsError where weights of one name differ, but for the order of their axes."""
    contents = Contents()
    known: dict[str, tuple[str, ir.TensorProtocol]] = {}
    for name, program in programs.items():
        for weight, tensor in large_tensors(program.model).items():
            other, first = known.setdefault(weight, (name, tensor))
            same_type = first.dtype == tensor.dtype and first.nbytes == tensor.nbytes
            if same_type and contents.content(first) != contents.content(tensor) and not _is_rearranged(first, tensor):
                raise WeightsError(
                    f"The weight {weight!r} of {name} has other numbers than that of {other}: one of the programs was exported from an "
                    "older model. Export both again; or leave same_weights out, and each keeps its own."
                )


def _is_rearranged(one: ir.TensorProtocol, other: ir.TensorProtocol) -> bool:
    """Whether two tensors hold the same numbers, in whatever order."""
    bits = [np.ascontiguousarray(tensor.numpy()).reshape(-1).view(np.uint8) for tensor in (one, other)]
    width = max(1, one.dtype.bitwidth // 8)
    first, second = (np.sort(part.reshape(-1, width).view(f"V{width}").reshape(-1).view(f"u{width}")) for part in bits)
    return bool(np.array_equal(first, second))


def _share(models: Iterable[ir.Model]) -> None:
    """Let weights of models that were made for this have one tensor where they are the same."""
    contents = Contents()
    known: dict[tuple[Content, ir.DataType, tuple[int, ...]], ir.TensorProtocol] = {}
    for model in models:
        for name, tensor in large_tensors(model).items():
            key = contents.content(tensor), tensor.dtype, tuple(tensor.shape.numpy())
            model.graph.initializers[name].const_value = known.setdefault(key, tensor)


def _unpickled(packed: Mapping[str, Sequence[object]], links: Mapping[str, list[str]]) -> Bundle:
    return Bundle({name: unpickled(*parts) for name, parts in packed.items()}, links=links)  # type: ignore[arg-type]  # those of __reduce__
