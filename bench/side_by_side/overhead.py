# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""What regions cost over their floor, torch.utils.checkpoint's and ours, in this one process.

Both sides take turns of a few milliseconds, and floor and region alternate within a turn, so that a
machine that changes its pace changes it for all of them. One thread, and the time for which it has
a core; Python's garbage collector is off while anything is timed, and runs before each turn. Prints
JSON: {group: {column: {size: [microseconds]}}}, for each round the median of what a region takes
over the floor beside it.

With --count, for callgrind to count the instructions of the same: see instructions.py.
"""

import argparse
import ctypes
import gc
import json
import sys
import time

import numpy as np
import torch
from figures import DEPTHS, GROUPS, LENGTHS, NESTED_LENGTH, POLICIES
from instructions import LONG, RUNS, SHORT
from regions import leaf, run_floor, run_region

# As many pairs of floor and region to a turn as have this many operators, but some at least.
OPERATORS_OF_A_TURN = 32
LEAST_PAIRS = 4
LEAST_ROUNDS = 3
WARM_UPS = 5  # before instructions are counted


class Python:
    def __init__(self, form):
        self.form = form
        self.reentrant = form == "reentrant"

    def time_pairs(self, policy, length, depth, pairs):
        """Microseconds of floors and of regions; one more pair before these fills the caches."""
        x = leaf()

        def floor():
            run_floor(x, length, self.reentrant)

        def region():
            run_region(self.form, policy, x, length, depth)

        floor()
        region()
        floors, regions = [], []
        for i in range(pairs):
            turn = [(floor, floors), (region, regions)]
            for function, taken in turn if i % 2 == 0 else reversed(turn):
                start = time.thread_time_ns()
                function()
                taken.append((time.thread_time_ns() - start) / 1e3)
        return np.array(floors), np.array(regions)

    def run_floors(self, length, runs):
        x = leaf()
        for _ in range(runs):
            run_floor(x, length, self.reentrant)

    def run_regions(self, policy, length, runs):
        x = leaf()
        for _ in range(runs):
            run_region(self.form, policy, x, length)


class Ours:
    def __init__(self, library, form):
        self.library, self.form = library, form.encode()

    def time_pairs(self, policy, length, depth, pairs):
        taken = np.empty((2, pairs))
        floors, regions = (ctypes.c_void_p(row.ctypes.data) for row in taken)
        self.library.reprise_time_regions(
            self.form, policy.encode(), length, depth, pairs, floors, regions
        )
        return taken

    def run_floors(self, length, runs):
        self.library.reprise_run_floors(length, runs)

    def run_regions(self, policy, length, runs):
        self.library.reprise_run_regions(self.form, policy.encode(), length, runs)


def make_columns(library):
    return {
        "python/function": Python("function"),
        "python/reentrant": Python("reentrant"),
        "ours/function": Ours(library, "function"),
        "ours/scope": Ours(library, "scope"),
    }


def time_turn(column, group, size):
    """Microseconds that a region takes over its floor, by one turn."""
    kind, policy = group.split("/")
    length, depth = (NESTED_LENGTH, size) if kind == "nested" else (size, 1)
    pairs = max(LEAST_PAIRS, OPERATORS_OF_A_TURN // (length * depth))
    floors, regions = column.time_pairs(policy, length, depth, pairs)
    return float(np.median(regions - floors))


def columns_of(columns, group):
    return {name: columns[name] for name in GROUPS[group]}


def time_group(columns, group, seconds):
    """Rounds of one turn of each column with each size, in an order that is reversed each time."""
    sizes = DEPTHS if group.startswith("nested") else LENGTHS
    found = {name: {size: [] for size in sizes} for name in columns}
    order = [(name, size) for size in sizes for name in columns]
    end = time.monotonic() + seconds * len(sizes)
    rounds = 0
    while rounds < LEAST_ROUNDS or time.monotonic() < end:
        for name, size in order:
            gc.collect()
            found[name][size].append(time_turn(columns[name], group, size))
        order.reverse()
        rounds += 1
    return found


def warm_up(columns_by_group):
    """Also hides what there is by then from the garbage collector, which is quick afterwards."""
    gc.disable()
    for group, columns in columns_by_group.items():
        for column in columns.values():
            time_turn(column, group, 1)
    gc.collect()
    gc.freeze()


def count(library, name, run):
    run(WARM_UPS)
    gc.collect()
    library.reprise_start_counting()
    run(RUNS)
    library.reprise_stop_counting(name.encode())


def count_all(library, columns):
    for name, column in columns.items():
        for length in (SHORT, LONG):
            floors = f"{name}: floor/{length}"
            count(library, floors, lambda runs: column.run_floors(length, runs))
            for policy in POLICIES:
                if name in GROUPS[f"chain/{policy}"]:
                    regions = f"{name}: {policy}/{length}"
                    count(library, regions, lambda runs: column.run_regions(policy, length, runs))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", required=True, help="libreprise_python_regions.so")
    parser.add_argument("--seconds", type=float, default=1, help="for each size of each group")
    parser.add_argument("--count", action="store_true", help="under callgrind")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    library = ctypes.CDLL(arguments.library)
    columns = make_columns(library)
    warm_up({group: columns_of(columns, group) for group in GROUPS})
    if arguments.count:
        count_all(library, columns)
        return
    found = {
        group: time_group(columns_of(columns, group), group, arguments.seconds) for group in GROUPS
    }
    json.dump(found, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
