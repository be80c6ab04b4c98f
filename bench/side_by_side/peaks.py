# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Measures steps in which regions save little: peaks without regions, of torch's, and of Reprise's.

Usage: PYTHONPATH=build/release/python python bench/side_by_side/peaks.py

Prints the bytes of CPU tensors above those before the third of three equal steps.
"""

import reprise
import torch
import torch.utils.checkpoint as incumbent
from torch import nn

WIDTH = 256
FORMS = {
    "plain": lambda code, *inputs: code(*inputs),
    "torch": lambda code, *inputs: incumbent.checkpoint(code, *inputs, use_reentrant=False),
    "Reprise": reprise.checkpoint,
}


def layers(count):
    return nn.Sequential(*[m for _ in range(count) for m in (nn.Linear(WIDTH, WIDTH), nn.Tanh())])


class EachLayer(nn.Module):
    """Each Linear and each Tanh is a region."""

    def __init__(self):
        super().__init__()
        self.layers = layers(6)
        self.x = torch.rand(4096, WIDTH)

    def forward(self, region):
        y = self.x
        for layer in self.layers:
            y = region(layer, y)
        return y.square().mean()


class UnusedBranch(nn.Module):
    """The code computes a branch and drops its result."""

    def __init__(self):
        super().__init__()
        self.unused, self.used = layers(4), layers(4)
        self.x = torch.rand(4096, WIDTH, requires_grad=True)

    def both(self, x):
        y = self.unused(x)
        y = self.used(x)
        return y

    def forward(self, region):
        return region(self.both, self.x).square().mean()


class LanguageModel(nn.Module):
    """The LSTM is a region, and the loss takes most of the memory."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(1000, 128)
        self.lstm = nn.LSTM(128, WIDTH, batch_first=True)
        self.linear = nn.Linear(WIDTH, 1000)
        self.ids = torch.randint(0, 1000, (20, 30))
        self.targets = torch.randint(0, 1000, (600,))

    def forward(self, region):
        y = region(lambda x: self.lstm(x)[0], self.embedding(self.ids))
        scores = self.linear(y.reshape(-1, WIDTH))
        return nn.functional.cross_entropy(scores, self.targets)


class Laplacian(nn.Module):
    """The network is a region, and the loss has its second derivatives."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, WIDTH), *layers(3), nn.Linear(WIDTH, 1))
        self.x = torch.rand(4096, 2, requires_grad=True)

    def forward(self, region):
        u = region(self.layers, self.x)
        (slope,) = torch.autograd.grad(u.sum(), self.x, create_graph=True)
        laplacian = 0
        for i in range(2):
            (second,) = torch.autograd.grad(slope[:, i].sum(), self.x, create_graph=True)
            laplacian = laplacian + second[:, i]
        return (laplacian + 1).square().mean()


def mebibytes():
    """Returns those of CPU tensors now, and at their peak."""
    (row,) = (r for r in str(reprise.memory_report()).splitlines() if r.startswith("cpu"))
    return [float(number) for number in row.split()[1:3]]


def peak_of(model, region):
    for step in range(3):
        model.zero_grad()
        if step == 2:
            reprise.reset_peak_cpu_memory()
            before, _ = mebibytes()
        model(region).backward()
    return mebibytes()[1] - before


def main():
    reprise.install_cpu_memory_counter()
    torch.set_num_threads(1)
    for make in (EachLayer, UnusedBranch, LanguageModel, Laplacian):
        peaks = {name: peak_of(make(), region) for name, region in FORMS.items()}
        cells = (
            f"{name} {mib:.2f} MiB ({mib / peaks['plain']:.2f})" for name, mib in peaks.items()
        )
        print(f"{make.__doc__} {', '.join(cells)}")


if __name__ == "__main__":
    main()
