# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""A small GPT, and the ways to shard it of which sharding.py prints a row each."""

import contextlib
import functools

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FullyShardedDataParallel,
    MixedPrecisionPolicy,
    fully_shard,
)
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor import parallel as tp

WIDTH, HEADS, TOKENS, BATCH, VOCABULARY, BLOCKS = 128, 4, 64, 16, 64, 4


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, h):
        q, k, v = (
            f(h).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2)
            for f in (self.q, self.k, self.v)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, h):
        return self.down(F.gelu(self.up(h)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.attention = nn.LayerNorm(WIDTH), Attention()
        self.mlp_norm, self.mlp = nn.LayerNorm(WIDTH), Mlp()

    def forward(self, h):
        h = h + F.dropout(self.attention(self.attention_norm(h)), 0.1)
        return h + F.dropout(self.mlp(self.mlp_norm(h)), 0.1)


class InRegion(nn.Module):
    """A unit around a region."""

    def __init__(self, block, region):
        super().__init__()
        self.block, self.region = block, region

    def forward(self, h):
        return self.region(self.block, h)


class Gpt(nn.Module):
    """Runs its blocks in regions of `size` blocks."""

    def __init__(self, blocks, region, size):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(blocks)
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)
        self.region, self.size = region, size

    def forward(self, tokens):
        h = self.embedding(tokens)
        for first in range(0, len(self.blocks), self.size):
            part = self.blocks[first : first + self.size]
            h = self.region(lambda h, part=part: functools.reduce(lambda h, b: b(h), part, h), h)
        return self.head(self.norm(h))


class Setting:
    """A way to shard. Without options: fully_shard() of each block."""

    nestings = ("around a unit", "in a unit", "around two units")
    micro_batches = 1

    def __init__(self, mesh_shape=(2,), **options):
        self.mesh_shape, self.options = mesh_shape, options

    def mesh(self):
        names = ("replicate", "shard")[-len(self.mesh_shape) :]
        return init_device_mesh("cpu", self.mesh_shape, mesh_dim_names=names)

    def make(self, region, nesting):
        """Returns the sharded model, the same on all ranks."""
        torch.manual_seed(0)
        blocks = [Block() for _ in range(BLOCKS)]
        if nesting == "in a unit":
            blocks = [InRegion(block, region) for block in blocks]
            region = lambda function, h: function(h)  # noqa: E731
        return self.shard(Gpt(blocks, region, 2 if "two" in nesting else 1))

    def shard(self, model):
        options = {"mesh": self.mesh(), **self.options}
        for block in model.blocks:
            fully_shard(block, **options)
        return fully_shard(model, **options)

    def data(self, step):
        """Returns the micro-batches of this rank."""
        torch.manual_seed(1000 * step + self.seed())
        size = (self.micro_batches, BATCH // self.micro_batches, TOKENS)
        return torch.randint(VOCABULARY, size).unbind()

    def seed(self):
        return dist.get_rank()

    def around_micro_batch(self, model, is_last):
        return contextlib.nullcontext()

    def loss(self, model, tokens):
        logits = model(tokens)
        return F.cross_entropy(logits.flatten(0, 1).float(), tokens.roll(-1, 1).flatten())


class Accumulated(Setting):
    """Gradients are reduced with the last micro-batch alone."""

    micro_batches = 2

    def around_micro_batch(self, model, is_last):
        model.set_requires_gradient_sync(is_last)
        return contextlib.nullcontext()


class Older(Setting):
    """FullyShardedDataParallel (FSDP1)."""

    def shard(self, model):
        wrap = functools.partial(
            FullyShardedDataParallel, use_orig_params=True, device_id=torch.device("cpu")
        )
        for i, block in enumerate(model.blocks):
            model.blocks[i] = wrap(block)
        return wrap(model)


class TensorParallel(Setting):
    """Each block over the ranks of a mesh's last dimension, and fully_shard() over the first."""

    nestings = ("around a block", "around two blocks")

    def __init__(self, mesh_shape=(2,), is_in_sequence=False, has_parallel_loss=False):
        super().__init__(mesh_shape)
        self.is_in_sequence, self.has_parallel_loss = is_in_sequence, has_parallel_loss
        if len(mesh_shape) == 2:
            self.nestings = ("around a unit", "around two units")

    def plan(self):
        plan = {f"attention.{name}": tp.ColwiseParallel() for name in "qkv"}
        plan["mlp.up"] = tp.ColwiseParallel()
        if not self.is_in_sequence:
            rows = tp.RowwiseParallel()
            return {**plan, "attention.out": rows, "mlp.down": rows}
        rows = tp.RowwiseParallel(output_layouts=Shard(1))
        gather = tp.PrepareModuleInput(
            input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)
        )
        norms = {"attention_norm": tp.SequenceParallel(), "mlp_norm": tp.SequenceParallel()}
        gathered = {"attention": gather, "mlp": gather}
        return {**plan, **norms, **gathered, "attention.out": rows, "mlp.down": rows}

    def shard(self, model):
        mesh = self.mesh()
        ranks = mesh if mesh.ndim == 1 else mesh["shard"]
        for block in model.blocks:
            tp.parallelize_module(block, ranks, self.plan())
        tp.parallelize_module(model, ranks, self.outer_plan())
        if mesh.ndim == 2:
            for block in model.blocks:
                fully_shard(block, mesh=mesh["replicate"])
            fully_shard(model, mesh=mesh["replicate"])
        return model

    def outer_plan(self):
        plan = {}
        if self.is_in_sequence:
            plan["embedding"] = tp.RowwiseParallel(
                input_layouts=Replicate(), output_layouts=Shard(1)
            )
            plan["norm"] = tp.SequenceParallel()
        if self.is_in_sequence or self.has_parallel_loss:
            plan["head"] = tp.ColwiseParallel(
                input_layouts=Shard(1) if self.is_in_sequence else Replicate(),
                output_layouts=Shard(-1) if self.has_parallel_loss else Replicate(),
                use_local_output=not self.has_parallel_loss,
            )
        return plan

    def seed(self):
        return dist.get_rank() // self.mesh_shape[-1]

    def around_micro_batch(self, model, is_last):
        return tp.loss_parallel() if self.has_parallel_loss else contextlib.nullcontext()


IN_MIXED_PRECISION = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
SETTINGS = {
    "`fully_shard()`": Setting(),
    "`reshard_after_forward=False`": Setting(reshard_after_forward=False),
    "mixed precision": Setting(mp_policy=IN_MIXED_PRECISION),
    "`CPUOffloadPolicy`": Setting(offload_policy=CPUOffloadPolicy(pin_memory=False)),
    "gradients accumulated": Accumulated(),
    "FSDP1": Older(),
    "HSDP, mesh 2 x 1": Setting((2, 1)),
    "HSDP, mesh 1 x 2": Setting((1, 2)),
    "tensor parallel": TensorParallel(),
    "sequence parallel": TensorParallel(is_in_sequence=True),
    "loss parallel": TensorParallel(is_in_sequence=True, has_parallel_loss=True),
    "TP and FSDP2, mesh 2 x 1": TensorParallel((2, 1)),
    "TP and FSDP2, mesh 1 x 2": TensorParallel((1, 2)),
}
