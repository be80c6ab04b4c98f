# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""The part of docs/benchmarks.md on steps within budgets of memory."""

import numpy as np
from figures import Estimate
from tables import table

SIDES = {
    "aot_eager": ("torch.compile, aot_eager", "tab:orange", "^"),
    "inductor": ("torch.compile, inductor", "tab:red", "o"),
    "ours": ("Reprise", "tab:blue", "s"),
}
NO_BUDGET = "1.0"
# The most that gradients may differ by: fused kernels round differently, ours does not.
GRADIENT_LIMITS = {"aot_eager": 1e-3, "inductor": 1e-3, "ours": 0}


def failed(entry):
    return "failed" in entry


def got(found, entry):
    """The peak of a step, of the plain step's."""
    return entry["peak_bytes"] / found["plain"]["peak_bytes"]


def step_of_plain(found, entry):
    """Times of steps, of those of plain steps of the same rounds."""
    return np.array(entry["step_ms"]) / np.array(found["plain"]["step_ms"])


def got_text(found, side, budget):
    entry = found["sides"][side][budget]
    if failed(entry):
        return "failed"
    part = got(found, entry)
    is_same = entry.get("gradient_distance", 0) <= GRADIENT_LIMITS[side]  # NaN is not
    mark = "" if is_same else "*"
    text = f"{part:.3f}{mark}"
    is_above = budget != NO_BUDGET and part > float(budget)
    return f"**{text}**" if is_above else text


def budget_rows(found):
    with_most = max(found["sides"].values(), key=len)  # Python's have no budget as well
    for budget in with_most:
        row = ["none" if budget == NO_BUDGET else budget]
        for side, entries in found["sides"].items():
            entry = entries.get(budget)
            if entry is None:
                row += ["-", "-"]
                continue
            row.append(got_text(found, side, budget))
            known = Estimate.of(step_of_plain(found, entry)) if not failed(entry) else None
            row.append("-" if known is None else known.ratio_text(2))
        yield row


def failures(found):
    for side, entries in found["sides"].items():
        for budget, entry in entries.items():
            if failed(entry):
                yield f"- {SIDES[side][0]}, {budget}: `{entry['failed']}`"


def warm_up_text(found):
    """Seconds of the first steps, in which one side compiles and the other plans."""
    parts = []
    for side, entries in found["sides"].items():
        good = [entry for entry in entries.values() if not failed(entry)]
        if good:
            seconds = np.median([entry["warm_up_seconds"] for entry in good])
            parts.append(f"{seconds:.1f} s ({SIDES[side][0]})")
    return f"The first steps at a budget, median: {', '.join(parts)}."


def budget_section(results):
    parts = [
        "## Budgets of memory",
        "![budgets](benchmarks/budgets.svg)",
        "The peak of a step and its time, of those of the plain eager step. Bold: more than the "
        "budget's part of the plain peak, which torch.compile does not promise: its budget is a "
        "part of the activations. `*`: the gradients are not those that the same side has "
        "without a budget.",
    ]
    for model, found in results.items():
        plain = found["plain"]
        headers = ["budget"]
        for side in found["sides"]:
            headers += [f"{SIDES[side][0]}: peak", "step"]
        parts += [
            f"### {model} within budgets",
            f"The plain step: {plain['peak_bytes'] / 2**20:.1f} MiB at the peak, "
            f"{np.median(plain['step_ms']):.0f} ms. {warm_up_text(found)}",
            table(headers, budget_rows(found)),
        ]
        lines = list(failures(found))
        if lines:
            parts.append("\n".join(lines))
    return parts
