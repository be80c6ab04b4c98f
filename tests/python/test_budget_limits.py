# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""MemoryBudget without a number: limits of the machine, of the process, of its control group."""

import contextlib
import os
import pathlib

import pytest
import reprise
from budget_training import Training
from helpers import assert_same, run_script


@pytest.fixture(scope="module")
def training():
    return Training()


def test_all_that_the_machine_has_to_give(training):
    budget = reprise.MemoryBudget()
    for _ in range(3):
        assert_same(training.within(budget), training.expected)
    last = budget.last_step()
    assert last.limit_bytes > training.peak
    assert last.predicted_seconds == last.plain_seconds
    assert "that the device has to give" in budget.report()


def test_a_fraction_less_a_reserve(training):
    limit = training.part(1.2)
    reprise.set_cpu_memory_limit(limit)
    try:
        for options, expected in (
            ({"fraction": 0.8}, int(0.8 * limit)),
            ({"reserve_bytes": 1000}, limit - 1000),
        ):
            budget = reprise.MemoryBudget(**options)
            for _ in range(3):
                assert_same(training.within(budget), training.expected)
                assert budget.last_step().limit_bytes == expected
                assert training.peak <= expected
    finally:
        reprise.set_cpu_memory_limit(None)


# A chain whose activations take 320 MiB in a plain step, under a limit of less.
STEPS = """
layers = torch.nn.Sequential(*(torch.nn.Tanh() for _ in range(40)))
x = torch.randn(1 << 21, requires_grad=True)

def step(budget):
    with budget.step():
        loss = layers(x).square().mean()
    loss.backward()
    gradient, x.grad = x.grad, None
    return gradient

open("GROUP/cgroup.procs", "w").write("0")
budget = reprise.MemoryBudget(reserve_bytes=32 << 20)
for _ in range(4):
    gradient = step(budget)
    assert budget.last_step().peak_bytes <= budget.last_step().limit_bytes < 240 << 20
report = budget.report()
open("GROUP/../cgroup.procs", "w").write("0")
large = reprise.MemoryBudget(peak_bytes=1 << 40)
assert torch.equal(step(large), gradient)
assert large.last_step().peak_bytes > 320 << 20
print(report)
"""


def own_groups():
    """Yields the folders of this process's control groups, and the names of limits on memory."""
    groups = {}
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, group = line.split(":", 2)
        groups.update(dict.fromkeys(controllers.split(","), group))
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        mounted, kind = line.split(" - ")
        root, point = map(pathlib.Path, mounted.split()[3:5])
        if kind.startswith("cgroup2 "):
            controller, limit = "", "memory.max"
        elif kind.startswith("cgroup ") and "memory" in kind.split()[2].split(","):
            controller, limit = "memory", "memory.limit_in_bytes"
        else:
            continue
        group = pathlib.PurePath(groups.get(controller, ".."))
        if group.is_relative_to(root):
            yield point / group.relative_to(root), limit


@contextlib.contextmanager
def made_group(parent):
    group = parent / f"reprise_test_{os.getpid()}"
    group.mkdir()
    try:
        yield group
    finally:
        group.rmdir()


@pytest.fixture
def control_group():
    """The folder of a control group that may use 256 MiB."""
    for parent, limit in own_groups():
        with contextlib.suppress(OSError), made_group(parent) as group:
            if (group / limit).exists():
                (group / limit).write_text(str(256 << 20))
                yield group
                return
    pytest.skip("control groups with limits on memory cannot be made here")


def test_in_a_control_group(control_group):
    report = run_script(STEPS.replace("GROUP", str(control_group)))
    assert "memory.limit_in_bytes" in report or "memory.max" in report
