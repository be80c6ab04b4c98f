# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""The commands of `python -m reprise`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from reprise import _quantities
from reprise._largest_batch import BatchNotFound, OtherBatch
from reprise._native import _C
from reprise._profile import ProfileOfProgram
from reprise._run import BudgetOfProgram, warn
from reprise._script import run_program
from reprise._steps import Steps

__all__ = ["main"]

_RUN = """\
Runs a training script as it is, with each of its steps within a memory budget: a step begins at
the outermost call of a module with grad mode on, and ends where backward begins. Gradients have
the bits of a run without it. What the budget cannot serve is named, and runs as it is.
"""
_PROFILE = """\
Runs the first steps of a training script as it is, ends it, and prints what autograd saves by
module, what less memory costs in time, and the smallest budget that holds.
"""


def _add_program(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-m", dest="is_module", action="store_true", help="the program is a module, as of python -m"
    )
    parser.add_argument("program", help="a script, or with -m a module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="of the program")


def _add_batch(profile: argparse.ArgumentParser) -> None:
    profile.add_argument(
        "--also-batch",
        type=int,
        metavar="BATCH",
        help="run the program with this batch too, and predict the largest one that fits; its "
        "arguments name the first one, such as --batch-size 8",
    )
    profile.add_argument(
        "--batch-option",
        metavar="NAME",
        help="the program's option for the batch; without it the only one with 'batch' in its name",
    )
    profile.add_argument(
        "--budget",
        type=_argument(_quantities.parse_budget),
        default=1.0,
        metavar="BYTES|PART",
        help="with --also-batch, what the batch is to fit into: bytes, or a part of the peak of a "
        "plain step of the first batch (1)",
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m reprise", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="run|profile")
    run = commands.add_parser("run", help="within a memory budget", description=_RUN)
    limit = run.add_mutually_exclusive_group()
    limit.add_argument(
        "--budget",
        type=_argument(_quantities.parse_budget),
        metavar="BYTES|PART",
        help="the peak of a step: bytes, such as 6GiB, or a part of that of a plain step, such as "
        "0.6, which the first step is then; without it all that the device has to give",
    )
    limit.add_argument(
        "--max-overhead",
        type=_argument(float),
        metavar="PART",
        help="instead, the least memory for at most so much more time: 0.2, a fifth",
    )
    run.add_argument("--report", action="store_true", help="print a report of the last step")
    run.add_argument("--quiet", action="store_true", help="print no line at the end")
    _add_program(run)
    profile = commands.add_parser("profile", help="what memory costs", description=_PROFILE)
    profile.add_argument("--steps", type=int, default=3, help="how many, at least 2 (3)")
    profile.add_argument("--points", type=int, default=10, help="budgets of the table (10)")
    profile.add_argument("--html", metavar="FILE", help="write a page, which needs no network")
    profile.add_argument(
        "--trace",
        metavar="FILE",
        help="instead, print nothing and write the trace of a step, as tools/plan reads it",
    )
    _add_batch(profile)
    _add_program(profile)
    return parser


def _argument(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    def of(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return of


def _run(options: argparse.Namespace) -> int:
    program = BudgetOfProgram(options.budget, options.max_overhead)
    steps = Steps(program.begin)
    steps.install()
    try:
        return run_program(options.program, options.arguments, options.is_module)
    finally:
        steps.end()
        if options.report:
            print(program.report(), file=sys.stderr)
        if not options.quiet:
            warn(program.summary())


def _profile(options: argparse.Namespace) -> int:
    other = None
    if options.also_batch is not None:
        other = OtherBatch(options.arguments, options.also_batch, options.batch_option)
        status = other.run(options.program, options.is_module, options.steps)
        if status != 0:
            return status
    program = ProfileOfProgram(options.steps)
    program.install()
    try:
        status = program.run(options.program, options.arguments, options.is_module)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
        status = 0
    if status != 0:
        return status
    if options.trace is not None:
        return program.write_trace(options.trace)
    return program.show(options.points, options.html, other, options.budget)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs a command; its exit status is that of the program."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command == "run" and options.max_overhead is not None and options.max_overhead < 0:
        parser.error("argument --max-overhead: it must not be negative")
    if options.command == "profile" and (options.steps < 2 or options.points < 2):
        parser.error("--steps and --points start at 2")
    _C.install_cpu_memory_counter()  # before the program makes its model
    if options.command == "run":
        sys.exit(_run(options))
    try:
        status = _profile(options)
    except BatchNotFound as error:
        parser.error(str(error))
    sys.exit(status)
