# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""The plots of docs/benchmarks.md, each as PNG and as SVG."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
from budget_report import SIDES as BUDGET_SIDES  # noqa: E402
from budget_report import failed, got, is_without_budget, step_of_plain  # noqa: E402
from figures import (
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
from matplotlib.ticker import LogLocator, NullFormatter  # noqa: E402

# Of Okabe and Ito's palette, which colour-blind readers can tell apart; markers differ as well.
SIDES = {
    "python/function": ("Python", "#D55E00", "o"),
    "python/reentrant": ("Python, reentrant", "#E69F00", "^"),
    "ours/function": ("Reprise", "#0072B2", "s"),
    "ours/scope": ("Reprise, scope", "#009E73", "D"),
}
BUDGET_STYLES = {
    "aot_eager": ("#E69F00", "^"),
    "inductor": ("#CC79A7", "o"),
    "ours": ("#0072B2", "s"),
}

WIDTH = 9  # inches, shown as some 830 pixels: a point of text is 1.3 of them

plt.rcParams.update(
    {
        "font.size": 10,
        "axes.grid": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 11,
        "grid.alpha": 0.3,
        "legend.frameon": False,
        "lines.markersize": 6,
        "svg.hashsalt": "0",
    }
)


def save(figure, folder, name, below=0):
    """`below` inches at the lower edge are left for a legend."""
    figure.tight_layout(rect=(0, below / figure.get_figheight(), 1, 1))
    figure.savefig(folder / f"{name}.png", dpi=130)
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)


def add_side_legend(figure, columns):
    handles = [
        plt.Line2D([], [], color=colour, marker=marker, label=label)
        for label, colour, marker in (SIDES[column] for column in columns)
    ]
    figure.legend(handles=handles, loc="lower center", ncols=len(handles))


def draw_overhead_of(axes, results, policy):
    group = f"chain/{policy}"
    for column in GROUPS[group]:
        _, colour, marker = SIDES[column]
        costs = [estimate(over_floor(results, group, column, length)).middle for length in LENGTHS]
        shown = [(length, cost) for length, cost in zip(LENGTHS, costs) if cost > 0]
        axes.plot(*zip(*shown), marker=marker, color=colour)
    axes.set(xscale="log", yscale="log", xlabel="operators in the region")
    axes.set_xticks(LENGTHS, LENGTHS)
    axes.set_xticks([], minor=True)
    axes.yaxis.set_major_formatter("{x:,g}")


def draw_overhead(results, folder):
    figure, all_axes = plt.subplots(1, 3, figsize=(WIDTH, 3.6), sharey=True)
    titles = ("no policy", "policy: recompute all", "policy: save all")
    for axes, policy, title in zip(all_axes, POLICIES, titles, strict=True):
        draw_overhead_of(axes, results, policy)
        axes.set_title(title)
    all_axes[0].set_ylabel("cost over the floor (us)")
    add_side_legend(figure, SIDES)
    save(figure, folder, "overhead", below=0.3)


VARIANTS = ("full", "selective", "every-2nd-matmul", "nested")


def variant_columns(both, variant):
    """Yields each column that has the variant, with its peak and its step, of no checkpointing."""
    for column in COLUMNS:
        side, form = column.split("/")
        variants = both[side]["variants"]
        name = variant
        if form == "scope":
            name = "scope" if variant == "full" else f"scope+{variant}"
        if "step_ms" in variants.get(name, {}):
            step = step_ratio(variants, name, "none").middle
            yield column, bytes_ratio(variants, name, "peak_bytes"), step


def draw_model_row(step_axes, peak_axes, both, model):
    """A line per variant, and on it, below each other, the sides."""
    height = 0.26
    for place, variant in enumerate(VARIANTS):
        for column, peak, step in variant_columns(both, variant):
            _, colour, marker = SIDES[column]
            y = place + (COLUMNS.index(column) - 1) * height
            for axes, x in ((step_axes, step), (peak_axes, peak)):
                axes.plot(x, y, marker, color=colour, markersize=5)
    step_axes.set_yticks(range(len(VARIANTS)), VARIANTS)
    step_axes.set_ylim(len(VARIANTS) - 0.5, -0.5)
    step_axes.set_title(model, loc="left", fontweight="bold")


def draw_models(results, folder):
    models = results["models"]
    figure, all_axes = plt.subplots(
        len(models), 2, figsize=(WIDTH, 1.65 * len(models) + 0.8), sharex="col", sharey="row"
    )
    for model, (step_axes, peak_axes) in zip(models, all_axes):
        draw_model_row(step_axes, peak_axes, first_of(results, model), model)
    all_axes[-1, 0].set(xlabel="step time, of no checkpointing", xlim=(1, None))
    all_axes[-1, 1].set(xlabel="peak memory, of no checkpointing", xlim=(0, 1))
    add_side_legend(figure, COLUMNS)
    save(figure, folder, "models", below=0.3)


def draw_trade(axes, both):
    """Step time by peak memory, with the variants' names beside what all sides have of each."""
    for variant in VARIANTS:
        points = list(variant_columns(both, variant))
        for column, peak, step in points:
            _, colour, marker = SIDES[column]
            axes.plot(peak, step, marker, color=colour, markersize=7, alpha=0.85)
        right = max(peak for _, peak, _ in points)
        at = (right, np.mean([step for _, _, step in points]))
        axes.annotate(variant, at, xytext=(9, 0), textcoords="offset points", va="center")
    axes.plot(1, 1, "*", color="black", markersize=11)
    axes.annotate(
        "none", (1, 1), xytext=(-10, 0), textcoords="offset points", ha="right", va="center"
    )
    axes.set(xlabel="peak memory, of no checkpointing", ylabel="step time, of no checkpointing")
    axes.margins(0.08)


def draw_overview(results, folder):
    """The one plot of the README."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 4))
    draw_overhead_of(left, results, "none")
    left.set(title="A region's cost", ylabel="cost over the floor (us)")
    draw_trade(right, first_of(results, "gpt"))
    right.set_title("A GPT's training step, by what is saved")
    add_side_legend(figure, SIDES)
    save(figure, folder, "overview", below=0.3)


def of_column(by_side, column):
    side, form = column.split("/")
    return by_side[side][form]


def draw_growth(axes, rows, what, column):
    """What one of `size` costs: level if growth is linear. Below ten, the fixed cost is most."""
    _, colour, marker = SIDES[column]
    shown = [(row["size"], row[what] / row["size"]) for row in rows if row["size"] >= 10]
    axes.plot(*zip(*shown), marker=marker, color=colour)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:,.0f}")


def draw_nesting(axes, rows, column):
    _, colour, marker = SIDES[column]
    sizes = np.array([row["size"] for row in rows], dtype=float)
    fit = linear_fit(rows, lambda row: row["step_us"] / 1e3)
    axes.plot(sizes, [row["step_us"] / 1e3 for row in rows], marker, color=colour)
    axes.plot(sizes, fit.slope * sizes + fit.intercept, color=colour, linewidth=1)


def draw_scaling(results, folder):
    figure, ((regions, operators), (nesting, heap)) = plt.subplots(2, 2, figsize=(WIDTH, 6.4))
    for column in COLUMNS:
        rows = of_column(results["scaling"], column)
        draw_growth(regions, rows["regions"], "step_us", column)
        draw_growth(operators, rows["operators"], "step_us", column)
        draw_nesting(nesting, rows["nesting"], column)
        if column in OURS:
            draw_growth(heap, rows["regions"], "heap_bytes", column)
    for axes in (regions, operators):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_formatter(NullFormatter())
    for axes in (regions, operators, heap):
        axes.yaxis.set_major_formatter("{x:,g}")
    regions.set(title="Regions in a row", xlabel="regions", ylabel="step, per region (us)")
    operators.set(
        title="A long region", xlabel="operators in the region", ylabel="step, per operator (us)"
    )
    nesting.set(title="Nested regions, with lines fitted", xlabel="depth", ylabel="step (ms)")
    heap.set(title="Heap after forward", xlabel="regions", ylabel="bytes, per region")
    for axes in (nesting, heap):
        axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
    add_side_legend(figure, COLUMNS)
    save(figure, folder, "scaling", below=0.3)


def draw_budget_side(axes_got, axes_step, found, side):
    """Hollow: the gradients are others than without a budget."""
    colour, marker = BUDGET_STYLES[side]
    entries = {float(budget): entry for budget, entry in found["sides"][side].items()}
    good = {budget: entry for budget, entry in entries.items() if not failed(entry)}
    peaks = [got(found, entry) for entry in good.values()]
    steps = [np.median(step_of_plain(found, entry)) for entry in good.values()]
    for axes, x, y in ((axes_got, list(good), peaks), (axes_step, peaks, steps)):
        axes.plot(x, y, color=colour, linewidth=1)
        for at_x, at_y, entry in zip(x, y, good.values()):
            face = colour if is_without_budget(side, entry) else "white"
            axes.plot(at_x, at_y, marker, color=colour, markerfacecolor=face)
    bad = [budget for budget in entries if budget not in good]
    edge = axes_got.get_xaxis_transform()  # at the lower edge
    axes_got.plot(bad, [0.03] * len(bad), "x", color=colour, transform=edge)


def draw_budgets(results, folder):
    """Above: the peak got, by the budget asked for. Below: the step's time, by the peak got."""
    models = results["models"]
    figure, all_axes = plt.subplots(2, len(models), figsize=(WIDTH, 6.6), squeeze=False)
    for (model, found), (axes_got, axes_step) in zip(models.items(), all_axes.T):
        axes_got.plot([0, 1], [0, 1], "--", color="grey")
        axes_step.plot(1, 1, "*", color="black", markersize=11)
        for side in found["sides"]:
            draw_budget_side(axes_got, axes_step, found, side)
        axes_got.set_title(model, fontweight="bold")
        axes_got.set(xlabel="budget asked for", xlim=(0.1, 1.05), ylim=(0, 1.1))
        axes_step.set(xlabel="peak got, of the plain step", xlim=(0.1, 1.05))
        for axes in (axes_got, axes_step):
            axes.set_xticks(np.arange(0.2, 1.1, 0.2))
    all_axes[0, 0].set_ylabel("peak got, of the plain step")
    all_axes[1, 0].set_ylabel("time, of the plain step")
    add_budget_legend(figure)
    save(figure, folder, "budgets", below=0.55)


def add_budget_legend(figure):
    hollow = {"marker": "o", "markerfacecolor": "white"}
    handles = [
        plt.Line2D([], [], color=colour, marker=marker, label=BUDGET_SIDES[side])
        for side, (colour, marker) in BUDGET_STYLES.items()
    ]
    handles += [
        plt.Line2D([], [], color="black", linestyle="", marker="*", label="plain eager step"),
        plt.Line2D([], [], color="grey", linestyle="--", label="as asked for"),
        plt.Line2D([], [], color="grey", linestyle="", label="other gradients", **hollow),
        plt.Line2D([], [], color="grey", linestyle="", marker="x", label="failed"),
    ]
    figure.legend(handles=handles, loc="lower center", ncols=4)


def draw_all(results, folder):
    draw_overhead(results, folder)
    draw_models(results, folder)
    draw_overview(results, folder)
    draw_scaling(results, folder)
