# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Trains two networks against each other by hand, in the shape of Lightning's trainer.

The trainer runs the whole step inside of a module's forward, as strategies of Lightning do, so that
there are several backwards inside of the outermost call; and it evaluates with grad mode on.
"""

import sys

import torch
from torch import nn


class Module(nn.Module):
    def training_step(self, batch):
        raise NotImplementedError


class Adversaries(Module):
    def __init__(self):
        super().__init__()
        self.generator = nn.Sequential(
            nn.Linear(8, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 16)
        )
        self.critic = nn.Sequential(
            nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 1)
        )
        self.optimizers = [
            torch.optim.Adam(part.parameters(), lr=1e-3) for part in (self.generator, self.critic)
        ]

    def forward(self, noise):
        return self.generator(noise)

    def penalty(self, real):
        real = real.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(self.critic(real).sum(), real, create_graph=True)
        return (gradient.norm(dim=1) - 1).square().mean()

    def training_step(self, real):
        noise = torch.randn(len(real), 8)
        of_generator, of_critic = self.optimizers
        loss = -self.critic(self(noise)).mean()
        of_generator.zero_grad()
        loss.backward()
        of_generator.step()
        loss = (
            self.critic(self(noise).detach()).mean() - self.critic(real).mean() + self.penalty(real)
        )
        of_critic.zero_grad()
        loss.backward()
        of_critic.step()
        return loss.detach()


class Strategy(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, batch):
        return self.module.training_step(batch)


def main():
    torch.manual_seed(0)
    module = Adversaries()
    strategy = Strategy(module)
    for step in range(5):
        print(f"step {step}: {strategy(torch.randn(512, 16)).item()!r}")
        for _ in range(3):  # with grad mode on, and without backward
            module(torch.randn(512, 8))
    if len(sys.argv) > 1:
        torch.save(module.state_dict(), sys.argv[1])


if __name__ == "__main__":
    main()
