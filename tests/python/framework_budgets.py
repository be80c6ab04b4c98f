# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""What a rank does in the tests of budgets under sharding: half of the plain step's peak, whoever
shards the weights, in a pipeline, and where ranks have budgets of their own."""

import contextlib
import functools
import gc

import pytest
import reprise
import torch
import torch.distributed as dist
from framework_workers import (
    IN_TENSOR,
    Block,
    assert_equal,
    collectives_of,
    gradients_of,
    torchs,
)
from helpers import in_scope, memory, plain
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.pipelining import PipelineStage, schedules
from torch.distributed.tensor import parallel as tensor_parallel

# 2 MiB of weights: more than a budget copies.
WIDTH, ROWS, BLOCKS, STEPS = 128, 768, 8, 3


def make_blocks(blocks=BLOCKS):
    torch.manual_seed(0)
    return nn.Sequential(*(Block(WIDTH) for _ in range(blocks)))


def by_units(reshards=True):
    model = make_blocks()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model:
        fully_shard(block, mesh=mesh, reshard_after_forward=reshards)
    return fully_shard(model, mesh=mesh, reshard_after_forward=reshards)


def by_units_of_the_older_way():
    wrap = functools.partial(
        FullyShardedDataParallel, use_orig_params=True, device_id=torch.device("cpu")
    )
    return wrap(nn.Sequential(*map(wrap, make_blocks())))


def by_tensors(plan, mesh_shape=(2,)):
    names = ("units", "tensors")[-len(mesh_shape) :]
    mesh = init_device_mesh("cpu", mesh_shape, mesh_dim_names=names)
    model = make_blocks()
    for block in model:
        tensor_parallel.parallelize_module(block, mesh["tensors"], plan)
        if len(mesh_shape) == 2:
            fully_shard(block, mesh=mesh["units"])
    return fully_shard(model, mesh=mesh["units"]) if len(mesh_shape) == 2 else model


SHARDINGS = {
    "units": by_units,
    "units that stay whole": functools.partial(by_units, reshards=False),
    "units of the older way": by_units_of_the_older_way,
    "tensors": functools.partial(by_tensors, IN_TENSOR),
    "units and tensors": functools.partial(by_tensors, IN_TENSOR, (1, 2)),
}


class Steps:
    """Steps of a model, each with the bytes of its peak beyond the model's own."""

    def __init__(self):
        self.found, self.peaks = [], []

    def run(self, model, around=contextlib.nullcontext, steps=STEPS):
        torch.manual_seed(dist.get_rank() + 1)
        before = bytes_in_use()
        for _ in range(steps):
            model.zero_grad()
            x = torch.randn(ROWS, WIDTH)
            reprise.reset_peak_cpu_memory()
            with around():
                loss = model(x).square().mean()
            loss.backward()
            self.found += [loss.detach().clone(), *gradients_of(model.parameters())]
            del x, loss
            self.peaks.append(memory().peak_bytes - before)
        return self


def bytes_in_use():
    gc.collect()
    return memory().current_bytes


def within(share, peak):
    """Returns the steps of a budget of that share of a plain peak, beyond what is in use now."""
    return reprise.MemoryBudget(peak_bytes=bytes_in_use() + int(share * peak)).step


def half_of_plains_peak(rank):
    """The budget is kept from the first step on, and no rank gathers more than without one."""
    reprise.install_cpu_memory_counter()
    for name, make in SHARDINGS.items():
        model = make()
        expected, gathered = collectives_of(lambda model=model: Steps().run(model))
        peak = max(expected.peaks)
        del model
        model = make()
        around = within(0.5, peak)
        got, counts = collectives_of(lambda model=model, around=around: Steps().run(model, around))
        assert_equal(name, got.found, expected.found)
        assert max(got.peaks) <= 0.5 * peak, f"{name}: {got.peaks} bytes of {peak}"
        assert counts == gathered, f"{name}: {counts}, without a budget {gathered}"
        del model


def held_by_units_of_the_older_way(rank):
    """Regions around units hold as much as torch's: none of the weights, which are gathered again."""
    reprise.install_cpu_memory_counter()

    def step(region):
        model = by_units_of_the_older_way()
        units = model.module
        units.forward = lambda x: functools.reduce(lambda h, unit: region(unit, h), units, x)
        torch.manual_seed(1)
        x = torch.randn(8, WIDTH)
        model(x).square().mean().backward()  # allocates what the second step finds
        model.zero_grad()
        before = bytes_in_use()
        loss = model(x).square().mean()
        held = bytes_in_use() - before
        loss.backward()
        return gradients_of(model.parameters()), held

    expected, _ = step(plain)
    _, theirs = step(torchs)
    for name, region in (("function", reprise.checkpoint), ("scope", in_scope)):
        found, held = step(region)
        assert_equal(name, found, expected)
        assert held <= theirs, f"{name}: {held} bytes, torch's {theirs}"


def budgets_that_differ(rank):
    """Each rank follows a plan of its own, and one recomputes nothing; then one cannot go on."""
    reprise.install_cpu_memory_counter()
    expected = Steps().run(by_units())
    peak = max(expected.peaks)
    model = by_units()
    got = Steps().run(model, within((0.5, 1.0)[rank], peak))
    assert_equal("budgets that differ", got.found, expected.found)
    del model
    model = by_units()
    if rank == 0:
        with pytest.raises(reprise.BudgetExceededError):
            Steps().run(model, within(0.1, peak))
        return  # which ends the group
    with pytest.raises(RuntimeError, match="(?i)connection|peer|gloo"):
        Steps().run(model, within(1.0, peak))


def pipeline_of_budgets(rank):
    """A budget per stage: of half of the peak of its plain step, with up to two micro-batches."""
    reprise.install_cpu_memory_counter()

    def steps(share=None, peak=0):
        stage = make_blocks(2 * BLOCKS)[rank * BLOCKS : (rank + 1) * BLOCKS]
        forward = stage.forward
        around = contextlib.nullcontext if share is None else within(share, peak)

        def forward_in_step(x):
            with around():
                return forward(x)

        stage.forward = forward_in_step
        run = schedules.Schedule1F1B(
            PipelineStage(stage, rank, 2, torch.device("cpu")),
            n_microbatches=4,
            loss_fn=lambda y, target: (y - target).square().mean(),
        )
        found, peaks = [], []
        before = bytes_in_use()
        for _ in range(STEPS):
            torch.manual_seed(1)
            stage.zero_grad()
            x, target = torch.randn(2, 4 * ROWS, WIDTH)
            reprise.reset_peak_cpu_memory()
            run.step(*([x] if rank == 0 else []), **({"target": target} if rank == 1 else {}))
            found += gradients_of(stage.parameters())
            peaks.append(memory().peak_bytes - before)
        return found, max(peaks)

    expected, peak = steps()
    got, used = steps(0.5, peak)
    assert_equal("pipeline", got, expected)
    assert used <= 0.5 * peak, f"{used} bytes of {peak}"
