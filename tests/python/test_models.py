# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Modules of torch in regions, and features that training code combines with them."""

import copy
import functools

import pytest
import reprise
import torch
from helpers import ALL_FORMS, assert_as_plain, block, leaf, plain
from torch import nn
from torch.autograd import forward_ad
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint as torch_checkpoint

FORMS_PARAM = pytest.mark.parametrize("form", ALL_FORMS.values(), ids=ALL_FORMS)


class First(nn.Module):
    """The first result of a module that returns several."""

    def __init__(self, module, copies=1):
        super().__init__()
        self.module = module
        self.copies = copies

    def forward(self, x):
        return self.module(*[x[None]] * self.copies)[0]


class Looked(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 8, max_norm=1.0)  # writes to its weight

    def forward(self, x):
        return (self.embedding(torch.arange(4)) * x).sin()


MODULES = {
    "lstm": lambda: First(nn.LSTM(8, 8, 2, dropout=0.3)),
    "gru": lambda: First(nn.GRU(8, 8, batch_first=True)),
    "attention": lambda: First(nn.MultiheadAttention(8, 2, dropout=0.1), copies=3),
    "encoder": lambda: First(nn.TransformerEncoderLayer(8, 2, 16)),
    "decoder": lambda: First(nn.TransformerDecoderLayer(8, 2, 16), copies=2),
    "embedding with max_norm": Looked,
    "spectral norm": lambda: parametrizations.spectral_norm(nn.Linear(8, 8)),
    "weight norm": lambda: parametrizations.weight_norm(nn.Linear(8, 8)),
    "batch norm": lambda: nn.Sequential(nn.BatchNorm1d(8), nn.Dropout(), nn.RReLU()),
    "convolution": lambda: First(nn.Sequential(nn.Conv1d(4, 4, 3), nn.GroupNorm(2, 4))),
    "scripted": lambda: torch.jit.script(nn.Sequential(nn.Linear(8, 8), nn.Tanh())),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@FORMS_PARAM
@pytest.mark.parametrize("make", MODULES.values(), ids=MODULES)
def test_modules(form, make):
    module, x = make(), leaf(4, 8)
    for _ in range(4):  # a script profiles its first runs
        module(x)
    before = copy.deepcopy(module.state_dict())
    states = []

    def step(region):
        module.load_state_dict(before)
        loss = region(module, x).sin().sum()
        states.append(copy.deepcopy(module.state_dict()))
        return loss

    assert_as_plain(step, [x, *module.parameters()], form)
    for name, value in states[0].items():
        assert torch.equal(states[1][name], value), name


@FORMS_PARAM
@pytest.mark.parametrize("way", ["data", "no_grad"])
def test_optimizers_that_run_in_backward(form, way):
    x = leaf(4, 8)

    def update(parameter):
        if way == "data":
            parameter.data.add_(parameter.grad, alpha=-0.1)
        else:
            with torch.no_grad():
                parameter.add_(parameter.grad, alpha=-0.1)
        parameter.grad = None

    def train(region):
        torch.manual_seed(0)
        layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        for parameter in layers.parameters():
            parameter.register_post_accumulate_grad_hook(update)
        for _ in range(3):
            h = x
            for layer in layers:
                h = region(lambda t, layer=layer: layer(t).tanh() * layer(t).sin(), h)
            h.sum().backward()
        return [p.detach() for p in layers.parameters()]

    for got, expected in zip(train(form), train(plain), strict=True):
        assert torch.equal(got, expected)


@FORMS_PARAM
def test_functional_calls_and_ensembles(form):
    layer, x, weights = nn.Linear(8, 8), leaf(4, 8), leaf(3, 8, 8)

    def function(parameters, t):
        h = torch.func.functional_call(layer, parameters, (t,)).sin()
        each = torch.vmap(lambda w: torch.dropout((h @ w).sin(), 0.5, True), randomness="different")
        return each(weights).sum(0)

    parameters = dict(layer.named_parameters())
    assert_as_plain(
        lambda region: region(function, parameters, x).sum(),
        [x, weights, *parameters.values()],
        form,
    )


@pytest.mark.filterwarnings("ignore:.*Profiler clears events")
@FORMS_PARAM
def test_anomaly_mode_and_the_profiler(form):
    x = leaf(5)
    with torch.autograd.set_detect_anomaly(True), torch.profiler.profile():
        assert_as_plain(lambda region: region(block, x).sum(), [x], form)


@FORMS_PARAM
def test_numerical_gradients(form):
    x = torch.randn(3, dtype=torch.double, requires_grad=True)
    run = functools.partial(form, lambda t: t.sin() * t.exp())
    assert torch.autograd.gradcheck(run, x)
    assert torch.autograd.gradgradcheck(run, x)


@pytest.mark.parametrize("form", ALL_FORMS.values(), ids=ALL_FORMS)
def test_forward_mode_derivatives(form):
    x = leaf(5)

    def step(region):
        with forward_ad.dual_level():
            y = region(lambda t: t.sin().exp() * t, forward_ad.make_dual(x, torch.ones(5)))
            tangent = forward_ad.unpack_dual(y).tangent
            (gradient,) = torch.autograd.grad(y.sum() + tangent.sum(), x)
        return (x * gradient.detach()).sum()

    assert_as_plain(step, [x], form)


@FORMS_PARAM
def test_a_region_of_torch_inside_one_of_ours(form):
    x = leaf(5)

    def step(region):
        inner = (
            plain if region is plain else functools.partial(torch_checkpoint, use_reentrant=False)
        )
        return region(lambda t: inner(block, t.sin()), x).sum()

    assert_as_plain(step, [x], form)


@FORMS_PARAM
def test_a_region_of_ours_inside_one_of_torch(form):
    x = leaf(5)

    def step(region):
        if region is plain:
            return block(x.sin()).sum()
        return torch_checkpoint(lambda t: form(block, t.sin()), x, use_reentrant=False).sum()

    assert_as_plain(step, [x], form)


def test_what_a_region_cannot_know_is_an_error():
    """Code with state of its own, which the recomputation finds changed."""

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("steps", torch.zeros(()))

        def forward(self, x):
            self.steps = self.steps + 1  # another tensor, so the recomputation counts on
            return x.sin() * self.steps.exp()

    x = leaf(5)
    y = reprise.checkpoint(Counting(), x)
    with pytest.raises(reprise.DeterminismError):
        y.sum().backward()
    values = iter([x, x * 2])
    y = reprise.checkpoint(lambda argument: next(argument).sin().exp(), values)
    with pytest.raises(reprise.CheckpointError):
        y.sum().backward()
    with reprise.CheckpointScope():
        y = Counting()(x)
    y.sum().backward()
    assert torch.equal(x.grad, x.detach().cos() * torch.ones(()).exp())
