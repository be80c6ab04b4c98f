# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""MemoryBudget.write_report: the memory of a step as data and as a picture."""

import json
import re
import sys

import pytest
import reprise
from budget_training import Training
from reprise import _quantities, _report, _report_rows


@pytest.fixture(scope="module")
def training():
    return Training()


@pytest.fixture(scope="module")
def budget(training):
    budget = reprise.MemoryBudget(peak_bytes=training.part(0.6))
    for _ in range(4):
        training.within(budget)
    return budget


def test_a_page_that_needs_no_network(budget, tmp_path):
    path = tmp_path / "step.html"
    budget.write_report(path)
    page = path.read_text()
    for source in re.findall(r"<script[^>]*>|<link[^>]*>", page):
        assert "src" not in source and "href" not in source, source
    assert [each.name for each in tmp_path.iterdir()] == ["step.html"]


def test_the_page_has_the_memory_the_values_and_the_peak(training, budget, tmp_path):
    path = tmp_path / "step.html"
    budget.write_report(str(path))
    page = path.read_text()
    peak = _quantities.bytes_text(_report_rows.peak_of(budget._picture_data()["memory"]))
    measured = _quantities.bytes_text(budget.last_step().peak_bytes)
    limit = _quantities.bytes_text(training.part(0.6))
    for text in (
        "Memory of a step within a budget",
        f"peak {peak} (last step: {measured}); budget {limit}",
        f"peak: {peak} at #",
        "When values are in memory",
        "In memory at the peak",
        "aten::gelu",
        *(name for name, _ in _report_rows.CLASSES),
    ):
        assert text in page


def test_a_drawing(budget, tmp_path):
    path = tmp_path / "step.svg"
    budget.write_report(path)
    drawing = path.read_text()
    assert drawing.startswith("<svg")
    assert "Memory of a step within a budget" in drawing
    assert "retained for backward" in drawing
    assert "without recomputation: " in drawing


def test_data_for_tools_plan(budget, tmp_path):
    path = tmp_path / "step.report"
    path.write_text("older")
    budget.write_report(path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["format"] for line in lines if "format" in line] == [
        "reprise-report",
        "reprise-trace",
        "reprise-plan",
    ]
    assert lines[0]["measured_peak_bytes"] == budget.last_step().peak_bytes
    with pytest.raises(RuntimeError, match="cannot write"):
        budget.write_report(tmp_path / "no" / "step.report")


def test_classes_add_up_to_the_peak(budget):
    memory = budget._picture_data()["memory"]
    totals = [sum(moment[2]) for moment in memory["moments"]]
    assert max(totals) == totals[memory["peak"]]
    # What earlier steps took beside the recorded one is a part of the prediction alone.
    assert 0 <= budget.last_step().predicted_peak_bytes - max(totals) <= 1024
    for run, (_, _, classes, _) in enumerate(memory["moments"]):
        there = [each for each in memory["residences"] if each[2] <= run <= each[3]]
        for number in range(_report_rows.WORKSPACE):
            assert classes[number] == sum(each[4] for each in there if each[1] == number)


def test_a_step_of_many_operators_stays_small(budget, tmp_path):
    data = budget._picture_data()
    moments = data["memory"]["moments"]
    seconds = moments[-1][1]
    many = [
        (begin + i * seconds, end + i * seconds, classes, operator)
        for i in range(200)
        for begin, end, classes, operator in moments
    ]
    shown = list(_report_rows.stretches(many))
    assert len(shown) <= _report_rows.MOST_MOMENTS + 1
    assert max(sum(each[2]) for each in shown) == max(sum(each[2]) for each in many)
    assert shown[0][0] == 0 and shown[-1][1] == many[-1][1]
    rows = data["memory"]["residences"]
    data["memory"]["residences"] = rows + [
        (each[0], each[1], each[2], each[3], 1) for each in rows for _ in range(20)
    ]
    _report.write_picture(data, tmp_path / "step.html")
    assert "are left out)" in (tmp_path / "step.html").read_text()


def test_stacks_in_debug_mode(training, tmp_path):
    budget = reprise.MemoryBudget(max_overhead=0.5)
    with reprise.set_checkpoint_debug_enabled(True):
        training.within(budget)
    budget.write_report(tmp_path / "step.html")
    page = (tmp_path / "step.html").read_text()
    assert "budget_training.py" in page
    assert "nn.functional.gelu" in page


def test_errors(budget, tmp_path, monkeypatch):
    for name in ("step", "step.png", "step.html.gz"):
        with pytest.raises(ValueError, match=r"\.html or \.svg, or data, \.report"):
            budget.write_report(tmp_path / name)
    with pytest.raises(ValueError, match="no step is known yet"):
        reprise.MemoryBudget(peak_bytes=1).write_report(tmp_path / "step.html")
    with pytest.raises(FileNotFoundError):
        budget.write_report(tmp_path / "no" / "step.svg")
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(ImportError, match=r"pip install 'reprise-torch\[report\]'"):
        budget.write_report(tmp_path / "step.html")
    assert list(tmp_path.iterdir()) == []
