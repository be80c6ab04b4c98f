# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Budgets of graphs and of tensor classes: fitted, or named as kept in the report."""

import re

import pytest
import reprise
import torch
from framework_ranks import run_on_ranks
from helpers import assert_same, current_bytes, memory
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

WIDTH = 32
ROWS = 256


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(WIDTH, 4 * WIDTH)
        self.down = torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


@pytest.fixture
def blocks():
    torch.manual_seed(0)
    return torch.nn.Sequential(*(Block() for _ in range(8)))


def step(blocks, loss, budget=None):
    """Returns the gradients, and the bytes of the peak beyond those before the step."""
    blocks.zero_grad()
    before = current_bytes()
    reprise.reset_peak_cpu_memory()
    if budget is None:
        loss().backward()
    else:
        with budget.step():
            value = loss()
        value.backward()
    growth = memory().peak_bytes - before
    gradients = [p.grad for p in blocks.parameters()]
    return [getattr(g, "_local_tensor", g).clone() for g in gradients], growth


def plain_step(blocks, loss):
    step(blocks, loss)
    return step(blocks, loss)


def expect_to_fit(blocks, loss, plain, growth):
    for _ in range(3):
        blocks.zero_grad()
        budget = reprise.MemoryBudget(peak_bytes=current_bytes() + growth)
        gradients, grown = step(blocks, loss, budget)
        assert_same(gradients, plain)
        assert grown <= growth


def kept_in(blocks, loss, plain):
    """Returns the megabytes in the line of a roomy budget's report for what runs once."""
    budget = reprise.MemoryBudget(max_overhead=0.5)
    for _ in range(3):
        assert_same(step(blocks, loss, budget)[0], plain)
    return re.search(r"cannot be computed again: .*", budget.report())[0]


# Each operator of the graph is seen, and recomputed alone.
def test_compiled_by_aot_eager(blocks):
    for block in blocks:
        block.compile(backend="aot_eager")
    x = torch.randn(ROWS, WIDTH)

    def loss():
        return blocks(x).square().mean()

    plain, growth = plain_step(blocks, loss)
    expect_to_fit(blocks, loss, plain, growth // 2)


def test_jagged_tensors(blocks):
    rows = (50, 100, 75, 31)
    x = torch.nested.nested_tensor([torch.randn(n, WIDTH) for n in rows], layout=torch.jagged)

    def loss():
        return blocks(x).values().square().mean()

    plain, growth = plain_step(blocks, loss)
    expect_to_fit(blocks, loss, plain, growth // 2)


def parallelize(blocks, mesh):
    for block in blocks:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})


def test_dtensors(blocks, mesh):
    parallelize(blocks, mesh)
    x = torch.randn(ROWS, WIDTH)

    def loss():
        return blocks(x).square().mean()

    plain, growth = plain_step(blocks, loss)
    expect_to_fit(blocks, loss, plain, growth // 2)


def fit_on_a_rank(rank):
    reprise.install_cpu_memory_counter()
    torch.manual_seed(0)
    blocks = torch.nn.Sequential(*(Block() for _ in range(8)))
    parallelize(blocks, init_device_mesh("cpu", (2,)))
    x = torch.randn(ROWS, WIDTH)

    def loss():
        return blocks(x).square().mean()

    plain, growth = plain_step(blocks, loss)
    expect_to_fit(blocks, loss, plain, growth // 2)
    keep_what_is_in_flight()


# Autograd saves the embedding's scattered sum before its data is there.
def keep_what_is_in_flight():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Embedding(64, WIDTH), torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
    )
    scattered = RowwiseParallel(
        input_layouts=Replicate(), output_layouts=Shard(1), use_local_output=False
    )
    plan = {"0": scattered, "1": SequenceParallel(), "2": SequenceParallel()}
    parallelize_module(model, init_device_mesh("cpu", (2,)), plan)
    tokens = torch.arange(ROWS).reshape(16, ROWS // 16) % 64

    def loss():
        return model(tokens).to_local().sin().square().mean()

    plain, growth = plain_step(model, loss)
    for part in (2.0, 4.0):
        model.zero_grad()
        budget = reprise.MemoryBudget(peak_bytes=current_bytes() + int(part * growth))
        for _ in range(4):
            gradients, _ = step(model, loss, budget)
            assert_same(gradients, plain)


def test_dtensors_on_two_ranks():
    run_on_ranks(fit_on_a_rank)
