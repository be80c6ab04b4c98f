# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Cases in which selective checkpointing has gone wrong silently elsewhere."""

import pytest
import reprise
import torch
from helpers import (
    assert_as_plain,
    assert_same,
    current_bytes,
    leaf,
    plain,
    scope_with,
    with_options,
)
from torch import nn

BOTH = {"function": with_options, "scope": scope_with}
BOTH_PARAM = pytest.mark.parametrize("make", BOTH.values(), ids=BOTH)


def saving(*operators):
    def policy(context, op, *args, **kwargs):
        return str(op) in operators

    return policy


@BOTH_PARAM
@pytest.mark.parametrize(
    "operators",
    [
        ("aten.rand_like.default",),
        ("aten.native_dropout.default",),
        ("aten.bernoulli_.float",),
        ("aten.randn.default", "aten.mul.Tensor"),
    ],
)
def test_a_random_operator_is_saved_and_a_later_one_computed_again(make, operators):
    x = leaf(64)

    def function(t):
        t = t * torch.rand_like(t)
        t = torch.dropout(t.sin(), 0.5, True) * torch.randn(64)
        return torch.dropout(t, 0.3, True) * torch.rand_like(t)

    assert_as_plain(lambda region: region(function, x).sum(), [x], make(policy=saving(*operators)))


@BOTH_PARAM
def test_a_write_to_a_saved_result_inside_the_region(make):
    x = leaf(8, 8)

    def function(t):
        h = t @ t
        total = h.sum().detach()
        h.mul_(2).relu_()
        return (h * total).exp()

    for options in ({}, {"allow_cache_entry_mutation": True}):
        form = make(policy=[torch.ops.aten.mm.default], **options)
        assert_as_plain(lambda region: region(function, x / 10).sum(), [x], form)


@BOTH_PARAM
def test_saving_everything_over_dropout(make):
    x = leaf(64)
    form = make(policy=lambda *args, **kwargs: True)
    assert_as_plain(
        lambda region: region(lambda t: nn.functional.dropout(t.sin(), 0.5).exp(), x).sum(),
        [x],
        form,
    )


def test_two_saved_matmuls_in_another_order():
    def function(p, q):
        if reprise.is_recomputing():
            second, first = q @ q, p @ p
        else:
            first, second = p @ p, q @ q
        return (first.sin() * second).exp()

    for policy in ([torch.ops.aten.mm.default], reprise.policies.save_everything()):
        y = with_options(policy=policy)(function, leaf(4, 4), leaf(4, 4))
        with pytest.raises(reprise.DeterminismError, match="another tensor than"):
            y.sum().backward()


@BOTH_PARAM
def test_second_backward_double_backward_and_retry_under_a_policy(make):
    x = leaf(5)

    def run(region):
        y = region(lambda t: torch.dropout(t.sin(), 0.5, True).exp() * t, x)
        first = torch.autograd.grad(y.sum(), x, create_graph=True)[0]
        second = torch.autograd.grad(first.sum(), x, retain_graph=True)[0]
        return [first, second, torch.autograd.grad(y.sum(), x)[0]]

    torch.manual_seed(0)
    expected = run(plain)
    torch.manual_seed(0)
    assert_same(run(make(policy=reprise.policies.save_everything())), expected)


@pytest.mark.skipif(
    not hasattr(reprise.CheckpointPolicy, "MUST_CPU_OFFLOAD"),
    reason="this torch has no such answers",
)
@pytest.mark.parametrize("answer", ["MUST_CPU_OFFLOAD", "PREFER_CPU_OFFLOAD"])
def test_offload_answers_save(answer):
    x = leaf(8)

    def policy(context, op, *args, **kwargs):
        return getattr(reprise.CheckpointPolicy, answer)

    def function(t):
        return t.sin().repeat(4).exp()

    with reprise.collect_memory_report():
        form = with_options(policy=policy, name="offloaded")
        assert_as_plain(lambda region: region(function, x).sum(), [x], form)
    (region,) = reprise.memory_report().regions
    assert {op.name: op.replays for op in region.operators}["aten::sin"] == 0


@pytest.mark.parametrize(
    "make, policy",
    [
        (with_options, ["aten::_to_copy"]),
        (with_options, lambda *args, **kwargs: True),
        (scope_with, ["aten::_to_copy"]),
        (scope_with, lambda *args, **kwargs: True),
    ],
)
def test_a_cast_that_a_sibling_has_cached(make, policy):
    layer, x = nn.Linear(4, 4), leaf(3, 4)
    form = make(policy=policy)

    def step(region):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return region(layer, region(layer, x)).float().sum()

    assert_as_plain(step, [x, *layer.parameters()], form)


@pytest.mark.parametrize(
    "make, shift",
    [
        (with_options, lambda t: t.neg()),
        (scope_with, lambda t: t.neg()),
        (with_options, lambda t: t + 1),
        (scope_with, lambda t: t + 1),
    ],
)
def test_saving_everything_keeps_no_more_than_a_plain_run(make, shift):
    x = leaf(1000)

    def function(t):
        for _ in range(5):
            t = shift(t).exp()
        return t.neg()

    def kept(region):
        before = current_bytes()
        argument = x.clone()
        y = region(function, argument)
        del argument
        return current_bytes() - before - y.nbytes

    # The function form keeps its argument, too.
    extra = 4000 if make is with_options else 0
    assert kept(make(policy=reprise.policies.save_everything())) == kept(plain) + extra
