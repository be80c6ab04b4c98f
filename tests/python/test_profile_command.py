# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""`python -m reprise profile`: what autograd saves in a program, and what less memory costs."""

import pathlib
import re
import subprocess
import sys

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
