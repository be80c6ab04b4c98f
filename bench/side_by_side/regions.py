# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Chains in regions of torch.utils.checkpoint: bench/chain.h for Python."""

import functools

import torch
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)


def chain(x, length):
    for _ in range(length):
        x = torch.sin(x)
    return x


def negations(x, length):
    """Operators of which autograd saves nothing, and then one that saves what they have made."""
    for _ in range(length):
        x = torch.neg(x)
    return torch.sin(x)


def backward(y, x, reentrant=False):
    if reentrant:  # which torch.autograd.grad does not work with
        torch.autograd.backward([y], [torch.ones(4)])
    else:
        torch.autograd.grad([y], [x], [torch.ones(4)])


def with_policy(answer):
    def policy(ctx, op, *args, **kwargs):
        return answer

    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    return functools.partial(checkpoint, use_reentrant=False, context_fn=contexts)


# By form and policy.
FORMS = {
    ("function", "none"): functools.partial(checkpoint, use_reentrant=False),
    ("function", "recompute"): with_policy(CheckpointPolicy.PREFER_RECOMPUTE),
    ("function", "save"): with_policy(CheckpointPolicy.MUST_SAVE),
    ("reentrant", "none"): functools.partial(checkpoint, use_reentrant=True),
}


def in_regions(form, x, length, depth, code=chain):
    if depth == 0:
        return code(x, length)
    return form(lambda h: in_regions(form, h, length, depth - 1, code), x)


def leaf():
    return torch.ones(4, requires_grad=True)


def run_floor(x, length, reentrant=False, code=chain):
    """The forward twice, the backward once."""
    y = code(x, length)
    code(x, length)
    backward(y, x, reentrant)


def run_region(form, policy, x, length, depth=1, code=chain):
    y = in_regions(FORMS[form, policy], x, length, depth, code)
    backward(y, x, form == "reentrant")
