# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Measures what frontier.svg shows, and writes it to frontier.json.

    python docs/pictures/measure_frontier.py --plan build/release/planner/reprise_plan

with the Python package installed, and the program that tools/plan builds.

Training steps of the GPT of bench/side_by_side/models.py, on one thread: plain, with each block as
a region, and within budgets of memory, by turns. The planner's frontier and bound are those of the
plain step's trace.
"""

import argparse
import ctypes
import functools
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import torch

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parents[1] / "bench" / "side_by_side"))

import reprise  # noqa: E402
from models import make_model  # noqa: E402

BUDGETS = (0.8, 0.6, 0.5, 0.4, 0.35)  # of the plain step's peak
WARM_UPS = 6  # a budget observes two steps, and learns the times of its plan from others
SEED = 1  # of each step's random numbers
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of glibc's mallopt()


def keep_freed_memory():
    """In the process: no step pays for pages that another one has given back."""
    libc = ctypes.CDLL(None)
    libc.mallopt(M_MMAP_MAX, 0)
    libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def cpu_memory():
    return next(entry for entry in reprise.memory_report().devices if str(entry.device) == "cpu")


def forward(model, run):
    h = model.enter()
    for block in model.blocks:
        h = run(block, h)
    return model.loss(h)


def run_plainly(model):
    return forward(model, lambda block, h: block(h))


def run_in_regions(model, policy=None):
    options = reprise.CheckpointOptions(policy=policy)
    return forward(model, functools.partial(reprise.checkpoint, options=options))


def run_in_scopes(model):
    def run(block, h):
        with reprise.CheckpointScope():
            return block(h)

    return forward(model, run)


def run_within(budget, model):
    with budget.step():
        return run_plainly(model)


def step(model, run):
    """Returns the seconds of a step, and its peak over the bytes before it."""
    model.module.zero_grad()
    torch.manual_seed(SEED)
    before = cpu_memory().current_bytes
    reprise.reset_peak_cpu_memory()
    start = time.thread_time()
    run(model).backward()
    seconds = time.thread_time() - start
    return seconds, cpu_memory().peak_bytes - before


def make_variants(model):
    """Ways to run forward, by name. Each budget gets as many steps as it needs to have a plan."""
    step(model, run_plainly)
    _, peak_bytes = step(model, run_plainly)
    model.module.zero_grad()
    before = cpu_memory().current_bytes
    selective = functools.partial(run_in_regions, policy=reprise.policies.save_compute_intensive())
    variants = {
        "plain": run_plainly,
        "full": run_in_regions,
        "full, scopes": run_in_scopes,
        "selective": selective,
    }
    for part in BUDGETS:
        budget = reprise.MemoryBudget(peak_bytes=before + int(part * peak_bytes))
        variants[f"budget {part}"] = functools.partial(run_within, budget)
    for _ in range(WARM_UPS):
        for run in variants.values():
            step(model, run)
    return variants


def measure(model, rounds):
    variants = make_variants(model)
    order = list(variants)
    found = {name: {"peak_bytes": 0, "seconds": []} for name in variants}
    for _ in range(rounds):
        for name in order:
            seconds, peak_bytes = step(model, variants[name])
            found[name]["seconds"].append(seconds)
            found[name]["peak_bytes"] = max(found[name]["peak_bytes"], peak_bytes)
        order.reverse()
    return found


def plan(model, program, points):
    """The planner's report on the plain step, without its plans."""
    roomy = reprise.MemoryBudget(peak_bytes=1 << 40)
    for _ in range(WARM_UPS):
        step(model, functools.partial(run_within, roomy))
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder) / "step.trace"
        roomy.write_trace(str(trace))
        command = [program, trace, "--json", "--points", str(points)]
        report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    wanted = ("peak_bytes", "seconds", "bound_seconds")
    return {
        "plain": {key: report["trace"][key] for key in ("seconds", "peak_bytes")},
        "bytes_before_step": report["trace"]["bytes_before_step"],
        "frontier": [{key: entry[key] for key in wanted} for entry in report["frontier"]],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", type=pathlib.Path, required=True, help="the program reprise_plan")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--points", type=int, default=60, help="of the frontier")
    arguments = parser.parse_args()
    keep_freed_memory()
    torch.set_num_threads(1)
    reprise.install_cpu_memory_counter()
    model = make_model("gpt")
    results = {
        "torch": torch.__version__,
        "planned": plan(model, arguments.plan.resolve(), arguments.points),
        "measured": measure(model, arguments.rounds),
    }
    (HERE / "frontier.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
