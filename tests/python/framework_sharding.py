# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""What a rank does in the tests of sharded weights: several units of fully_shard() in a region, units
within units, and frozen weights that are gathered into a few slots in turn."""

import collections
import contextlib
import functools
import gc
import itertools
import math

import reprise
import torch
import torch.distributed as dist
from framework_workers import Block, assert_equal, gradients_of, patched, torchs, transfers_of
from helpers import FORMS, in_scope, memory, plain, scope_with, with_options
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

POLICIES = {
    "save_matmuls": reprise.policies.save_matmuls(),
    "save_everything": reprise.policies.save_everything(),
    "save_nothing": reprise.policies.save_nothing(),
    "a list of operators": ["aten::gelu"],
}
POLICY_FORMS = {
    f"{kind} with {name}": make(policy=policy)
    for kind, make in (("function", with_options), ("scope", scope_with))
    for name, policy in POLICIES.items()
}
# Gathered weights are read where they are, or gathered again: no copies keep them alive.
COPYLESS_FORMS = {
    "function without copies": with_options(copied_state_limit_bytes=0),
    "scope without copies": scope_with(copied_state_limit_bytes=0),
    "scope without copies with save_matmuls": scope_with(
        copied_state_limit_bytes=0, policy=reprise.policies.save_matmuls()
    ),
}
SHARDED_FORMS = {**FORMS, **POLICY_FORMS, **COPYLESS_FORMS, "patched": patched}
BLOCKS = 4


def gathered_by(function):
    """Returns the result of the call, and the counts of its gathers and gathered elements."""
    result, events = transfers_of(function)
    shapes = [shapes[0] for name, shapes in events if name == "c10d::_allgather_base_"]
    return result, collections.Counter(calls=len(shapes), elements=sum(map(math.prod, shapes)))


def sharded_model(are_nested=False, are_frozen=False, **options):
    options["mesh"] = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    model = nn.Sequential(*(Block() for _ in range(BLOCKS)))
    for i, block in enumerate(model):
        if are_frozen:
            (block if i % 2 else block.up).requires_grad_(False)
        if are_nested:
            fully_shard(block.up, **options)
            fully_shard(block.down, **options)
        fully_shard(block, **options)
    return fully_shard(model, **options)


def in_regions(model, region, blocks):
    """Returns the model, which runs in regions of that many blocks, inside the root's hooks."""
    parts = [model[first : first + blocks] for first in range(0, BLOCKS, blocks)]
    model.forward = lambda x: functools.reduce(lambda h, part: region(part, h), parts, x)
    return model


def two_steps(model, around=contextlib.nullcontext, rows=4, region=plain):
    """Returns losses and gradients. The first step allocates what the second finds. region: of the
    whole model, with the root's hooks."""
    torch.manual_seed(dist.get_rank() + 1)
    found = []
    for _ in range(2):
        model.zero_grad()
        x = torch.randn(rows, 8)
        with around():
            loss = region(model, x).square().sum()
        loss.backward()
        found += [loss.detach(), *gradients_of(model.parameters())]
    return found


STORED_FORMS = {
    "function in a store": with_options(input_store=reprise.stores.disk(min_bytes=0)),
    "scope in a store": scope_with(input_store=reprise.stores.disk(min_bytes=0)),
}
IN_MIXED_PRECISION = {
    "mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, output_dtype=torch.float32)
}
FROZEN_IN_PART = {"are_frozen": True}


def assert_sharded_as_plain(units, forms, options, torchs_options):
    """Regions of that many units, with no more gathers than torch's; returns torch's gathers."""

    def steps(region, options):
        return gathered_by(lambda: two_steps(in_regions(sharded_model(**options), region, units)))

    expected, _ = steps(plain, options)
    _, theirs = steps(torchs, torchs_options)
    for name, form in forms.items():
        found, gathered = steps(form, options)
        assert_equal(name, found, expected)
        assert gathered <= theirs, f"{name}: {gathered} gathered, torch's regions {theirs}"
    return theirs


def sharded_units(rank, units, are_nested):
    """Regions of that many units, each of which has two more inside if they are nested."""
    options = {"are_nested": are_nested}
    theirs = assert_sharded_as_plain(units, SHARDED_FORMS, options, options)
    assert theirs["calls"] > 0 or dist.get_world_size() == 1  # a single rank need not gather


def a_sharded_root_in_a_region(rank, are_nested):
    """The region is around the whole model: units are gathered by the root's hooks too."""

    def steps(region):
        return gathered_by(lambda: two_steps(sharded_model(are_nested), region=region))

    expected, _ = steps(plain)
    _, theirs = steps(torchs)
    for name, form in SHARDED_FORMS.items():
        found, gathered = steps(form)
        assert_equal(name, found, expected)
        assert gathered <= theirs, f"{name}: {gathered} gathered, torch's region {theirs}"


def sharded_units_with(rank, options):
    """Torch's own regions leave out the casts of mixed precision: their gathers are counted without."""
    assert_sharded_as_plain(2, {**SHARDED_FORMS, **STORED_FORMS}, options, torchs_options={})


def sharded_units_under_a_budget(rank, units, are_nested):
    """Regions within a budget's step, and none, with as much memory as plain's and with less."""
    reprise.install_cpu_memory_counter()

    def steps(region, share=None):
        model = in_regions(sharded_model(are_nested), region, units)
        gc.collect()
        before = memory().current_bytes
        reprise.reset_peak_cpu_memory()
        around = contextlib.nullcontext
        if share is not None:
            around = reprise.MemoryBudget(peak_bytes=before + int(share * peak)).step
        found = two_steps(model, around, rows=512)
        return found, memory().peak_bytes - before

    expected, peak = steps(plain)
    for name, form, share in (
        ("budget", plain, 0.7),
        ("budget", plain, 1.0),
        ("function", reprise.checkpoint, 1.0),
        ("scope", in_scope, 1.0),
    ):
        found, used = steps(form, share)
        assert_equal(f"{name} within {share}", found, expected)
        assert used <= share * peak, f"{name} within {share}: {used} bytes of {peak}"


def gathers_of_backward(model):
    """Returns what backward does in order: "gather", "wait" with the unit, "compute" for operators of
    a recomputation, each run of these once."""
    two_steps(model)  # allocates
    loss = model(torch.randn(4, 8)).square().sum()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        loss.backward()
    words = {"FSDP::all_gather": "gather", "FSDP::all_gather_copy_out": "wait"}
    found = []
    for event in sorted(profile.events(), key=lambda event: event.time_range.start):
        name, _, unit = event.name.partition(" ")
        if name in words:
            found.append(f"{words[name]} {unit.strip('()')}")
        elif name == "aten::addmm" and found[-1] != "compute":
            found.append("compute")
    return found


def gathers_ahead(rank):
    """A unit is gathered while the one before is computed again, as backward itself gathers ahead."""
    alone = ["gather 3", "wait 3", "gather 2", "compute", "wait 2", "gather 1", "compute", "wait 1"]
    alone += ["gather 0", "compute", "wait 0", "compute"]
    for region in (torchs, reprise.checkpoint, in_scope):
        assert gathers_of_backward(in_regions(sharded_model(), region, 1)) == alone
    # Backward has gathered unit 3, and 2 ahead; the recomputation begins at unit 0.
    together = ["gather 3", "wait 3", "gather 2", "gather 0", "wait 0", "gather 1", "compute"]
    together += ["wait 1", "compute", "wait 2", "compute"]
    assert gathers_of_backward(in_regions(sharded_model(), in_scope, BLOCKS)) == together


class StreamedBlock(nn.Module):
    """A frozen weight, of which each rank has a part, and which is gathered into a slot before use."""

    def __init__(self, slots):
        super().__init__()
        ranks = dist.get_world_size()
        self.part = torch.randn(8, 8).chunk(ranks)[dist.get_rank()].contiguous()
        self.adapter = nn.Parameter(torch.randn(8, 8))
        self.slots = slots

    def weight(self):
        slot = next(self.slots)
        slot = torch.empty(8, 8) if slot is None else slot
        dist.all_gather_into_tensor(slot, self.part)
        return slot

    def forward(self, x):
        return x + nn.functional.dropout((x + x @ self.adapter) @ self.weight(), 0.5).tanh()


def streamed_weights(rank, units):
    """Two slots in turn, a region of that many blocks: plain, each block needs a slot of its own."""

    def steps(region, slots):
        torch.manual_seed(0)
        in_turn = itertools.cycle(slots)
        model = nn.Sequential(*(StreamedBlock(in_turn) for _ in range(BLOCKS)))
        return two_steps(in_regions(model, region, units))

    expected = steps(plain, [None])
    for name, form in SHARDED_FORMS.items():
        assert_equal(name, steps(form, [torch.empty(8, 8) for _ in range(2)]), expected)
