# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""The part of docs/benchmarks.md on steps within budgets of memory, marked as one of its own."""

import numpy as np
from figures import Estimate
from marked_parts import write_part
from tables import table

SIDES = {
    "aot_eager": "torch.compile, aot_eager",
    "inductor": "torch.compile, inductor",
    "ours": "Reprise",
}
NO_BUDGET = "1.0"
GRADIENT_LIMIT = 1e-3  # that compiled steps may differ by: fused kernels round differently


def failed(entry):
    return "failed" in entry


def got(found, entry):
    """The peak of a step, of the plain step's."""
    return entry["peak_bytes"] / found["plain"]["peak_bytes"]


def step_of_plain(found, entry):
    """Times of steps, of those of plain steps of the same rounds."""
    return np.array(entry["step_ms"]) / np.array(found["plain"]["step_ms"])


def is_without_budget(side, entry):
    """Whether the gradients are those that the side, or the plain step, has without a budget."""
    if side == "ours":
        return entry["equal_bits"]
    return entry.get("gradient_distance", 0) <= GRADIENT_LIMIT  # NaN is not


def got_text(found, side, budget):
    entry = found["sides"][side][budget]
    if failed(entry):
        return "failed"
    part = got(found, entry)
    text = f"{part:.3f}{'' if is_without_budget(side, entry) else ' (*)'}"
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
                yield f"- {SIDES[side]}, {budget}: `{entry['failed']}`"


def warm_up_text(found):
    """Seconds of the steps before the timed ones, in which one side compiles, the other plans."""
    parts = []
    for side, entries in found["sides"].items():
        good = [entry for entry in entries.values() if not failed(entry)]
        if good:
            seconds = np.median([entry["warm_up_seconds"] for entry in good])
            parts.append(f"{seconds:.1f} s ({SIDES[side]})")
    return f"Compiling, or planning, and the steps for it, median: {', '.join(parts)}."


def plans_text(found):
    """How far our steps are from what their plans have predicted."""
    entries = [entry for entry in found["sides"]["ours"].values() if not failed(entry)]
    off, gaps = [], []
    for entry in entries:
        step = entry["last_step"]
        if step["plain_seconds"] > 0:
            off.append(abs(step["predicted_peak_bytes"] - step["peak_bytes"]) / step["peak_bytes"])
            gaps.append((step["predicted_seconds"] - step["bound_seconds"]) / step["plain_seconds"])
    if not off:
        return ""
    return (
        f" Reprise has followed a plan at {len(off)} of {len(entries)} budgets: peaks are within "
        f"{max(off):.2%} of the predicted ones, and a better plan could save {min(gaps):.1%} to "
        f"{max(gaps):.1%} of the plain step's time at most."
    )


def model_parts(model, found):
    plain = found["plain"]
    headers = ["budget"]
    for side in found["sides"]:
        headers += [f"{SIDES[side]}: peak", "step"]
    yield f"### {model} within budgets"
    yield (
        f"The plain step: {plain['peak_bytes'] / 2**20:.1f} MiB at the peak, "
        f"{np.median(plain['step_ms']):.0f} ms. {warm_up_text(found)}{plans_text(found)}"
    )
    yield table(headers, budget_rows(found))
    lines = list(failures(found))
    if lines:
        yield "\n".join(lines)


def budget_report(results):
    machine = results["machine"]
    parts = [
        "## Budgets of memory",
        f"Measured on {machine['date']}: {machine['cpu']}, one thread, torch {machine['torch']}; "
        f"{results['seconds'] / 60:.0f} minutes. [Raw figures](benchmarks/budgets.json).",
        "![Above, the peak that a step has by the budget asked for: Reprise's is on the diagonal. "
        "Below, the time of a step by its peak](benchmarks/budgets.svg)",
        "gpt has six blocks with explicit attention and dropout; swiglu has 32 with fused "
        "attention and a gated layer, as in "
        "[pytorch#197838](https://github.com/pytorch/pytorch/issues/197838); resnet is the one "
        "among the models above.",
        "The peak of a step and its time, of those of the plain eager step. Memory that is freed "
        "stays with the process, so that no step pays for pages that one of another side has "
        "given back. Bold: more than the budget's part of the plain peak, which torch.compile "
        "does not promise: its budget is a part of the activations. `(*)`, hollow in the plot: "
        "the gradients are not those without a budget, because torch.compile draws other numbers "
        "where it computes dropout again "
        "([pytorch#190758](https://github.com/pytorch/pytorch/issues/190758)). `-`: not measured, "
        "as compiling takes too long.",
    ]
    for model, found in results["models"].items():
        parts += model_parts(model, found)
    return "\n\n".join(parts)


def write_budgets(results, folder):
    write_part(folder / "benchmarks.md", "budgets", budget_report(results))
