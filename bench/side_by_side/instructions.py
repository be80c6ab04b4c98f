#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Counts the instructions of the hot paths with callgrind, which no busy machine disturbs.

Compares the costs with those that are stored, and fails if one is more than the tolerance away:
after a change that is meant, `--update` stores the new ones. They are compared with those of the
same LibTorch only. Needs Python alone.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

RUNS = 20  # of a path, kRuns in hot_paths.cpp; overhead.py runs as many
SHORT, LONG = 1, 65  # kLengths
TOLERANCE = 0.05
STORED = pathlib.Path(__file__).parent / "instruction_counts.json"
CHECKED = (
    "function: a region",
    "function: a saved tensor",
    "function: bytes of an operator",
    "function, recompute: an operator",
    "scope: an operator",
    "scope: bytes of an operator",
)
CHECKED_OF_PACKAGE = (
    "package, function: a region",
    "package, function, nothing saved: an operator",
    "package, scope: an operator",
)


def run_callgrind(*command):
    """Instructions of a run of each path, by the name under which it was dumped."""
    return run_and_count(*command)[0]


def run_and_count(*command):
    """The same, and what the command printed."""
    with tempfile.TemporaryDirectory() as folder:
        callgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no"]
        callgrind += [f"--callgrind-out-file={folder}/out.%p"]
        command = [*callgrind, *(str(word) for word in command)]
        environment = os.environ | {"PYTHONHASHSEED": "0"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode:
            sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
        counts = {}
        for file in pathlib.Path(folder).glob("out.*"):
            text = file.read_text()
            name = re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.M)
            total = re.search(r"^(?:totals|summary): (\d+)", text, re.M)
            if name and total:
                counts[name[1]] = int(total[1]) / RUNS
    return counts, done.stdout


def costs_of(counts):
    """Instructions over the floor: of one region, and of one more operator in it."""
    costs = {}
    for form in {name.rsplit("/", 1)[0] for name in counts}:
        if form.startswith("floor"):
            continue

        def over_floor(length):
            return counts[f"{form}/{length}"] - counts[f"{floor_of(form)}/{length}"]

        slope = (over_floor(LONG) - over_floor(SHORT)) / (LONG - SHORT)
        what = "a saved tensor" if form == "function" else "an operator"
        costs[f"{form}: a region"] = round(over_floor(SHORT) - slope * SHORT)
        costs[f"{form}: {what}"] = round(slope)
    return dict(sorted(costs.items()))


def floor_of(form):
    """The path that runs the same operators as often without a region."""
    if form == "budget":  # with room for all: recomputes nothing
        return "floor, once"
    return "floor, nothing saved" if form.endswith(", nothing saved") else "floor"


def costs_side_by_side(script, library):
    """The same of overhead.py's columns, by column; Python is run by callgrind as well."""
    counts = {}
    found = run_callgrind(sys.executable, script, "--count", f"--library={library}")
    for name, count in found.items():
        column, path = name.split(": ")
        counts.setdefault(column, {})[path] = count
    return {column: costs_of(paths) for column, paths in counts.items()}


def costs_of_package(python, folder, library):
    """The same of the Python package."""
    script = pathlib.Path(__file__).parent / "package.py"
    os.environ["PYTHONPATH"] = str(folder)
    counts = run_callgrind(python, script, f"--count={library}")
    return {f"package, {name}": cost for name, cost in costs_of(counts).items()}


def is_as_stored(costs, stored, checked):
    """Prints each cost beside the stored one; whether those that are checked are near it."""
    good = set(checked) <= costs.keys()
    for name, cost in costs.items():
        change = cost / stored[name] - 1 if name in stored else float("nan")
        is_bad = name in checked and not abs(change) <= TOLERANCE
        good = good and not is_bad
        mark = f"  more than {TOLERANCE:.0%} away" if is_bad else ""
        print(f"{name:48} {cost:8} stored {stored.get(name, '-'):>8} {change:+7.1%}{mark}")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="bench/hot_paths, built for release")
    parser.add_argument("--package", help="a folder with the package, and a Python with its torch")
    parser.add_argument("--python", default=sys.executable, help="whose torch the package is for")
    parser.add_argument("--counting", help="the library that tells callgrind when to count Python")
    parser.add_argument("--libtorch", required=True, help="names what it is linked with")
    parser.add_argument("--update", action="store_true", help="store the costs found")
    arguments = parser.parse_args()
    counts, printed = run_and_count(arguments.program)
    costs = costs_of(counts)
    for line in printed.splitlines():
        name, found = line.rsplit("\t", 1)
        costs[name] = int(found)
    if arguments.package:
        costs |= costs_of_package(arguments.python, arguments.package, arguments.counting)
    if arguments.update:
        stored = {"libtorch": arguments.libtorch, "costs": costs}
        STORED.write_text(json.dumps(stored, indent=1) + "\n")
    stored = json.loads(STORED.read_text())
    checked = CHECKED + CHECKED_OF_PACKAGE if arguments.package else CHECKED
    good = is_as_stored(costs, stored["costs"], checked)
    if arguments.libtorch != stored["libtorch"]:
        print(f"of {arguments.libtorch}; stored: of {stored['libtorch']}, which tells nothing")
    elif not good:
        sys.exit("the hot paths have changed: see bench/side_by_side/instructions.py --help")


if __name__ == "__main__":
    main()
