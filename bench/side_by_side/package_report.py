# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""The part of docs/benchmarks.md on the Python package, marked as one of its own."""

import numpy as np
from figures import estimate, estimate_ratio, operator_cost, region_cost
from marked_parts import write_part
from tables import table

TORCH, FUNCTION, SCOPE = "torch/function", "package/function", "package/scope"
OURS = (FUNCTION, SCOPE)

COSTS = {
    "a region, over its floor": (region_cost, "none"),
    "a region under a policy that recomputes": (region_cost, "recompute"),
    "one more saved tensor in a region": (operator_cost, "none"),
    "one more operator under a policy that recomputes": (operator_cost, "recompute"),
    "one more operator under a policy that saves": (operator_cost, "save"),
}


def cost_rows(results):
    overhead = {"overhead": [process["overhead"] for process in results["processes"]]}
    for name, (cost, policy) in COSTS.items():
        theirs = cost(overhead, policy, TORCH)
        row = [name, f"{estimate(theirs).middle:.1f} us"]
        for column in OURS:
            ours = cost(overhead, policy, column)
            part = estimate_ratio(theirs, ours).part_text()
            row.append(f"{estimate(ours).middle:.1f} us, {part}")
        yield row


def step_ratio(results, size, variant, to):
    steps = [process["steps"][size] for process in results["processes"]]
    return estimate([np.array(found[variant]) / np.array(found[to]) for found in steps])


def step_rows(results):
    for size in results["processes"][0]["steps"]:
        row = [size, step_ratio(results, size, TORCH, "none").ratio_text(2)]
        for column in OURS:
            of_plain = step_ratio(results, size, column, "none").ratio_text(2)
            row += [of_plain, step_ratio(results, size, column, TORCH).ratio_text(2)]
        yield row


def package_report(results):
    machine = results["machine"]
    are_equal = all(process["equal"] for process in results["processes"])
    return "\n\n".join(
        [
            "## The Python package",
            f"Measured on {machine['date']}: {machine['cpu']}, one thread, Python "
            f"{machine['python']}, torch {machine['torch']}; {len(results['processes'])} processes, "
            f"{results['seconds'] / 60:.0f} minutes; a wheel of `tools/wheel`, which GCC optimises by a "
            "profile. [Raw figures](benchmarks/package.json).",
            "`reprise.checkpoint` and `reprise.CheckpointScope` beside "
            "`torch.utils.checkpoint.checkpoint` in one process, regions of operators on four "
            "elements. Policies are ready ones of `reprise.policies` on our side, and a Python "
            "function that returns its answer at once on torch's, which has no other.",
            table(["", "torch", "function", "scope"], cost_rows(results)),
            "A step of a GPT with explicit attention and dropout (`d=64`: 32 tokens, one sequence, "
            "six blocks; `d=256`: 128 tokens, two sequences, four blocks), each block a region, as "
            "a part of the step without regions, and of torch's. All gradients are "
            f"{'' if are_equal else '**not** '}those of the step without regions, bit by bit.",
            table(
                ["", "torch", "function", "of torch's", "scope", "of torch's"], step_rows(results)
            ),
        ]
    )


def write_package(results, folder):
    write_part(folder / "benchmarks.md", "package", package_report(results))
