# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Steps of a GPT on a GPU, by torch's checkpoint and by Reprise's: time and peak of memory.

Prints JSON: for each size and variant the milliseconds of each round and the bytes of the peak above
the step's start. Rounds are interleaved: each runs every variant once, in a rotated order.
docs/gpu-results.md has the results of a run.
"""

import argparse
import contextlib
import functools
import json
import statistics
import sys
import time

import reprise
import torch
from models import GptBlock
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

# name: layers, width, heads, tokens, batch
SIZES = {
    "small": (24, 128, 4, 128, 1),  # bound by the CPU, which launches the kernels
    "large": (16, 2048, 16, 2048, 8),  # bound by the GPU
}
SAVED = {
    torch.ops.aten.mm.default,
    torch.ops.aten.addmm.default,
    torch.ops.aten._scaled_dot_product_flash_attention.default,
    torch.ops.aten._scaled_dot_product_cudnn_attention.default,
    torch.ops.aten._scaled_dot_product_efficient_attention.default,
}


def plain(block, x):
    return block(x)


def torchs_selective(block, x):
    def policy(context, op, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE if op in SAVED else CheckpointPolicy.PREFER_RECOMPUTE

    context_fn = functools.partial(create_selective_checkpoint_contexts, policy)
    return checkpoint(block, x, use_reentrant=False, context_fn=context_fn)


def ours(**options):
    options = reprise.CheckpointOptions(**options)
    return lambda block, x: reprise.checkpoint(block, x, options=options)


def in_scope(block, x):
    with reprise.CheckpointScope():
        return block(x)


def variants(budgets):
    policy = list(SAVED)
    return {
        "plain": (plain, None),
        "torch": (lambda block, x: checkpoint(block, x, use_reentrant=False), None),
        "function": (ours(), None),
        "tape": (ours(replay="tape"), None),
        "scope": (in_scope, None),
        "torch, selective": (torchs_selective, None),
        "function, policy": (ours(policy=policy), None),
        "tape, policy": (ours(replay="tape", policy=policy), None),
        **{f"budget {part}": (plain, budget) for part, budget in budgets.items()},
    }


def measure(size, rounds):
    layers, width, heads, tokens, batch = SIZES[size]
    torch.manual_seed(0)
    blocks = nn.ModuleList(
        GptBlock(tokens, width, heads, dropout=0.1, fused=True) for _ in range(layers)
    ).cuda()
    x = torch.randn(batch, tokens, width, device="cuda")

    def step(region, budget):
        blocks.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        start = time.perf_counter()
        with (
            budget.step() if budget else contextlib.nullcontext(),
            torch.autocast("cuda", torch.bfloat16),
        ):
            h = x
            for block in blocks:
                h = region(block, h)
            loss = h.float().square().mean()
        loss.backward()
        torch.cuda.synchronize()
        milliseconds = 1000 * (time.perf_counter() - start)
        return milliseconds, torch.cuda.max_memory_allocated() - before

    step(plain, None)
    _, plain_peak = step(plain, None)
    blocks.zero_grad(set_to_none=True)
    start = torch.cuda.memory_allocated()
    budgets = {
        part: reprise.MemoryBudget(peak_bytes=start + int(part * plain_peak), device="cuda")
        for part in (0.7, 0.5)
    }
    all_variants = variants(budgets)
    result = {name: {"ms": [], "peak_bytes": 0} for name in all_variants}
    names = list(all_variants)
    for number in range(rounds + 3):
        first = number % len(names)  # none always follows the same one
        for name in names[first:] + names[:first]:
            region, budget = all_variants[name]
            milliseconds, peak = step(region, budget)
            if number >= 3:  # the first ones warm up, and budgets observe and plan
                result[name]["ms"].append(milliseconds)
                result[name]["peak_bytes"] = peak
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="timed steps of each variant")
    arguments = parser.parse_args()
    results = {size: measure(size, arguments.rounds) for size in SIZES}
    for size, rows in results.items():
        base = statistics.median(rows["plain"]["ms"])
        for name, row in rows.items():
            quartiles = statistics.quantiles(row["ms"], n=4)
            print(
                f"{size:6} {name:18} {quartiles[1]:8.2f} ms [{quartiles[0]:.2f}, {quartiles[2]:.2f}]"
                f"  x{quartiles[1] / base:.3f}  {row['peak_bytes'] / 2**20:9.1f} MiB",
                file=sys.stderr,
            )
    json.dump(results, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
