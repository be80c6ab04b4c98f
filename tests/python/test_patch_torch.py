# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""patch_torch(): code that uses torch.utils.checkpoint gets this library's regions."""

import functools
import sys
import types
import warnings

import pytest
import reprise
import torch
import torch.utils.checkpoint as torch_checkpoint
from helpers import assert_as_plain, block, leaf
from torch.utils.checkpoint import checkpoint as imported_before

NAMES = [
    "checkpoint",
    "create_selective_checkpoint_contexts",
    "SelectiveCheckpointContext",
    "set_checkpoint_early_stop",
    "set_checkpoint_debug_enabled",
]


def is_ours(region):
    """Whether the form of checkpoint() replays on our engine: it says so inside."""
    seen = []

    def function(t):
        seen.append(reprise.is_recomputing())
        return t.sin().exp()

    region(function, leaf(3)).sum().backward()
    assert len(seen) == 2
    return seen[1]


def originals():
    return {name: getattr(torch_checkpoint, name) for name in NAMES}


def non_reentrant(function, *args, **kwargs):
    return torch_checkpoint.checkpoint(function, *args, use_reentrant=False, **kwargs)


def test_names_are_replaced_and_come_back():
    before = originals()
    assert not is_ours(non_reentrant)
    with reprise.patched_torch():
        inside = originals()
        assert is_ours(non_reentrant)
    assert originals() == before
    assert not is_ours(non_reentrant)
    assert all(inside[name] is not before[name] for name in NAMES)


def test_it_ends_after_an_exception_and_nests():
    before = originals()
    with pytest.raises(KeyError), reprise.patched_torch():
        with reprise.patched_torch():
            assert is_ours(non_reentrant)
        assert is_ours(non_reentrant), "only the outermost one ends it"
        raise KeyError
    assert originals() == before


def test_our_own_functions_go_on_as_before():
    x = leaf(5)
    with reprise.patched_torch():
        assert is_ours(reprise.checkpoint)
        y = reprise.checkpoint(block, x, use_reentrant=True)
        assert "CheckpointFunction" in y.grad_fn.name()
        y.sum().backward()


def test_none_and_true_go_to_torch():
    x = leaf(3)
    with reprise.patched_torch():
        y = torch_checkpoint.checkpoint(torch.sin, x, use_reentrant=True)
        assert "CheckpointFunction" in y.grad_fn.name()
        with pytest.warns(UserWarning, match="use_reentrant parameter should be passed"):
            y = torch_checkpoint.checkpoint(torch.sin, x)
        assert "CheckpointFunction" in y.grad_fn.name()
        with pytest.raises(ValueError, match="Unexpected keyword arguments: scale"):
            torch_checkpoint.checkpoint(torch.sin, x, use_reentrant=True, scale=1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            non_reentrant(torch.sin, x)


def test_keywords_of_torch():
    x = leaf(5)

    def step(region):
        return region(lambda t, *, scale: block(t * scale), x, scale=2.0).sum()

    with reprise.patched_torch():
        for keywords in (
            {"preserve_rng_state": True},
            {"determinism_check": "none"},
            {"debug": True},
            {"early_stop": False},
            {"context_fn": torch_checkpoint.noop_context_fn},
        ):
            assert_as_plain(step, [x], functools.partial(non_reentrant, **keywords))


def test_selective_checkpointing_as_frameworks_write_it():
    x = leaf(4, 4)
    asked = []

    def policy(context, op, *args, **kwargs):
        assert isinstance(context, torch_checkpoint.SelectiveCheckpointContext)
        asked.append(op)
        if op in (torch.ops.aten.mm.default,):
            return torch_checkpoint.CheckpointPolicy.MUST_SAVE
        return torch_checkpoint.CheckpointPolicy.PREFER_RECOMPUTE

    def context_fn():
        return torch_checkpoint.create_selective_checkpoint_contexts(policy)

    with reprise.patched_torch():
        assert_as_plain(
            lambda region: region(lambda t: (t @ t).sin().exp(), x).sum(),
            [x],
            functools.partial(non_reentrant, context_fn=context_fn),
        )
    assert asked.count(torch.ops.aten.mm.default) == 1


def test_checkpoint_sequential_and_early_stop():
    layers = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(4)))
    x = leaf(2, 4)
    seen = []
    layers[0].register_forward_hook(lambda *_: seen.append(reprise.is_recomputing()))
    with reprise.patched_torch(), torch_checkpoint.set_checkpoint_early_stop(False):
        y = torch_checkpoint.checkpoint_sequential(layers, 2, x, use_reentrant=False)
        y.sum().backward()
    assert seen == [False, True]


def test_a_graph_outlives_the_patch():
    x = leaf(5)
    torch.manual_seed(0)
    with reprise.patched_torch():
        y = non_reentrant(block, x)
    y.sum().backward()
    got, x.grad = x.grad, None
    torch.manual_seed(0)
    block(x).sum().backward()
    assert torch.equal(got, x.grad)


def test_modules_that_have_imported_the_functions_by_name():
    module = types.ModuleType("imported_by_name")
    module.checkpoint = imported_before
    sys.modules[module.__name__] = module
    try:
        with reprise.patched_torch():
            assert is_ours(functools.partial(module.checkpoint, use_reentrant=False))
        assert module.checkpoint is imported_before
        with reprise.patched_torch():
            kept = torch_checkpoint.checkpoint
        assert not is_ours(functools.partial(kept, use_reentrant=False))
    finally:
        del sys.modules[module.__name__]


def test_modules_whose_attributes_cannot_be_read_or_compared():
    class Odd(types.ModuleType):
        def __getattr__(self, name):
            raise RuntimeError("not to be asked")

    odd = Odd("odd_module")
    odd.value = torch.ones(3)
    sys.modules["odd_module"] = odd
    sys.modules["no_module"] = None
    try:
        with reprise.patched_torch():
            assert is_ours(non_reentrant)
    finally:
        del sys.modules["odd_module"], sys.modules["no_module"]
