# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""What a picture of a step shows: texts, and rows of data in its units."""

from __future__ import annotations

from typing import Any

from reprise._quantities import byte_unit, bytes_text, largest_unit

__all__ = ["CLASSES", "StepRows", "peak_of", "stretches"]

MOST_MOMENTS = 600  # a picture has not many more columns
MOST_BARS = 40
MOST_AT_PEAK = 12
STACK_LINES = 8

# In the order of MemoryClass, in colours of Okabe and Ito's palette.
CLASSES = [
    ("exists before the step", "#BBBBBB"),
    ("made by backward", "#E69F00"),
    ("retained for backward", "#0072B2"),
    ("recomputed", "#56B4E9"),
    ("other values of forward", "#009E73"),
    ("workspace", "#D55E00"),
]
BEFORE_STEP, WORKSPACE = 0, 5


def _second_unit(largest: float) -> Any:
    return largest_unit(largest, [(1, "s"), (1e-3, "ms"), (1e-6, "us")])


def _in_page(text: str) -> str:
    """Returns `text` such that it ends no script of a page."""
    return text.replace("</", "< /")


def peak_of(timeline: Any) -> Any:
    """Returns the most bytes of a timeline."""
    return sum(timeline["moments"][timeline["peak"]][2])


def stretches(moments: list[Any]) -> Any:
    """Yields moments, of each stretch of time the one with the most bytes."""
    if len(moments) <= MOST_MOMENTS:
        yield from moments
        return
    step = (moments[-1][1] - moments[0][0]) / MOST_MOMENTS or 1
    begin, most = moments[0][0], moments[0]
    for moment in moments:
        if moment[0] >= begin + step:
            yield (begin, moment[0], most[2], most[3])
            begin, most = moment[0], moment
        if sum(moment[2]) > sum(most[2]):
            most = moment
    yield (begin, moments[-1][1], most[2], most[3])


class StepRows:
    """The data of a report (MemoryBudget._picture_data()) in the units of a picture."""

    def __init__(self, report: Any) -> None:
        self.report = report
        self.memory = report["memory"]
        self.plain = report["plain"]
        largest = max(peak_of(self.memory), peak_of(self.plain), report["budget_bytes"] or 0)
        seconds = max(self.memory["moments"][-1][1], self.plain["moments"][-1][1])
        self.byte, self.byte_name = byte_unit(largest)
        self.second, self.second_name = _second_unit(seconds)
        self.right = seconds / self.second
        self.top = 1.12 * largest / self.byte

    def facts(self) -> Any:
        report = self.report
        texts = [f"peak {bytes_text(peak_of(self.memory))}"]
        if report["measured_peak_bytes"] is not None:
            texts[0] += f" (last step: {bytes_text(report['measured_peak_bytes'])})"
        if report["budget_bytes"] is not None:
            texts.append(f"budget {bytes_text(report['budget_bytes'])}")
        if report["max_overhead"] is not None:
            texts.append(f"at most {100 * report['max_overhead']:.4g} % more time")
        texts.append(f"without recomputation {bytes_text(peak_of(self.plain))}")
        return "; ".join(texts)

    def peak(self, timeline: Any) -> Any:
        """Returns time, bytes, in units, and the operator, of a timeline's peak."""
        begin, end, byte_counts, operator = timeline["moments"][timeline["peak"]]
        return 0.5 * (begin + end) / self.second, sum(byte_counts) / self.byte, operator

    def backward(self) -> Any:
        """Returns the time at which backward begins."""
        return self.report["backward_seconds"] / self.second

    def curve(self, timeline: Any) -> Any:
        """Returns rows for each class of memory at each moment."""
        rows = []
        for begin, end, byte_counts, operator in stretches(timeline["moments"]):
            total = sum(byte_counts)
            for number, count in enumerate(byte_counts):
                rows.append(
                    {
                        "time": begin / self.second,
                        "end": end / self.second,
                        "memory": count / self.byte,
                        "total": bytes_text(total),
                        "bytes": bytes_text(count),
                        "sum": total / self.byte,
                        "class": CLASSES[number][0],
                        "order": number,
                        "operator": operator,
                    }
                )
        # A step goes on to the end of its last moment.
        return rows + [row | {"time": row["end"]} for row in rows[-len(CLASSES) :]]

    def _bar(self, residence: Any) -> Any:
        value, memory_class, first, last, count = residence
        label, operator, stack = self.report["values"][value]
        begin = self.memory["moments"][first][0] / self.second
        end = self.memory["moments"][last][1] / self.second
        lines = stack.strip().splitlines()[-STACK_LINES:]
        return {
            "label": _in_page(f"{label}, {bytes_text(count)}"),
            "operator": _in_page(operator),
            "class": CLASSES[memory_class][0],
            "begin": begin,
            "end": end,
            "from": f"{begin:.4g} {self.second_name}",
            "to": f"{end:.4g} {self.second_name}",
            "count": count,
            "bytes": bytes_text(count),
            "stack": _in_page("\n".join(lines)),
            "cost": count * (end - begin),
        }

    def _sum_bar(self, memory_class: Any, label: str, count: int) -> Any:
        return {
            "label": f"{label}, {bytes_text(count)}",
            "operator": "",
            "class": CLASSES[memory_class][0],
            "count": count,
            "bytes": bytes_text(count),
            "stack": "",
        }

    def values(self) -> Any:
        """Returns a title, and rows for the values of the most bytes and time."""
        values: dict[Any, Any] = {}
        for each in self.memory["residences"]:
            if each[1] != BEFORE_STEP:
                values.setdefault(each[0], []).append(self._bar(each))
        costs = {value: sum(part["cost"] for part in parts) for value, parts in values.items()}
        shown = sorted(costs, key=lambda value: -costs[value])[:MOST_BARS]
        title = "When values are in memory: the largest by bytes and time"
        if len(shown) < len(values):
            share = 100 - 100 * sum(costs[value] for value in shown) / (sum(costs.values()) or 1)
            title += (
                f" ({len(values) - len(shown)} more, {share:.3g} % of bytes and time, are left out)"
            )
        shown.sort(key=lambda value: values[value][0]["begin"])
        rows = [part | {"row": row} for row, value in enumerate(shown) for part in values[value]]
        return title, rows

    def at_peak(self) -> Any:
        """Returns a title, and rows for the largest values in memory at the peak."""
        peak = self.memory["peak"]
        _, _, byte_counts, operator = self.memory["moments"][peak]
        there = [each for each in self.memory["residences"] if each[2] <= peak <= each[3]]
        bars = [self._bar(each) for each in there if each[1] != BEFORE_STEP]
        before = f"{len(there) - len(bars)} values from before the step"
        for number, label in ((BEFORE_STEP, before), (WORKSPACE, "workspace")):
            if byte_counts[number] > 0:
                bars.append(self._sum_bar(number, label, byte_counts[number]))
        bars.sort(key=lambda bar: -bar["count"])
        rest, bars = bars[MOST_AT_PEAK:], bars[:MOST_AT_PEAK]
        title = f"In memory at the peak, at {operator}: the largest values"
        if rest:
            left = bytes_text(sum(bar["count"] for bar in rest))
            title += f" ({len(rest)} more, of {left}, are left out)"
        rows = [
            bar | {"row": row, "memory": bar["count"] / self.byte} for row, bar in enumerate(bars)
        ]
        return title, rows
