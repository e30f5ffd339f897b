"""Share of attention, rotations, norms and activations that become one operator each: writes the table of docs/fusions.md.

The models are those of `survey_models`, as their authors wrote them. Each is exported with a symbolic batch and, where it has
one, a symbolic length for the default target, its operators are counted, and it is compared with JAX. What is not formed is listed
with the reason that the report gives. A model of a library that is not installed is left out. The script fails where a model
cannot be exported or differs from JAX.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from jax2onnx_core import OnnxProgram, to_onnx
from jax2onnx_graph.errors import VerificationError
from jax2onnx_graph.traversal import all_nodes
from pages import write_part

from examples.survey_models import Counts, Surveyed, surveyed

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "fusions.md"

#: The operators that are counted in each column; a target's own forms of one count as it.
OPERATORS = (
    frozenset({"Attention", "MultiHeadAttention", "GroupQueryAttention"}),
    frozenset({"RotaryEmbedding"}),
    frozenset({"LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"}),
    frozenset({"Gelu", "FastGelu", "QuickGelu", "Swish", "Sigmoid"}),
)


@dataclasses.dataclass(frozen=True)
class Result:
    """Operators found in a model.

    Attributes:
      row: the model.
      found: the operators in it.
      nodes: the number of its nodes.
      equal: whether it is equal to JAX, or what went wrong.
      reasons: why formulas in it are not operators, each once.
    """

    row: Surveyed
    found: Counts
    nodes: int
    equal: str
    reasons: Sequence[str]


def results(rows: Iterable[Surveyed]) -> Iterator[Result]:
    """Results of the models, in their order; those of missing libraries are left out."""
    for row in rows:
        if importlib.util.find_spec(row.library) is None:
            print(f"{row.library}, {row.name}: left out, since {row.library} is not installed")
            continue
        found = surveyed_row(row)
        print(row_text(found), flush=True)
        yield found


def surveyed_row(row: Surveyed) -> Result:
    """Export a model, count its operators and compare it with JAX."""
    export = row.make()
    program = to_onnx(export.fn, export.inputs, constraints=export.constraints)
    operators = Counter(node.op_type for node in all_nodes(program.model))
    found = Counts(*(sum(operators[name] for name in names) for names in OPERATORS))
    ranges = {name: limits for name, limits in export.ranges.items() if name in program.input_names}
    try:
        program.verify(ranges=ranges)
        equal = "yes"
    except VerificationError as error:
        print(f"{row.library}, {row.name}: {error}", file=sys.stderr)
        equal = "**no**"
    return Result(row, found, sum(operators.values()), equal, reasons(program))


def reasons(program: OnnxProgram) -> list[str]:
    """Reasons that formulas did not become operators, each once, with the formula's name in front."""
    parted = (line.partition(" was not formed at ") for line in program.report().splitlines())
    return list(dict.fromkeys(f"{made}: {rest.partition(': ')[2]}" for made, between, rest in parted if between))


def row_text(result: Result) -> str:
    """The line of the table."""
    row = result.row
    counts = [
        ""
        if found == expected == 0
        else f"{found} of {expected}"
        if found == expected
        else f"**{found} of {expected}**"
        for found, expected in zip(result.found, row.expected, strict=True)
    ]
    cells = [row.library, row.name, *counts, str(result.nodes), result.equal, "; ".join(result.reasons)]
    return f"| {' | '.join(cells)} |"


def table(found: Sequence[Result]) -> Iterator[str]:
    """The lines of the table, and a line with the sums."""
    yield "| library | model | attention | rotations | norms | activations | nodes | equal | the report's reasons |"
    yield "|---|---|---|---|---|---|---:|---|---|"
    yield from map(row_text, found)
    sums = zip(
        map(sum, zip(*(one.found for one in found), strict=True)),
        map(sum, zip(*(one.row.expected for one in found), strict=True)),
        strict=True,
    )
    equal = sum(one.equal == "yes" for one in found)
    nodes = sum(one.nodes for one in found)
    cells = [f"{one} of {all_}" for one, all_ in sums]
    yield f"| all | {len(found)} models | {' | '.join(cells)} | {nodes} | {equal} | |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of `library, model`; the rows are printed, and the page stays")
    names = [name.lower() for name in parser.parse_args().names]
    rows = [row for row in surveyed() if not names or any(n in f"{row.library}, {row.name}".lower() for n in names)]
    found = list(results(rows))
    if not names:
        write_part(PAGE, "survey", table(found))
    if different := [f"{one.row.library}, {one.row.name}" for one in found if one.equal != "yes"]:
        sys.exit(f"Not equal to JAX: {'; '.join(different)}.")


if __name__ == "__main__":
    main()
