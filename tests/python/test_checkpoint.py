# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""checkpoint(): results, gradients, keywords, options. Arguments are in test_arguments.py."""

import copy
import gc
import warnings
import weakref

import pytest
import reprise
import torch
from helpers import FORMS, FUNCTION_FORMS, TAPE_FORMS, assert_as_plain, leaf, operators_of, plain
from torch import nn


class Block(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x, scale=1.0):
        return x + scale * self.down(nn.functional.gelu(self.up(self.norm(x))))


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_gradients_are_those_of_the_plain_run(form):
    blocks = nn.ModuleList(Block() for _ in range(3))
    x = leaf(4, 8)

    def step(region):
        h = x
        for block in blocks:
            h = region(block, h, scale=0.5)
        return h.square().mean()

    assert_as_plain(step, [x, *blocks.parameters()], form)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_parts_without_a_gradient_have_none(form):
    x, unused, constant = leaf(3), leaf(3), torch.randn(3)

    def step(region):
        return region(lambda a, b, c: (a * c).sin(), x, unused, constant).sum()

    assert_as_plain(step, [x, unused], form)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_captured_tensors_get_gradients(form):
    x, weight = leaf(3), leaf(3)
    assert_as_plain(lambda region: region(lambda: (x * weight).exp()).sum(), [x, weight], form)


@pytest.mark.parametrize("form", FUNCTION_FORMS.values(), ids=FUNCTION_FORMS)
def test_a_function_region_calls_the_function_once_more(form):
    calls = []
    x = leaf(3)
    y = form(lambda t: calls.append(1) or t.sin().exp(), x)
    assert len(calls) == 1
    y.sum().backward()
    assert len(calls) == 2


@pytest.mark.parametrize("form", TAPE_FORMS.values(), ids=TAPE_FORMS)
def test_a_tape_does_not_call_the_function_again(form):
    calls = []
    x = leaf(3)
    form(lambda t: calls.append(1) or t.sin().exp(), x).sum().backward()
    assert len(calls) == 1


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_results_are_the_objects_that_the_function_returns(form):
    x = leaf(3)
    marker = object()
    made = []

    def function(t):
        made.append(t.sin())
        return {"y": made[-1], "same": t, "marker": marker, "none": None, "list": [t.exp(), 3]}

    result = form(function, x)
    assert result["y"] is made[0]
    assert result["same"] is x
    assert result["marker"] is marker
    assert result["none"] is None
    assert result["list"][1] == 3
    (result["y"] + result["list"][0]).sum().backward()
    assert torch.equal(x.grad, x.detach().cos() + x.detach().exp())


def test_keywords_of_the_function_and_of_the_region():
    x = leaf(3)
    got = {}

    def function(t, *, name, policy, replay, context, contexts, store):
        got.update(locals())
        return t.sin()

    options = reprise.CheckpointOptions(name="mine", replay="tape")
    own = {"name": 1, "policy": 2, "replay": 3, "context": 4, "contexts": 5, "store": 6}
    reprise.checkpoint(function, x, options=options, **own).sum().backward()
    assert {key: got[key] for key in own} == own


def test_keywords_of_the_function_beside_context_fn():
    x = leaf(3)
    contexts = (warnings.catch_warnings(), warnings.catch_warnings())

    def function(t, context, named):
        return t.sin() * context * named

    y = reprise.checkpoint(function, x, context_fn=lambda: contexts, context=2, named=3)
    y.sum().backward()
    assert torch.equal(x.grad, x.detach().cos() * 6)


def test_grad_mode_off_calls_the_function_and_keeps_nothing():
    x = leaf(3)
    saved = weakref.ref(x)

    with torch.no_grad():
        y = reprise.checkpoint(lambda t: t.sin(), x)
    assert not y.requires_grad
    del x
    assert saved() is None


def test_grad_mode_is_that_of_forward_in_the_recomputation():
    x = leaf(3)
    modes = []

    def function(t):
        modes.append(torch.is_grad_enabled())
        with torch.no_grad():
            scale = t.exp()
        return (t * scale).sin()

    y = reprise.checkpoint(function, x)
    with torch.no_grad():
        y.backward(torch.ones(3))
    assert modes == [True, True]
    scale = x.detach().exp()
    assert torch.equal(x.grad, (x.detach() * scale).cos() * scale)


def test_min_input_bytes_runs_small_calls_plainly():
    small, large = leaf(4), leaf(64)
    options = reprise.CheckpointOptions(min_input_bytes=256)
    calls = []

    def function(t):
        calls.append(t.numel())
        return t.sin().exp()

    for x in (small, large):
        reprise.checkpoint(function, x, options=options).sum().backward()
    assert calls == [4, 64, 64]


def test_use_reentrant_goes_to_torch():
    x = leaf(3)
    y = reprise.checkpoint(lambda t: t.sin(), x, use_reentrant=True)
    assert "CheckpointFunction" in y.grad_fn.name()
    y.sum().backward()
    assert torch.equal(x.grad, x.detach().cos())
    with pytest.raises(ValueError, match="Unexpected keyword arguments: scale"):
        reprise.checkpoint(lambda t, scale: t, x, use_reentrant=True, scale=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "CheckpointFunction" not in reprise.checkpoint(torch.sin, x).grad_fn.name()


def test_early_stop_leaves_out_the_end_of_the_function():
    x = leaf(3)
    reached = []

    def function(t):
        y = t.sin().exp()
        reached.append("end")
        return y

    for early_stop, ends in ((True, 1), (False, 2)):
        reached.clear()
        reprise.checkpoint(function, x, early_stop=early_stop).sum().backward()
        assert len(reached) == ends
    reached.clear()
    with reprise.set_checkpoint_early_stop(False):
        y = reprise.checkpoint(function, x)
    y.sum().backward()
    assert len(reached) == 2


def test_a_region_runs_no_operators_of_its_own():
    x = leaf(3)

    def step(region):
        x.grad = None
        region(lambda t: t.sin().exp(), x).sum().backward()

    _, expected = operators_of(lambda: step(plain))
    _, counts = operators_of(lambda: step(FORMS["scope"]))
    assert counts - expected == {"aten.sin.default": 1, "aten.exp.default": 1}


@pytest.mark.parametrize("segments", [1, 2, 3, 5])
def test_checkpoint_sequential(segments):
    calls = []

    class Counted(nn.Linear):
        def forward(self, value):
            calls.append(1)
            return super().forward(value).tanh()

    model = nn.Sequential(*(Counted(4, 4) for _ in range(5)))
    x = leaf(2, 4)

    def step(region):
        if region is plain:
            return model(x).sum()
        return reprise.checkpoint_sequential(model, segments, x).sum()

    assert_as_plain(step, [x, *model.parameters()], reprise.checkpoint)
    assert len(calls) == 5 + 5 + (segments - 1) * (5 // segments)
    assert reprise.checkpoint_sequential([], 2, x) is x


@pytest.mark.parametrize("segments", [-1, 0, 3])
def test_segments_without_a_function(segments):
    with pytest.raises(ValueError, match="a segment needs at least one function"):
        reprise.checkpoint_sequential([torch.sin, torch.cos], segments, leaf(2))


@pytest.mark.parametrize(
    "keywords",
    [
        {"early_stop": False},
        {"debug": True},
        {"determinism_check": "none"},
        {"preserve_rng_state": False},
        {"respect_saved_tensors_hooks": True},
    ],
    ids=str,
)
def test_options_and_keywords_exclude_each_other(keywords):
    with pytest.raises(TypeError, match="takes an options object or keywords, not both"):
        reprise.checkpoint(torch.sin, leaf(2), options=reprise.CheckpointOptions(), **keywords)


def test_a_function_for_the_determinism_check_is_not_kept():
    class Describe:
        def __call__(self, tensor):
            return str(tensor.shape)

        __hash__ = None

    describe = Describe()
    alive = weakref.ref(describe)
    x = leaf(3)
    reprise.checkpoint(torch.sin, x, determinism_check=describe).sum().backward()
    del describe
    gc.collect()
    assert alive() is None


def test_copies_of_modules_with_options_and_scopes():
    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.options = reprise.CheckpointOptions(name="in copies")
            self.scope = reprise.CheckpointScope(name="scope in copies")

        def forward(self, x):
            h = reprise.checkpoint(self.linear, x, options=self.options).sin()
            with self.scope:
                return self.linear(h).sin()

    module = Wrapped()
    other = copy.deepcopy(module)
    assert other.scope is not module.scope
    assert copy.copy(module.scope) is not module.scope
    with module.scope, reprise.collect_memory_report():  # a copy is a scope of its own
        other(leaf(2, 4)).sum().backward()
    names = [region.name for region in reprise.memory_report().regions]
    assert names == ["in copies", "scope in copies"]
