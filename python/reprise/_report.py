# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""The memory of a step within a budget, and saved tensors, as pictures, drawn by altair."""

from __future__ import annotations

import json
import os
import pathlib
import warnings
from typing import Any

from reprise._quantities import byte_unit, bytes_text
from reprise._report_rows import CLASSES, StepRows, peak_of

__all__ = ["write_bill", "write_picture"]

_FORMATS = {".html": "html", ".svg": "svg"}
_WIDTH = 860
_LABEL_WIDTH = 260
_DARK, _RED = "#444444", "#D55E00"


def _import_altair() -> Any:
    try:
        import altair
        import vl_convert  # noqa: F401, by which altair writes files
    except ImportError as error:
        raise ImportError(
            "a report is drawn with altair and vl-convert-python, of which one is missing: "
            "pip install 'reprise-torch[report]'"
        ) from error
    return altair


class _Picture:
    def __init__(self, report: Any) -> None:
        self.alt = _import_altair()
        self.rows = StepRows(report)
        names, colors = zip(*CLASSES, strict=True)
        self.color = self.alt.Color(
            "class:N",
            scale=self.alt.Scale(domain=names, range=colors),
            legend=self.alt.Legend(orient="bottom", title=None, labelLimit=0, columns=6),
        )

    def chart(self) -> Any:
        alt = self.alt
        title, values = self.rows.values()
        over_time = alt.vconcat(
            self._memory_panel(),
            self._bar_panel(title, values, self._time("begin"), x2="end:Q"),
            spacing=28,
        ).add_params(alt.selection_interval(bind="scales", encodings=["x"]))
        title, values = self.rows.at_peak()
        bytes_axis = alt.X("memory:Q", title=f"bytes ({self.rows.byte_name})")
        at_peak = self._bar_panel(title, values, bytes_axis)
        return (
            alt.vconcat(over_time, at_peak, spacing=28)
            .properties(title=self._title())
            .resolve_scale(color="shared")
            .configure_view(strokeOpacity=0)
            .configure_axis(labelFontSize=11, titleFontSize=12, gridColor="#E4E4E4")
            .configure_legend(labelFontSize=12)
            .configure_title(
                anchor="start", fontSize=14, fontWeight="normal", limit=_WIDTH + _LABEL_WIDTH
            )
        )

    def _title(self) -> Any:
        return self.alt.TitleParams(
            "Memory of a step within a budget",
            subtitle=self.rows.facts(),
            fontSize=18,
            subtitleFontSize=13,
            offset=12,
        )

    def _chart(self, rows: list[dict[str, Any]]) -> Any:
        return self.alt.Chart(self.alt.InlineData(values=rows))

    def _time(self, field: Any) -> Any:
        scale = self.alt.Scale(domain=[0, self.rows.right], nice=False)
        title = f"time of the operators ({self.rows.second_name})"
        axis = self.alt.Axis(labelFlush=False, tickCount=12)
        return self.alt.X(f"{field}:Q", title=title, scale=scale, axis=axis)

    def _bytes(self, field: Any, **options: Any) -> Any:
        scale = self.alt.Scale(domain=[0, self.rows.top], nice=False)
        title = f"in memory ({self.rows.byte_name})"
        return self.alt.Y(f"{field}:Q", title=title, scale=scale, **options)

    def _memory_panel(self) -> Any:
        curve = self.rows.curve(self.rows.memory)
        used = {row["order"] for row in curve if row["memory"] > 0}
        area = (
            self._chart([row for row in curve if row["order"] in used])
            .mark_area(interpolate="step-after")
            .encode(
                self._time("time"),
                self._bytes("memory", stack="zero"),
                self.color,
                order="order:Q",
                tooltip=["class:N", "bytes:N", "total:N", "operator:N"],
            )
        )
        plain = self.rows.curve(self.rows.plain)
        line = (
            self._chart([row for row in plain if row["order"] == 0])
            .mark_line(interpolate="step-after", color=_DARK, strokeWidth=1.2)
            .encode(self._time("time"), self._bytes("sum"))
        )
        layers = [area, line, *self._backward(), *self._budget(), *self._peaks()]
        return self.alt.layer(*layers).properties(width=_WIDTH, height=300)

    def _text(self, text: str, time: Any, height: Any, **options: Any) -> Any:
        """Yields a text on the side of a point where there is more room, and its white rim."""
        is_left = time < 0.5 * self.rows.right
        mark = {"fontSize": 12, "align": "left" if is_left else "right", "dy": -8}
        mark |= {"dx": 8 if is_left else -8} | options
        for rim in ({"stroke": "white", "strokeWidth": 4, "strokeJoin": "round"}, {}):
            yield (
                self._chart([{"time": time, "sum": height, "text": text}])
                .mark_text(**mark, **rim)
                .encode(self._time("time"), self._bytes("sum"), text="text:N")
            )

    def _backward(self) -> Any:
        time = self.rows.backward()
        rule = self._chart([{"time": time}]).mark_rule(color=_DARK, strokeDash=[2, 3])
        yield rule.encode(self._time("time"))
        yield from self._text("backward", time, self.rows.top, color=_DARK, dy=8)

    def _budget(self) -> Any:
        budget = self.rows.report["budget_bytes"]
        if budget is not None:
            height = budget / self.rows.byte
            rule = self._chart([{"sum": height}]).mark_rule(color=_RED, strokeDash=[6, 4])
            yield rule.encode(self._bytes("sum"))
            yield from self._text(f"budget: {bytes_text(budget)}", 0, height, color=_RED)

    def _peaks(self) -> Any:
        time, height, _ = self.rows.peak(self.rows.plain)
        text = f"without recomputation: {bytes_text(peak_of(self.rows.plain))}"
        yield from self._text(text, time, height, color=_DARK)
        plain = height
        time, height, operator = self.rows.peak(self.rows.memory)
        point = self._chart([{"time": time, "sum": height}])
        point = point.mark_point(color="black", filled=True, size=60)
        yield point.encode(self._time("time"), self._bytes("sum"))
        text = f"peak: {bytes_text(peak_of(self.rows.memory))} at {operator}"
        is_near = plain - height < 0.15 * self.rows.top
        yield from self._text(text, time, height, fontWeight="bold", dy=16 if is_near else -12)

    def _bar_panel(self, title: str, rows: list[dict[str, Any]], x: Any, **encodings: Any) -> Any:
        """Returns a panel with a line per value, whose label is that of its first bar."""
        alt = self.alt
        labels = {row["row"]: row["label"] for row in reversed(rows)}
        texts = json.dumps([labels[number] for number in sorted(labels)])
        axis = alt.Axis(
            orient="right",
            ticks=False,
            domain=False,
            labelLimit=_LABEL_WIDTH,
            labelExpr=f"{texts}[datum.value]",
        )
        fields = ["label", "operator", "class", "bytes", "from", "to"]
        fields += ["stack"] * any(row["stack"] for row in rows)
        bars = self._chart(rows).mark_bar(height={"band": 0.84})
        bars = bars.encode(
            x=x,
            y=alt.Y("row:O", title=None, axis=axis),
            color=self.color,
            tooltip=[f"{field}:N" for field in fields],
            **encodings,
        )
        return bars.properties(width=_WIDTH, height=alt.Step(15), title=title)


def _bill_chart(alt: Any, rows: list[dict[str, Any]]) -> Any:
    """Returns bars of the bytes by module, or by node if no module is known, in parts by kind."""
    field = "module" if any(row["module"] for row in rows) else "node"
    size, unit = byte_unit(max((row["bytes"] for row in rows), default=1))
    values = [
        {
            "label": row[field] or "-",
            "memory": row["bytes"] / size,
            "bytes": bytes_text(row["bytes"]),
            **{key: row[key] or "-" for key in ("region", "node", "operator", "kind", "shape")},
        }
        for row in rows
    ]
    tooltip = ["label", "region", "node", "operator", "kind", "shape", "bytes"]
    return (
        alt.Chart(alt.InlineData(values=values))
        .mark_bar()
        .encode(
            x=alt.X("sum(memory):Q", title=f"bytes ({unit})"),
            y=alt.Y("label:N", sort="-x", title=field),
            color=alt.Color("kind:N", legend=alt.Legend(orient="bottom", title=None)),
            detail=["node:N", "region:N", "shape:N", "bytes:N", "operator:N"],
            tooltip=[f"{name}:N" for name in tooltip],
        )
        .properties(
            width=_WIDTH,
            title=f"Saved for backward: {bytes_text(sum(row['bytes'] for row in rows))}",
        )
    )


def _form_of(path: str | os.PathLike[str]) -> str:
    form = pathlib.Path(path).suffix
    if form not in _FORMATS:
        raise ValueError(f"a picture is an .html or .svg file; not {os.fspath(path)!r}")
    return _FORMATS[form]


def write_bill(rows: list[dict[str, Any]], path: str | os.PathLike[str]) -> None:
    """Draws the rows of saved_tensors() into an .html file, which needs no network, or an .svg file."""
    form = _form_of(path)
    alt = _import_altair()
    _save(alt, _bill_chart(alt, rows), path, form)


def write_picture(report: Any, path: str | os.PathLike[str]) -> None:
    """Draws the data of a report into an .html file, which needs no network, or an .svg file."""
    form = _form_of(path)
    picture = _Picture(report)
    with warnings.catch_warnings():
        # One selection for two panels is meant.
        warnings.filterwarnings("ignore", message="Automatically deduplicated selection")
        _save(picture.alt, picture.chart(), path, form)


def _save(alt: Any, chart: Any, path: str | os.PathLike[str], form: str) -> None:
    path = pathlib.Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    options = {"inline": True} if form == "html" else {}
    try:
        with alt.data_transformers.enable("default", max_rows=None):
            chart.save(str(temporary), format=form, **options)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
