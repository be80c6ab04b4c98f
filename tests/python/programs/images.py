# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Trains on images, in the shape of PyTorch's example: a criterion, a loader, a validation."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.convolution_1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm_1 = nn.BatchNorm2d(channels)
        self.convolution_2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm_2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        h = self.relu(self.norm_1(self.convolution_1(x)))
        return self.relu(self.norm_2(self.convolution_2(h)) + x)


def make_model():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        *(Residual(16) for _ in range(4)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )


def train(loader, model, criterion, optimizer):
    model.train()
    for images, target in loader:
        output = model(images)
        loss = criterion(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"loss {loss.item()!r}")


def validate(loader, model, criterion):
    model.eval()
    with torch.no_grad():
        total = sum(criterion(model(images), target).item() for images, target in loader)
    print(f"validation {total!r}")


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(48, 3, 16, 16), torch.randint(10, (48,)))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model, criterion = make_model(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        train(loader, model, criterion, optimizer)
        validate(loader, model, criterion)
    if len(sys.argv) > 1:
        torch.save(model.state_dict(), sys.argv[1])


main()
