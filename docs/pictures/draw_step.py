# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Draws step.svg: the memory of a training step of a small transformer within a budget.

    python docs/pictures/draw_step.py

with the Python package installed, as by pip install '.[report]'.
"""

import pathlib

import reprise
import torch
from torch import nn

HERE = pathlib.Path(__file__).parent
BUDGET = 0.5  # of what the plain step needs beyond what is there before it
STEPS = 4


def cpu_memory():
    return next(entry for entry in reprise.memory_report().devices if str(entry.device) == "cpu")


def main():
    reprise.install_cpu_memory_counter()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    layer = nn.TransformerEncoderLayer(
        128, 4, 512, dropout=0.1, activation=nn.functional.gelu, batch_first=True, norm_first=True
    )
    model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    x = torch.randn(8, 128, 128)

    def step(budget=None):
        model.zero_grad()
        if budget is None:
            loss = model(x).square().mean()
        else:
            with budget.step():
                loss = model(x).square().mean()
        loss.backward()

    reprise.reset_peak_cpu_memory()
    base = cpu_memory().current_bytes
    step()
    budget = reprise.MemoryBudget(peak_bytes=int(base + BUDGET * (cpu_memory().peak_bytes - base)))
    for _ in range(STEPS):
        step(budget)
    budget.write_report(HERE / "step.svg")


if __name__ == "__main__":
    main()
