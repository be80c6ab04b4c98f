# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Regions and budgets beside torch's checkpoint under sharding: bytes and collectives of two ranks.

Steps of a small GPT over Gloo. Prints a Markdown table, a row per way to shard and per nesting of
regions and units. A cell has the MiB held between forward and backward, the MiB at the peak of the
step (both beyond the sharded model's own), and the collectives of forward and of backward, of the
second step on rank 0. A budget is in force from the first step on, and its bytes are the most of all
steps; if half of plain's peak is too small for it, the cell says which part is not. Gradients are
compared with plain's, bit by bit: a cell says if they differ.
"""

import argparse
import contextlib
import datetime
import gc
import os
import tempfile
from typing import NamedTuple

import reprise
import torch
import torch.distributed as dist
import torch.multiprocessing
from sharding_models import SETTINGS
from tables import table
from torch.distributed.tensor import DTensor
from torch.utils.checkpoint import checkpoint

RANKS, STEPS, MIB = 2, 2, 2**20
SHARES = (0.5, 0.6, 0.7, 0.8, 0.9)  # of plain's peak, for budgets: the first that can be kept


def plain(function, *args):
    return function(*args)


def torchs(function, *args):
    return checkpoint(function, *args, use_reentrant=False)


def in_scope(function, *args):
    with reprise.CheckpointScope():
        return function(*args)


REGIONS = {"torch's checkpoint": torchs, "function": reprise.checkpoint, "scope": in_scope}


class Cell(NamedTuple):
    held: int
    peak: int
    forward: int
    backward: int
    gradients: list

    def text(self, expected):
        collectives = f"{self.forward} + {self.backward}"
        bits = "" if all(map(torch.equal, self.gradients, expected)) else ", other bits"
        return f"{self.held / MIB:.2f}, {self.peak / MIB:.2f}; {collectives}{bits}"


def memory():
    (cpu,) = [entry for entry in reprise.memory_report().devices if entry.device == "cpu"]
    return cpu


def collectives_of(function):
    """Returns the result of the call, and how many collectives ran."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities) as profile:
        result = function()
    return result, sum(event.name.startswith("c10d::") for event in profile.events())


def gradients_of(model):
    found = [p.grad for p in model.parameters() if p.grad is not None]
    return [g.to_local().clone() if isinstance(g, DTensor) else g.clone() for g in found]


def run_step(setting, model, step, around):
    """Returns the counts of one step, with all its micro-batches."""
    model.zero_grad()
    gc.collect()
    before = memory().current_bytes
    reprise.reset_peak_cpu_memory()
    batches = setting.data(step)
    held = forward = backward = 0

    def run_forward(tokens):
        with around():
            return setting.loss(model, tokens)

    for i, tokens in enumerate(batches):
        with setting.around_micro_batch(model, i == len(batches) - 1):
            loss, transfers = collectives_of(lambda tokens=tokens: run_forward(tokens))
            forward += transfers
            held = max(held, memory().current_bytes - before)
            _, transfers = collectives_of(loss.backward)
            backward += transfers
            del loss
    peak = memory().peak_bytes - before
    return Cell(held, peak, forward, backward, gradients_of(model))


def run_steps(setting, region, nesting, limit=None):
    """Returns the cell of a new model. limit: bytes of a budget beyond the model's own."""
    model = setting.make(region, nesting)
    gc.collect()
    around = contextlib.nullcontext
    if limit is not None:
        around = reprise.MemoryBudget(peak_bytes=memory().current_bytes + limit).step
    cells = [run_step(setting, model, step, around) for step in range(STEPS)]
    last = cells[-1]
    if limit is None:
        return last
    assert max(cell.peak for cell in cells) <= limit
    return last._replace(
        held=max(cell.held for cell in cells), peak=max(cell.peak for cell in cells)
    )


def budget_text(setting, nesting, expected):
    for share in SHARES:
        with contextlib.suppress(reprise.BudgetExceededError):
            cell = run_steps(setting, plain, nesting, int(share * expected.peak))
            text = cell.text(expected.gradients)
            return text if share == SHARES[0] else f"{share} of it: {text}"
    return "none"


def rows_of(name, setting):
    for nesting in setting.nestings:
        expected = run_steps(setting, plain, nesting)
        cells = [expected.text(expected.gradients)]
        cells += [
            run_steps(setting, region, nesting).text(expected.gradients)
            for region in REGIONS.values()
        ]
        is_first = nesting == setting.nestings[0]
        cells.append(budget_text(setting, nesting, expected) if is_first else "")
        yield [name if is_first else "", nesting, *cells]


def run_rank(rank, rendezvous, names):
    torch.set_num_threads(1)
    reprise.install_cpu_memory_counter()
    dist.init_process_group(
        "gloo",
        init_method=f"file://{rendezvous}",
        rank=rank,
        world_size=RANKS,
        timeout=datetime.timedelta(minutes=2),
    )
    rows = [row for name in names for row in rows_of(name, SETTINGS[name])]
    if rank == 0:
        headers = [
            "sharding",
            "region",
            "plain",
            *REGIONS,
            f"budget of {SHARES[0]} of plain's peak",
        ]
        print(table(headers, rows))
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="of ways to shard: those with one of these in it")
    names = parser.parse_args().names
    chosen = [name for name in SETTINGS if not names or any(part in name for part in names)]
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(run_rank, (os.path.join(folder, "rendezvous"), chosen), RANKS)


if __name__ == "__main__":
    main()
