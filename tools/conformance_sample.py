"""Choose the harnesses that are part of the ordinary tests: a fixed sample, stratified by group and dtype.

    python tools/conformance_sample.py [SIZE]

Every group gives one harness of as many of its dtypes as its share of the sample allows, then further ones. Within a
stratum names are taken in the order of their hashes, so that one harness more or less in JAX changes one line of the sample.
"""

from __future__ import annotations

import collections
import hashlib
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from conformance import harnesses, is_reference_missing

SAMPLE = Path(__file__).parent.parent / "packages" / "jax2onnx-lax" / "tests" / "conformance_sample.txt"


def by_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def groups() -> dict[str, list[str]]:
    """The names of the harnesses of each group, one dtype after the other."""
    strata: dict[str, dict[str, list[str]]] = collections.defaultdict(lambda: collections.defaultdict(list))
    for harness in harnesses():
        if not is_reference_missing(harness):
            dtype = np.dtype(harness.dtype).name if harness.dtype is not None else "none"
            strata[harness.group_name][dtype].append(harness.fullname)
    return {group: list(in_turn(dtypes)) for group, dtypes in strata.items()}


def in_turn(dtypes: dict[str, list[str]]) -> Iterator[str]:
    queues = [sorted(set(dtypes[dtype]), key=by_hash) for dtype in sorted(dtypes, key=by_hash)]
    for names in itertools.zip_longest(*queues):
        yield from (name for name in names if name is not None)


def sample(size: int) -> list[str]:
    """Shares grow with the square root of a group's size, so that small groups count too."""
    found = groups()
    total = sum(len(names) ** 0.5 for names in found.values())
    shares = {group: max(1, round(size * len(names) ** 0.5 / total)) for group, names in found.items()}
    return sorted(name for group, names in found.items() for name in names[: shares[group]])


def main() -> None:
    names = sample(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
    SAMPLE.write_text("".join(f"{name}\n" for name in names))
    print(f"{len(names)} harnesses in {SAMPLE}")


if __name__ == "__main__":
    main()
