"""Count the symbolic dimensions in the models of all cases, and those with a label.

`python tools/label_table.py` prints a table, which takes some minutes; `tests-integration/test_labels.py` counts a sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from jax2onnx_graph.labels import LabelCount, count_labels
from jax2onnx_report.summary import labels_text
from jax2onnx_testing.collection import CollectedCase, find_cases
from jax2onnx_testing.errors import KnownLimitationError
from jax2onnx_testing.targets import explain_refusals
from jax2onnx_testing.variants import build, quick_variants_of

__all__ = ["labels_of_cases", "total"]

TARGETS = ("onnxruntime", "openvino")


def labels_of_cases(target: str, every: int = 1) -> dict[str, LabelCount]:
    """Export cases for a target: distribution → the symbolic dimensions in the models of its cases.

    Cases with symbolic sizes are exported with these. What the target refuses is left out.

    Args:
      target: the name of the target.
      every: of so many cases of a distribution, one is exported.
    """
    cases: dict[str, list[CollectedCase]] = {}
    for found in find_cases():
        if isinstance(found, CollectedCase):
            cases.setdefault(found.distribution, []).append(found)
    return {name: total(_counts(some[::every], target)) for name, some in sorted(cases.items())}


def _counts(cases: list[CollectedCase], target: str) -> Iterator[LabelCount]:
    for found in cases:
        for variant in quick_variants_of(found, ["f32"], 1, target):
            if variant.skip_reason is None:
                try:
                    with explain_refusals(target):
                        program = build(variant).export()
                except KnownLimitationError:
                    continue
                yield count_labels(program.model)


def total(counts: Iterable[LabelCount]) -> LabelCount:
    """The counts of several models together."""
    found = list(counts)
    return LabelCount(sum(one.symbolic for one in found), sum(one.labelled for one in found))


def rows(counts: Mapping[str, Mapping[str, LabelCount]]) -> Iterator[str]:
    """The table, with a row for each distribution and a column for each target.

    Args:
      counts: target → distribution → its counts.
    """
    yield f"| cases of | {' | '.join(f'for `{target}`' for target in counts)} |"
    yield f"|---|{'---|' * len(counts)}"
    for name in counts[TARGETS[0]]:
        yield f"| `{name}` | {' | '.join(labels_text(found[name]) for found in counts.values())} |"
    yield f"| all | {' | '.join(labels_text(total(found.values())) for found in counts.values())} |"


if __name__ == "__main__":
    for row in rows({target: labels_of_cases(target) for target in TARGETS}):
        print(row)
