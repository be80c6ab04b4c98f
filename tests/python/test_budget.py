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
