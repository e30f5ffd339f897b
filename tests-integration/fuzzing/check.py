"""Checking a program: exported twice, with its statements apart and as a whole, run, and compared with JAX.

Apart: what each statement computes is a parameter of the model too, which later statements read. So each is fed with JAX's own
values, no difference can propagate, and one export tests them all. As a whole: the model returns what no statement reads.
"""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeVar

import jax
import numpy as np
from jax2onnx_core.plugins.errors import SymbolError, UnsupportedError
from jax2onnx_core.symbols.symbols import evaluate_dim
from jax2onnx_graph.arrays import Array

from fuzzing.execution import Arrays, Exported, evaluate, random_arguments
from fuzzing.explain import are_close, explain
from fuzzing.known import explain_error
from fuzzing.programs import Program
from fuzzing.statements import Variable

__all__ = ["Finding", "Run", "check", "reference"]

T = TypeVar("T")
_LINES = 12
"""So much of a traceback is shown."""

Kind = Literal["refused", "reference", "export", "run", "type", "values"]


@dataclasses.dataclass(frozen=True)
class Finding:
    """A difference between a program's model and JAX, or an error.

    Attributes:
      kind: what it is about; "refused" is an error that says what is not supported, "reference" one of JAX itself.
      text: what is wrong.
      program: the program that has it.
      variable: the variable whose value is wrong, if one is.
      sizes: the sizes of the symbols.
      values: the inputs of the program, and all that JAX computes from them, by name.
      got: the value of the variable in the model, if it is that which is wrong.
      reason: why it is no defect: a key of `explain.REASONS`, or "".
    """

    kind: Kind
    text: str
    program: Program
    variable: str = ""
    sizes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    values: Arrays = dataclasses.field(default_factory=dict)
    got: Array | None = None
    reason: str = ""

    @property
    def is_defect(self) -> bool:
        """Whether the finding is a defect: neither refused nor explained."""
        return self.kind not in ("refused", "reference") and not self.reason


class Run(NamedTuple):
    """A program at some sizes of its symbols.

    Attributes:
      sizes: the sizes by the names of the symbols.
      values: the inputs, and all that JAX computes from them, by the names of the variables.
    """

    sizes: Mapping[str, int]
    values: Arrays


def check(program: Program, given: Arrays | None = None) -> list[Finding]:
    """Export and run a program in several ways, and compare it with JAX.

    Args:
      program: the program.
      given: its inputs, which are random by default.

    Returns:
      The differences from JAX, and the errors.
    """
    with jax.enable_x64(program.options.x64):
        # Whatever JAX raises is its own, and counted.
        try:
            runs = list(reference(program, given))
        except Exception as error:  # noqa: BLE001
            return [Finding("reference", f"{type(error).__name__}: {error}", program)]
        # A program of one statement is that statement.
        apart = list(_check_apart(program, runs)) if len(program.statements) > 1 else []
        if any(not f.reason for f in apart):
            return apart
        return [*apart, *(_followed(f, apart) for f in _check_whole(program, runs))]


def reference(program: Program, given: Arrays | None = None) -> Iterator[Run]:
    """The inputs and what JAX computes from them, for each of the sizes."""
    names = [v.name for v in program.variables]
    for run, sizes in enumerate(program.sizes):
        arguments = given or random_arguments(program, run)
        values = evaluate(program, names, arguments)
        for variable in program.variables:
            shape, declared = values[variable.name].shape, tuple(evaluate_dim(d, sizes) for d in variable.aval.shape)
            if shape != declared:
                dims = ", ".join(map(str, variable.aval.shape))
                raise ValueError(
                    f"JAX declares {variable.name} as ({dims}), {declared} at {sizes}, and computes {shape}"
                )
        yield Run(sizes, {**arguments, **values})


def _check_apart(program: Program, runs: Sequence[Run]) -> Iterator[Finding]:
    # A weak type is lost where a value is passed in: such values are computed where they are needed.
    parameters = [*program.inputs, *(v for v in program.variables if not v.aval.weak_type)]
    parts = {t.name: program.only(statement) for statement in program.statements for t in statement.targets}
    yield from _compare_all(program, runs, parts, parameters)


def _check_whole(program: Program, runs: Sequence[Run]) -> Iterator[Finding]:
    read = {name for statement in program.statements for name in statement.operands}
    parts = {v.name: program for v in program.variables if v.name not in read}
    yield from _compare_all(program, runs, parts, program.inputs)


def _followed(finding: Finding, explained: Sequence[Finding]) -> Finding:
    """The finding with the reason of explained differences in single statements, if they cause it."""
    differences = {f.variable: f.got for f in explained if f.sizes == finding.sizes and f.got is not None}
    program, name, got = finding.program, finding.variable, finding.got
    if not finding.is_defect or got is None or not differences:
        return finding
    others = [s for s in program.statements if not any(t.name in differences for t in s.targets)]
    rest = program.with_statements(others)
    values = {**finding.values, **differences}
    want = {**differences, **evaluate(rest, [v.name for v in rest.variables], values)}[name]
    follows = are_close(got, want).all() or (
        name not in differences and explain(rest, name, values, got, want, lambda _: got)
    )
    return dataclasses.replace(finding, reason=explained[0].reason) if follows else finding


def _compare_all(
    program: Program, runs: Sequence[Run], parts: Mapping[str, Program], parameters: Sequence[Variable]
) -> Iterator[Finding]:
    """Compare the results `parts`, each given with the program that computes it from `parameters`."""
    exported = _attempt("export", program, runs[0], lambda: Exported(program, list(parts), parameters))
    if isinstance(exported, Finding):
        yield exported
        return
    for run in runs:
        yield from _compare_run(program, run, parts, exported)


def _compare_run(program: Program, run: Run, parts: Mapping[str, Program], exported: Exported) -> Iterator[Finding]:
    got = _attempt("run", program, run, lambda: exported(run.values))
    if isinstance(got, Finding):
        yield got
        return
    for name, part in parts.items():
        yield from _compare(part, name, run, got[name], lambda other: exported({**run.values, **other}))


def _attempt(kind: Kind, program: Program, run: Run, action: Callable[[], T]) -> T | Finding:
    """The result of `action`, or a finding of this kind if it raises."""
    try:
        return action()
    except (UnsupportedError, SymbolError) as error:
        return Finding("refused", str(error), program, "", *run)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what this is looking for
        lines = "".join(traceback.format_exception(error)).rstrip().splitlines()
        reason = explain_error(str(error), run.values) if kind == "run" else ""
        return Finding(kind, "\n".join(lines[-_LINES:]), program, "", *run, reason=reason)


def _compare(
    program: Program, name: str, run: Run, got: Array, rerun: Callable[[Arrays], Mapping[str, Array]]
) -> Iterator[Finding]:
    """The differences of a result from JAX's, with the reason if they are no defect."""
    want = run.values[name]
    if got.dtype != want.dtype or got.shape != want.shape:
        yield Finding("type", f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}", program, name, *run)
        return
    wrong = ~are_close(got, want)
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        text = f"{int(wrong.sum())} of {wrong.size} elements; the first is at {at}: {got[at]!r} instead of {want[at]!r}"
        arguments = {v.name: run.values[v.name] for v in program.inputs}
        reason = explain(program, name, arguments, got, want, lambda other: rerun(other)[name])
        yield Finding("values", text, program, name, *run, got, reason)
