# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Puts the report into docs/benchmarks.md, and its figures into the pages that quote them."""

from figures import (
    COLUMNS,
    COSTS,
    OURS,
    PYTHON,
    bytes_ratio,
    estimate,
    first_of,
    operator_cost,
    region_cost,
    step_ratio,
)
from marked_parts import replace_marked, write_part
from report import report
from tables import table


def microseconds(cost, results, column):
    return f"{cost.of(results, column).middle:.1f} us"


def cost_rows(results):
    for cost in COSTS:
        row = [cost.what, microseconds(cost, results, PYTHON)]
        for column in OURS:
            part = cost.ratio(results, column).part_text(interval=False)
            row.append(f"{microseconds(cost, results, column)}, {part}")
        yield row
        if "instructions" not in results:
            continue
        theirs = cost.counted(results, PYTHON)
        row = ["the same, in instructions", f"{theirs:,}"]
        for column in OURS:
            ours = cost.counted(results, column)
            row.append(f"{ours:,}, 1/{theirs / ours:.1f}")
        yield row


def step_rows(results):
    for model, name in (("gpt", "GPT"), ("resnet", "ResNet")):
        both = first_of(results, model)
        variants = [
            (both[column.split("/")[0]]["variants"], "scope" if "scope" in column else "full")
            for column in COLUMNS
        ]
        steps = [step_ratio(found, variant, "none").ratio_text(2) for found, variant in variants]
        peaks = [bytes_ratio(found, variant, "peak_bytes") for found, variant in variants]
        yield [f"{name}, a step, of no checkpointing", *steps]
        yield [f"{name}, its peak, of no checkpointing", *(f"{peak:.3f}" for peak in peaks)]
    equal = [found[variant]["buffers_equal"] for found, variant in variants]
    words = ["yes" if yes else "**no**" for yes in equal]
    yield ["ResNet's batch-norm statistics as without checkpointing", *words]


def summary(results):
    """The README's table."""
    headers = ["on a CPU, one thread", "Python", "Reprise", "Reprise, scope"]
    return table(headers, [*cost_rows(results), *step_rows(results)])


def operator_parts(results, case):
    """What an operator takes in forward, in the replay and together."""
    entry = results["operators"][f"operator_cost/{case}"]
    return [f"{entry[name]:.2f} us" for name in ("forward_us", "replay_us", "operator_us")]


def plain_forward(results):
    entry = results["operators"]["operator_cost/no_policy"]
    return f"A plain forward of the operator takes {entry['plain_forward_us']:.2f} us."


def policies_table(results):
    """The table of docs/policies.md."""
    rows = []
    for what, case, policy in (
        ("no policy", "no_policy", "none"),
        ("recomputed (`save_nothing()`)", "recompute", "recompute"),
        ("kept (`save_everything()`)", "save", "save"),
    ):
        cost = next(c for c in COSTS if c.function is operator_cost and c.policy == policy)
        part = cost.ratio(results, "ours/function").part_text()
        theirs = microseconds(cost, results, PYTHON)
        rows.append([what, *operator_parts(results, case), theirs, part])
    headers = ["", "forward, over plain", "replay, over the floor", "together"]
    headers += ["Python", "ours of Python's"]
    return f"{table(headers, rows)}\n\n{plain_forward(results)}"


def scope_table(results):
    """The table of docs/checkpoint-scope.md."""
    rows = []
    for what, case, policy, column in (
        ("`checkpoint()`", "no_policy", "none", "ours/function"),
        ("scope", "tape_no_policy", "none", "ours/scope"),
        ("`checkpoint()`, `save_everything()`", "save", "save", "ours/function"),
        ("scope, `save_everything()`", "tape_save", "save", "ours/scope"),
    ):
        region = estimate(region_cost(results, policy, column)).middle
        size = results["operators"][f"operator_cost/{case}"].get("tape_bytes_an_operator")
        row = [what, *operator_parts(results, case), f"{region:.1f} us"]
        rows.append([*row, "-" if size is None else f"{size:.0f}"])
    headers = ["", "recorded", "replayed", "together", "a region", "bytes of tape"]
    tape = results["operators"]["operator_cost/tape_no_policy"]
    text = (
        f"{plain_forward(results)} A replay of a tape builds no graph: against a second forward "
        f"that builds none either, it costs {tape['replay_over_no_graph_us']:.2f} us."
    )
    return f"{table(headers, rows)}\n\n{text}"


def write_pages(results, folder):
    """The pages in `folder`, and the README beside it."""
    write_part(folder / "benchmarks.md", "results", report(results))
    replace_marked(folder / "policies.md", "operators", policies_table(results))
    replace_marked(folder / "checkpoint-scope.md", "operators", scope_table(results))
    replace_marked(folder.parent / "README.md", "summary", summary(results))
