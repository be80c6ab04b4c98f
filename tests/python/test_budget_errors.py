# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Budgets that are too small, and steps that fail."""

import pytest
import reprise
import torch
from budget_training import Training
from helpers import assert_regions_work, assert_same, leaf


@pytest.fixture(scope="module")
def training():
    return Training()


@pytest.mark.parametrize("steps", [1, 3])
def test_too_small_a_budget(training, steps):
    budget = reprise.MemoryBudget(peak_bytes=training.before + (1 << 16))
    for _ in range(steps):
        with pytest.raises(torch.OutOfMemoryError, match="budget"):
            training.within(budget)
    # Nothing of the step goes on after it.
    assert_regions_work()
    assert_same(training.run(lambda: training.loss().backward()), training.expected)
    fits = reprise.MemoryBudget(peak_bytes=training.part(0.7))
    for _ in range(2):
        assert_same(training.within(fits), training.expected)


def test_too_small_a_budget_is_a_budget_exceeded_error(training):
    budget = reprise.MemoryBudget(peak_bytes=training.before + (1 << 16))
    assert issubclass(reprise.BudgetExceededError, torch.OutOfMemoryError)
    with pytest.raises(reprise.BudgetExceededError):
        training.within(budget)


def test_an_exception_in_forward_leaves_the_scope_clean(training):
    budget = reprise.MemoryBudget(peak_bytes=training.part(0.7))
    error = KeyError("in the step")
    for _ in range(3):
        with pytest.raises(KeyError) as caught, budget.step():
            training.loss()
            raise error
        assert caught.value is error
        assert_same(training.within(budget), training.expected)
        assert training.peak <= training.part(0.7)


def test_an_exception_in_backward(training):
    budget = reprise.MemoryBudget(peak_bytes=training.part(0.7))
    training.within(budget)

    def fail(gradient):
        raise KeyError("in backward")

    with budget.step():
        loss = training.loss()
        loss.register_hook(fail)
    with pytest.raises(KeyError):
        loss.backward()
    del loss
    for _ in range(2):
        assert_same(training.within(budget), training.expected)
        assert training.peak <= training.part(0.7)


def test_a_step_without_backward(training):
    budget = reprise.MemoryBudget(peak_bytes=training.part(0.7))
    for _ in range(2):
        with budget.step():
            training.loss()
        assert_same(training.within(budget), training.expected)
    with torch.no_grad(), budget.step():
        training.loss()


def test_steps_do_not_nest(training):
    budget = reprise.MemoryBudget(peak_bytes=training.part(1.5))
    step = budget.step()
    with step:
        with pytest.raises(RuntimeError, match="entered already"):
            step.__enter__()
        with pytest.raises(reprise.CheckpointError, match="BudgetScope begins inside"):
            budget.step().__enter__()
        training.loss().backward()

    def region(t):
        with budget.step():
            return t.sin().exp()

    with pytest.raises(reprise.CheckpointError, match="BudgetScope begins inside"):
        reprise.checkpoint(region, leaf(3))
