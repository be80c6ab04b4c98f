# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Regions beside autocast, autograd Functions, torch.func and custom operators."""

import pytest
import reprise
import torch
from helpers import ALL_FORMS, FUNCTION_FORMS, assert_as_plain, block, leaf


@pytest.mark.parametrize("form", ALL_FORMS.values(), ids=ALL_FORMS)
@pytest.mark.parametrize("cache", [False, True])
def test_autocast(form, cache):
    layers, x = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3)), leaf(4, 8)

    def function(t, linear):
        with torch.autocast("cpu", enabled=False):
            t = t.float() * linear.weight.sum()
        return linear(linear(t).sin()).exp()

    def step(region):
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=cache):
            h = x
            for linear in layers:
                h = region(function, h, linear)
            return h.float().sum()

    assert_as_plain(step, [x, *layers.parameters()], form)


@pytest.mark.parametrize("form", ALL_FORMS.values(), ids=ALL_FORMS)
def test_autocast_with_a_weight_that_is_cached_before_the_region(form):
    linear, x = torch.nn.Linear(8, 8), leaf(4, 8)

    def step(region):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return region(lambda t: linear(t).exp(), linear(x)).float().sum()

    assert_as_plain(step, [x, *linear.parameters()], form)


class Cube(torch.autograd.Function):
    """Reads its saved tensors as often as it likes, and saves a result of its own."""

    @staticmethod
    def forward(ctx, t, scale):
        square = t * t
        ctx.save_for_backward(t, square)
        ctx.scale = scale
        return square * t * scale

    @staticmethod
    def backward(ctx, gradient):
        t, _ = ctx.saved_tensors
        again, square = ctx.saved_tensors
        (_, same) = ctx.saved_tensors
        assert torch.equal(t, again) and torch.equal(same, square)
        return gradient * (square + 2 * t * again) * ctx.scale, None


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(t):
        return t.mul_(2)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_dirty(inputs[0])
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, gradient):
        (output,) = ctx.saved_tensors
        return gradient * 2 + output * 0


@pytest.mark.parametrize("form", ALL_FORMS.values(), ids=ALL_FORMS)
def test_autograd_functions(form):
    x = leaf(5)

    def function(t):
        t = Cube.apply(t.sin(), 3.0)
        return Cube.apply(Doubled.apply(t + 1).tan(), 0.5)

    assert_as_plain(lambda region: region(function, x).sum(), [x], form)


class RunsBackward(torch.autograd.Function):
    """A Function that is a region of its own: its backward runs a backward."""

    @staticmethod
    def forward(ctx, region, t):
        with torch.enable_grad():
            inner = t.detach().requires_grad_()
            result = region(block, inner)
        ctx.save_for_backward(inner, result)
        return result.detach()

    @staticmethod
    def backward(ctx, gradient):
        inner, result = ctx.saved_tensors
        return None, torch.autograd.grad(result, inner, gradient)[0]


@pytest.mark.parametrize("form", FUNCTION_FORMS.values(), ids=FUNCTION_FORMS)
def test_a_region_inside_an_autograd_function(form):
    x = leaf(5)
    assert_as_plain(lambda region: RunsBackward.apply(region, x.sin()).sum(), [x], form)


@pytest.mark.parametrize("form", ALL_FORMS.values(), ids=ALL_FORMS)
def test_vmap_inside_a_region(form):
    x = leaf(5, 3)

    def function(t):
        return torch.vmap(lambda row: (row.sin() * row).cumsum(0).exp())(t)

    assert_as_plain(lambda region: region(function, x).sum(), [x], form)


@pytest.mark.parametrize("form", ALL_FORMS.values(), ids=ALL_FORMS)
def test_torch_func_inside_a_region(form):
    x = leaf(5)

    def function(t):
        return torch.func.grad(lambda u: (u.sin() * t).exp().sum())(t.detach()) * t.sin()

    assert_as_plain(lambda region: region(function, x).sum(), [x], form)


@pytest.fixture(scope="module")
def custom():
    """Operators written in Python, with counters of their calls."""
    calls = {"scaled": 0, "accumulate": 0}

    @torch.library.custom_op("reprise_test::scaled", mutates_args=())
    def scaled(t: torch.Tensor, factor: float) -> torch.Tensor:
        calls["scaled"] += 1
        return t * factor

    scaled.register_autograd(
        lambda ctx, gradient: (gradient * ctx.factor, None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "factor", inputs[1]),
    )

    @torch.library.custom_op("reprise_test::accumulate", mutates_args=("total",))
    def accumulate(total: torch.Tensor, t: torch.Tensor) -> None:
        calls["accumulate"] += 1
        total.add_(t)

    return scaled, accumulate, calls


@pytest.mark.parametrize("form", ALL_FORMS.values(), ids=ALL_FORMS)
def test_custom_operators(form, custom):
    scaled, _, _ = custom
    x = leaf(5)

    def function(t):
        return scaled(scaled(t.sin(), 2.0).exp(), 3.0).tan()

    assert_as_plain(lambda region: region(function, x).sum(), [x], form)


@pytest.mark.parametrize("form", ALL_FORMS.values(), ids=ALL_FORMS)
def test_a_custom_operator_writes_to_a_tensor_from_outside_once(form, custom):
    _, accumulate, _ = custom
    x, total = leaf(5), torch.zeros(5)

    def function(t):
        h = t.sin()
        accumulate(total, h.detach())
        return h.exp()

    form(function, x).sum().backward()
    assert torch.equal(total, x.detach().sin())
    assert torch.equal(x.grad, x.detach().cos() * x.detach().sin().exp())


def test_a_policy_saves_results_of_custom_operators(custom):
    scaled, _, calls = custom
    x = leaf(5)
    for policy, again in (
        (["reprise_test::scaled"], 0),
        ([torch.ops.reprise_test.scaled.default], 0),
        (reprise.policies.save_nothing(), 1),
    ):
        with reprise.CheckpointScope(policy=policy):
            y = scaled(x.sin(), 2.0).exp()
        calls["scaled"] = 0
        y.sum().backward()
        assert calls["scaled"] == again
