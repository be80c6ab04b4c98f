# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""A saved parameter comes back as the parameter: attributes, hooks and main_grad are on it."""

import pytest
import reprise
import torch
from torch import nn

ROWS, WIDTH = 16, 8


class FusedLinear(torch.autograd.Function):
    """Adds the weight's gradient to weight.main_grad, as Megatron's layers do."""

    seen = []

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight.t()

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        FusedLinear.seen.append(weight)
        weight.main_grad += gradient.t() @ x
        weight.grad_added_to_main_grad = True
        return gradient @ weight, None


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH))
        self.weight.main_grad = torch.zeros(WIDTH, WIDTH)
        self.weight.grad_added_to_main_grad = False

    def forward(self, x):
        return FusedLinear.apply(x, self.weight)


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(Layer(), nn.GELU(), Layer())


def plain(model, x):
    return model(x)


def function(model, x):
    return reprise.checkpoint(model, x)


def weights_as_arguments(model, x):
    def run(t, first, second):
        return FusedLinear.apply(nn.functional.gelu(FusedLinear.apply(t, first)), second)

    return reprise.checkpoint(run, x, model[0].weight, model[2].weight)


def with_policy(model, x):
    options = reprise.CheckpointOptions(policy=reprise.policies.save_matmuls())
    return reprise.checkpoint(model, x, options=options)


def save_all(model, x):
    options = reprise.CheckpointOptions(policy=reprise.policies.save_everything())
    return reprise.checkpoint(model, x, options=options)


def unwatched(model, x):
    return reprise.checkpoint(model, x, options=reprise.CheckpointOptions(watch_operators=False))


def nested(model, x):
    return reprise.checkpoint(lambda t: reprise.checkpoint(model, t.sin()).sin(), x)


def applied(model, x):
    handle = reprise.apply_checkpointing(model, "0")
    try:
        return model(x)
    finally:
        handle.remove() if hasattr(handle, "remove") else reprise.remove_checkpointing(model)


def scope(model, x):
    with reprise.CheckpointScope():
        return model(x)


def scope_with_policy(model, x):
    with reprise.CheckpointScope(policy=reprise.policies.save_matmuls()):
        return model(x)


def scope_in_function(model, x):
    return reprise.checkpoint(lambda t: scope(model, t.sin()), x)


def budget(model, x):
    with reprise.MemoryBudget(max_overhead=0.5).step():
        return model(x)


def kept(model, x):
    return reprise.checkpoint(lambda t: reprise.keep(model, t.sin()).sin(), x)


def within(store):
    def form(model, x):
        with reprise.store_guard(store()):
            return model(x)

    form.__name__ = store.__name__
    return form


def region_in_store(model, x):
    with reprise.store_guard(reprise.stores.disk()):
        return reprise.checkpoint(model, x)


def saved_on_cpu(model, x):
    with reprise.save_on_cpu():
        return model(x)


def input_store(model, x):
    options = reprise.CheckpointOptions(input_store=reprise.stores.disk())
    return reprise.checkpoint(
        lambda t, w: FusedLinear.apply(t, w), model[0](x), model[2].weight, options=options
    )


FORMS = [
    plain,
    function,
    weights_as_arguments,
    with_policy,
    unwatched,
    nested,
    scope,
    scope_with_policy,
    scope_in_function,
    budget,
    kept,
    within(reprise.stores.disk),
    within(reprise.stores.compressed),
    region_in_store,
    saved_on_cpu,
    input_store,
]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_saved_parameters_are_the_parameters(form):
    model = make_model()
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    FusedLinear.seen.clear()
    form(model, x).square().sum().backward()
    weights = [model[2].weight, model[0].weight]
    assert [any(each is weight for each in FusedLinear.seen) for weight in weights] == [True, True]
    assert all(any(each is weight for weight in weights) for each in FusedLinear.seen)
    assert all(weight.grad_added_to_main_grad and weight.grad is None for weight in weights)
    assert all(weight.main_grad.abs().sum() > 0 for weight in weights)
