# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""The profile of a program as a page that needs no network."""

from __future__ import annotations

import html
import os
import pathlib
from collections.abc import Sequence
from typing import Any

from reprise._largest_batch import batch_rows, batch_title
from reprise._quantities import byte_unit, bytes_text
from reprise._saved import SavedTensors

__all__ = ["write_page"]

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 720, 300, 70, 45
_MOST_ROWS = 200
_STYLE = """
body { font: 14px sans-serif; margin: 2em; color: #222 }
table { border-collapse: collapse; margin: 1em 0 }
td, th { padding: 2px 12px 2px 0; text-align: left; border-bottom: 1px solid #E4E4E4 }
td.number { text-align: right }
svg text { font: 12px sans-serif; fill: #444 }
"""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: int) -> str:
    """Returns a table whose first columns are numbers."""
    lines = ["<table><tr>", *(f"<th>{html.escape(text)}</th>" for text in head), "</tr>"]
    for row in rows:
        cells = (
            f"<td{' class=number' if i < numbers else ''}>{html.escape(text)}</td>"
            for i, text in enumerate(row)
        )
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return "".join(lines) + "</table>"


def _bill(bill: SavedTensors) -> str:
    columns = ("module", "region", "node", "operator", "kind")
    sums = list(bill.bytes_by(*columns).items())
    total = max(1, bill.total_bytes)
    rows = [
        (bytes_text(size), f"{size / total:.1%}", *values) for values, size in sums[:_MOST_ROWS]
    ]
    by_module = [
        (bytes_text(size), f"{size / total:.1%}", module or "-")
        for module, size in bill.bytes_by("module").items()
    ]
    return (
        f"<h2>Saved for backward: {bytes_text(bill.total_bytes)}</h2>"
        + _table(("bytes", "part", "module"), by_module[:_MOST_ROWS], 2)
        + _table(("bytes", "part", *columns), rows, 2)
    )


def _curve(frontier: dict[str, Any]) -> str:
    """Returns a picture of the time of steps against their peaks."""
    points = [(each["peak_bytes"], each["seconds"]) for each in frontier["frontier"]]
    plain = frontier["plain_seconds"]
    size, unit = byte_unit(frontier["plain_peak_bytes"])
    right = 1.05 * max(frontier["plain_peak_bytes"], *(point[0] for point in points))
    top = 1.1 * max(0.1, *(seconds / plain - 1 for _, seconds in points))

    def place(peak: float, more: float) -> str:
        x = _LEFT + (_WIDTH - _LEFT) * peak / right
        return f"{x:.1f},{(_HEIGHT - _BOTTOM) * (1 - max(0, more) / top):.1f}"

    places = [place(peak, seconds / plain - 1) for peak, seconds in points]
    axis = _HEIGHT - _BOTTOM
    ticks = "".join(
        f'<text x="{_LEFT + (_WIDTH - _LEFT) * i / 5:.0f}" y="{axis + 18}" text-anchor="middle">'
        f"{right * i / 5 / size:.3g}</text>"
        f'<text x="{_LEFT - 8}" y="{axis * (1 - i / 5) + 4:.0f}" text-anchor="end">'
        f"{top * i / 5:.0%}</text>"
        for i in range(6)
    )
    dots = "".join(
        '<circle r="4" fill="#0072B2" cx="{}" cy="{}"/>'.format(*each.split(",")) for each in places
    )
    return (
        f'<svg width="{_WIDTH + 20}" height="{_HEIGHT}" xmlns="http://www.w3.org/2000/svg">'
        f'<path d="M{_LEFT},0V{axis}H{_WIDTH}" fill="none" stroke="#444"/>{ticks}'
        f'<polyline points="{" ".join(places)}" fill="none" stroke="#0072B2"/>{dots}'
        f'<text x="{_WIDTH}" y="{_HEIGHT - 8}" text-anchor="end">peak of a step ({unit})</text>'
        f'<text x="{_LEFT + 8}" y="14">more time than a plain step</text></svg>'
    )


def _batches(largest: dict[str, Any]) -> str:
    title = batch_title(largest)
    return f"<h2>{html.escape(title[0].upper() + title[1:])}</h2>" + _table(
        ("allowed time", "batch", "more time", "peak"), batch_rows(largest), 4
    )


def write_page(
    path: str,
    bill: SavedTensors,
    frontier: dict[str, Any] | None,
    largest: dict[str, Any] | None = None,
) -> None:
    """Writes an .html file.

    Args:
        path: of the file, which is replaced as a whole.
        bill: what is saved for backward.
        frontier: of memory and time; None: not known.
        largest: batches that fit; None: not known.
    """
    parts = [f"<!DOCTYPE html><meta charset=utf-8><title>Profile</title><style>{_STYLE}</style>"]
    if frontier is not None:
        plain_bytes, plain = frontier["plain_peak_bytes"], frontier["plain_seconds"]
        rows = [
            (
                bytes_text(each["peak_bytes"]),
                f"{each['peak_bytes'] / plain_bytes:.1%}",
                f"{each['seconds'] / plain - 1:.1%}",
                f"{max(0.0, each['bound_seconds'] / plain - 1):.1%}",
            )
            for each in frontier["frontier"]
        ]
        head = ("budget", "of the plain peak", "more time", "no plan has less than")
        parts += ["<h2>What less memory costs</h2>", _curve(frontier), _table(head, rows, 4)]
        smallest = frontier["frontier"][0]["peak_bytes"]
        parts.append(f"<p>The smallest budget that holds: {bytes_text(smallest)}.</p>")
    if largest is not None:
        parts.append(_batches(largest))
    parts.append(_bill(bill))
    target = pathlib.Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    temporary.write_text("\n".join(parts), encoding="utf-8")
    os.replace(temporary, target)
