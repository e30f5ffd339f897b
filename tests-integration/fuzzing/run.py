"""Checking many programs: in processes of their own, which may die, and with a summary."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import multiprocessing
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

import jax

from fuzzing.check import check, reference
from fuzzing.programs import Program, generate
from fuzzing.shrink import as_test, shrink

__all__ = ["Maker", "Outcome", "check_seed", "fuzz", "summary"]

#: Makes the program of a seed, or None; a function that a process of its own can import.
Maker = Callable[[int], Program | None]

_CONTEXT = multiprocessing.get_context("spawn")
_MOST_SECONDS = 240
"""A program takes a second or two of a processor; one that takes so many does not end."""

_MOST_SECONDS_OF_WAITING = 1200
"""A process that has sent nothing for so long, however busy the machine is, waits for something that does not come."""

_CACHED_PROGRAMS = 50
"""After so many programs, what JAX compiled is forgotten: it would fill the memory."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The result of checking one program.

    Attributes:
      seed: the seed that the program was made from.
      statements: the number of its statements.
      defects: tests that fail because of defects.
      explained: the reasons of differences that are no defects.
      refused: the errors that say what is not supported.
      reference: the errors of JAX itself.
    """

    seed: int
    statements: int = 0
    defects: tuple[str, ...] = ()
    explained: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    reference: tuple[str, ...] = ()


def check_seed(seed: int, make: Maker = generate) -> Outcome:
    """Make the program of a seed, check it and shrink what is wrong."""
    # JAX warns of much that random programs do.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = make(seed)
        if program is None:
            return Outcome(seed)
        found = check(program)
        # The same statement is often wrong at several sizes, and in several results.
        defects = {(f.kind, f.program.statements, f.variable): f for f in reversed(found) if f.is_defect}
        shrunk = [shrink(f) for f in defects.values()]
    return Outcome(
        seed,
        len(program.statements),
        tuple(f"{as_test(f)}\n{f.kind}: {f.text}\n" for f in shrunk),
        tuple(f.reason for f in found if f.reason),
        tuple(f.text for f in found if f.kind == "refused"),
        tuple(f.text for f in found if f.kind == "reference"),
    )


def fuzz(
    seeds: Sequence[int], make: Maker = generate, *, jobs: int = 1, seconds: float | None = None
) -> Generator[Outcome, None, None]:
    """Check random programs in several processes.

    A process that dies, or does not end, is a defect of the program that it was checking; another one takes its place.

    Args:
      seeds: the seeds of the programs.
      make: makes the program of a seed.
      jobs: the number of processes.
      seconds: the time after which no further program is begun; None for no limit.

    Returns:
      The outcomes as they come.
    """
    end = math.inf if seconds is None else time.monotonic() + seconds
    pending = dict(_start(seeds[job::jobs], make) for job in range(jobs))
    while pending and time.monotonic() < end:
        for connection in wait(list(pending), timeout=1):
            assert isinstance(connection, Connection)
            worker = pending[connection]
            try:
                yield connection.recv()
                worker.advance()
            except EOFError:
                worker.process.join()
                del pending[connection]
                if worker.seeds:
                    yield _died(worker.seeds[0], make, worker.process.exitcode)
                    pending.update([_start(worker.seeds[1:], make)])
        for worker in pending.values():
            if worker.seconds > _MOST_SECONDS_OF_WAITING:
                worker.process.kill()
    for worker in pending.values():
        worker.process.terminate()


@dataclasses.dataclass
class _Worker:
    """A process with the seeds that it has still to check, and the time at which it began with the first of them."""

    process: SpawnProcess
    seeds: Sequence[int]
    since: float = dataclasses.field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """The time in seconds for which it has been checking its program."""
        return time.monotonic() - self.since

    def advance(self) -> None:
        """Note that the outcome of the first seed has come."""
        self.seeds, self.since = self.seeds[1:], time.monotonic()


def _start(seeds: Sequence[int], make: Maker) -> tuple[Connection, _Worker]:
    here, there = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_check_seeds, args=(there, seeds, make), daemon=True)
    process.start()
    there.close()
    return here, _Worker(process, seeds)


def _died(seed: int, make: Maker, exitcode: int | None) -> Outcome:
    """The outcome of a program whose process died: a defect, unless JAX alone makes a process die."""
    alone = _CONTEXT.Process(target=_evaluate_in_jax, args=(seed, make))
    alone.start()
    alone.join(_MOST_SECONDS_OF_WAITING)
    if alone.exitcode == 0:
        return Outcome(seed, defects=(f"The process died: exit code {exitcode}.\n{_source(seed, make)}",))
    alone.kill()
    return Outcome(seed, reference=("JAX does not survive the program.",))


def _source(seed: int, make: Maker) -> str:
    """The source of a program, with what it is exported for."""
    program = make(seed)
    if program is None:
        return ""
    inputs = ", ".join(f"{v.name}: {v.aval.dtype}{v.dims}" for v in program.inputs)
    return f"{inputs}; {program.sizes}; {program.options}\n{program.source([v.name for v in program.variables])}"


def _evaluate_in_jax(seed: int, make: Maker) -> None:
    _limit_time()
    warnings.simplefilter("ignore")
    program = make(seed)
    assert program is not None, "it has been checked"
    # An error of JAX is no death.
    with jax.enable_x64(program.options.x64), contextlib.suppress(Exception):
        list(reference(program))


def _limit_time() -> None:
    """Let the system end this process if it takes too much time of the processors from now on."""
    if sys.platform == "win32":  # where there is no such limit
        return
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + _MOST_SECONDS, most))


def _check_seeds(connection: Connection, seeds: Sequence[int], make: Maker) -> None:
    """Check these seeds and send the outcomes one by one: the body of a process."""
    for number, seed in enumerate(seeds):
        _limit_time()
        if number % _CACHED_PROGRAMS == 0:
            jax.clear_caches()
        # A mistake of the fuzzer must not keep it from the other programs; it is shown.
        try:
            outcome = check_seed(seed, make)
        except Exception as error:  # noqa: BLE001
            outcome = Outcome(seed, defects=("".join(traceback.format_exception(error)),))
        connection.send(outcome)
    connection.close()


def summary(outcomes: Sequence[Outcome]) -> str:
    """The numbers of programs, defects, and reasons of other differences, as text."""
    explained = Counter(reason for o in outcomes for reason in set(o.explained))
    refused = Counter(_headline(text) for o in outcomes for text in set(o.refused))
    reference = Counter(_headline(text) for o in outcomes for text in o.reference)
    statements, defective = sum(o.statements for o in outcomes), sum(bool(o.defects) for o in outcomes)
    lines = [f"{len(outcomes)} programs of {statements} statements; {defective} with a defect."]
    for title, counted in (("Explained", explained), ("Refused", refused), ("Refused by JAX", reference)):
        lines += [f"{title}: {sum(counted.values())}", *(f"  {n:5} {text}" for text, n in counted.most_common())]
    return "\n".join(lines) + "\n"


def _headline(text: str) -> str:
    """The first lines of an error, shortened."""
    return " ".join(text.split())[:160]
