# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""How the cost of torch.utils.checkpoint grows: scaling.cpp for Python."""

import functools
import gc
import json
import sys
import time

import torch
from regions import FORMS, chain, in_regions, leaf

SHORT = 4
ROUNDS = 1  # run.py takes the best of several turns


region = FORMS["function", "none"]


def regions_in_a_row(h, count):
    for _ in range(count):
        h = region(chain, h, SHORT)
    return h


def nested(x, depth):
    return in_regions(region, x, SHORT, depth)


def best_step(forward, rounds):
    x = leaf()
    best = float("inf")
    for _ in range(rounds):
        gc.collect()
        start = time.thread_time()
        torch.autograd.grad([forward(x)], [x], [torch.ones(4)])
        best = min(best, time.thread_time() - start)
    return best * 1e6


def measure(sizes, forward, plain, rounds):
    return [
        {
            "size": size,
            "step_us": best_step(lambda x: forward(x, size), rounds),
            "plain_us": best_step(lambda x: plain(x, size), rounds),
        }
        for size in sizes
    ]


def main():
    torch.set_num_threads(1)
    gc.disable()
    gc.freeze()  # what the imports made is not looked through again
    best_step(lambda x: regions_in_a_row(x, 1), rounds=2)  # imports modules, and starts threads
    figures = {
        "regions": measure(
            (1, 10, 100, 500, 1000, 2000, 3000, 4000),
            regions_in_a_row,
            lambda x, count: chain(x, count * SHORT),
            ROUNDS,
        ),
        "operators": measure(
            (10, 100, 1000, 2500, 5000, 7500, 10000),
            functools.partial(region, chain),
            chain,
            ROUNDS,
        ),
        "nesting": measure(range(1, 9), nested, lambda x, depth: chain(x, SHORT), 10 * ROUNDS),
    }
    json.dump({"function": figures}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
