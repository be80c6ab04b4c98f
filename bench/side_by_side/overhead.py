# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""What regions of torch.utils.checkpoint cost over their floor: overhead.cpp for Python.

Prints JSON of the shape that Google Benchmark gives our own figures.
"""

import argparse
import functools
import json
import sys
import time

import torch
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

LENGTHS = (1, 4, 16, 64, 256)
DEPTHS = (1, 2, 4, 8)
NESTED_LENGTH = 8


def chain(x, length):
    for _ in range(length):
        x = torch.sin(x)
    return x


def backward(y, x, reentrant=False):
    if reentrant:  # which torch.autograd.grad does not work with
        torch.autograd.backward([y], [torch.ones(4)])
    else:
        torch.autograd.grad([y], [x], [torch.ones(4)])


def run_floor(x, length, reentrant):
    y = chain(x, length)
    chain(x, length)
    backward(y, x, reentrant)


def with_policy(answer):
    def policy(ctx, op, *args, **kwargs):
        return answer

    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    return functools.partial(checkpoint, use_reentrant=False, context_fn=contexts)


FORMS = {
    "function/none": functools.partial(checkpoint, use_reentrant=False),
    "function/recompute": with_policy(CheckpointPolicy.PREFER_RECOMPUTE),
    "function/save": with_policy(CheckpointPolicy.MUST_SAVE),
    "reentrant/none": functools.partial(checkpoint, use_reentrant=True),
}


def in_regions(form, x, length, depth):
    if depth == 0:
        return chain(x, length)
    return form(lambda h: in_regions(form, h, length, depth - 1), x)


def microseconds(function):
    start = time.perf_counter()
    function()
    return (time.perf_counter() - start) * 1e6


def time_regions(name, length, depth, seconds):
    """The best floor and the best region of interleaved rounds."""
    form, reentrant = FORMS[name], name.startswith("reentrant")
    x = torch.ones(4, requires_grad=True)
    floor = region = float("inf")
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < 5 or time.perf_counter() < end:
        floor = min(floor, microseconds(lambda: run_floor(x, length, reentrant)))
        region = min(
            region,
            microseconds(
                lambda: backward(in_regions(form, x, length, depth), x, reentrant)
            ),
        )
        rounds += 1
    return {"floor_us": floor, "region_us": region, "over_floor_us": region - floor}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--min-time", type=float, default=0.3, help="seconds a case")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cases = []
    for name in FORMS:
        for length in LENGTHS:
            figures = time_regions(name, length, 1, arguments.min_time)
            cases.append({"name": f"chain/{name}/{length}", **figures})
    for depth in DEPTHS:
        figures = time_regions("function/none", NESTED_LENGTH, depth, arguments.min_time)
        cases.append({"name": f"nested/function/none/{depth}", **figures})
    json.dump({"benchmarks": cases}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
