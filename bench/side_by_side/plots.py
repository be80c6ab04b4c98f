# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""The plots of docs/benchmarks.md, each as PNG and as SVG."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
from budget_report import NO_BUDGET, failed, got, step_of_plain  # noqa: E402
from budget_report import SIDES as BUDGET_SIDES  # noqa: E402
from figures import (  # noqa: E402
    COLUMNS,
    GROUPS,
    LENGTHS,
    OURS,
    POLICIES,
    bytes_ratio,
    estimate,
    first_of,
    linear_fit,
    over_floor,
    step_ratio,
)

SIDES = {
    "python/function": ("Python", "tab:red", "o"),
    "python/reentrant": ("Python, reentrant", "tab:orange", "^"),
    "ours/function": ("Reprise", "tab:blue", "s"),
    "ours/scope": ("Reprise, scope", "tab:green", "D"),
}

plt.rcParams.update({"font.size": 9, "axes.grid": True, "grid.alpha": 0.3, "svg.hashsalt": "0"})


def save(figure, folder, name):
    figure.tight_layout()
    figure.savefig(folder / f"{name}.png", dpi=130)
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)


def draw_overhead_of(axes, results, policy):
    group = f"chain/{policy}"
    for column in GROUPS[group]:
        label, colour, marker = SIDES[column]
        costs = [
            estimate(over_floor(results, group, column, length)).middle for length in LENGTHS
        ]
        shown = [(length, cost) for length, cost in zip(LENGTHS, costs) if cost > 0]
        axes.plot(*zip(*shown), marker=marker, color=colour, label=label)
    axes.set(xscale="log", yscale="log", xlabel="operators in the region")
    axes.set_xticks(LENGTHS, LENGTHS)


def draw_overhead(results, folder):
    figure, all_axes = plt.subplots(1, 3, figsize=(10, 3.4), sharey=True)
    titles = ("no policy", "policy: recompute all", "policy: save all")
    for axes, policy, title in zip(all_axes, POLICIES, titles, strict=True):
        draw_overhead_of(axes, results, policy)
        axes.set_title(title)
        axes.legend()
    all_axes[0].set_ylabel("cost over the floor, us")
    save(figure, folder, "overhead")


MARKERS = {
    "none": "*",
    "full": "o",
    "scope": "o",
    "selective": "s",
    "scope+selective": "s",
    "every-2nd-matmul": "D",
    "nested": "v",
}


def draw_model(axes, both, title):
    """Colours tell the side, markers what is kept."""
    for side in ("python", "ours"):
        variants = both[side]["variants"]
        for variant, marker in MARKERS.items():
            if variant not in variants:
                continue
            form = "scope" if variant.startswith("scope") else "function"
            peak = bytes_ratio(variants, variant, "peak_bytes")
            step = step_ratio(variants, variant, "none").middle
            colour = SIDES[f"{side}/{form}"][1]
            axes.plot(peak, step, marker, color=colour, markersize=8, alpha=0.8)
    axes.set(xlabel="peak memory, of no checkpointing", title=title)
    axes.margins(0.1)


def add_model_legend(axes, **where):
    for key in COLUMNS:
        label, colour, _ = SIDES[key]
        axes.plot([], [], "P", color=colour, label=label)
    for variant, marker in MARKERS.items():
        if not variant.startswith("scope"):
            axes.plot([], [], marker, color="grey", label=variant)
    axes.legend(**where)


def draw_models(results, folder):
    figure, all_axes = plt.subplots(2, 3, figsize=(11, 7))
    for axes, model in zip(all_axes.flat, results["models"]):
        draw_model(axes, first_of(results, model), model)
        axes.set_ylabel("step time, of no checkpointing")
    last = all_axes.flat[-1]
    last.axis("off")
    add_model_legend(last, loc="center", fontsize=11)
    save(figure, folder, "models")


def draw_overview(results, folder):
    """The one plot of the README."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8))
    draw_overhead_of(left, results, "none")
    left.set(title="what a region costs", ylabel="cost over the floor, us")
    left.legend()
    draw_model(right, first_of(results, "gpt"), "a GPT's training step")
    right.set_ylabel("step time, of no checkpointing")
    add_model_legend(right, loc="upper right", ncols=2, fontsize=8)
    save(figure, folder, "overview")


def of_column(by_side, column):
    side, form = column.split("/")
    return by_side[side][form]


def draw_scaling(results, folder):
    figure, all_axes = plt.subplots(1, 4, figsize=(13, 3.4))
    rows_of = {column: of_column(results["scaling"], column) for column in COLUMNS}
    for axes, what in zip(all_axes, ("regions", "operators", "nesting")):
        for column, by_what in rows_of.items():
            label, colour, marker = SIDES[column]
            draw_fit(axes, by_what[what], lambda row: row["step_us"] / 1e3, label, colour, marker)
        axes.set(xlabel=what if what != "nesting" else "depth of nesting", ylabel="step, ms")
        if what != "nesting":
            axes.set(xscale="log", yscale="log")
        axes.legend()
    for column in OURS:
        label, colour, marker = SIDES[column]
        rows = rows_of[column]["regions"]
        draw_fit(
            all_axes[3], rows, lambda row: row["heap_bytes"] / 1024, label, colour, marker
        )
    all_axes[3].set(xlabel="regions", ylabel="heap after forward, KiB")
    all_axes[3].set(xscale="log", yscale="log")
    all_axes[3].legend()
    save(figure, folder, "scaling")


def draw_fit(axes, rows, what, label, colour, marker):
    sizes = np.array([row["size"] for row in rows], dtype=float)
    fit = linear_fit(rows, what)
    axes.plot(sizes, [what(row) for row in rows], marker, color=colour, markersize=4, label=label)
    axes.plot(sizes, fit.slope * sizes + fit.intercept, color=colour, linewidth=0.8)


def draw_budget_side(axes_got, axes_step, found, side):
    label, colour, marker = BUDGET_SIDES[side]
    entries = {
        float(budget): entry
        for budget, entry in found["sides"][side].items()
        if budget != NO_BUDGET
    }
    good = {budget: entry for budget, entry in entries.items() if not failed(entry)}
    steps = [np.median(step_of_plain(found, entry)) for entry in good.values()]
    peaks = [got(found, entry) for entry in good.values()]
    axes_got.plot(list(good), peaks, marker=marker, color=colour, label=label)
    axes_step.plot(list(good), steps, marker=marker, color=colour, label=label)
    bad = [budget for budget in entries if budget not in good]
    for axes in (axes_got, axes_step):  # at the lower edge
        edge = axes.get_xaxis_transform()
        axes.plot(bad, [0.03] * len(bad), "x", color=colour, transform=edge, clip_on=False)


def draw_budgets(results, folder):
    budgets_of = results["budgets"]
    width = 3.7 * len(budgets_of)
    figure, all_axes = plt.subplots(
        2, len(budgets_of), figsize=(width, 6.4), sharex=True, squeeze=False
    )
    for (model, found), (axes_got, axes_step) in zip(budgets_of.items(), all_axes.T):
        for side in found["sides"]:
            draw_budget_side(axes_got, axes_step, found, side)
        budgets = sorted(float(budget) for budget in found["sides"]["ours"])
        axes_got.plot(budgets, budgets, "--", color="grey", label="as asked for")
        axes_got.set(title=model)
        axes_step.axhline(1, color="grey", linestyle="--")
        axes_step.set(xlabel="budget asked for")
    all_axes[0, 0].set_ylabel("peak, of the plain step")
    all_axes[1, 0].set_ylabel("time, of the plain step")
    all_axes[1, 0].plot([], [], "x", color="grey", label="failed")
    all_axes[0, 0].legend()
    all_axes[1, 0].legend()
    save(figure, folder, "budgets")


def draw_all(results, folder):
    draw_overhead(results, folder)
    draw_models(results, folder)
    draw_overview(results, folder)
    draw_scaling(results, folder)
    if "budgets" in results:
        draw_budgets(results, folder)
