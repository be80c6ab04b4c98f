# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""The plots of docs/benchmarks.md, each as PNG and as SVG."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
from budget_report import SIDES as BUDGET_SIDES  # noqa: E402
from budget_report import failed, got, is_without_budget, step_of_plain  # noqa: E402
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
        costs = [estimate(over_floor(results, group, column, length)).middle for length in LENGTHS]
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
        draw_fit(all_axes[3], rows, lambda row: row["heap_bytes"] / 1024, label, colour, marker)
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
    """Hollow: the gradients are others than without a budget."""
    label, colour, marker = BUDGET_SIDES[side]
    entries = {float(budget): entry for budget, entry in found["sides"][side].items()}
    good = {budget: entry for budget, entry in entries.items() if not failed(entry)}
    peaks = [got(found, entry) for entry in good.values()]
    steps = [np.median(step_of_plain(found, entry)) for entry in good.values()]
    for axes, x, y in ((axes_got, list(good), peaks), (axes_step, peaks, steps)):
        axes.plot(x, y, color=colour, linewidth=1)
        for at_x, at_y, entry in zip(x, y, good.values()):
            face = colour if is_without_budget(side, entry) else "white"
            axes.plot(at_x, at_y, marker, color=colour, markerfacecolor=face)
        axes.plot([], [], marker=marker, color=colour, label=label)
    bad = [budget for budget in entries if budget not in good]
    edge = axes_got.get_xaxis_transform()  # at the lower edge
    axes_got.plot(bad, [0.03] * len(bad), "x", color=colour, transform=edge)


def draw_budgets(results, folder):
    """Above: the peak got, by the budget asked for. Below: the step's time, by the peak got."""
    models = results["models"]
    size, heights = (3.7 * len(models), 7.4), (1, 1, 0.2)
    figure, all_axes = plt.subplots(
        3, len(models), figsize=size, height_ratios=heights, squeeze=False
    )
    for (model, found), (axes_got, axes_step, below) in zip(models.items(), all_axes.T):
        below.axis("off")  # the legend's place
        axes_got.plot([0, 1], [0, 1], "--", color="grey", label="as asked for")
        axes_step.plot(1, 1, "*", color="black", markersize=10, label="plain eager step")
        for side in found["sides"]:
            draw_budget_side(axes_got, axes_step, found, side)
        axes_got.set(title=model, xlabel="budget asked for", xlim=(0.1, 1.05), ylim=(0, 1.1))
        axes_step.set(xlabel="peak got, of the plain step", xlim=(0.1, 1.05))
    all_axes[0, 0].set_ylabel("peak got, of the plain step")
    all_axes[1, 0].set_ylabel("time, of the plain step")
    add_budget_legend(figure, *all_axes[:2, 0])
    save(figure, folder, "budgets")


def add_budget_legend(figure, axes_got, axes_step):
    axes_got.plot([], [], "o", color="grey", markerfacecolor="white", label="other gradients")
    axes_got.plot([], [], "x", color="grey", label="failed")
    by_label = {
        label: handle
        for axes in (axes_got, axes_step)
        for handle, label in zip(*axes.get_legend_handles_labels())
    }
    figure.legend(by_label.values(), by_label.keys(), loc="lower center", ncols=4)


def draw_all(results, folder):
    draw_overhead(results, folder)
    draw_models(results, folder)
    draw_overview(results, folder)
    draw_scaling(results, folder)
