"""Checks random programs, or random look-alikes of formulas that passes make operators of; what is wrong is printed as tests.

python -m fuzzing programs [--programs 100] [--seed 0] [--seconds 600] [--jobs 2]
python -m fuzzing formulas [--module my_formulas] …    the formulas are those in the `FORMULAS` of the module
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence

from fuzzing import run
from fuzzing.formulas import program_of_seed
from fuzzing.programs import generate


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    options = parser().parse_args(arguments)
    is_formulas = options.kind == "formulas"
    make: run.Maker = functools.partial(program_of_seed, module=options.module) if is_formulas else generate
    outcomes = []
    seeds = range(options.seed, options.seed + options.programs)
    for outcome in run.fuzz(seeds, make, jobs=options.jobs, seconds=options.seconds):
        outcomes.append(outcome)
        for defect in outcome.defects:
            sys.stdout.write(f"# seed {outcome.seed}\n{defect}\n")
        sys.stdout.flush()
        if len(outcomes) % 100 == 0:
            sys.stderr.write(f"{len(outcomes)} of {options.programs} programs\n")
    sys.stdout.write(run.summary(outcomes))
    return 1 if any(outcome.defects for outcome in outcomes) else 0


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fuzzing", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=["programs", "formulas"])
    parser.add_argument("--programs", type=int, default=100, help="how many (100)")
    parser.add_argument(
        "--seed", type=int, default=0, help="the seed of the first; the next ones have the next seeds (0)"
    )
    parser.add_argument("--seconds", type=float, help="stop after so many seconds")
    parser.add_argument("--jobs", type=int, default=1, help="the number of processes (1)")
    parser.add_argument(
        "--module", default="fuzzing.formula_catalogue", help="a module with FORMULAS, by its import name"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
