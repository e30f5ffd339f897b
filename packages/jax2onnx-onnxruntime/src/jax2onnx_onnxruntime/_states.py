"""Models with states in ONNX Runtime: the states are the runtime's own values, bound to inputs and outputs of each run."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.facts.dims import are_plain
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.metadata import StatePair
from jax2onnx_graph.saving.reading import read_model
from jax2onnx_graph.traversal import needed_by
from jax2onnx_runtime.states import RuntimeOptions, check_undo, last

from jax2onnx_onnxruntime._binding import COPIED, Binding, Buffer
from jax2onnx_onnxruntime._compat import onnxruntime
from jax2onnx_onnxruntime._denormals import OPTION, DenormalsAsZeros
from jax2onnx_onnxruntime.loading import OrtModel, from_ort, packed, to_ort, view_of

if TYPE_CHECKING:
    import onnxruntime as ort

__all__ = ["OrtStates", "is_updated_in_place", "session_options"]

_LEVELS = {
    "all": "ORT_ENABLE_ALL",
    "extended": "ORT_ENABLE_EXTENDED",
    "basic": "ORT_ENABLE_BASIC",
    "disabled": "ORT_DISABLE_ALL",
}

# Operators whose kernels write into the memory of an operand if that is the memory of the result, too:
# (domain, operator) → operand, result. Tests compare each of them with two separate buffers.
_IN_PLACE = {
    ("", "ScatterElements"): {(0, 0)},
    ("", "ScatterND"): {(0, 0)},
    ("", "TensorScatter"): {(0, 0)},
    ("com.microsoft", "GroupQueryAttention"): {(3, 1), (4, 2)},
}


# Operators that read the numbers of an operand and keep none of its memory.
_COPYING = {"Gather", "GatherElements", "GatherND", "Slice"}


def is_updated_in_place(model: ir.Model, pair: StatePair) -> bool:
    """Whether the new value of a state can be written over the old one.

    1. One node computes the new value from the old one by a kernel that works in place.
    2. What else reads the old value takes its shape only, or copies numbers from it that the node needs, and so is done before.
    """
    before = next(value for value in model.graph.inputs if value.name == pair.input)
    after = next(value for value in model.graph.outputs if value.name == pair.output)
    node = after.producer()
    if node is None or before.is_graph_output() or pair.grows is not None:
        return False
    uses = [use for use in before.uses() if use.node.op_type not in ("Shape", "Size")]
    places = _IN_PLACE.get((node.domain, node.op_type), set())
    written = [(use.idx, node.outputs.index(after)) in places for use in uses if use.node is node]
    others = {use.node for use in uses} - {node}
    return written == [True] and all(other.op_type in _COPYING for other in others) and others <= needed_by(node)


def session_options(options: RuntimeOptions) -> ort.SessionOptions:
    """ONNX Runtime's options, those of the user with the others put in.

    Raises:
      OptionError: one is impossible.
    """
    runtime = onnxruntime()
    given = options.session_options
    if given is not None and not isinstance(given, runtime.SessionOptions):
        raise OptionError(f"session_options needs an onnxruntime.SessionOptions, not {given!r:.80}.")
    made = runtime.SessionOptions() if given is None else given
    if given is None:
        made.log_severity_level = 3
    if options.threads is not None:
        if isinstance(options.threads, bool) or not isinstance(options.threads, int) or options.threads < 1:
            raise OptionError(f"threads={options.threads!r}: it is a number of threads, from 1 on.")
        made.intra_op_num_threads = options.threads
    if (level := options.graph_optimization_level) is not None:
        if level not in _LEVELS:
            raise OptionError(f"graph_optimization_level={level!r}; there are {', '.join(map(repr, _LEVELS))}.")
        made.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, _LEVELS[level])
    if options.share_weights:
        _set_entry(made, "session.disable_prepacking")
    if options.arena is not None:
        made.enable_cpu_mem_arena = options.arena
    if options.flush_denormals:
        _set_entry(made, OPTION)
    return made


def _set_entry(options: ort.SessionOptions, key: str) -> None:
    """Turn an option on, unless it was for a model before: ONNX Runtime warns of that."""
    try:
        is_on = options.get_session_config_entry(key) == "1"
    except RuntimeError:
        is_on = False
    if not is_on:
        options.add_session_config_entry(key, "1")


def checked_providers(options: RuntimeOptions) -> Sequence[Any]:
    """The providers to run with, each a name or a pair of a name and options. Raises OptionError for those that are not there."""
    providers = ["CPUExecutionProvider"] if options.providers is None else list(options.providers)
    known = onnxruntime().get_available_providers()
    for provider in providers:
        name = provider[0] if isinstance(provider, tuple) else provider
        if name not in known:
            raise OptionError(
                f"providers: there is no {name!r} in this build of ONNX Runtime; it has {', '.join(known)}."
            )
    return providers


def _fixed_buffer(result: ir.Value) -> Buffer | None:
    """A buffer for a result that is small and has one shape, which stays bound; None for others, which the runtime allocates."""
    shape = dims_of(result)
    if result.dtype is None or shape is None or not are_plain(shape) or result.is_graph_input():
        return None
    bits = 0 if result.dtype == ir.DataType.STRING else result.dtype.bitwidth
    if bits < 8 or not 0 < math.prod(shape) * bits <= 8 * COPIED:
        return None
    return Buffer.from_array(np.zeros(shape, result.dtype.numpy()))


@dataclasses.dataclass
class _Turn:
    """What is bound for a run, and stays bound for the next one that finds the states in the same buffers.

    Attributes:
      binding: what the inputs and outputs are bound to.
      buffers: the values of all states, and their spare buffers, for which it is.
      before: the values of the states that move to another buffer.
      after: their values after the run, where it is known before.
      allocated: the outputs of the others, whose memory the runtime allocates.
    """

    binding: Binding
    buffers: tuple[list[Buffer], list[Buffer | None]] = ([], [])
    before: Mapping[str, Buffer] = dataclasses.field(default_factory=dict)
    after: Mapping[str, Buffer] = dataclasses.field(default_factory=dict)
    allocated: Mapping[str, str] = dataclasses.field(default_factory=dict)


class OrtStates:
    """A session whose states are `OrtValue`s.

    A state that grows is what the runtime allocates for the output; what is kept of it goes to the memory of the state before the
    run where that has the right size. One of a fixed shape has two buffers, which are input and output in turn, or one where the
    kernel updates it in place.

    Args:
      source: the model, or its file.
      states: the pairs of inputs and outputs that are states.
      options: the options of the session.
      beside: another session, whose states of the same names are the same; inputs of these names that get no array are these states.

    Attributes:
      values: the states by their names, those of `beside` among them.
      spare: second buffers of some of them.
      ran: what ran last with each of them that is in another buffer since, unless that was taken back.
    """

    def __init__(
        self,
        source: ir.Model | Path,
        states: Sequence[StatePair],
        options: RuntimeOptions,
        beside: OrtStates | None = None,
    ) -> None:
        model = source if isinstance(source, ir.Model) else read_model(source)
        self._floats = DenormalsAsZeros() if options.flush_denormals else contextlib.nullcontext()
        with self._floats:  # the runtime's own option may reach this thread
            self._model = OrtModel(source, checked_providers(options), options=session_options(options))
        self._outputs = {pair.input: pair.output for pair in states}
        self._grows = {pair.input for pair in states if pair.grows is not None}
        self._types = {value.name: value.dtype for value in model.graph.inputs}
        self._others = [str(value.name) for value in model.graph.inputs if value.name not in self._outputs]
        results = [value for value in model.graph.outputs if value.name not in self._outputs.values()]
        self._results = {str(value.name): _fixed_buffer(value) for value in results}
        on_cpu = options.providers is None or list(options.providers) == ["CPUExecutionProvider"]
        self._in_place = {pair.input for pair in states if on_cpu and is_updated_in_place(model, pair)}
        self._turns: list[_Turn] = []
        self._fed: AbstractSet[str] = frozenset()
        self.values: dict[str, Buffer] = {} if beside is None else beside.values
        self.spare: dict[str, Buffer] = {} if beside is None else beside.spare
        self.ran: dict[str, OrtStates] = {} if beside is None else beside.ran

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """Run the model; the states move on."""
        turn = self._next_turn(inputs.keys())
        binding = turn.binding
        binding.feed(inputs)
        for name in self._others:
            if name not in inputs and name in self.values:
                binding.bind_input(name, self.values[name])
        buffers = [self.values[state] for state in self._outputs], [*map(self.spare.get, self._outputs)]
        if turn.buffers != buffers:
            self._bind(turn)
            turn.buffers = buffers
        for name, buffer in self._results.items():
            binding.bind_output(name, buffer)
        with self._floats:
            binding.run()
        self.values.update(turn.after)
        self.values.update(zip(turn.allocated, map(Buffer, binding.values(turn.allocated.values())), strict=True))
        self.spare.update(turn.before)
        for state in self._outputs:
            self.ran.pop(state, None)
        self.ran.update(dict.fromkeys(turn.before, self))
        return binding.arrays(self._results)

    def _bind(self, turn: _Turn) -> None:
        """Bind the states, which are in other buffers than in the last run of a turn."""
        before = {state: self.values[state] for state in self._outputs}
        targets = {state: self._target(state, buffer) for state, buffer in before.items()}
        for state, output in self._outputs.items():
            turn.binding.bind_input(state, before[state])
            turn.binding.bind_output(output, targets[state])
        turn.before = {state: buffer for state, buffer in before.items() if targets[state] is not buffer}
        turn.after = {state: buffer for state in turn.before if (buffer := targets[state]) is not None}
        turn.allocated = {state: self._outputs[state] for state in turn.before if targets[state] is None}

    def _next_turn(self, names: AbstractSet[str]) -> _Turn:
        """The bindings of the next run: one of two in turns, since a state is in one of its two buffers and then in the other.

        A binding keeps the memory of bound values: memory that the runtime allocates for states that grow is bound for one run only. An
        input that gets no array has its default in a binding of its own.
        """
        if self._fed != names:
            self._fed = frozenset(names)
            self._turns.clear()
        if self._grows:
            return _Turn(Binding(self._model))
        if len(self._turns) < 2:
            self._turns.append(_Turn(Binding(self._model)))
        else:
            self._turns.reverse()
        return self._turns[-1]

    def _target(self, state: str, old: Buffer) -> Buffer | None:
        """The buffer that the new value of a state goes to; None where the runtime allocates it."""
        if state in self._grows or 0 in old.shape:
            return None
        if state in self._in_place:
            return old
        spare = self.spare.get(state)
        if spare is None or spare.shape != old.shape:
            spare = Buffer.from_array(np.zeros(old.shape, self._dtype(state)))
        return spare

    def _dtype(self, state: str) -> np.dtype[Any]:
        dtype = self._types[state]
        assert dtype is not None, "the inputs of a finished model have types"
        return dtype.numpy()

    def undo(self) -> None:
        """Put the states back to what they were before the last run."""
        kept = [state for state in self._outputs if state in self.spare and self.ran.get(state) is self]
        check_undo([state for state in self._outputs if state not in kept and 0 not in self.values[state].shape])
        for state in kept:
            del self.ran[state]
            self.values[state], self.spare[state] = self.spare[state], self.values[state]

    def read(self, state: str) -> Array:
        """A copy of a state."""
        return from_ort(self.values[state].value).copy()

    def write(self, state: str, array: Array) -> None:
        """Replace a state."""
        self.values[state] = Buffer.from_array(array.copy())
        self.spare.pop(state, None)

    def keep_last(self, state: str, axis: int, count: int) -> None:
        """Cut off all but the last entries along an axis.

        They stay where they are if they are one piece of memory, and most of it.
        """
        whole = view_of(self.values[state].value)
        kept = last(whole, axis, count)
        spare = self.spare.pop(state, None)
        if kept.flags.c_contiguous and 2 * kept.nbytes > whole.nbytes:
            self.values[state] = Buffer(to_ort(packed(kept)), owner=self.values[state])
            return
        if spare is None or not spare.can_take(kept):
            self.values[state] = Buffer.from_array(kept.copy())
            return
        assert spare.memory is not None
        np.copyto(spare.memory, kept)
        self.values[state] = spare

    def change(self, state: str, change: Callable[[Array], Array]) -> None:
        """Replace a state by the result of a function of it."""
        self.values[state] = Buffer.from_array(change(view_of(self.values[state].value)).copy())
        self.spare.pop(state, None)

    def shape(self, state: str) -> tuple[int, ...]:
        """The shape of a state."""
        return self.values[state].shape
