# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Trains a small network with batches of any size."""

import argparse

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=6)
    options = parser.parse_args()
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 32)) for _ in range(6)]
    model = nn.Sequential(*blocks)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(options.steps):
        model(torch.randn(options.batch_size, 32)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    print("done")


if __name__ == "__main__":
    main()
