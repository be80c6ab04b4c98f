# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""What tables and plots say, computed from the results of run.py."""

from dataclasses import dataclass

import numpy as np

LENGTHS = (1, 4, 16, 64, 256)  # of the chains that both sides run
SHORT, LONG = LENGTHS[0], LENGTHS[-1]  # whose difference gives the cost of an operator

# What tables and plots set beside each other: side and form.
COLUMNS = (("python", "function"), ("ours", "function"), ("ours", "scope"))


@dataclass
class Figure:
    """A median and how far the middle half, or all where there are few, lies about it."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values):
        values = np.asarray(values)
        few = len(values) < 8
        low, high = np.percentile(values, [0, 100] if few else [25, 75])
        return cls(float(np.median(values)), float(low), float(high))

    def text(self, digits):
        return f"{self.median:.{digits}f} ({self.low:.{digits}f}-{self.high:.{digits}f})"


def over_floor(results, side, case):
    """Microseconds, one figure a round."""
    return np.array([found[case]["over_floor_us"] for found in results["overhead"][side]])


def operator_cost(results, side, form):
    """Of one more operator that saves a tensor; `form` as "function/none". One figure a round."""
    long = over_floor(results, side, f"chain/{form}/{LONG}")
    return (long - over_floor(results, side, f"chain/{form}/{SHORT}")) / (LONG - SHORT)


def region_cost(results, side, form):
    """Of a region alone, less the operators in it. One figure a round."""
    short = over_floor(results, side, f"chain/{form}/{SHORT}")
    return short - SHORT * operator_cost(results, side, form)


def step_ratio(variants, variant, to):
    """Of the steps of one variant to those of the same rounds of another."""
    steps = np.array(variants[variant]["step_ms"]) / np.array(variants[to]["step_ms"])
    return Figure.of(steps)


def bytes_ratio(variants, variant, what):
    return variants[variant][what] / variants["none"][what]


@dataclass
class Fit:
    """A line through sizes and costs."""

    slope: float
    intercept: float
    r_squared: float


def linear_fit(rows, what):
    """`what` computes a row's cost. Errors count in proportion to the cost, for all but tiny ones."""
    sizes = np.array([row["size"] for row in rows], dtype=float)
    costs = np.array([what(row) for row in rows], dtype=float)
    slope, intercept = np.polyfit(sizes, costs, 1, w=1 / np.maximum(costs, costs.max() / 100))
    residuals = costs - (slope * sizes + intercept)
    r_squared = 1 - np.sum(residuals**2) / np.sum((costs - costs.mean()) ** 2)
    return Fit(float(slope), float(intercept), float(r_squared))


def first_of(results, model):
    """The figures with the fewest threads."""
    return next(iter(results["models"][model].values()))
