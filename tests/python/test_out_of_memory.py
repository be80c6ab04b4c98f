# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""explain_out_of_memory(): the bill at an error of too little memory."""

import pytest
import reprise
import torch
from torch import nn

ROWS, WIDTH = 128, 64
ONE = ROWS * WIDTH * 4  # bytes of an activation
HUGE = 1 << 55


class TooLarge(nn.Module):
    def forward(self, x):
        return x + torch.empty(HUGE)


def make_model():
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH), TooLarge())


def in_region(model, x):
    return reprise.checkpoint(model[1:], model[0](x))


def in_scope(model, x):
    with reprise.CheckpointScope(name="mine"):
        return model(x)


FORMS = {"plain": lambda model, x: model(x), "region": in_region, "scope": in_scope}


def notes_of(error):
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


@pytest.mark.parametrize("name", FORMS)
def test_the_error_has_the_bill(name):
    model, x = make_model(), torch.randn(ROWS, WIDTH)
    with (
        pytest.raises(RuntimeError, match="DefaultCPUAllocator") as raised,
        reprise.explain_out_of_memory(model),
    ):
        FORMS[name](model, x)
    text = notes_of(raised.value)
    assert text.count("When memory ran out, tensors with a name in Python had ") == 1
    lines = [line.split() for line in text.splitlines()]
    columns = next(i for i, line in enumerate(lines) if line[:3] == ["bytes", "part", "module"])
    assert "AddmmBackward0" in text
    assert len(lines) > columns + 1


def test_rows_of_a_plain_graph():
    model, x = make_model(), torch.randn(ROWS, WIDTH)
    with pytest.raises(RuntimeError) as raised, reprise.explain_out_of_memory(model):
        model(x)
    rows = [line.split() for line in notes_of(raised.value).splitlines()]
    kib = f"{ONE / 1024:.4g}"
    assert [kib, "KiB", "33.3%", "1", "-", "GeluBackward0", "saved"] in rows


def test_budgets_and_decorators():
    model, x = make_model()[:3], torch.randn(ROWS, WIDTH)

    @reprise.explain_out_of_memory()
    def step():
        budget = reprise.MemoryBudget(peak_bytes=ONE)
        with budget.step():
            model(x).square().mean().backward()

    with pytest.raises(reprise.BudgetExceededError) as raised:
        step()
    assert "saved for backward: " in notes_of(raised.value)


def test_other_errors_stay_as_they_are():
    with pytest.raises(RuntimeError) as raised, reprise.explain_out_of_memory():
        torch.ones(2, 3) @ torch.ones(2, 3)
    assert "saved for backward" not in notes_of(raised.value)
    before = dict(nn.modules.module._global_forward_hooks)
    with reprise.explain_out_of_memory(make_model()):
        pass
    assert before == nn.modules.module._global_forward_hooks
