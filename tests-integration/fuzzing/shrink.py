"""Shrinking a finding to the statements and options that it needs, and printing it as a test."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Iterator

import jax
from jax2onnx_graph.arrays import Array

from fuzzing.check import Finding, check
from fuzzing.programs import Options, Program
from fuzzing.statements import Variable

__all__ = ["as_test", "shrink"]


def shrink(finding: Finding) -> Finding:
    """The finding in a smaller program: if possible, in one statement."""
    for statement in finding.program.statements:
        found = _find_again(finding, finding.program.only(statement))
        if found is not None:
            return _simplify(found)
    return _simplify(finding)


def _simplify(finding: Finding) -> Finding:
    """The finding in the simplest program that the steps of `_simpler` lead to."""
    while True:
        simpler = (_find_again(finding, candidate) for candidate in _simpler(finding))
        found = next((f for f in simpler if f is not None), None)
        if found is None:
            return finding
        finding = found


def _simpler(finding: Finding) -> Iterator[Program]:
    """Programs that are one step simpler than that of the finding."""
    program, options = finding.program, finding.program.options
    if len(program.statements) > 1:
        for one in program.statements:
            yield program.with_statements([s for s in program.statements if s is not one])
    if any(not isinstance(d, int) for v in program.inputs for d in v.aval.shape):
        yield dataclasses.replace(program, inputs=tuple(_fixed(v, finding.values[v.name]) for v in program.inputs))
    read = {name for statement in program.statements for name in statement.operands}
    if any(v.name not in read for v in program.inputs):
        yield dataclasses.replace(program, inputs=tuple(v for v in program.inputs if v.name in read))
    for change in ({"order": None}, {"optimised": True}, {"x64": False}, {"opset": 23}):
        changed = dataclasses.replace(options, **change)
        if changed != options:
            yield dataclasses.replace(program, options=changed)


def _fixed(variable: Variable, value: Array) -> Variable:
    return Variable(variable.name, jax.ShapeDtypeStruct(value.shape, variable.aval.dtype))


def _find_again(finding: Finding, program: Program) -> Finding | None:
    """The same defect in another program on the same values."""
    names = [v.name for v in program.inputs]
    at_its_sizes = dataclasses.replace(program, sizes=(finding.sizes,))
    found = check(at_its_sizes, {name: finding.values[name] for name in names})
    return next((f for f in found if f.is_defect and f.kind == finding.kind and _phrase(f) == _phrase(finding)), None)


def _phrase(finding: Finding) -> str:
    """The beginning of an error's message, which tells errors apart."""
    return finding.text.splitlines()[-1][:50] if finding.kind in ("export", "run") else ""


def _run(options: Options, specs: str) -> str:
    """Source code of a test that runs a program."""
    model = "program.model"
    if options.order is not None:
        before = f"(before := ModelBeforePasses(f, [{specs}], {options.of_export}))"
        model = f"{before}.optimised(random_order(before.passes, {options.order}))"
    if not options.optimised:
        return f'program.runtime.open({model}, (), RuntimeOptions(graph_optimization_level="disabled")).run'
    return "program.loaded" if options.order is None else f"program.runtime.load({model})"


def as_test(finding: Finding) -> str:
    """A test that fails because of the finding."""
    program, options = finding.program, finding.program.options
    names = [v.name for v in program.inputs]
    result = finding.variable or program.variables[-1].name
    specs = ", ".join(f"({v.dims!r}, {v.aval.dtype.name!r})" for v in program.inputs)
    lines = [
        f"def test_program_{program.seed}():",
        *textwrap.indent(program.source([result]), "    ").splitlines(),
        "",
        f"    with jax.enable_x64({options.x64}):",
        *(f"        {name} = {_literal(finding.values[name])}" for name in names),
        f"        [want] = jax.jit(f)({', '.join(names)})",
        f"    program = to_onnx(f, [{specs}], {options.of_export})",
        f"    run = {_run(options, specs)}",
        f"    [got] = run(program.feeds({', '.join(names)}))",
        "    np.testing.assert_allclose(got, physical_array(want), rtol=1e-4)",
    ]
    return "\n".join(lines) + "\n"


def _literal(array: Array) -> str:
    """The array as an expression."""
    if array.size == 0:
        return f"jnp.zeros({array.shape}, {array.dtype.name!r})"
    text = re.sub(r"\b(nan|inf)\b", r"jnp.\1", repr(array.tolist()))
    return f"jnp.array({text}, {array.dtype.name!r})"
