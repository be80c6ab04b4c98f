# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""The package `reprise` beside torch.utils.checkpoint, in this one process.

As overhead.py: all columns take turns of a few milliseconds, floor and region alternate within a
turn, one thread. And steps of a small GPT, where regions cost the most, by turns of one step.
With --count, for callgrind to count the instructions of the package's paths: see instructions.py.
Prints JSON: {"overhead": {group: {column: {size: [microseconds]}}}, "steps": {size: {variant:
[milliseconds]}}, "equal": whether all gradients of the GPT are those of the step without regions}.
"""

import argparse
import ctypes
import functools
import gc
import json
import sys
import time

import reprise
import torch
from instructions import LONG, SHORT
from models import GptBlock
from overhead import Python, count, time_group, warm_up
from regions import FORMS, chain, leaf, negations, run_floor, run_region
from torch.utils.checkpoint import checkpoint

TORCH, FUNCTION, SCOPE = "torch/function", "package/function", "package/scope"
POLICIES = {
    "none": None,
    "recompute": reprise.policies.save_nothing(),
    "save": reprise.policies.save_everything(),
}
GROUPS = tuple(f"chain/{policy}" for policy in POLICIES)

GPT_SIZES = {"d=64": (64, 32, 1, 6), "d=256": (256, 128, 2, 4)}  # width, tokens, batch, layers
SEED = 1


def in_scope(options, function, x):
    with reprise.CheckpointScope(options):
        return function(x)


def add_forms():
    """Adds the package's forms of regions to those that run_region() knows."""
    for name, policy in POLICIES.items():
        options = reprise.CheckpointOptions(policy=policy)
        FORMS["package", name] = functools.partial(reprise.checkpoint, options=options)
        FORMS["scope", name] = functools.partial(in_scope, options)


def count_paths(library):
    x = leaf()
    for kind, code, policies in (("", chain, POLICIES), (", nothing saved", negations, ("none",))):
        paths = {"floor": functools.partial(run_floor, code=code)}
        for form, name in (("package", "function"), ("scope", "scope")):
            for policy in policies:
                path = name if policy == "none" else f"{name}, {policy}"
                paths[path] = functools.partial(run_region, form, policy, code=code)
        for name, run in paths.items():
            for length in (SHORT, LONG):

                def repeat(runs, run=run, length=length):
                    for _ in range(runs):
                        run(x, length)

                count(library, f"{name}{kind}/{length}", repeat)


class Gpt:
    def __init__(self, width, tokens, batch, layers):
        torch.manual_seed(0)
        make = functools.partial(GptBlock, tokens, width, 4, dropout=0.1, fused=False)
        self.blocks = torch.nn.ModuleList(make() for _ in range(layers))
        self.x = torch.randn(batch, tokens, width)

    def step(self, run):
        """Milliseconds of a step whose blocks `run` runs."""
        self.blocks.zero_grad()
        torch.manual_seed(SEED)
        gc.collect()
        start = time.thread_time()
        h = self.x
        for block in self.blocks:
            h = run(block, h)
        h.square().mean().backward()
        return (time.thread_time() - start) * 1e3

    def gradients(self, run):
        self.step(run)
        return [parameter.grad.clone() for parameter in self.blocks.parameters()]


STEPS = {
    "none": lambda block, h: block(h),
    TORCH: functools.partial(checkpoint, use_reentrant=False),
    FUNCTION: reprise.checkpoint,
    SCOPE: functools.partial(in_scope, reprise.CheckpointOptions()),
}


def time_steps(size, seconds):
    gpt = Gpt(*size)
    plain = gpt.gradients(STEPS["none"])
    are_equal = all(all(map(torch.equal, gpt.gradients(run), plain)) for run in STEPS.values())
    found = {name: [] for name in STEPS}
    order = list(STEPS.items())
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(found["none"]) < 3:
        for name, run in order:
            found[name].append(gpt.step(run))
        order.reverse()
    return found, are_equal


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1, help="for each size of each group")
    parser.add_argument("--count", metavar="LIBRARY", help="that tells callgrind when to count")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    add_forms()
    if arguments.count:
        gc.disable()
        count_paths(ctypes.CDLL(arguments.count))
        return
    columns = {TORCH: Python("function"), FUNCTION: Python("package"), SCOPE: Python("scope")}
    warm_up(dict.fromkeys(GROUPS, columns))
    overhead = {group: time_group(columns, group, arguments.seconds) for group in GROUPS}
    steps, are_equal = {}, True
    for name, size in GPT_SIZES.items():
        steps[name], equal = time_steps(size, 8 * arguments.seconds)
        are_equal = are_equal and equal
    json.dump({"overhead": overhead, "steps": steps, "equal": are_equal}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
