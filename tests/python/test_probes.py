# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Cases in which checkpointing has gone wrong silently elsewhere: right here, or an error."""

import gc

import pytest
import reprise
import torch
from helpers import (
    ALL_FORMS,
    FUNCTION_FORMS,
    TAPE_FORMS,
    assert_as_plain,
    assert_same,
    current_bytes,
    leaf,
    plain,
    run_step,
)
from torch import nn

FORMS_PARAM = pytest.mark.parametrize("form", ALL_FORMS.values(), ids=ALL_FORMS)
FUNCTIONS = pytest.mark.parametrize("form", FUNCTION_FORMS.values(), ids=FUNCTION_FORMS)
TAPES = pytest.mark.parametrize("form", TAPE_FORMS.values(), ids=TAPE_FORMS)


@FORMS_PARAM
@pytest.mark.parametrize("norm", [nn.BatchNorm1d, nn.InstanceNorm1d])
def test_running_statistics_are_updated_once(form, norm):
    keywords = {"track_running_stats": True, "affine": True}
    models = [nn.Sequential(norm(6, **keywords), nn.ReLU(), norm(6, **keywords)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    x = leaf(4, 6, 3)
    results = [
        run_step(
            lambda region=region, model=model: region(model, x).square().sum(),
            [x, *model.parameters()],
        )
        for region, model in zip((plain, form), models, strict=True)
    ]
    assert_same(*results)
    for one, other in zip(models[0].buffers(), models[1].buffers(), strict=True):
        assert torch.equal(one, other)


@FUNCTIONS
@pytest.mark.parametrize(
    "first, second",
    [
        (lambda t: t.sin(), lambda t: t.cos()),
        (lambda t: t * 2.0, lambda t: t * 3.0),
        (lambda t: t.sin() * t.cos().exp(), lambda t: t.cos() * t.sin().exp()),
        (lambda t: t + torch.zeros(5), lambda t: t + torch.ones(5)),
        (lambda t: t.roll(1), lambda t: t.roll(2)),
        (lambda t: t.flip(0), lambda t: t),
    ],
)
def test_other_values_of_the_same_shape(form, first, second):
    x = leaf(5)
    y = form(lambda t: (second if reprise.is_recomputing() else first)(t).exp().sin(), x)
    with pytest.raises(reprise.DeterminismError):
        y.sum().backward()


class Holder:
    def __init__(self, tensor):
        self.tensor = tensor

    def multiply(self, t):
        return (t * self.tensor).exp()


MODIFIED = {
    "captured": lambda form, x, b: form(lambda t: (t * b).exp(), x),
    "captured, only read": lambda form, x, b: form(lambda t: (t + b).exp(), x),
    "keyword": lambda form, x, b: form(lambda t, k: (t * k).exp(), x, k=b),
    "in a list": lambda form, x, b: form(lambda v: (v[0] * v[1]).exp(), [x, b]),
    "in a dict of tuples": lambda form, x, b: form(
        lambda v: (v["k"][0] * v["k"][1]).exp(), {"k": (x, b)}
    ),
    "positional": lambda form, x, b: form(lambda t, u: (t * u).exp(), x, b),
    "attribute": lambda form, x, b: form(Holder(b).multiply, x),
    "view": lambda form, x, b: form(lambda t, v=b[:]: (t * v).exp(), x),
}


@FORMS_PARAM
@pytest.mark.parametrize("how", MODIFIED)
def test_tensors_modified_after_forward(form, how):
    x, b = leaf(5), torch.rand(5)
    expected = torch.autograd.grad(MODIFIED[how](plain, x, b.clone()).sum(), x)[0]
    y = MODIFIED[how](form, x, b)
    b.add_(1)
    try:
        got = torch.autograd.grad(y.sum(), x)[0]
    except RuntimeError as error:  # torch's own, where autograd holds the tensor
        assert isinstance(error, reprise.MutationError) or "inplace operation" in str(error)
    else:
        assert torch.equal(got, expected)


@FORMS_PARAM
def test_an_optimizer_step_between_forward_and_backward(form):
    layer, x = nn.Linear(4, 4), leaf(3, 4)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
    layer(x).sum().backward()
    y = form(lambda t: layer(layer(t).sin()), x)
    optimizer.step()
    with pytest.raises(RuntimeError, match="version"):
        y.sum().backward()


@FORMS_PARAM
def test_a_function_that_reads_its_saved_tensors_twice(form):
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            ctx.save_for_backward(t, t.exp())
            return t.exp()

        @staticmethod
        def backward(ctx, gradient):
            first, _ = ctx.saved_tensors
            _, second = ctx.saved_tensors
            return gradient * second + 0 * first

    x = leaf(5)
    assert_as_plain(lambda region: region(lambda t: Twice.apply(t.sin()), x).sum(), [x], form)


@FORMS_PARAM
def test_partial_backwards_hold_nothing(form):
    x, w = leaf(1000), leaf(1000)
    y = form(lambda t: ((t * w).sin() * w).exp(), x).sum()
    y.backward(inputs=[x], retain_graph=True)
    gc.collect()
    before = current_bytes()
    for _ in range(5):
        y.backward(inputs=[x], retain_graph=True)
        assert current_bytes() == before


@FORMS_PARAM
def test_a_generator_of_ones_own(form):
    x = leaf(50)

    def step(region):
        generator = torch.Generator().manual_seed(3)
        return region(lambda t: (t * torch.rand(50, generator=generator)).sin(), x).sum()

    assert_as_plain(step, [x], form)


@FORMS_PARAM
def test_the_step_after_an_exception_in_a_recomputation(form):
    x = leaf(5)
    fails = []

    def function(t):
        if fails and reprise.is_recomputing():
            raise KeyError
        return torch.dropout(t.sin(), 0.5, True).exp()

    def step(region):
        return region(function, x).sum()

    fails.append(1)
    if form in FUNCTION_FORMS.values() or form is ALL_FORMS["policy"]:
        with pytest.raises(KeyError):
            form(function, x).sum().backward()
    fails.clear()
    assert_as_plain(step, [x], form)


@TAPES
def test_a_tensor_from_outside_that_a_tape_reads_and_then_writes(form):
    x = leaf(5)

    def step(region):
        average = torch.ones(5)

        def function(t):
            h = (t + average).exp()
            average.mul_(0.5).add_(h.detach())
            return h * h

        return region(function, x).sum() + average.sum()

    assert_as_plain(step, [x], form)


def test_no_leak_in_twenty_steps_with_functions_and_early_stop():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            ctx.save_for_backward(t)
            return t * t

        @staticmethod
        def backward(ctx, gradient):
            (t,) = ctx.saved_tensors
            return 2 * gradient * t

    x = leaf(1000)

    def step():
        x.grad = None
        reprise.checkpoint(lambda t: Square.apply(Square.apply(t).sin()), x).sum().backward()

    step()
    gc.disable()
    try:
        before = current_bytes()
        for _ in range(20):
            step()
        assert current_bytes() == before
    finally:
        gc.enable()
