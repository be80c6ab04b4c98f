# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""The errors of regions: types, messages, and that nothing is left behind."""

import contextlib

import pytest
import reprise
import torch
from helpers import FORMS, assert_regions_work, leaf, scope_with, with_options
from torch import nn


def test_another_number_of_saved_tensors():
    x = leaf(3)
    y = reprise.checkpoint(
        lambda t: t.sin() if reprise.is_recomputing() else t.sin().exp().tan(), x, early_stop=False
    )
    with pytest.raises(reprise.DeterminismError, match="region #"):
        y.sum().backward()
    assert issubclass(reprise.DeterminismError, torch.utils.checkpoint.CheckpointError)
    assert reprise.CheckpointError is torch.utils.checkpoint.CheckpointError
    assert_regions_work()


def test_other_metadata_names_region_and_both_tensors():
    x = leaf(3)
    options = reprise.CheckpointOptions(name="encoder")
    y = reprise.checkpoint(
        lambda t: (t[:2] if reprise.is_recomputing() else t).sin().exp(), x, options=options
    )
    with pytest.raises(reprise.DeterminismError) as caught:
        y.sum().backward()
    message = str(caught.value)
    assert "encoder" in message
    assert "[3]" in message and "[2]" in message
    assert "C++" not in message and "Exception raised from" not in message


class Scripted(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return (self.second(torch.tanh(self.first(x)) * 2 + 1) * x + torch.sigmoid(x)).sin()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_script_that_is_optimised_between_the_two_runs_is_named():
    module = torch.jit.script(Scripted())
    y = reprise.checkpoint(module, leaf(4, 8))  # profiles; the recomputation has other code
    with pytest.raises(reprise.DeterminismError, match=r"TorchScript runs this code: it profiles"):
        y.sum().backward()
    assert_regions_work()


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_modified_argument_is_a_mutation_error(form):
    x, buffer = leaf(3), torch.ones(3)
    y = form(lambda t, b: (t * b).exp(), x, buffer)
    buffer.add_(1)
    with pytest.raises(reprise.MutationError, match="version 1"):
        y.sum().backward()
    assert issubclass(reprise.MutationError, reprise.CheckpointError)
    assert_regions_work()


def test_debug_mode_lists_the_operators():
    x = leaf(3)
    with reprise.set_checkpoint_debug_enabled(True):
        y = reprise.checkpoint(
            lambda t: (t.cos() if reprise.is_recomputing() else t.sin()).exp(), x
        )
    with pytest.raises(reprise.DeterminismError) as caught:
        y.sum().backward()
    assert "aten::cos" in str(caught.value)
    assert "aten::sin" in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: reprise.checkpoint(torch.sin, leaf(3), determinism_check="exact"),
        lambda: with_options(min_input_bytes=-1)(torch.sin, leaf(3)),
        lambda: with_options(prefetch_depth=-1)(torch.sin, leaf(3)),
        lambda: with_options(copied_state_limit_bytes=-1)(torch.sin, leaf(3)),
        lambda: scope_with(determinism_check="callback")(torch.sin, leaf(3)),
        lambda: reprise.MemoryBudget(fraction=1.5),
        lambda: reprise.MemoryBudget(peak_bytes=1 << 20, max_overhead=0.1),
        lambda: reprise.MemoryBudget(peak_bytes=-1),
        lambda: reprise.policies.every_nth_matmul(0),
        lambda: reprise.policies.save_operators("aten::no_such_operator"),
        lambda: reprise.store_guard(reprise.stores.host(), prefetch_depth=-1).__enter__(),
        lambda: reprise.stores.quantized(block_size=0),
    ],
)
def test_contradictory_options_are_value_errors(make):
    with pytest.raises(ValueError):
        make()
    assert_regions_work()


@pytest.mark.parametrize(
    "make, error",
    [
        (lambda: reprise.CheckpointOptions(replay="twice"), ValueError),
        (lambda: reprise.CheckpointScope(min_input_bytes=1), ValueError),
        (lambda: reprise.CheckpointOptions(policy=3), TypeError),
        (lambda: reprise.create_selective_checkpoint_contexts(3), TypeError),
        (lambda: reprise.checkpoint(torch.sin, leaf(3), determinism_check=3), TypeError),
        (lambda: reprise.checkpoint(torch.sin, leaf(3), options={}), TypeError),
        (lambda: reprise.CheckpointScope({}), TypeError),
    ],
)
def test_wrong_options_are_value_and_type_errors(make, error):
    with pytest.raises(error):
        make()


def test_wrong_results_of_context_fn():
    for contexts in (None, (contextlib.nullcontext(),), (contextlib.nullcontext(),) * 3):
        with pytest.raises((TypeError, ValueError), match="unpack"):
            reprise.checkpoint(torch.sin, leaf(3), context_fn=lambda contexts=contexts: contexts)
