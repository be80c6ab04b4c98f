# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Draws frontier.svg from frontier.json, which measure_frontier.py writes.

    python docs/pictures/draw_frontier.py

with matplotlib, as in the environment that tools/bench makes.
"""

import json
import pathlib

import matplotlib
import numpy as np

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402

HERE = pathlib.Path(__file__).parent

# Of Okabe and Ito's palette, which colour-blind readers can tell apart.
BLUE, VERMILION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"

# Name in frontier.json: label, colour, marker, and where the label is, in points from the marker.
BASELINES = {
    "plain": ("plain step", "black", "*", (-10, 10), "right"),
    "full": ("each block\na region", VERMILION, "o", (11, 0), "left"),
    "full, scopes": ("each block\na scope", GREEN, "D", (-11, 0), "right"),
    "selective": ("regions that\nsave matmuls", ORANGE, "s", (11, 0), "left"),
}


def extra_percent(results, name):
    """The median of the ratios to the plain step of the same round, and their quartiles."""
    measured = results["measured"]
    ratios = np.array(measured[name]["seconds"]) / np.array(measured["plain"]["seconds"])
    return 100 * (np.quantile(ratios, (0.25, 0.5, 0.75)) - 1)


def part_of_peak(results, name):
    measured = results["measured"]
    return measured[name]["peak_bytes"] / measured["plain"]["peak_bytes"]


def draw_planned(axes, planned):
    before, plain = planned["bytes_before_step"], planned["plain"]
    frontier = planned["frontier"]
    parts = [(entry["peak_bytes"] - before) / (plain["peak_bytes"] - before) for entry in frontier]
    extra = [100 * (entry["seconds"] / plain["seconds"] - 1) for entry in frontier]
    bound = [max(0, 100 * (entry["bound_seconds"] / plain["seconds"] - 1)) for entry in frontier]
    # Between two budgets the bound of the larger one holds, and the plan of the smaller one.
    axes.fill_between(
        parts, bound, step="pre", color="#D9D9D9", label="certified bound: no plan is below"
    )
    axes.step(parts, bound, where="pre", color="#666666", linewidth=1.2, linestyle="--")
    axes.step(parts, extra, where="post", color=BLUE, linewidth=1.5, label="planned frontier")


def draw_measured(axes, results):
    for name in results["measured"]:
        part = part_of_peak(results, name)
        low, middle, high = extra_percent(results, name)
        label, colour, marker, offset, side = BASELINES.get(
            name, (name.removeprefix("budget "), BLUE, "o", (8, 7), "left")
        )
        bars = [[middle - low], [high - middle]]
        axes.errorbar(
            part, middle, bars, fmt=marker, color=colour, markersize=8, clip_on=False, zorder=3
        )
        axes.annotate(
            label, (part, middle), offset, textcoords="offset points", ha=side, va="center"
        )


def main():
    results = json.loads((HERE / "frontier.json").read_text())
    plt.rcParams.update({"font.size": 10, "svg.hashsalt": "0"})
    figure, axes = plt.subplots(figsize=(9, 4.6))
    draw_planned(axes, results["planned"])
    axes.plot([], [], "o", color=BLUE, markersize=8, label="measured within a budget of this part")
    draw_measured(axes, results)
    axes.set(xlabel="peak memory, of the plain step", ylabel="extra time of a step (%)")
    axes.set_ylim(0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(HERE / "frontier.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
