# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""What tables and plots say, computed from the results of run.py."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

LENGTHS = (1, 4, 16, 64)  # of the chains that both sides run
SHORT, LONG = LENGTHS[0], LENGTHS[-1]  # whose difference gives the cost of an operator
DEPTHS = (1, 2, 4, 8)
NESTED_LENGTH = 8
POLICIES = ("none", "recompute", "save")

# What tables and plots set beside each other: Python, and ours in both forms.
PYTHON = "python/function"
OURS = ("ours/function", "ours/scope")
COLUMNS = (PYTHON, *OURS)

# Which columns take turns: regions around chains, by policy, and regions within regions.
GROUPS = {
    "chain/none": (*COLUMNS, "python/reentrant"),
    "chain/recompute": COLUMNS,
    "chain/save": COLUMNS,
    "nested/none": COLUMNS,
}

CONFIDENCE = 0.95
WIDEST = 0.1  # of the median: the interval of a ratio that is printed
NOT_STEADY = "not steady"


def outside_interval(count):
    """How many of the least, and of the greatest, means of two of `count` values to leave out.

    By the exact distribution of Wilcoxon's signed-rank statistic; -1 where even all of them are
    less than the interval, as they are with fewer than six values.
    """
    chances = np.ones(1)  # of each sum of the ranks whose coin shows heads
    for rank in range(1, count + 1):
        shifted = np.zeros(len(chances) + rank)
        shifted[rank:] = chances
        shifted[: len(chances)] += chances
        chances = shifted / 2
    return int(np.searchsorted(2 * np.cumsum(chances), 1 - CONFIDENCE, side="right")) - 1


@dataclass
class Estimate:
    """What values are in the middle, and the 95 % interval of that: Hodges and Lehmann's estimator.

    It is the median of the means of all pairs, of a value with itself too: as little moved by some
    that are far off as the median, and as well known as the mean where there are two heaps of them,
    as processes make whose memory lies well or badly for a cache.
    """

    middle: float
    low: float
    high: float
    is_known: bool

    @classmethod
    def of(cls, values):
        values = np.asarray(values, dtype=float)
        pairs = np.triu_indices(len(values))
        means = np.sort((values[pairs[0]] + values[pairs[1]]) / 2)
        outside = outside_interval(len(values))
        low, high = means[max(outside, 0)], means[len(means) - 1 - max(outside, 0)]
        return cls(float(np.median(means)), float(low), float(high), outside >= 0)

    @property
    def is_steady(self):
        return self.is_known and self.high - self.low <= WIDEST * abs(self.middle)

    def text(self, digits):
        return f"{self.middle:.{digits}f} ({self.low:.{digits}f}-{self.high:.{digits}f})"

    def ratio_text(self, digits):
        """For a ratio, which is printed only if it is known."""
        return self.text(digits) if self.is_steady else NOT_STEADY

    def part_text(self, interval=True):
        """As a part of Python's, for the ratio of Python's cost to ours."""
        if not self.is_steady:
            return NOT_STEADY
        part = f"1/{self.middle:.1f}"
        return f"{part} ({self.low:.1f}-{self.high:.1f})" if interval else part


def over_floor(results, group, column, size):
    """Microseconds, of each round of each process. All columns of a group have the same rounds."""
    return [np.array(found[group][column][str(size)]) for found in results["overhead"]]


def operator_cost(results, policy, column):
    """Of one more operator that saves a tensor, of each round of each process."""
    short, long = (
        over_floor(results, f"chain/{policy}", column, length) for length in (SHORT, LONG)
    )
    return [(more - less) / (LONG - SHORT) for less, more in zip(short, long)]


def region_cost(results, policy, column):
    """Of a region alone, less the operators in it; of each round of each process."""
    short = over_floor(results, f"chain/{policy}", column, SHORT)
    operators = operator_cost(results, policy, column)
    return [cost - SHORT * operator for cost, operator in zip(short, operators)]


def estimate(rounds):
    """Of what each round of each process has found: one figure a process, the median of its rounds."""
    return Estimate.of([np.median(found) for found in rounds])


def estimate_ratio(theirs, ours):
    """Of the ratios of each round: whatever slows one round down slows both of its sides."""
    return estimate([first / second for first, second in zip(theirs, ours)])


@dataclass(frozen=True)
class Cost:
    """Of which ours is to be a small part of Python's."""

    what: str
    function: Callable  # of results, policy and column
    policy: str
    instructions: str  # what the counts call it
    target: int  # ours is to be at most this part of Python's

    def rounds(self, results, column):
        return self.function(results, self.policy, column)

    def of(self, results, column):
        return estimate(self.rounds(results, column))

    def ratio(self, results, column):
        """How many times ours Python's is."""
        return estimate_ratio(self.rounds(results, PYTHON), self.rounds(results, column))

    def counted(self, results, column):
        counts = results["instructions"]["side_by_side"][column]
        return counts[f"{self.policy}: {self.instructions}"]


COSTS = (
    Cost("a region, over its floor", region_cost, "none", "a region", 20),
    Cost("a region under a policy", region_cost, "recompute", "a region", 20),
    Cost("one more saved tensor in a region", operator_cost, "none", "an operator", 12),
    Cost(
        "one more operator under a policy that recomputes",
        operator_cost,
        "recompute",
        "an operator",
        25,
    ),
    Cost("one more operator under a policy that saves", operator_cost, "save", "an operator", 25),
)


def overhead_ratios(results):
    """All ratios of these costs that are printed."""
    return [cost.ratio(results, column) for cost in COSTS for column in OURS]


def step_ratio(variants, variant, to):
    """Of the steps of one variant to those of the same rounds of another."""
    return Estimate.of(np.array(variants[variant]["step_ms"]) / np.array(variants[to]["step_ms"]))


# Whose steps have another floor than "floor".
FLOORS = {"scope": "floor, one graph", "scope+selective": "floor, one graph"}


def floor_of(variant):
    return FLOORS.get(variant, "floor")


FORMS = ("full", "scope")  # of a region without a policy


def is_within_a_hundredth(found):
    """Whether the steps of both forms are known to a hundredth of their floors."""
    ratios = [step_ratio(found["variants"], form, floor_of(form)) for form in FORMS]
    return all(r.is_known and r.high - r.low < 0.01 * r.middle for r in ratios)


def variants_of_both(both):
    """(Python's, ours) of each variant that both sides have; a scope's is the one of its policy."""
    theirs = both["python"]["variants"]
    for name, ours in both["ours"]["variants"].items():
        counterpart = "full" if name == "scope" else name.removeprefix("scope+")
        if "peak_bytes" in ours and counterpart in theirs and name != "none":
            yield theirs[counterpart], ours


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
