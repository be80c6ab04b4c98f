# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Regions under torch's distributed frameworks, and where frameworks call torch's checkpoint."""

import functools

import framework_budgets as budgets
import framework_modules as modules
import framework_sharding as sharding
import framework_workers as workers
import pytest
import reprise
import torch
import torch.distributed
from framework_ranks import run_on_ranks
from helpers import TORCH_VERSION, assert_same, leaf, plain, run_step, scope_with, with_options
from torch import nn
from torch.distributed.algorithms._checkpoint import checkpoint_wrapper
from torch.utils import checkpoint as torch_checkpoint

on_ranks = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
    reason="this torch has no Gloo",
)
TORCHS = [False, False]  # what a layer notes of torch's regions: forward, recomputation
OURS = [False, True]


@on_ranks
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"find_unused_parameters": True},
        {"static_graph": True},
        {"gradient_as_bucket_view": True},
    ],
    ids=str,
)
def test_data_parallel(options):
    run_on_ranks(workers.data_parallel, options)


@on_ranks
@pytest.mark.parametrize("are_hooks_inside", [False, True], ids=["hooks outside", "hooks inside"])
@pytest.mark.parametrize("reshards", [True, False], ids=["reshards", "stays whole"])
def test_fully_sharded(are_hooks_inside, reshards):
    run_on_ranks(workers.fully_sharded, are_hooks_inside, reshards)


@on_ranks
@pytest.mark.parametrize("ranks, units, are_nested", [(1, 2, False), (1, 3, True), (2, 2, True)])
def test_several_sharded_units_in_a_region(ranks, units, are_nested):
    run_on_ranks(sharding.sharded_units, units, are_nested, ranks=ranks)


@on_ranks
@pytest.mark.parametrize("ranks, are_nested", [(1, False), (2, True)])
def test_a_sharded_root_in_a_region(ranks, are_nested):
    run_on_ranks(sharding.a_sharded_root_in_a_region, are_nested, ranks=ranks)


@on_ranks
@pytest.mark.parametrize(
    "options",
    [sharding.FROZEN_IN_PART, sharding.IN_MIXED_PRECISION],
    ids=["frozen weights", "mixed precision"],
)
def test_sharded_units_with(options):
    run_on_ranks(sharding.sharded_units_with, options)


@on_ranks
@pytest.mark.parametrize("ranks, units, are_nested", [(1, 3, False), (2, 2, True)])
def test_sharded_units_under_a_budget(ranks, units, are_nested):
    run_on_ranks(sharding.sharded_units_under_a_budget, units, are_nested, ranks=ranks)


@on_ranks
def test_gathers_ahead():
    run_on_ranks(sharding.gathers_ahead)


@on_ranks
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_budgets_of_half_the_peak():
    run_on_ranks(budgets.half_of_plains_peak)


@on_ranks
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_bytes_held_by_units_of_the_older_way():
    run_on_ranks(budgets.held_by_units_of_the_older_way)


@on_ranks
def test_ranks_with_budgets_that_differ():
    run_on_ranks(budgets.budgets_that_differ)


@on_ranks
@pytest.mark.skipif(TORCH_VERSION < (2, 10), reason="this torch's pipelines fail over Gloo")
def test_a_pipeline_of_budgets():
    run_on_ranks(budgets.pipeline_of_budgets)


@on_ranks
@pytest.mark.parametrize("ranks", [1, 2])
def test_streamed_weights(ranks):
    run_on_ranks(sharding.streamed_weights, 3, ranks=ranks)


@on_ranks
@pytest.mark.parametrize("is_in_sequence", [False, True], ids=["tensor", "sequence"])
@pytest.mark.parametrize("saves_sum", [False, True], ids=["ends with the sum", "saves the sum"])
def test_tensor_parallel(is_in_sequence, saves_sum):
    run_on_ranks(workers.tensor_parallel_regions, is_in_sequence, saves_sum)


@on_ranks
@pytest.mark.parametrize("is_in_sequence", [False, True], ids=["tensor", "sequence"])
def test_tensor_parallel_with_policies(is_in_sequence):
    run_on_ranks(workers.tensor_parallel_with_policies, is_in_sequence)


@on_ranks
def test_returned_sums_over_ranks():
    run_on_ranks(workers.returned_sums_over_ranks)


@on_ranks
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("where", ["in a unit", "around a unit", "around three units"])
def test_fully_sharded_in_the_older_way(where):
    run_on_ranks(workers.fully_sharded_in_the_older_way, where)


@on_ranks
@pytest.mark.skipif(TORCH_VERSION < (2, 10), reason="this torch's pipelines fail over Gloo")
@pytest.mark.parametrize(
    ("schedule", "stages"),
    [
        ("ScheduleGPipe", 1),
        ("Schedule1F1B", 1),
        ("ScheduleInterleaved1F1B", 2),
        ("ScheduleInterleavedZeroBubble", 2),
    ],
)
def test_pipelines(schedule, stages):
    run_on_ranks(workers.pipeline, schedule, stages)


def run_model(model, x, *arguments):
    """Returns what run_step() does, and what the layers have noted of their calls."""
    layers = [module for module in model.modules() if isinstance(module, modules.Layer)]
    for layer in layers:
        layer.calls.clear()
    step = run_step(lambda: model(x, *arguments).square().sum(), [x, *model.parameters()])
    return step, [layer.calls for layer in layers]


def test_a_switch_over_a_function_that_was_imported_by_name():
    model, x, mask = modules.Switchable(), leaf(2, 8), torch.rand(2, 8)
    expected, _ = run_model(model, x, mask)
    original = modules.checkpoint
    with reprise.patched_torch():
        assert modules.checkpoint is torch_checkpoint.checkpoint is not original
        model.enable_checkpointing(use_reentrant=False)
        got, calls = run_model(model, x, mask)
        assert_same(got, expected)
        assert calls == [OURS, OURS]
        model.eval()
        _, calls = run_model(model, x, mask)
        assert calls == [[False], [False]]
        model.train()
    # A function that outlives the patch is torch's again.
    assert modules.checkpoint is torch_checkpoint.checkpoint is original
    got, calls = run_model(model, x, mask)
    assert_same(got, expected)
    assert calls == [TORCHS, TORCHS]


def test_a_switch_that_was_set_before_the_patch_keeps_torchs():
    model, x = modules.Switchable(), leaf(2, 8)
    expected, _ = run_model(model, x)
    model.enable_checkpointing(use_reentrant=False)
    with reprise.patched_torch():
        got, calls = run_model(model, x)
        assert_same(got, expected)
        assert calls == [TORCHS, TORCHS]
        # Tracing knows it all the same.
        model.eval().train()
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
        assert compiled(x).shape == x.shape


@pytest.mark.skipif(
    not hasattr(torch_checkpoint, "GraphExecGroup"), reason="this torch has no such groups"
)
def test_groups_of_the_patch_serve_regions_of_both():
    calls = []

    def region(t):
        calls.append(reprise.is_recomputing())
        h = t.sin().cos()
        return h, h.sin().cos()

    x, torchs = leaf(3), torch_checkpoint.checkpoint
    expected = torch.autograd.grad(region(x)[1].sum(), x)
    with reprise.patched_torch():
        for checkpoint, runs in ((torchs, TORCHS), (torch_checkpoint.checkpoint, OURS)):
            calls.clear()
            h, y = checkpoint(region, x, use_reentrant=False)
            with torch_checkpoint.GraphExecGroup():
                above = torch.autograd.grad(y.sum(), h, retain_graph=True)
                got = torch.autograd.grad(h, x, above)
            assert torch.equal(got[0], expected[0])
            assert calls == runs
            with torch_checkpoint.GraphExecGroup(), pytest.raises(RuntimeError, match="nested"):
                torch_checkpoint.GraphExecGroup().__enter__()


def test_reentrant_regions_stay_torchs():
    model, x = modules.Switchable(), leaf(2, 8)
    with reprise.patched_torch():
        model.checkpointing_function = lambda function, x, mask, scale: modules.checkpoint(
            functools.partial(function, scale=scale), x, mask, use_reentrant=True
        )
        _, calls = run_model(model, x)
        assert calls == [TORCHS, TORCHS]
        with pytest.warns(UserWarning, match="use_reentrant parameter should be"):
            modules.checkpoint(torch.sin, x)


CONTEXTS = functools.partial(
    torch_checkpoint.create_selective_checkpoint_contexts, [torch.ops.aten.addmm.default]
)


@pytest.mark.parametrize("keywords", [{}, {"context_fn": CONTEXTS}, {"early_stop": False}], ids=str)
def test_wrapped_modules(keywords):
    model, x = nn.Sequential(modules.Layer(), nn.Sequential(modules.Layer())), leaf(2, 8)
    expected, _ = run_model(model, x)
    wrap = functools.partial(
        checkpoint_wrapper.checkpoint_wrapper,
        checkpoint_impl=checkpoint_wrapper.CheckpointImpl.NO_REENTRANT,
        **keywords,
    )
    original = checkpoint_wrapper.torch_utils_checkpoint
    with reprise.patched_torch():
        checkpoint_wrapper.apply_activation_checkpointing(
            model, wrap, check_fn=lambda module: isinstance(module, modules.Layer)
        )
        assert isinstance(model[1][0], checkpoint_wrapper.CheckpointWrapper)
        got, calls = run_model(model, x)
        assert_same(got, expected)
        assert calls == [OURS, OURS]
    assert checkpoint_wrapper.torch_utils_checkpoint is original


def managed_step(region, layer_class, manager):
    """Returns the gradients of two managed layers in one region, and the managers."""
    torch.manual_seed(0)
    model = nn.Sequential(layer_class(4, 8), nn.Tanh(), layer_class(8, 4), nn.Tanh())
    x = leaf(3, 4)
    managers = [manager(model[0]), manager(model[2])] if manager else []
    y = region(model, x)
    if manager:
        assert all(p.untyped_storage().size() == 0 for p in model.parameters())
    y.square().sum().backward()
    if manager:
        assert all(p.untyped_storage().size() == 0 for p in model.parameters())
    return [x.grad, *(p.grad for p in model.parameters())], managers


MANAGED_FORMS = {
    "metadata": with_options(allow_external_mutation=True),
    "values": with_options(allow_external_mutation=True, determinism_check="values"),
    "to the end": with_options(allow_external_mutation=True, early_stop=False),
}


@pytest.mark.parametrize("layer_class", [nn.Linear, modules.ManagedLinear])
@pytest.mark.parametrize("form", MANAGED_FORMS.values(), ids=MANAGED_FORMS)
def test_parameters_that_hooks_in_the_region_gather(form, layer_class):
    expected, _ = managed_step(plain, layer_class, None)
    got, managers = managed_step(form, layer_class, modules.Manager)
    assert all(map(torch.equal, got, expected))
    # For forward, the recomputation, and backward.
    assert [manager.gathers for manager in managers] == [3, 3]


@pytest.mark.parametrize("layer_class", [nn.Linear, modules.ManagedLinear])
@pytest.mark.parametrize("form", MANAGED_FORMS.values(), ids=MANAGED_FORMS)
def test_parameters_that_hooks_in_the_region_gather_in_place(form, layer_class):
    expected, _ = managed_step(plain, layer_class, modules.StorageManager)
    got, _ = managed_step(form, layer_class, modules.StorageManager)
    assert all(map(torch.equal, got, expected))


@pytest.mark.parametrize("manager", [modules.Manager, modules.StorageManager])
@pytest.mark.parametrize("layer_class", [nn.Linear, modules.ManagedLinear])
def test_parameters_that_are_gathered_around_the_region(layer_class, manager):
    def with_manager(form):
        torch.manual_seed(0)
        layer, x = layer_class(4, 8), leaf(3, 4)
        outer = nn.Sequential(layer)
        outer.forward = lambda t: form(lambda t: layer(t).tanh().sin(), t)
        if form is not plain:
            manager(outer)
        outer(x).square().sum().backward()
        return [x.grad, layer.weight.grad]

    expected = with_manager(plain)
    forms = [*MANAGED_FORMS.values(), scope_with(allow_external_mutation=True)]
    for form in forms:
        assert all(map(torch.equal, with_manager(form), expected))
