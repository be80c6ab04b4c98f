# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Modules that keep results of their forward: a region is no reason for them to live on."""

import gc
import weakref

import pytest
import reprise
import torch
from helpers import ALL_FORMS, plain
from torch import nn

FORMS = {"plain": plain, **ALL_FORMS}


class Keeps(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.last = None

    def forward(self, x):
        h = self.linear(x).tanh()
        self.last = h.mean()
        return h @ self.linear.weight


class Stack(nn.Module):
    def __init__(self, region, layers=2, bound=False):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(Keeps() for _ in range(layers))
        self.region, self.bound = region, bound

    def forward(self, x):
        for layer in self.layers:
            x = self.region(layer.forward if self.bound else layer, x)
        return x


def use(stack, what):
    x = torch.linspace(-1, 1, 24).view(4, 6)
    if what == "no_grad":
        with torch.no_grad():
            stack(x)
    else:
        y = stack(x).sum()
        if what == "backward":
            y.backward()
        if what == "backward of all":
            (y + sum(layer.last for layer in stack.layers)).backward()


@pytest.fixture
def without_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("what", ["forward", "backward", "backward of all", "no_grad"])
@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("form", [name for name in FORMS if name != "nested"])
def test_parameters_are_freed_with_their_module(form, bound, what):
    stack = Stack(FORMS[form], bound=bound)
    use(stack, what)
    parameters = [weakref.ref(parameter) for parameter in stack.parameters()]
    del stack
    assert not any(parameter() is not None for parameter in parameters)


@pytest.mark.parametrize("scope", [False, True])
@pytest.mark.parametrize("what", ["forward", "backward"])
def test_parameters_of_applied_regions_are_freed(scope, what):
    stack = Stack(plain)
    reprise.apply_checkpointing(stack, Keeps, scope=scope)
    use(stack, what)
    parameters = [weakref.ref(parameter) for parameter in stack.parameters()]
    del stack
    gc.collect()  # of the classes that regions make
    assert not any(parameter() is not None for parameter in parameters)


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_results_own_a_module_that_nobody_else_has(form, bound):
    def gradients(region):
        x = torch.linspace(-1, 1, 24).view(4, 6).requires_grad_()
        y = Stack(region, bound=bound)(x)
        gc.collect()
        y.sin().sum().backward()
        return x.grad

    assert torch.equal(gradients(FORMS[form]), gradients(plain))


def test_a_module_that_is_gone_is_named():
    stack = Stack(reprise.checkpoint, layers=1)
    stack(torch.ones(4, 6))
    last = stack.layers[0].last
    last.backward(retain_graph=True)
    del stack
    with pytest.raises(reprise.CheckpointError, match="keep the module"):
        last.backward()
