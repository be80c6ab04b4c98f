# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Caches that forward fills: right in scopes and budgets, and an error in function regions."""

import random

import pytest
import reprise
import torch
from torch import nn

BATCH, ROWS, WIDTH = 2, 4, 8


class DynamicCache:
    """In the shape of transformers' class of this name."""

    def __init__(self):
        self.parts = None

    def update(self, keys, values):
        new = (keys, values)
        if self.parts is not None:
            new = tuple(torch.cat(pair, 1) for pair in zip(self.parts, new))
        self.parts = new
        return new


class DetachedCache(DynamicCache):
    def update(self, keys, values):
        result = super().update(keys, values)
        self.parts = tuple(part.detach() for part in self.parts)
        return result


class ListCache:
    def __init__(self):
        self.parts = []

    def update(self, keys, values):
        self.parts.append((keys, values))
        return tuple(torch.cat(each, 1) for each in zip(*self.parts))


class StaticCache:
    """Writes to memory of its own, likewise; as there, one forward for each backward."""

    def __init__(self):
        self.parts = [torch.zeros(BATCH, 4 * ROWS, WIDTH) for _ in range(2)]
        self.length = 0

    def update(self, keys, values):
        places = torch.arange(self.length, self.length + keys.shape[1])
        self.length += keys.shape[1]
        for part, new in zip(self.parts, (keys, values)):
            part.index_copy_(1, places, new)
        return self.parts


class State:
    """Of a recurrent model: does not grow."""

    def __init__(self):
        self.parts = None

    def update(self, keys, values):
        new = (keys.mean(1, keepdim=True), values.mean(1, keepdim=True))
        if self.parts is not None:
            new = tuple(old * 0.5 + each for old, each in zip(self.parts, new))
        self.parts = new
        return tuple(keys + part for part in new)


CACHES = [DynamicCache, DetachedCache, ListCache, StaticCache, State]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x, cache):
        keys, values = cache.update(self.key(x), self.value(x))
        return x + torch.softmax(self.query(x) @ keys.transpose(1, 2), -1) @ values


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(Attention() for _ in range(2))

    def forward(self, x, caches):
        for layer, cache in zip(self.layers, caches):
            x = layer(x, cache)
        return x


def loss_of(model, inputs, cache_class):
    caches = [cache_class() for _ in model.layers]
    return sum(model(x, caches).square().mean() for x in inputs)


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return [loss.detach(), *(parameter.grad.clone() for parameter in model.parameters())]


def inputs_for(cache_class):
    return [torch.randn(BATCH, ROWS, WIDTH) for _ in range(1 if cache_class is StaticCache else 3)]


@pytest.mark.parametrize("form", ["layers", "around", "budget"])
@pytest.mark.parametrize("cache_class", CACHES)
def test_scopes_and_budgets_are_right(cache_class, form):
    model, inputs = Model(), inputs_for(cache_class)
    expected = gradients(model, loss_of(model, inputs, cache_class))
    if form == "layers":
        reprise.apply_checkpointing(model, "layers.*", scope=True)
        loss = loss_of(model, inputs, cache_class)
    else:
        with (
            reprise.CheckpointScope()
            if form == "around"
            else reprise.MemoryBudget(max_overhead=0.3).step()
        ):
            loss = loss_of(model, inputs, cache_class)
    assert all(map(torch.equal, expected, gradients(model, loss)))


def text_of(error):
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


@pytest.mark.parametrize("policy", [None, reprise.policies.save_matmuls()])
@pytest.mark.parametrize("cache_class", CACHES)
def test_function_regions_fail_and_name_the_scope(cache_class, policy):
    model, inputs = Model(), inputs_for(cache_class)
    options = reprise.CheckpointOptions(policy=policy)
    reprise.apply_checkpointing(model, "layers.*", options=options)
    with pytest.raises(reprise.CheckpointError) as raised:
        gradients(model, loss_of(model, inputs, cache_class))
    if policy is None:
        assert "such as a cache that grows" in text_of(raised.value)
        assert "A CheckpointScope, or replay = kTape, does not run the code again" in text_of(
            raised.value
        )


def test_errors_of_the_code_itself_name_the_scope():
    x = torch.randn(4, 3, requires_grad=True)
    rows = [x]

    def grows(x):
        rows.append(x)
        return (torch.cat(rows) * torch.ones(8, 1)).sin().exp()

    y = reprise.checkpoint(grows, x)
    with pytest.raises(RuntimeError, match="must match the size") as raised:
        y.sum().backward()
    notes = text_of(raised.value)
    assert notes.count("forward did not raise it") == (hasattr(raised.value, "add_note") or 0)


@pytest.mark.parametrize("seed", range(8))
def test_random_caches_are_never_silently_wrong(seed):
    choices = random.Random(seed)
    classes = [choices.choice([DynamicCache, DetachedCache, ListCache, State]) for _ in range(2)]
    inputs = inputs_for(State)[: choices.randint(1, 3)]
    model = Model()

    def loss():
        caches = [each() for each in classes]
        return sum(model(x, caches).square().mean() for x in inputs)

    expected = gradients(model, loss())
    for scope in (True, False):
        reprise.apply_checkpointing(model, choices.choice(["layers.*", "layers.1"]), scope=scope)
        try:
            actual = gradients(model, loss())
            assert all(map(torch.equal, expected, actual))
        except (reprise.CheckpointError, RuntimeError):
            assert not scope
        finally:
            reprise.remove_checkpointing(model)
