"""Proposals for what a case expects of its graph, and writing them into the file of the case."""

from __future__ import annotations

import ast
import collections
import io
import tokenize
from collections.abc import Iterator, Mapping, Sequence

import onnx_ir as ir
from jax2onnx_graph.facts.operators import ValueUse, facts_of

from jax2onnx_testing.matcher import operator_name, shape_text

__all__ = ["expectation_of", "insert_expectations"]

_WIDTH = 110
# Graphs of more operators are described by those that matter.
_SMALL = 12
_CONTROL_FLOW = ("If", "Loop", "Scan")
_BLANKS = (tokenize.COMMENT, tokenize.NL)


def expectation_of(model: ir.Model, *, shapes: bool = False) -> str:
    """The source of a `Case.expect` that describes the main graph of a model.

    A graph of at most twelve operators is described by the paths of all of them. Of a longer one, the operators are counted that are
    neither elementwise nor move elements to places that are known (or, if there are none, control flow is excluded), and the number of
    all operators is limited.

    Args:
      model: the exported model.
      shapes: whether the paths say the shapes of the results.
    """
    nodes = [node for node in model.graph if node.op_type != "Constant"]
    if not nodes:
        return 'expect_graph(match="exact")'
    if len(nodes) > _SMALL:
        return _summary(nodes)
    paths = [" -> ".join(_label(node, shapes=shapes) for node in path) for path in _paths(nodes)]
    if len(paths) == 1 and len(paths[0]) < _WIDTH:
        return f'"{paths[0]}"'
    if sum(map(len, paths)) < _WIDTH - 20:
        return f"[{', '.join(_quoted(path) for path in paths)}]"
    lines = [line for path in paths for line in _literal(path)]
    return "\n".join(["[", *(f"    {line}" for line in lines), "]"])


def _summary(nodes: Sequence[ir.Node]) -> str:
    """The operators that matter, or the control flow that is absent, and the number of all operators with a tenth to spare."""
    counts = collections.Counter(operator_name(node) for node in nodes if _matters(node))
    text = "counts={" + ", ".join(f'"{operator}": {n}' for operator, n in sorted(counts.items())) + "}"
    at_most = -(-len(nodes) * 11 // 100) * 10
    return f"expect_graph({text if counts else f'absent={list(_CONTROL_FLOW)}'}, at_most={at_most})".replace("'", '"')


def _matters(node: ir.Node) -> bool:
    facts = facts_of(node.op_type)
    is_work = facts.elementwise is None and facts.use not in (ValueUse.MOVE, ValueUse.VALUE)
    return bool(node.domain) or is_work or facts.indices_input is not None


def _quoted(text: str) -> str:
    return f'"{text}"'


def _label(node: ir.Node, *, shapes: bool) -> str:
    return f"{operator_name(node)}:{shape_text(node.outputs[0])}" if shapes else operator_name(node)


def _literal(path: str) -> list[str]:
    """A string literal, wrapped before an arrow where it is long."""
    lines: list[str] = []
    line = ""
    for step in path.split(" -> "):
        piece = step if not line and not lines else f" -> {step}"
        if line and len(line) + len(piece) > _WIDTH:
            lines.append(line)
            line = ""
        line += piece
    lines.append(line)
    return [f'"{text}"' for text in lines[:-1]] + [f'"{lines[-1]}",']


def _paths(nodes: Sequence[ir.Node]) -> Iterator[list[ir.Node]]:
    """Chains of data edges that cover every node; a chain that meets another one ends with the node where they meet."""
    order = {node: i for i, node in enumerate(nodes)}
    following: Mapping[ir.Node, list[ir.Node]] = {
        node: sorted({u for out in node.outputs for u in out.consumers() if u in order}, key=order.__getitem__)
        for node in nodes
    }
    seen: set[ir.Node] = set()
    for start in nodes:
        if start in seen:
            continue
        path = [start]
        seen.add(start)
        while following[path[-1]]:
            fresh = [n for n in following[path[-1]] if n not in seen]
            path.append(fresh[0] if fresh else following[path[-1]][0])
            if not fresh:
                break
            seen.add(path[-1])
        yield path


def insert_expectations(source: str, expectations: Mapping[str, str]) -> tuple[str, list[str]]:
    """Write expectations into the `Case(...)` calls of a module that have none.

    Args:
      source: the text of the module.
      expectations: the source of `expect`, by the names of cases.

    Returns:
      The text with `expect=` in each call of `Case` whose first argument is such a name, and the names without such a call: a helper makes
      their cases.
    """
    calls = {name: call for name, call in _calls(ast.parse(source)) if name in expectations}
    # Comments and line breaks apart, so that the token before the bracket that ends a call ends its last argument.
    tokens = [t for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type not in _BLANKS]
    lines = source.splitlines(keepends=True)
    for name, call in reversed(calls.items()):
        _insert(lines, tokens, call, f"expect={expectations[name]}")
    return "".join(lines), [name for name in expectations if name not in calls]


def _insert(lines: list[str], tokens: Sequence[tokenize.TokenInfo], call: ast.Call, argument: str) -> None:
    """Add an argument after the last one of a call, on a line of its own if the line would be long or the bracket stands on another."""
    assert call.end_lineno is not None
    assert call.end_col_offset is not None
    end = (call.end_lineno, _characters(lines[call.end_lineno - 1], call.end_col_offset))
    [bracket] = [i for i, token in enumerate(tokens) if token.string == ")" and token.end == end]
    last = tokens[bracket - 1] if tokens[bracket - 1].string != "," else tokens[bracket - 2]
    line, column = last.end
    text = lines[line - 1]
    fits = line == call.end_lineno and column + len(argument.partition("\n")[0]) < _WIDTH
    joint = ", " if fits else ",\n" + " " * _characters(lines[call.args[0].lineno - 1], call.args[0].col_offset)
    lines[line - 1] = text[:column] + joint + argument + text[column:]


def _characters(line: str, bytes_before: int) -> int:
    """The number of characters in the first bytes of a line, by which `ast` counts."""
    return len(line.encode()[:bytes_before].decode())


def _calls(module: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """The calls of `Case` with a name for a first argument, and without `expect`, in the order of their ends."""
    calls = [node for node in ast.walk(module) if isinstance(node, ast.Call)]
    for node in sorted(calls, key=lambda call: (call.end_lineno or 0, call.end_col_offset or 0)):
        if isinstance(node.func, ast.Name) and node.func.id == "Case" and node.args:
            first = node.args[0]
            # What is unpacked may say it, too.
            is_unpacked = any(isinstance(argument, ast.Starred) for argument in node.args)
            is_expected = len(node.args) > 4 or is_unpacked or any(k.arg in ("expect", None) for k in node.keywords)
            if isinstance(first, ast.Constant) and isinstance(first.value, str) and not is_expected:
                yield first.value, node
