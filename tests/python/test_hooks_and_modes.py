# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Regions beside torch's own saved-tensor hooks and modes."""

import pytest
import reprise
import torch
from helpers import (
    ALL_FORMS,
    CountingMode,
    assert_as_plain,
    assert_same,
    block,
    leaf,
    plain,
    run_step,
)
from torch.autograd.graph import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks
from torch.overrides import TorchFunctionMode


class Recorder:
    """Hooks that copy, and note the tensors that pass."""

    def __init__(self):
        self.packed = []
        self.unpacked = []

    def hooks(self):
        return saved_tensors_hooks(self.pack, self.unpack)

    def pack(self, tensor):
        self.packed.append(tuple(tensor.shape))
        return tensor.detach().clone()

    def unpack(self, packed):
        self.unpacked.append(tuple(packed.shape))
        return packed


@pytest.mark.parametrize("form", ALL_FORMS.values(), ids=ALL_FORMS)
def test_hooks_around_a_region_get_its_inputs_only(form):
    x = leaf(5)
    recorder = Recorder()

    def step(region):
        with recorder.hooks():
            return region(block, x * 1).sum()

    expected = run_step(lambda: step(plain), [x])
    recorder.packed.clear()
    recorder.unpacked.clear()
    assert_same(run_step(lambda: step(form), [x]), expected)
    assert recorder.packed[:1] == [(5,)]
    assert len(recorder.packed) == len(recorder.unpacked) <= 2


@pytest.mark.parametrize("form", ALL_FORMS.values(), ids=ALL_FORMS)
def test_hooks_inside_a_region_get_what_is_saved_there(form):
    x = leaf(5)
    recorder = Recorder()

    def function(t):
        t = t.sin().exp()
        with recorder.hooks():
            t = t.tan()
        return t.sin()

    assert_as_plain(lambda region: region(function, x).sum(), [x], form)
    assert set(recorder.packed) == {(5,)}
    assert recorder.unpacked


@pytest.mark.parametrize("form", ALL_FORMS.values(), ids=ALL_FORMS)
@pytest.mark.parametrize("depth", [1, 2])
def test_regions_and_hooks_in_turns(form, depth):
    x = leaf(5)
    recorder = Recorder()

    def function(t):
        t = t.sin()
        with recorder.hooks():
            t = torch.dropout(t.exp(), 0.5, True)
            if depth == 2:
                t = form(lambda u: (u * u).sin(), t)
        return t * t

    def step(region):
        with saved_tensors_hooks(lambda t: t.numpy().copy(), torch.from_numpy):
            return region(function, (x * 1)).sum()

    assert_as_plain(step, [x], form)


@pytest.mark.parametrize("form", ALL_FORMS.values(), ids=ALL_FORMS)
@pytest.mark.parametrize("around", [save_on_cpu, reprise.save_on_cpu])
def test_save_on_cpu_around_and_inside(form, around):
    x = leaf(5)

    def inside(t):
        with around():
            return block(t)

    def step(region):
        with around():
            return region(block, region(inside, x * 1)).sum()

    assert_as_plain(step, [x], form)


def test_hooks_that_are_entered_in_a_region_and_left_after_it():
    x = leaf(5)
    recorder = Recorder()
    hooks = recorder.hooks()

    def function(t):
        t = t.sin().exp()
        if not reprise.is_recomputing():
            hooks.__enter__()
        return t

    y = reprise.checkpoint(function, x)
    z = y.tan()
    hooks.__exit__()
    z.sum().backward()
    assert recorder.packed == [(5,)]
    got, x.grad = x.grad, None
    x.sin().exp().tan().sum().backward()
    assert torch.equal(got, x.grad)


@pytest.mark.parametrize("form", ALL_FORMS.values(), ids=ALL_FORMS)
def test_disabled_hooks_are_an_error_with_torchs_message(form):
    x = leaf(5)
    with disable_saved_tensors_hooks("not here"), pytest.raises(RuntimeError, match="not here"):
        form(block, x)
    assert_as_plain(lambda region: region(block, x).sum(), [x], form)


@pytest.mark.parametrize("form", ALL_FORMS.values(), ids=ALL_FORMS)
def test_errors_of_hooks_around_a_region(form):
    x = leaf(5)

    def fail(tensor):
        raise KeyError("hook")

    with pytest.raises(KeyError), saved_tensors_hooks(fail, lambda t: t):
        form(block, x * 1)
    with saved_tensors_hooks(lambda t: t, fail):
        y = form(block, x * 1)
    with pytest.raises(KeyError):
        y.sum().backward()
    assert_as_plain(lambda region: region(block, x).sum(), [x], form)


@pytest.mark.parametrize("form", ALL_FORMS.values(), ids=ALL_FORMS)
def test_a_dispatch_mode_around_sees_the_operators_of_the_recomputation(form):
    x = leaf(5)
    with CountingMode() as forward:
        y = form(block, x)
    assert forward.counts["aten.exp.default"] == 1
    with CountingMode() as backward:
        y.sum().backward()
    again = 0 if form is ALL_FORMS["scope with policy"] else 1
    assert backward.counts["aten.sin.default"] == again
    assert "aten.detach.default" not in forward.counts
    torch.manual_seed(0)
    assert_as_plain(lambda region: region(block, x).sum(), [x], form)


@pytest.mark.parametrize("form", ALL_FORMS.values(), ids=ALL_FORMS)
def test_a_dispatch_mode_inside_a_region(form):
    x = leaf(5)

    def function(t):
        with CountingMode():
            return block(t)

    assert_as_plain(lambda region: region(function, x).sum(), [x], form)


class Halving(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * 0.5 if func is torch.exp else result


@pytest.mark.parametrize("form", ALL_FORMS.values(), ids=ALL_FORMS)
def test_a_function_mode_around_and_inside(form):
    x = leaf(5)

    def inside(t):
        with Halving():
            return torch.exp(block(t))

    def step(region):
        with Halving():
            y = region(lambda t: torch.exp(t.sin()), x)
            (gradient,) = torch.autograd.grad(y.sum(), x)
        return (region(inside, x) * gradient).sum()

    expected = run_step(lambda: step(plain), [x])
    assert_same(run_step(lambda: step(form), [x]), expected)
