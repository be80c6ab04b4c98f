#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Compares plans of reprise_plan with the optimum by integer programming, on small traces.

Fails if a certified bound is above the optimum, a plan is faster than it, a plan needs more than
its budget, or a smallest peak is within a budget that is said to be too small. How often plans are
optimal is printed, and no failure: recomputing a value again after it was retained for a while is
open to the integer programme alone. Needs SciPy.
"""

import argparse
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    from checkmate import least_seconds
except ImportError as error:
    print(f"skipped: {error}; tools/setup --ci installs SciPy")
    sys.exit(77)
from small_traces import KINDS, make_trace, read_trace, write_trace

TOLERANCE = 1e-6  # of the seconds of a step, for sums in another order


class Comparison:
    """Checks, and what they say about all traces."""

    def __init__(self, program):
        self.program = program
        self.passed = 0
        self.failed = 0
        self.solved = 0
        self.optimal = 0
        self.recomputing = 0  # of the solved: those whose optimum recomputes
        self.missed = 0  # budgets that only the integer programme has a schedule for
        self.worst_gap = 0
        self.bound_shares = []

    def check(self, holds, what):
        if holds:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED: {what}")

    def plan(self, path, budget):
        """What the program says of a budget in bytes."""
        command = [self.program, path, "--json", "--budget", f"{budget}B"]
        done = subprocess.run(command, capture_output=True, text=True)
        answer = json.loads(done.stdout) if done.stdout else {}
        if done.returncode != (1 if "error" in answer else 0) or not answer:
            sys.exit(f"{' '.join(map(str, command))} exits with {done.returncode}:\n{done.stderr}")
        return answer

    def compare(self, path, budget):
        trace = read_trace(path)
        answer = self.plan(path, budget)
        optimum = least_seconds(trace, budget)
        where = f"{path.name}, {budget} bytes"
        if "error" in answer:
            smallest = answer["error"]["smallest_peak"]["peak_bytes"]
            self.check(smallest > budget, f"{where}: no plan, but the smallest peak is {smallest}")
            self.missed += optimum is not None
            return
        plan = answer["plan"]
        self.check(plan["peak_bytes"] <= budget, f"{where}: the peak is {plan['peak_bytes']}")
        if optimum is None:
            self.check(False, f"{where}: a plan where no schedule exists")
            return
        slack = TOLERANCE * trace.seconds()
        bound, seconds = plan["bound_seconds"], plan["seconds"]
        self.check(bound <= optimum + slack, f"{where}: bound {bound}, optimum {optimum}")
        self.check(optimum <= seconds + slack, f"{where}: optimum {optimum}, plan {seconds}")
        self.note(trace.seconds(), bound, optimum, seconds, slack)

    def note(self, fastest, bound, optimum, seconds, slack):
        self.solved += 1
        self.optimal += seconds <= optimum + slack
        self.worst_gap = max(self.worst_gap, (seconds - optimum) / fastest)
        if optimum > fastest + slack:
            self.recomputing += 1
            self.bound_shares.append((bound - fastest) / (optimum - fastest))

    def compare_budgets(self, path, shares):
        """Budgets between the smallest peak that the program finds and its peak without plans.

        And one byte less than that smallest peak, which integer programming may reach.
        """
        impossible = self.plan(path, 0)
        smallest = impossible["error"]["smallest_peak"]["peak_bytes"]
        peak = impossible["trace"]["peak_bytes"]
        budgets = {round(smallest + share * (peak - smallest)) for share in shares}
        for budget in sorted(budgets | {smallest - 1}):
            self.compare(path, budget)

    def print_summary(self):
        print(
            f"{self.optimal} of {self.solved} plans are optimal, of which {self.recomputing} "
            f"recompute; the worst takes {100 * self.worst_gap:.2f} % of a step longer; "
            f"{self.missed} budgets below the smallest peak are possible"
        )
        if self.bound_shares:
            mean = sum(self.bound_shares) / len(self.bound_shares)
            print(f"the bound is, in the mean, {100 * mean:.0f} % of the least extra time")
        print(f"{self.passed} passed, {self.failed} failed")


def make_traces(folder, count, longest):
    """Writes `count` traces, of all kinds in turn."""
    for number, kind in zip(range(count), itertools.cycle(KINDS)):
        path = folder / f"{kind}-{number:03}.trace"
        write_trace(make_trace(kind, number, longest), path)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True, help="reprise_plan")
    parser.add_argument("--traces", type=pathlib.Path, help="a folder of *.trace files")
    parser.add_argument(
        "--make-traces", type=int, default=120, help="how many, if no folder is given"
    )
    parser.add_argument(
        "--longest", type=int, default=12, help="operators of forward, of those made"
    )
    parser.add_argument(
        "--shares",
        type=float,
        nargs="+",
        default=(0, 0.15, 0.35, 0.6, 0.85),
        help="budgets, from the smallest peak (0) to that of the step as it is (1)",
    )
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    comparison = Comparison(arguments.program)
    with tempfile.TemporaryDirectory() as made:
        folder = arguments.traces or pathlib.Path(made)
        if arguments.traces is None:
            make_traces(folder, arguments.make_traces, arguments.longest)
        paths = sorted(folder.glob("*.trace"))
        for path in paths:
            comparison.compare_budgets(path, arguments.shares)
    comparison.print_summary()
    return 1 if comparison.failed or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
