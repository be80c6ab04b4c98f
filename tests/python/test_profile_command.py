# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""`python -m reprise profile`: what autograd saves in a program, and what less memory costs."""

import pathlib
import re
import subprocess
import sys

import pytest
from reprise import _command

PROGRAMS = pathlib.Path(__file__).with_name("programs")


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "reprise", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_profile_and_a_run_within_the_budget_that_it_names(tmp_path):
    page = tmp_path / "page.html"
    program = [PROGRAMS / "causal_lm.py", "--steps", "50"]
    got = run("profile", "--steps", 3, "--points", 5, "--html", page, *program)
    assert got.returncode == 0, got.stderr
    lines = got.stdout.splitlines()
    assert "step 3: " not in got.stdout, "the program goes on after its profile"
    assert any(re.match(r"saved for backward: [\d.]+ MiB in \d+ storages", line) for line in lines)
    assert any("layers.1.up" in line and "saved" in line for line in lines)
    begin = next(i for i, line in enumerate(lines) if line.startswith("budget  "))
    costs = [float(line.split()[3].rstrip("%")) for line in lines[begin + 1 : -1]]
    assert 2 <= len(costs) <= 5 and costs == sorted(costs, reverse=True) and costs[-1] < 1
    smallest = int(re.search(r"\(--budget (\d+)\)", lines[-1])[1])
    text = page.read_text()
    assert (
        "<svg" in text
        and "layers.1.up" in text
        and "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    )
    steps = [PROGRAMS / "causal_lm.py", "--steps", "3"]
    within = run("run", "--budget", round(1.1 * smallest), *steps)
    assert within.returncode == 0, within.stderr


def test_a_program_that_ends_early(tmp_path):
    program = tmp_path / "train.py"
    program.write_text("import torch\ntorch.nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward()\n")
    got = run("profile", program)
    assert got.returncode == 0, got.stderr
    assert "saved for backward: 8 bytes in 1 storages" in got.stdout
    assert "no second step has come to its end" in got.stdout


def test_a_program_without_steps_or_with_an_error(tmp_path):
    program = tmp_path / "train.py"
    program.write_text("print(3)\n")
    got = run("profile", program)
    assert got.returncode == 1 and "no step was found" in got.stderr
    program.write_text("import sys; sys.exit(5)\n")
    assert run("profile", program).returncode == 5
    got = run("profile", "--steps", 1, program)
    assert got.returncode == 2 and "start at 2" in got.stderr


def test_the_largest_batch_is_one_that_fits(tmp_path):
    page = tmp_path / "page.html"
    program = PROGRAMS / "batches.py"
    options = ["--also-batch", 512, "--points", 2, "--html", page]
    got = run("profile", *options, program, "--batch-size", 256)
    assert got.returncode == 0, got.stderr
    title = re.search(
        r"the largest batch within .* \(--budget (\d+)\), predicted from .*", got.stdout
    )
    assert title[0].endswith("batches of 256 and 512:")
    rows = [line.split() for line in got.stdout[title.end() :].splitlines()[2:]]
    assert [row[0] for row in rows] == ["0%", "10%", "25%", "any"]
    batches = [int(row[1]) for row in rows]
    assert batches[0] == 256  # what the budget is by default: a plain step's peak
    assert batches == sorted(batches) and batches[-1] > 3 * batches[0]
    text = page.read_text()
    assert f"The largest batch within {title[0][25:40]}" in text
    assert f"<td class=number>{batches[-1]}</td>" in text
    # So it is.
    for batch, fits in ((batches[-1], True), (round(1.08 * batches[-1]), False)):
        within = run("run", "--budget", title[1], program, "--batch-size", batch)
        assert (within.returncode == 0) == fits, within.stderr
        assert ("a step does not fit into its budget" in within.stderr) != fits


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--also-batch", "8", "x.py"], "0 are like that: name it by --batch-option"),
        (["--also-batch", "8", "x.py", "--batch", "2", "microbatch=1"], "2 are like that"),
        (["--also-batch", "8", "x.py", "--batch-size=8"], "takes another batch than 8"),
        (["--also-batch", "0", "--batch-option", "b", "x.py", "-b", "4"], "another batch than 0"),
        (["--budget", "much", "x.py"], "'much' is no budget"),
    ],
)
def test_batches_that_are_not_found(capsys, arguments, message):
    with pytest.raises(SystemExit, match="2"):
        _command.main(["profile", *arguments])
    assert message in capsys.readouterr().err


def test_a_second_run_that_fails(tmp_path):
    program = tmp_path / "train.py"
    program.write_text("import sys\nassert sys.argv[1:] == ['--lr', '1', '-b', '4'], sys.argv\n")
    command = ["profile", "--also-batch", 8, "--batch-option", "b", program, "--lr", 1, "-b", 4]
    got = run(*command)
    assert got.returncode == 1 and "'--lr', '1', '-b', '8'" in got.stderr
    assert "the run with a batch of 8 has failed" in got.stderr


def test_batches_with_different_operators(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(
        "import sys, torch\n"
        "model, batch = torch.nn.Linear(4, 4), int(sys.argv[1].split('=')[1])\n"
        "for _ in range(4):\n"
        "    y = model(torch.ones(batch, 4)).sin()\n"
        "    (y.cos() if batch > 5 else y).sum().backward()\n"
    )
    got = run("profile", "--also-batch", 8, program, "batch=4")
    assert got.returncode == 1
    assert "the traces of batches 4 and 8 have different operators or values" in got.stderr


def test_a_trace_in_place_of_a_table(tmp_path):
    trace = tmp_path / "step.trace"
    got = run("profile", "--trace", trace, PROGRAMS / "batches.py", "--steps", 9)
    assert got.returncode == 0 and got.stdout == ""
    assert "aten::addmm" in trace.read_text()
