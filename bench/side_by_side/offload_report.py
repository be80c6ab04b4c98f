# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""The tables of docs/benchmarks.md on what is kept elsewhere: offload, and inputs over two ranks."""

import numpy as np
from figures import Estimate
from tables import table

# What offload.cpp and offload.py measure, by side and variant.
OFFLOAD_COLUMNS = {
    ("python", "none"): "Python",
    ("python", "save_on_cpu"): "its save_on_cpu",
    ("ours", "none"): "C++",
    ("ours", "save_on_cpu"): "SaveOnCpuGuard",
    ("ours", "host"): "stores::host()",
}


def step_text(steps, variant, base):
    """The median step of a variant, and but for "none" its ratio to `base`."""
    text = f"{np.median(steps[variant]):.0f} ms"
    if variant != "none":
        ratio = Estimate.of(np.array(steps[variant]) / np.array(steps[base]))
        text += f", {ratio.ratio_text(2)}"
    return text


def offload_steps(by_side):
    """Of each variant: its median step, and its ratio to its own side's without offload."""
    for side, variant in OFFLOAD_COLUMNS:
        steps = by_side[side]
        yield step_text(steps, variant, "none")


def offload_table(results):
    headers = ["a copy takes", *OFFLOAD_COLUMNS.values()]
    sides = ("python", "ours")
    rows = []
    for index, case in enumerate(results["ours"]["chain"]):
        by_side = {side: results[side]["chain"][index]["step_ms"] for side in sides}
        rows.append([f"{case['copy_ms']:.0f} ms", *offload_steps(by_side)])
    costs = {side: results[side]["saved_tensor_us"] for side in sides}
    row = ["one more saved tensor"]
    for side, variant in OFFLOAD_COLUMNS:
        over = np.array(costs[side][variant]) - np.array(costs[side]["none"])
        row.append("-" if variant == "none" else f"{Estimate.of(over).text(2)} us")
    return table(headers, [*rows, row])


def offload_cuda_table(results):
    headers = ["", *OFFLOAD_COLUMNS.values()]
    steps = {side: results[side]["step_ms"] for side in results}
    peaks = ["peak of a step"]
    for side, variant in OFFLOAD_COLUMNS:
        peaks.append(f"{results[side]['peak_bytes'][variant] / 2**20:,.0f} MiB")
    return table(headers, [["step", *offload_steps(steps)], peaks])


def offload_section(results):
    parts = [
        "## Offload",
        "On the test device, with times of a step and its ratio to the one without offload: ten "
        "layers, of which each kernel takes 4 ms and each saves 128 KiB. "
        "`stores::host()` may have two tensors on their way out, and brings two back ahead. "
        "The last row is the bookkeeping alone: what a tensor that is on the host already, so that "
        "neither side copies it, costs over none.",
        offload_table(results),
    ]
    if "cuda" in results:
        parts += [
            "A GPT of 24 layers of width 1024, context 1024, batch 4, fused attention, float32, "
            "on the GPU:",
            offload_cuda_table(results["cuda"]),
        ]
    return parts


GATHER_VARIANTS = ("none", "checkpoint", "when needed", "one ahead", "two ahead")


def gather_ahead_section(results):
    rows = []
    for case in results:
        steps = case["step_ms"]
        row = [f"{case['delay_ms']} ms"]
        for variant in GATHER_VARIANTS:
            row.append(step_text(steps, variant, "checkpoint"))
        rows.append(row)
    return [
        "## Gathers ahead",
        "Two ranks that keep half of each region's input (`stores::partitioned()`), over a simulated link: ten "
        "regions, of which a forward takes 4 ms and a backward 8 ms. A gather takes the delay, beside the "
        "computation, from when the last rank has started it. Steps, and their ratio to those of regions that "
        "keep their inputs whole; `when needed` is `prefetch_depth = 0`, the others 1 and 2.",
        table(["a gather takes", *GATHER_VARIANTS], rows),
    ]
