# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""A model with its batch, and its steps with and without a budget."""

import gc

import reprise
import torch
from helpers import current_bytes, memory
from torch import nn


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        h = nn.functional.gelu(self.up(self.norm(x)))
        return x + nn.functional.dropout(self.down(h), 0.1, self.training)


class Training:
    """A model with its batch, and what a plain step of it gives and takes."""

    def __init__(self, layers=4, width=64, rows=128):
        torch.manual_seed(0)
        self.model = nn.Sequential(*(Layer(width) for _ in range(layers)))
        self.x = torch.randn(rows, width)
        for _ in range(2):
            self.expected = self.run(lambda: self.loss().backward())
            self.plain_peak = self.peak
        self.before = current_bytes()

    def loss(self):
        return self.model(self.x).square().mean()

    def run(self, step):
        """Returns the gradients and the generator's state after a step, whose peak is measured."""
        torch.manual_seed(1)
        for parameter in self.model.parameters():
            parameter.grad = None
        gc.collect()
        reprise.reset_peak_cpu_memory()
        step()
        self.peak = memory().peak_bytes
        return [p.grad.clone() for p in self.model.parameters()] + [torch.get_rng_state()]

    def within(self, budget):
        def step():
            with budget.step():
                loss = self.loss()
            loss.backward()

        return self.run(step)

    def part(self, fraction):
        """A budget of this part of what the plain step takes above what is there before it."""
        return int(self.before + fraction * (self.plain_peak - self.before))
