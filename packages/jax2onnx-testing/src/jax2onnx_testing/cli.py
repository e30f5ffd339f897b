"""The command `jax2onnx-testing`.

* `jax2onnx-testing list [PATTERN]` lists the tests.
* `jax2onnx-testing check PATTERN` runs the tests whose id contains PATTERN, without pytest; with `--target NAME` for this target.
* `jax2onnx-testing emit CASE` prints a proposal for `Case.expect`: what the case is exported to now.
* `jax2onnx-testing emit PATTERN --write` writes proposals into the files of the cases that have no `expect`; read them before they stay.

A case is named by its id (`lax.elementwise.arithmetic::exp`), or by a part that is unique. `--module` takes the cases from one
module (`jax2onnx_lax.elementwise.arithmetic_cases`) instead of all installed plugins.
"""

from __future__ import annotations

import argparse
import collections
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from jax2onnx_testing.collection import BrokenPlugin, CollectedCase, find_cases, of_module, source_file
from jax2onnx_testing.variants import Variant, build, is_symbolic, main_precision, variants_of

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    options = _parser().parse_args(arguments)
    found = of_module(options.module) if options.module else find_cases()
    for broken in (f for f in found if isinstance(f, BrokenPlugin)):
        sys.stderr.write(f"{broken.id}: {type(broken.error).__name__}: {broken.error}\n")
    cases = [f for f in found if isinstance(f, CollectedCase)]
    exact = [f for f in cases if f.id == options.case]
    chosen = exact or [f for f in cases if options.case in f.id]
    if not chosen:
        sys.stderr.write(f"No case has {options.case!r} in its id.\n")
        return 2
    if options.command == "check":
        return _check(chosen, options.target)
    if options.command == "list":
        return _list(chosen)
    return _write(chosen, shapes=options.shapes) if options.write else _emit(chosen, shapes=options.shapes)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="jax2onnx-testing", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (("list", "list tests"), ("check", "run tests"), ("emit", "propose what a case expects")):
        command = commands.add_parser(name, help=text)
        optional = "?" if name == "list" else None
        command.add_argument("case", nargs=optional, default="", help="the id of a case, or part of it")
        command.add_argument("--module", help="a module of cases, by its import name")
        if name == "check":
            command.add_argument("--target", metavar="NAME", help="export for this target, and run in its runtime")
        if name == "emit":
            command.add_argument(
                "--write", action="store_true", help="write into the files of cases that have no `expect`"
            )
            command.add_argument("--shapes", action="store_true", help="with the shapes of results")
    return parser


def _list(found: Sequence[CollectedCase]) -> int:
    for one in found:
        for variant in variants_of(one):
            sys.stdout.write(f"{variant.id}\n")
    return 0


def _check(found: Sequence[CollectedCase], target: str | None) -> int:
    from jax2onnx_testing.checks import check_variant
    from jax2onnx_testing.errors import KnownLimitationError

    failures = 0
    for variant in (v for one in found for v in variants_of(one, target=target)):
        if variant.skip_reason is not None:
            sys.stdout.write(f"skipped {variant.id}: {variant.skip_reason}\n")
            continue
        # One test that fails in any way must not keep the others from running; its failure is shown.
        try:
            check_variant(variant)
        except KnownLimitationError as error:
            sys.stdout.write(f"limited {variant.id}: {error}\n")
        except Exception as error:  # noqa: BLE001
            failures += 1
            shown = str(error) if isinstance(error, AssertionError) else "".join(traceback.format_exception(error))
            sys.stdout.write(f"FAILED {variant.id}: {shown}\n")
        else:
            sys.stdout.write(f"passed {variant.id}\n")
    return 1 if failures else 0


def _emit(found: Sequence[CollectedCase], *, shapes: bool) -> int:
    if len(found) > 1:
        sys.stderr.write("Which one? " + ", ".join(f.id for f in found) + "\n")
        return 2
    sys.stdout.write(_proposal(found[0], shapes=shapes) + "\n")
    return 0


def _proposal(found: CollectedCase, *, shapes: bool) -> str:
    from jax2onnx_testing.emitter import expectation_of

    variant = Variant(found, main_precision(found.case), symbolic=is_symbolic(found.case))
    return expectation_of(build(variant).export().model, shapes=shapes)


def _write(found: Sequence[CollectedCase], *, shapes: bool) -> int:
    """Write what the cases without `expect` are exported to into their files; show it where a helper makes the case."""
    from jax2onnx_testing.emitter import insert_expectations

    without = [one for one in found if not one.case.expectations and main_precision(one.case) not in one.case.skip]
    by_file: dict[Path | None, list[CollectedCase]] = collections.defaultdict(list)
    for one in without:
        by_file[source_file(one)].append(one)
    for file, cases in by_file.items():
        proposals = {one.case.name: _proposal(one, shapes=shapes) for one in cases}
        left = list(proposals)
        if file is not None:
            source, left = insert_expectations(file.read_text(encoding="utf-8"), proposals)
            file.write_text(source, encoding="utf-8")
        for name in left:
            sys.stdout.write(
                f"# No call Case({name!r}, ...) in {file}: write it where the case is made.\n{proposals[name]}\n"
            )
        sys.stdout.write(f"{len(proposals) - len(left)} written into {file}\n")
    return 0
