# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""What a rank does in the tests of frameworks: steps with regions and without, compared.

Each worker compares bits and counts of its rank; an assertion that fails there fails the test.
"""

import collections
import functools

import reprise
import torch
from helpers import FORMS, MODES_COME_FIRST, TAPE_FORMS, plain, scope_with, with_options
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.pipelining import PipelineStage, schedules
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor import parallel as tensor_parallel
from torch.nn.parallel import DistributedDataParallel
from torch.utils import checkpoint as torch_checkpoint

torchs_checkpoint = torch_checkpoint.checkpoint
SAVE_MATMULS = reprise.policies.save_matmuls()
SELECTIVE_FORMS = {
    "function with a policy": with_options(policy=SAVE_MATMULS),
    "scope with a policy": scope_with(policy=SAVE_MATMULS),
}


def torchs(function, *args):
    return torchs_checkpoint(function, *args, use_reentrant=False)


def patched(function, *args):
    with reprise.patched_torch():
        return torch_checkpoint.checkpoint(function, *args, use_reentrant=False)


class Block(nn.Module):
    def __init__(self, width=8, drops=True):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.drop = nn.Dropout(0.5 if drops else 0.0)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x + self.drop(self.down(nn.functional.gelu(self.up(self.norm(x)))))


class Outer(nn.Module):
    """A block whose region is inside of the module, below the module's hooks."""

    def __init__(self, region):
        super().__init__()
        self.block = Block()
        self.region = region

    def forward(self, x):
        return self.region(self.block, x)


class Stack(nn.Module):
    def __init__(self, blocks, region):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.region = region

    def forward(self, x):
        for block in self.blocks:
            x = self.region(block, x)
        return x


def local(tensor):
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def gradients_of(parameters):
    return [local(p.grad).clone() for p in parameters if p.grad is not None]


def transfers_of(function):
    """Returns the result of the call, and for each of c10d's operators its name and shapes."""
    with torch.autograd.profiler.profile(record_shapes=True) as profile:
        result = function()
    # The events as they are: the profiler's tree of them takes longer than the steps.
    events = profile.kineto_results.events()
    return result, [(e.name(), e.shapes()) for e in events if e.name().startswith("c10d::")]


def collectives_of(function):
    """Returns the result of the call, and the counts of c10d's collectives."""
    result, events = transfers_of(function)
    return result, collections.Counter(name.removeprefix("c10d::") for name, _ in events)


def assert_equal(name, got, expected):
    assert len(got) == len(expected) > 0, name
    for i, (one, other) in enumerate(zip(got, expected, strict=True)):
        assert torch.equal(one, other), f"{name}: gradient {i} differs"


def steps_of(model, rank, count):
    """Returns the gradients of that many steps, each rank with inputs of its own."""
    torch.manual_seed(rank + 1)
    found = []
    for _ in range(count):
        model.zero_grad()
        model(torch.randn(4, 8)).square().sum().backward()
        found += gradients_of(model.parameters())
    return found


def assert_equal_in_all_forms(gradients):
    expected = gradients(plain)
    for name, form in {**FORMS, **SELECTIVE_FORMS, "patched": patched}.items():
        assert_equal(name, gradients(form), expected)


def data_parallel(rank, options):
    def gradients(region):
        torch.manual_seed(0)
        shared = Block()
        model = Stack([shared, Block(), shared], region)
        if options.get("find_unused_parameters"):
            model.unused = nn.Linear(3, 3)
        model = DistributedDataParallel(model, bucket_cap_mb=0.001, **options)
        return steps_of(model, rank, 3)  # the buckets are built anew after the first step

    assert_equal_in_all_forms(gradients)


def fully_sharded(rank, are_hooks_inside, reshards):
    from torch.distributed.fsdp import fully_shard

    def steps(region):
        torch.manual_seed(0)
        if are_hooks_inside:
            model = Stack([Block() for _ in range(3)], region)
        else:
            model = Stack([Outer(region) for _ in range(3)], plain)
        for block in model.blocks:
            fully_shard(block, reshard_after_forward=reshards)
        fully_shard(model, reshard_after_forward=reshards)
        return steps_of(model, rank, 2)

    expected, expected_counts = collectives_of(lambda: steps(plain))
    assert expected_counts["_allgather_base_"] > 0
    for name, form in {**FORMS, **SELECTIVE_FORMS, "patched": patched}.items():
        found, counts = collectives_of(lambda form=form: steps(form))
        assert_equal(name, found, expected)
        # The recomputation gathers nothing: backward has done so.
        assert counts == expected_counts, name


class SummedBlock(Block):
    """Saves the sum over the ranks for backward, so that a recomputation has to run it."""

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x)))).sin()


IN_SEQUENCE = {
    "norm": tensor_parallel.SequenceParallel(),
    "up": tensor_parallel.ColwiseParallel(input_layouts=Shard(1)),
    "down": tensor_parallel.RowwiseParallel(output_layouts=Shard(1)),
}
IN_TENSOR = {"up": tensor_parallel.ColwiseParallel(), "down": tensor_parallel.RowwiseParallel()}


def tensor_parallel_step(make_block, plan, region):
    """Returns the gradients, and the collectives of backward."""
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (2,))
    blocks = [tensor_parallel.parallelize_module(make_block(), mesh, plan) for _ in range(3)]
    x = torch.randn(2, 4, 8, requires_grad=True)
    h = x
    for block in blocks:
        h = region(block, h)
    _, counts = collectives_of(h.square().sum().backward)
    parameters = [p for block in blocks for p in block.parameters()]
    return [x.grad, *gradients_of(parameters)], counts


def tensor_parallel_regions(rank, is_in_sequence, saves_sum):
    make_block = SummedBlock if saves_sum else functools.partial(Block, drops=False)
    step = functools.partial(
        tensor_parallel_step, make_block, IN_SEQUENCE if is_in_sequence else IN_TENSOR
    )
    expected, without = step(plain)
    _, theirs = step(torchs)
    assert (theirs == without) == (not saves_sum and not is_in_sequence)
    for name, form in FORMS.items():
        found, counts = step(form)
        assert_equal(name, found, expected)
        if name == "to the end" or (name == "whole tape" and not MODES_COME_FIRST):
            assert counts == without + without, name  # without early stop, all of them run again
        elif name in TAPE_FORMS:
            assert without <= counts <= theirs, name
        else:
            assert counts == theirs, name
    if not is_in_sequence:
        sums = with_options(policy=reprise.policies.save_operators("_c10d_functional::all_reduce"))
        found, counts = step(sums)
        assert_equal("sums", found, expected)
        assert counts == without


def tensor_parallel_with_policies(rank, is_in_sequence):
    plan = IN_SEQUENCE if is_in_sequence else IN_TENSOR
    step = functools.partial(tensor_parallel_step, SummedBlock, plan)
    expected, without = step(plain)
    policies = {
        "matmuls": SAVE_MATMULS,
        "everything": reprise.policies.save_everything(),
        "nothing": reprise.policies.save_nothing(),
        "list": [torch.ops.aten.addmm.default, torch.ops.aten.mm.default],
    }
    for name, policy in policies.items():
        for kind, form in (
            ("function", with_options(policy=policy)),
            ("values", with_options(policy=policy, determinism_check="values")),
            ("scope", scope_with(policy=policy)),
        ):
            found, counts = step(form)
            assert_equal(f"{kind}, {name}", found, expected)
            # A recomputation that has all results waits for forward's transfers, and runs none.
            assert name != "everything" or counts == without, kind


def returned_sums_over_ranks(rank):
    """The region returns a tensor and reads the part of it that this rank has."""
    mesh = init_device_mesh("cpu", (2,))

    def gradients(region):
        torch.manual_seed(0)
        weight = distribute_tensor(torch.randn(8, 8), mesh, [Shard(1)]).requires_grad_()
        x = distribute_tensor(torch.randn(4, 8), mesh, [Shard(1)]).requires_grad_()

        def code(x):
            unsummed = x @ weight.t()
            summed = unsummed.redistribute(mesh, [Shard(1)])
            return unsummed, summed.square().redistribute(mesh, [Replicate()]).to_local()

        unsummed, squares = region(code, x)
        summed = unsummed.redistribute(mesh, [Replicate()]).to_local()
        (squares.cos().sum() + summed.sin().sum()).backward()
        return [x.grad.to_local(), weight.grad.to_local()]

    assert_equal_in_all_forms(gradients)


def fully_sharded_in_the_older_way(rank, where):
    """FullyShardedDataParallel (FSDP1): a region in a unit, around one, around three."""
    wrap = functools.partial(
        FullyShardedDataParallel, use_orig_params=True, device_id=torch.device("cpu")
    )

    def gradients(region):
        torch.manual_seed(0)
        blocks = [Block() for _ in range(3)]
        if where == "in a unit":
            model = nn.Sequential(*(wrap(Stack([block], region)) for block in blocks))
        elif where == "around a unit":
            model = Stack([wrap(block) for block in blocks], region)
        else:
            model = Stack([nn.Sequential(*map(wrap, blocks))], region)
        return steps_of(wrap(model), rank, 2)

    assert_equal_in_all_forms(gradients)


def pipeline(rank, schedule, stages_of_rank):
    total = 2 * stages_of_rank
    mine = range(rank, total, 2)

    def steps(region):
        torch.manual_seed(0)
        modules = [Stack([Block(drops=False) for _ in range(2)], region) for _ in range(total)]
        x, target = torch.randn(8, 8), torch.randn(8, 8)
        stages = [PipelineStage(modules[i], i, total, torch.device("cpu")) for i in mine]
        run = getattr(schedules, schedule)(
            stages if stages_of_rank > 1 else stages[0],
            n_microbatches=4,
            loss_fn=lambda y, t: (y - t).square().sum(),
        )
        for _ in range(2):
            run.step(
                *([x] if 0 in mine else []), **({"target": target} if total - 1 in mine else {})
            )
        found = gradients_of(p for i in mine for p in modules[i].parameters())
        return found, sum(block.calls for i in mine for block in modules[i].blocks)

    expected, _ = steps(plain)
    _, theirs = steps(torchs)
    for name, form in FORMS.items():
        found, calls = steps(form)
        assert_equal(name, found, expected)
        assert calls == theirs or name not in ("function", "to the end"), name
