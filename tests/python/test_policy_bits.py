# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Gradients under each ready policy, list, function and combinator."""

import functools

import pytest
import reprise
import torch
from helpers import assert_as_plain, leaf, scope_with, with_options
from reprise import CheckpointPolicy, policies
from torch import nn

MM = torch.ops.aten.mm.default
ADDMM = torch.ops.aten.addmm.default


class Mlp(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.up = nn.Linear(width, width)
        self.middle = nn.Linear(width, width, bias=False)
        self.down = nn.Linear(width, width)

    def forward(self, x):
        with reprise.name_scope("mlp"):
            with reprise.name_scope("up"):
                h = self.up(x).tanh_()
            h = nn.functional.dropout(self.middle(h), 0.5).sin()
            h = reprise.checkpoint_name(self.down(h), "down")
        return nn.functional.layer_norm(h * h.exp(), h.shape[-1:])


def by_function(answer, *operators):
    def policy(context, op, *args, **kwargs):
        return answer if op in operators else CheckpointPolicy.PREFER_RECOMPUTE

    return policy


READY = {
    "save_everything": policies.save_everything(),
    "save_nothing": policies.save_nothing(),
    "save_matmuls": policies.save_matmuls(),
    "save_attention": policies.save_attention(),
    "save_compute_intensive": policies.save_compute_intensive(),
    "save_operators": policies.save_operators("aten::mm", ADDMM),
    "save_named": policies.save_named(["mlp/up", "down"]),
    "every_nth_matmul": policies.every_nth_matmul(2),
    "offload": policies.offload(policies.save_matmuls()),
    "keep_in": policies.keep_in(reprise.stores.packed(), policies.save_everything()),
    "first_match": policies.first_match([MM], policies.every_nth_matmul(2)),
    "override_with": policies.override_with(policies.save_everything(), ["aten::mm"]),
    "for_region": policies.for_region("other", [MM], policies.save_matmuls()),
    "list": [MM, ADDMM],
    "tuple of names": ("aten::mm", "aten::addmm"),
    "must save": by_function(CheckpointPolicy.MUST_SAVE, MM, ADDMM),
    "prefer save": by_function(CheckpointPolicy.PREFER_SAVE, MM, torch.ops.aten.sin.default),
    "must recompute": by_function(CheckpointPolicy.MUST_RECOMPUTE, MM, ADDMM),
    "bools": lambda context, op, *args, **kwargs: op in (MM, ADDMM),
    "always": lambda *args, **kwargs: True,
    "never": lambda *args, **kwargs: False,
}
if hasattr(CheckpointPolicy, "MUST_CPU_OFFLOAD"):
    READY["cpu offload"] = by_function(CheckpointPolicy.MUST_CPU_OFFLOAD, MM)


@pytest.mark.parametrize("name", READY)
@pytest.mark.parametrize("replay", ["function", "tape", "scope"])
def test_bits(name, replay):
    model, x = Mlp(), leaf(4, 8)
    if replay == "scope":
        form = scope_with(policy=READY[name])
    else:
        form = with_options(policy=READY[name], replay=replay)

    def step(region):
        return region(model, region(model, x)).square().sum()

    assert_as_plain(step, [x, *model.parameters()], form)


@pytest.mark.parametrize("name", READY)
def test_bits_by_context_fn(name):
    model, x = Mlp(), leaf(4, 8)
    context_fn = functools.partial(reprise.create_selective_checkpoint_contexts, READY[name])

    def form(function, *args):
        return reprise.checkpoint(function, *args, context_fn=context_fn)

    assert_as_plain(lambda region: region(model, x).square().sum(), [x, *model.parameters()], form)
