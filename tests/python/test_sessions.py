# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Backwards of all kinds, and nested regions. Groups and threads have tests of their own."""

import pytest
import reprise
import torch
from helpers import (
    ALL_FORMS,
    assert_as_plain,
    block,
    leaf,
    plain,
)


def assert_equal_all(got, expected):
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        assert torch.equal(one, other)


def compare(run, form):
    """run(region) returns tensors, which have to be the same bits in a plain run."""
    torch.manual_seed(0)
    expected = run(plain)
    torch.manual_seed(0)
    assert_equal_all(run(form), expected)


FORMS_PARAM = pytest.mark.parametrize("form", ALL_FORMS.values(), ids=ALL_FORMS)


@FORMS_PARAM
def test_several_backwards_of_a_retained_graph(form):
    x = leaf(5)

    def run(region):
        x.grad = None
        y = region(block, x)
        gradients = []
        for _ in range(3):
            y.backward(torch.ones(5), retain_graph=True)
            gradients.append(x.grad.clone())
        y.sum().backward()
        return [*gradients, x.grad]

    compare(run, form)


@FORMS_PARAM
def test_a_second_backward_of_a_released_graph_is_torchs_error(form):
    x = leaf(5)
    y = form(block, x)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.sum().backward()


@FORMS_PARAM
def test_grad_of_inputs_inside_and_outside(form):
    x, w = leaf(5), leaf(5)
    inner = []

    def function(t):
        h = t.sin() * w
        inner[:] = [h]
        return (h * h).exp()

    def run(region):
        y = region(function, x)
        h = inner[0]
        first = torch.autograd.grad(y.sum(), [x], retain_graph=True)
        second = torch.autograd.grad(y.sum(), [w, h], retain_graph=True)
        x.grad = w.grad = None
        y.sum().backward(inputs=[x], retain_graph=True)
        assert w.grad is None
        return [*first, *second, x.grad]

    compare(run, form)


@FORMS_PARAM
def test_backwards_of_single_results(form):
    x = leaf(5)

    def run(region):
        first, second = region(lambda t: (t.sin().exp(), (t * t).tan()), x)
        one = torch.autograd.grad(second.sum(), x)
        two = torch.autograd.grad(first.sum(), x)
        return [*one, *two]

    compare(run, form)


@FORMS_PARAM
def test_double_and_triple_backward(form):
    x = leaf(5)

    def run(region):
        y = region(block, x)
        gradients = []
        for _ in range(3):
            (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)
            gradients.append(y)
        return gradients

    compare(run, form)


@FORMS_PARAM
def test_gradient_penalty(form):
    layer, x = torch.nn.Linear(4, 4), leaf(3, 4)

    def step(region):
        y = region(lambda t: layer(t).tanh(), x)
        (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return y.sum() + region(lambda g: g.square().sum(), gradient)

    assert_as_plain(step, [x, *layer.parameters()], form)


@FORMS_PARAM
def test_a_backward_inside_a_region(form):
    x, w = leaf(5), leaf(5)

    def function(t):
        h = (t * w).sin().exp()
        (gradient,) = torch.autograd.grad(h.sum(), w, retain_graph=True)
        return (h * gradient.detach()).tan()

    assert_as_plain(lambda region: region(function, x).sum(), [x, w], form)


@FORMS_PARAM
def test_a_backward_inside_a_region_accumulates_once(form):
    x, w = leaf(5), leaf(5)

    def function(t):
        h = (t.detach() * w).sin().exp()
        h.sum().backward()
        return (t.sin() * w).exp()

    assert_as_plain(lambda region: region(function, x).sum(), [x, w], form)


@FORMS_PARAM
def test_a_backward_of_the_region_that_still_runs(form):
    x = leaf(5)

    def function(t):
        h = block(t)
        (gradient,) = torch.autograd.grad(h.sum(), t, retain_graph=True)
        return h * gradient

    compare(lambda region: [torch.autograd.grad(region(function, x * 1).sum(), x)[0]], form)


@pytest.mark.parametrize("outer", ALL_FORMS.values(), ids=ALL_FORMS)
@FORMS_PARAM
def test_nested_regions_of_two_forms(form, outer):
    x, w = leaf(5), leaf(5)

    def run(region, inner, t):
        h = region(lambda u: inner(block, u.cos() * w), t)
        return region(lambda u: inner(lambda v: v * v, inner(block, u)), h)

    def step(region):
        if region is plain:
            return run(plain, plain, x).sum()
        return run(outer, form, x).sum()

    assert_as_plain(step, [x, w], form)


def test_deep_nesting_and_long_chains():
    x = leaf(3)

    def deep(depth, t):
        if depth == 0:
            return t.sin()
        return reprise.checkpoint(lambda u: deep(depth - 1, u).sin(), t)

    y = deep(30, x)
    y.sum().backward()
    got, x.grad = x.grad, None
    h = x
    for _ in range(31):
        h = h.sin()
    h.sum().backward()
    assert torch.equal(got, x.grad)

    h = x
    for _ in range(2000):
        h = reprise.checkpoint(torch.sin, h)
    h.sum().backward()


@FORMS_PARAM
def test_hooks_of_tensors_and_nodes_fire_once(form):
    x = leaf(5)
    fired = []

    def function(t):
        h = t.sin()
        if not reprise.is_recomputing():
            h.register_hook(lambda gradient: fired.append("tensor"))
            h.grad_fn.register_hook(lambda *gradients: fired.append("node"))
        return h.exp()

    form(function, x).sum().backward()
    assert sorted(fired) == ["node", "tensor"]


@FORMS_PARAM
def test_retained_gradients(form):
    x = leaf(5)
    kept = []

    def function(t):
        h = t.sin()
        if not reprise.is_recomputing():
            h.retain_grad()
            kept.append(h)
        return h.exp().tan()

    compare(lambda region: [torch.autograd.grad(region(function, x).sum(), x)[0]], form)
    kept.clear()
    y = form(function, x)
    y.sum().backward()
    h = kept[0].detach().requires_grad_()
    h.exp().tan().sum().backward()
    assert torch.equal(kept[0].grad, h.grad)
