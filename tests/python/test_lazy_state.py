# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""State that a block makes in its first forward, in a region: the recomputation finds it there."""

import functools

import pytest
import reprise
import torch
import torch.nn.functional as F
from helpers import ALL_FORMS, plain, with_options
from torch import nn

POLICIES = reprise.policies
FORMS = {
    **ALL_FORMS,
    "matmuls": with_options(policy=POLICIES.save_matmuls()),
    "everything": with_options(policy=POLICIES.save_everything()),
    "nothing": with_options(policy=POLICIES.save_nothing()),
    "matmuls to the end": with_options(policy=POLICIES.save_matmuls(), early_stop=False),
}


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.state = None


class Mask(Base):
    def forward(self, x):
        n = x.shape[-2]
        if self.state is None:
            self.state = torch.tril(torch.ones(n, n))
        h = self.linear(x)
        scores = (h @ h.transpose(-1, -2)).masked_fill(self.state[:n, :n] == 0, -1e4)
        return scores.softmax(-1) @ x


class BoolMask(Base):
    def forward(self, x):
        n = x.shape[-2]
        if self.state is None:
            self.state = torch.ones(n, n, dtype=torch.bool).tril()
        h = self.linear(x)
        return F.scaled_dot_product_attention(h, h, h, attn_mask=self.state).sin()


class Rotary(Base):
    def forward(self, x):
        if self.state is None:
            angles = torch.outer(torch.arange(8.0), torch.arange(8.0) / 8)
            self.state = angles.cos(), angles.sin()
        h = self.linear(x)
        return (h * self.state[0] + h.flip(-1) * self.state[1]).tanh()


class Buffer(Base):
    def forward(self, x):
        if not hasattr(self, "table"):
            self.register_buffer("table", torch.arange(8.0).cos(), persistent=False)
        return (self.linear(x) * self.table).tanh()


class Cached(Base):
    def __init__(self):
        super().__init__()
        self.table = functools.lru_cache(None)(lambda n: torch.arange(float(n)).cos())

    def forward(self, x):
        return (self.linear(x) * self.table(8)).tanh()


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.LazyLinear(8)

    def forward(self, x):
        return self.linear(x).tanh()


class DataDependent(Base):
    def forward(self, x):
        h = self.linear(x)
        if self.state is None:
            self.state = nn.Parameter(1 / (h.detach().std(0) + 1e-3))
        return (h * self.state).tanh()


class Quantised(Base):
    def forward(self, x):
        if self.state is None:
            scale = self.linear.weight.detach().abs().amax(1, keepdim=True) / 127
            self.state = (self.linear.weight.detach() / scale).round().to(torch.int8), scale
        h = self.linear(x).tanh()
        return (h @ (self.state[0].to(x.dtype) * self.state[1]).T).sin()


class QuantisedForGood(Quantised):
    """Drops the weight that it has quantised, as loaders of quantised models do."""

    def __init__(self):
        super().__init__()
        self.dropped = nn.Parameter(torch.randn(8, 8), requires_grad=False)

    def forward(self, x):
        if self.dropped.numel() > 0:
            self.scale = self.dropped.abs().amax(1, keepdim=True) / 127
            self.whole = (self.dropped / self.scale).round().to(torch.int8)
            self.dropped.data = torch.empty(0)
        return super().forward(x) @ (self.whole.to(x.dtype) * self.scale).T


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(
    "block",
    [Mask, BoolMask, Rotary, Buffer, Cached, Lazy, DataDependent, Quantised, QuantisedForGood],
)
def test_gradients_are_those_of_the_plain_run(form, block):
    def steps(region):
        torch.manual_seed(0)
        module = block()
        x = torch.randn(2, 8, 8, generator=torch.Generator().manual_seed(1))
        gradients = []
        for _ in range(2):
            region(module, x).square().sum().backward()
            gradients.append(module.linear.weight.grad.clone())
            module.zero_grad()
        return gradients

    for got, expected in zip(steps(form), steps(plain), strict=True):
        assert torch.equal(got, expected)


def test_the_first_error_is_raised_if_the_tensors_differ():
    x = torch.ones(3, requires_grad=True)
    y = with_options(policy=["aten::exp"], name="block")(
        lambda t: (t.cos() if reprise.is_recomputing() else t.sin()).exp().sin(), x
    )
    with pytest.raises(
        reprise.DeterminismError, match="operator 0 of the recomputation is aten::cos"
    ):
        y.sum().backward()


def test_random_numbers_are_those_of_forward_without_the_trace():
    cache = {}

    def block(t):
        if not cache:
            cache["scale"] = torch.arange(5.0).cos()
        return torch.dropout((t * cache["scale"]).sin(), 0.5, True).exp()

    def gradient(region):
        cache.clear()
        torch.manual_seed(0)
        x = torch.ones(5, requires_grad=True)
        region(block, x).sum().backward()
        return x.grad, torch.get_rng_state()

    expected = gradient(plain)
    for policy in (POLICIES.save_everything(), POLICIES.save_nothing(), ["aten::sin"]):
        got = gradient(with_options(policy=policy))
        assert torch.equal(got[0], expected[0])
        assert torch.equal(got[1], expected[1])
