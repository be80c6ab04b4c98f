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
    "function, recompute: an operator",
    "scope: an operator",
)


def run_callgrind(*command):
    """Instructions of a run of each path, by the name under which it was dumped."""
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
    return counts


def costs_of(counts):
    """Instructions over the floor: of one region, and of one more operator in it."""
    costs = {}
    for form in {name.rsplit("/", 1)[0] for name in counts} - {"floor"}:

        def over_floor(length):
            return counts[f"{form}/{length}"] - counts[f"floor/{length}"]

        slope = (over_floor(LONG) - over_floor(SHORT)) / (LONG - SHORT)
        what = "a saved tensor" if form == "function" else "an operator"
        costs[f"{form}: a region"] = round(over_floor(SHORT) - slope * SHORT)
        costs[f"{form}: {what}"] = round(slope)
    return dict(sorted(costs.items()))


def costs_side_by_side(script, library):
    """The same of overhead.py's columns, by column; Python is run by callgrind as well."""
    counts = {}
    found = run_callgrind(sys.executable, script, "--count", f"--library={library}")
    for name, count in found.items():
        column, path = name.split(": ")
        counts.setdefault(column, {})[path] = count
    return {column: costs_of(paths) for column, paths in counts.items()}


def is_as_stored(costs, stored):
    """Prints each cost beside the stored one; whether those that are checked are near it."""
    good = set(CHECKED) <= costs.keys()
    for name, cost in costs.items():
        change = cost / stored[name] - 1 if name in stored else float("nan")
        is_bad = name in CHECKED and not abs(change) <= TOLERANCE
        good = good and not is_bad
        mark = f"  more than {TOLERANCE:.0%} away" if is_bad else ""
        print(f"{name:40} {cost:8} stored {stored.get(name, '-'):>8} {change:+7.1%}{mark}")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="bench/hot_paths, built for release")
    parser.add_argument("--libtorch", required=True, help="names what it is linked with")
    parser.add_argument("--update", action="store_true", help="store the costs found")
    arguments = parser.parse_args()
    costs = costs_of(run_callgrind(arguments.program))
    if arguments.update:
        stored = {"libtorch": arguments.libtorch, "costs": costs}
        STORED.write_text(json.dumps(stored, indent=1) + "\n")
    stored = json.loads(STORED.read_text())
    good = is_as_stored(costs, stored["costs"])
    if arguments.libtorch != stored["libtorch"]:
        print(f"of {arguments.libtorch}; stored: of {stored['libtorch']}, which tells nothing")
    elif not good:
        sys.exit("the hot paths have changed: see bench/side_by_side/instructions.py --help")


if __name__ == "__main__":
    main()
