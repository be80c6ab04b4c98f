# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""MemoryBudget: peaks, bits, plans, errors."""

import contextlib
import threading

import pytest
import reprise
import torch
from budget_training import Training
from helpers import assert_same, run_script


@pytest.fixture(scope="module")
def training():
    return Training()


@pytest.mark.parametrize("fraction", [0.95, 0.7, 0.5])
def test_peak_and_bits(training, fraction):
    budget = reprise.MemoryBudget(peak_bytes=training.part(fraction))
    for step in range(6):
        assert_same(training.within(budget), training.expected)
        assert training.peak <= training.part(fraction), f"step {step}"
    last = budget.last_step()
    assert last.is_planned
    assert last.peak_bytes == training.peak
    assert last.predicted_peak_bytes == last.peak_bytes
    assert last.evicted_bytes == 0


def test_the_first_step_is_observed_and_the_second_planned(training):
    budget = reprise.MemoryBudget(peak_bytes=training.part(0.7))
    assert budget.last_step() is None
    assert "no step has ended" in budget.report()
    steps = []
    for _ in range(3):
        training.within(budget)
        steps.append(budget.last_step())
    assert [step.is_planned for step in steps] == [False, True, True]
    assert [step.is_recorded for step in steps] == [True, True, False]
    assert "aten::gelu" in budget.explain("aten::gelu")
    with pytest.raises(ValueError, match="aten::no_such"):
        budget.explain("aten::no_such")


def test_plans_in_the_background(training, tmp_path):
    budget = reprise.MemoryBudget(peak_bytes=training.part(0.7), plans_in_background=True)
    for step in range(5):
        assert_same(training.within(budget), training.expected)
        assert training.peak <= training.part(0.7), f"step {step}"
        budget.save_plans(tmp_path / "step.plans")  # waits
    last = budget.last_step()
    assert last.is_planned
    assert last.planning_seconds == 0
    assert last.evicted_bytes == 0


def test_the_device_by_name(training):
    for device in ("cpu", torch.device("cpu")):
        budget = reprise.MemoryBudget(peak_bytes=training.part(0.7), device=device)
        assert_same(training.within(budget), training.expected)
    with pytest.raises(RuntimeError, match="no_such_device"):
        reprise.MemoryBudget(peak_bytes=1, device="no_such_device")
    if not torch.cuda.is_available():
        with pytest.raises(Exception) as error:
            reprise.MemoryBudget(peak_bytes=1, device="cuda")
        assert not isinstance(error.value, TypeError)


def test_a_budget_that_fits_evicts_nothing(training):
    budget = reprise.MemoryBudget(peak_bytes=training.part(1.5))
    for _ in range(3):
        assert_same(training.within(budget), training.expected)
    assert budget.last_step().evicted_bytes == 0


def test_options_that_contradict():
    for options, message in (
        (
            {"peak_bytes": 1, "fraction": 0.5},
            "at most one of peak_bytes, max_overhead and fraction",
        ),
        ({"peak_bytes": 0}, "peak_bytes is 0; it must be above 0"),
        ({"fraction": 1.5}, "fraction is 1.5; it must be above 0 and at most 1"),
        ({"peak_bytes": 1, "reserve_bytes": 1}, "leave it out with peak_bytes"),
    ):
        with pytest.raises(ValueError, match=message):
            reprise.MemoryBudget(**options)


def test_max_overhead(training):
    budget = reprise.MemoryBudget(max_overhead=1.0)
    for _ in range(5):
        assert_same(training.within(budget), training.expected)
    assert training.peak < training.part(0.95)
    assert budget.last_step().is_planned


def test_stores(training):
    store = reprise.stores.disk(min_bytes=1)
    budget = reprise.MemoryBudget(
        peak_bytes=training.part(0.5), stores=[reprise.stores.packed(), store]
    )
    for _ in range(5):
        assert_same(training.within(budget), training.expected)
        assert training.peak <= training.part(0.5)


def test_regions_policies_and_hooks_inside_a_step(training):
    budget = reprise.MemoryBudget(peak_bytes=training.part(1.2))
    policy = reprise.CheckpointOptions(policy=["aten::addmm"])

    def loss():
        h = training.x
        forms = [
            reprise.checkpoint,
            lambda f, t: reprise.checkpoint(f, t, options=policy),
            lambda f, t: reprise.CheckpointScope()(f)(t),
            lambda f, t: torch.utils.checkpoint.checkpoint(f, t, use_reentrant=False),
        ]
        for form, layer in zip(forms, training.model, strict=True):
            h = form(layer, h)
        return h.square().mean()

    def step():
        with budget.step():
            result = loss()
        result.backward()

    for _ in range(3):
        assert_same(training.run(step), training.expected)


def test_several_backwards_and_accumulation(training):
    def accumulate(step_of):
        for _ in range(2):
            with step_of():
                loss = training.loss()
            loss.backward(retain_graph=True)
            loss.backward()

    expected = training.run(lambda: accumulate(contextlib.nullcontext))
    peak_bytes = training.peak - (training.peak - training.before) // 5
    budget = reprise.MemoryBudget(peak_bytes=peak_bytes)
    for _ in range(3):
        assert_same(training.run(lambda: accumulate(budget.step)), expected)
        assert training.peak <= peak_bytes


def test_steps_of_other_sizes_and_branches(training):
    budget = reprise.MemoryBudget(peak_bytes=training.part(0.9))
    whole = training.x
    try:
        for rows, expected in ((128, training.expected), (96, None), (128, training.expected)):
            training.x = whole[:rows]
            if expected is None:
                expected = training.run(lambda: training.loss().backward())
            for _ in range(2):
                assert_same(training.within(budget), expected)
    finally:
        training.x = whole


def test_budgets_on_two_threads():
    trainings = [Training(layers=2, rows=64), Training(layers=2, rows=64)]
    results = [[], []]

    def work(i):
        budget = reprise.MemoryBudget(peak_bytes=1 << 30)
        for _ in range(3):
            for parameter in trainings[i].model.parameters():
                parameter.grad = None
            trainings[i].model.eval()
            with budget.step():
                loss = trainings[i].loss()
            loss.backward()
        results[i] = [p.grad for p in trainings[i].model.parameters()]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(2):
        for parameter in trainings[i].model.parameters():
            parameter.grad = None
        trainings[i].loss().backward()
        assert_same(results[i], [p.grad for p in trainings[i].model.parameters()])


def test_the_counter_is_installed_by_the_budget_itself():
    output = run_script(
        """
        budget = reprise.MemoryBudget(peak_bytes=1 << 30)
        x = torch.ones(1000, requires_grad=True)
        with budget.step():
            loss = x.sin().exp().sum()
        loss.backward()
        print(budget.last_step().peak_bytes > 4000)
        """
    )
    assert output.split() == ["True"]


def test_a_trace_for_the_planner(training, tmp_path):
    budget = reprise.MemoryBudget(peak_bytes=training.part(0.9))
    with pytest.raises(ValueError, match="no step is known yet"):
        budget.write_trace(str(tmp_path / "step.trace"))
    training.within(budget)
    budget.write_trace(str(tmp_path / "step.trace"))
    assert "aten::gelu" in (tmp_path / "step.trace").read_text()


def test_plans_of_a_restarted_job(training, tmp_path):
    path = tmp_path / "step.plans"
    peak_bytes = training.part(0.6)
    budget = reprise.MemoryBudget(peak_bytes=peak_bytes)
    with pytest.raises(RuntimeError, match="no step of the budget is known yet"):
        budget.save_plans(path)
    for _ in range(3):
        training.within(budget)
    budget.save_plans(path)
    restarted = reprise.MemoryBudget(peak_bytes=peak_bytes)
    restarted.load_plans(path)
    for _ in range(2):
        assert_same(training.within(restarted), training.expected)
        assert training.peak <= peak_bytes
        last = restarted.last_step()
        assert last.is_planned
        assert not last.is_recorded
        assert last.plans == 0
        assert last.planning_seconds == 0
    larger = reprise.MemoryBudget(peak_bytes=training.part(0.8))
    larger.load_plans(str(path))
    assert_same(training.within(larger), training.expected)
    assert larger.last_step().plans == 1
    assert larger.last_step().planning_seconds > 0
    assert not larger.last_step().is_recorded


def test_plans_in_another_process(tmp_path):
    path = tmp_path / "step.plans"
    script = """
        import os
        reprise.install_cpu_memory_counter()
        torch.manual_seed(0)
        layers = [torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU()) for _ in range(8)]
        model, batch = torch.nn.Sequential(*layers), torch.randn(512, 64)
        budget = reprise.MemoryBudget(max_overhead=0.3)
        path = {path!r}
        if os.path.exists(path):
            budget.load_plans(path)
        for _ in range(3):
            with budget.step():
                loss = model(batch).square().mean()
            loss.backward()
            last = budget.last_step()
            print(last.plans, last.is_recorded, last.is_planned)
        budget.save_plans(path)
    """.format(path=str(path))
    first = run_script(script).splitlines()
    assert first[0].endswith("True False")
    assert run_script(script).splitlines() == ["0 False True"] * 3


def test_files_that_hold_no_plans(training, tmp_path):
    path = tmp_path / "broken.plans"
    budget = reprise.MemoryBudget(peak_bytes=training.part(0.6))
    with pytest.raises(RuntimeError, match="cannot read"):
        budget.load_plans(path)
    for text, message in {
        "": "line 1 is not JSON",
        '{"format":"reprise-plans","version":2}': "line 1 has version 2, not 1",
        '{"format":"reprise-plans","version":1,"device":"cuda","steps":0}': 'device "cuda"',
    }.items():
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            budget.load_plans(path)
    assert budget.last_step() is None
