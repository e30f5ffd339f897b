"""JAX's own primitive harness, through export and ONNX Runtime.

Runs every harness of `jax._src.internal_test_util.test_harnesses` under x64: the JAX function is exported,
run, and compared with JAX. Results are kept in `conformance-results/` as they come, so that an interrupted run
goes on where it was; the summary goes to `docs/conformance.md`, and as data to `docs/conformance.json`.

    python tools/conformance.py [--filter TEXT] [--every N] [--fresh] [--again] [--workers N] [--failures] [--symbolic]

With `--symbolic` each harness is vmapped over a leading axis of symbolic size, exported once, and run at size 3.
"""

from __future__ import annotations

import argparse
import collections
import functools
import json
import time
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from resumable import command_line, print_failures, run

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "conformance-results"
# Where the part of the page begins that another tool writes.
SWEEP = "\n<!-- written by tools/sweep.py -->\n"
PAGE, DATA = ROOT / "docs" / "conformance.md", ROOT / "docs" / "conformance.json"
# From good to bad.
STATUSES = ("pass", "wrong", "error")

Outcomes = dict[str, Any]


def harnesses() -> list[Any]:
    """The list depends on x64, which is enabled first."""
    import jax

    jax.config.update("jax_enable_x64", True)
    from jax._src.internal_test_util import test_harnesses

    return list(test_harnesses.all_harnesses)


def is_reference_missing(harness: Any) -> bool:
    """Whether JAX itself declares that the harness does not run on CPU."""
    return any(limitation.filter(device="cpu", dtype=harness.dtype) for limitation in harness.jax_unimplemented)


def batched(harness: Any, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...], list[Any]]:
    """The harness's function vmapped, arguments for size 3, and specifications of symbolic size."""
    import jax
    import numpy as np

    many = jax.tree_util.tree_map(lambda x: np.stack([np.asarray(x)] * 3), args)
    specs = jax.tree_util.tree_map(lambda x: jax.ShapeDtypeStruct(("b", *np.shape(x)), np.asarray(x).dtype), args)
    return jax.vmap(harness.dyn_fun), many, list(specs)


def run_one(harness: Any, symbolic: bool) -> dict[str, Any]:
    """Export, run and compare one harness."""
    import jax
    import numpy as np
    from jax2onnx_core import to_onnx
    from jax2onnx_testing.harness import compare_harness

    rng = np.random.RandomState(42)
    started = time.perf_counter()
    outcome: dict[str, Any] = {
        "name": harness.fullname,
        "group": harness.group_name,
        "dtype": np.dtype(harness.dtype).name if harness.dtype is not None else "none",
        "status": "pass",
    }
    try:
        fn, args = harness.dyn_fun, tuple(harness.dyn_args_maker(rng))
        specs = list(args)
        if symbolic:
            fn, args, specs = batched(harness, args)
        expected = jax.jit(fn)(*args)
    except Exception as error:  # noqa: BLE001 (an outcome of its own)
        return {**outcome, "status": "no reference", "detail": f"{type(error).__name__}: {error}"[:300]}
    try:
        started = time.perf_counter()
        program = to_onnx(fn, specs, x64=True)
        outcome["seconds"] = round(time.perf_counter() - started, 4)
        actual = program(*args)
        problem = compare_harness(harness, args, expected, actual)
        if problem:
            outcome.update(status="wrong", detail=problem[:500])
    except Exception as error:  # noqa: BLE001 (what the table lists)
        where = traceback.extract_tb(error.__traceback__)[-1]
        outcome.update(
            status="error", detail=f"{type(error).__name__}: {error} [{where.filename}:{where.lineno}]"[:700]
        )
    return outcome


def worker(jobs: list[str], symbolic: bool) -> list[dict[str, Any]]:
    import jax

    by_name = {h.fullname: h for h in harnesses()}
    results = [run_one(by_name[name], symbolic) for name in jobs]
    jax.clear_caches()
    return results


def select(args: argparse.Namespace) -> list[str]:
    """Names, sorted: the list is built from sets, so its order differs from process to process."""
    names = [h.fullname for h in harnesses() if args.filter in h.fullname and not is_reference_missing(h)]
    return sorted(names)[:: args.every]


def results_file(symbolic: bool) -> Path:
    return RESULTS / ("symbolic.jsonl" if symbolic else "results.jsonl")


def outcomes(entries: Iterable[dict[str, Any]]) -> list[Outcomes]:
    """How many harnesses of each primitive and dtype had which outcome in ONNX Runtime; `result` is the worst of them."""
    counted: dict[tuple[str, str], collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for entry in entries:
        if entry["status"] != "no reference":
            counted[entry["group"], entry["dtype"]][entry["status"]] += 1
    return [
        {
            "primitive": group,
            "dtype": dtype,
            "target": "onnxruntime",
            "result": next(status for status in reversed(STATUSES) if counts[status]),
            **{status: counts[status] for status in STATUSES},
        }
        for (group, dtype), counts in sorted(counted.items())
    ]


def table(title: str, rows: Iterable[Outcomes], key: str) -> Iterator[str]:
    """The lines of a table of outcomes by group.

    Args:
      title: the heading of the first column.
      rows: the numbers of outcomes.
      key: the field of a row that says its group.
    """
    groups: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for row in rows:
        groups[row[key]].update({status: row[status] for status in STATUSES})
    yield f"\n## By {title}\n"
    yield f"| {title} | pass | wrong | error | % |"
    yield "|---|---:|---:|---:|---:|"
    for name, counts in sorted(groups.items()):
        share = 100 * counts["pass"] / counts.total()
        yield f"| `{name}` | {counts['pass']} | {counts['wrong']} | {counts['error']} | {share:.1f} |"


def reason(entry: dict[str, Any]) -> str:
    """The declared limitation that explains a failure, else the failure itself."""
    from jax2onnx_lax.limitations import LIMITATIONS

    for limitation in LIMITATIONS:
        if limitation.subject == entry["group"] and entry["dtype"] in (limitation.dtypes or (entry["dtype"],)):
            return limitation.reason
    return f"{entry['status']}: {entry['detail'].splitlines()[0][:200]}"


def summary(entries: list[dict[str, Any]]) -> str:
    counts = collections.Counter(entry["status"] for entry in entries)
    total = counts["pass"] + counts["wrong"] + counts["error"]
    seconds = sorted(entry.get("seconds", 0.0) for entry in entries if "seconds" in entry)
    lines = [
        "# Conformance",
        "",
        (
            "JAX's own primitive harness under x64, exported and run in ONNX Runtime on CPU, compared with JAX. "
            "Written by `nox -s conformance`; the same [as data](conformance.json), by primitive and dtype."
        ),
        "",
        (
            f"**{counts['pass']} of {total} pass ({100 * counts['pass'] / max(total, 1):.2f} %)**; "
            f"{counts['wrong']} wrong, {counts['error']} raise an error; {counts['no reference']} have no reference "
            "because JAX itself does not run them on CPU."
        ),
    ]
    if seconds:
        lines.append(
            f"Conversion takes {seconds[len(seconds) // 2] * 1e3:.0f} ms in the median, {seconds[-1]:.1f} s at most."
        )
    rows = outcomes(entries)
    lines += table("group", rows, "primitive")
    lines += table("dtype", rows, "dtype")
    lines += ["\n## What does not pass\n"]
    failures = [e for e in entries if e["status"] in ("wrong", "error")]
    lines += [f"* `{e['name']}`: {reason(e)}" for e in failures] or ["Nothing."]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--symbolic", action="store_true", help="vmapped over an axis of symbolic size")
    args = parser.parse_args()
    selected, work = select(args), functools.partial(worker, symbolic=args.symbolic)
    known = run(selected, work, results_file(args.symbolic), args.workers, fresh=args.fresh, again=args.again)
    entries = [known[name] for name in selected if name in known]
    text = summary(entries)
    if not args.filter and args.every == 1 and not args.symbolic:
        _, marker, sweep = PAGE.read_text().partition(SWEEP)
        PAGE.write_text(text + marker + sweep)
        DATA.write_text("[\n" + ",\n".join(map(json.dumps, outcomes(entries))) + "\n]\n")
    print(text.split("## By group")[0])
    if args.failures:
        print_failures(entries)


if __name__ == "__main__":
    main()
