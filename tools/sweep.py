"""The public surface of JAX: every call of examples/surface in every variant, through export and ONNX Runtime.

Results are kept in `conformance-results/` as they come; the table by function goes to `docs/conformance.md`.

    python tools/sweep.py [--filter TEXT] [--every N] [--fresh] [--again] [--workers N] [--failures]

It fails where a public function has neither a call nor a reason in `without.txt`, and where a call is wrong or raises an error and
`known.txt` does not explain it.
"""

from __future__ import annotations

import collections
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from conformance import PAGE, RESULTS, SWEEP
from resumable import Entry, command_line, print_failures, run

from examples import surface


def results_file() -> Path:
    import jax

    return RESULTS / f"surface-{jax.__version__}.jsonl"


def worker(jobs: list[str]) -> list[Entry]:
    import jax

    warnings.simplefilter("ignore")
    entries = [surface.run_job(job) for job in jobs]
    jax.clear_caches()
    return entries


def lines(entries: Sequence[Entry], count: int) -> Iterator[str]:
    """The part of the page about the surface; `count` is the number of all jobs."""
    import jax

    counts = collections.Counter(entry["status"] for entry in entries)
    total = sum(counts.values()) - counts["no reference"]
    yield "\n# The public surface\n"
    yield (
        f"Calls of every public function of `jax.numpy`, `jax.nn`, `jax.lax`, `jax.scipy`, `jax.random` and `jax.image` of JAX {jax.__version__}: "
        "with float32, 64-bit types, half precision, special values, integers, empty arrays, their derivatives of first and second order, symbolic "
        "sizes, and in loops, branches and `vmap`. "
        "Written by `nox -s sweep`.\n"
    )
    yield (
        f"**{counts['pass']} of {total} pass ({100 * counts['pass'] / max(total, 1):.2f} %)**; {counts['explained']} differ for a known reason, "
        f"{counts['wrong']} are wrong, {counts['error']} raise an error; {counts['no reference']} more are nothing that JAX itself computes.\n"
    )
    if len(entries) < count:
        yield f"Not all were run: {len(entries)} of {count}.\n"
    yield "| function | pass | known difference | wrong | error |"
    yield "|---|---:|---:|---:|---:|"
    by_function: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for entry in entries:
        for function in entry["functions"]:
            by_function[function][entry["status"]] += 1
    for function, found in sorted(by_function.items()):
        yield f"| `{function}` | {found['pass']} | {found['explained']} | {found['wrong']} | {found['error']} |"
    reasons = collections.Counter(entry["detail"] for entry in entries if entry["status"] == "explained")
    yield "\n## Known differences\n"
    yield from [f"* {reason} ({count})" for reason, count in sorted(reasons.items())] or ["None."]


def main() -> None:
    args = command_line(__doc__).parse_args()
    selected = [job for job in surface.jobs() if args.filter in job][:: args.every]
    known = run(selected, worker, results_file(), args.workers, fresh=args.fresh, again=args.again)
    entries = [known[job] for job in selected if job in known]
    text = "\n".join(lines(entries, len(selected))) + "\n"
    if not args.filter and args.every == 1:
        PAGE.write_text(PAGE.read_text().partition(SWEEP)[0] + SWEEP + text)
    print(text.split("| function")[0])
    failures = [entry for entry in entries if entry["status"] in ("wrong", "error")]
    if args.failures:
        print_failures(failures)
    missing = surface.missing()
    for function in missing:
        print(f"{function} has neither a call in examples/surface nor a reason in its without.txt.")
    if failures or missing:
        sys.exit(1)


if __name__ == "__main__":
    main()
