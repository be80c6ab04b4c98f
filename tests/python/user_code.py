# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""A user's code, for type checkers: each public name as it is meant to be used. Nothing runs it."""

import functools
import re
from typing import Any

import reprise
import reprise.integrations
import torch
from torch import nn
from typing_extensions import assert_type


def regions(block: nn.Module, x: torch.Tensor) -> torch.Tensor:
    def pair(t: torch.Tensor, scale: float) -> tuple[torch.Tensor, float]:
        return t * scale, scale

    assert_type(reprise.checkpoint(pair, x, 2.0), tuple[torch.Tensor, float])
    options = reprise.CheckpointOptions(
        name="block",
        policy=reprise.policies.save_matmuls(),
        replay="tape",
        determinism_check=lambda t: t.sum(),
        input_store=reprise.stores.packed() | reprise.stores.disk(directory="/tmp"),
    )
    options.copy().prefetch_depth = 2
    assert_type(options.preserve_rng_state, bool)
    with reprise.CheckpointScope(options) as scope, reprise.GraphExecGroup() as group:
        assert_type(scope, reprise.CheckpointScope)
        h = reprise.must_save(reprise.checkpoint_name(x.sin(), "h"))
        h = reprise.must_recompute(h.exp())
    group.recompute_now()
    group.release()

    @reprise.CheckpointScope(name="decorated")
    def decorated(t: torch.Tensor) -> torch.Tensor:
        return t.cos()

    contexts = functools.partial(
        reprise.create_selective_checkpoint_contexts, [torch.ops.aten.mm.default, "aten::bmm"]
    )
    reprise.checkpoint(block, decorated(h), context_fn=contexts, use_reentrant=False)
    with reprise.set_checkpoint_early_stop(False), reprise.set_checkpoint_debug_enabled(True):
        return torch.as_tensor(reprise.checkpoint_sequential([torch.sin, torch.cos], 2, h))


def modules(model: nn.Module) -> list[str]:
    keeps = reprise.CheckpointOptions(policy=["aten::mm"])
    reprise.apply_checkpointing(model, nn.TransformerEncoderLayer, every=2)
    reprise.apply_checkpointing(model, ["a.*", re.compile("b"), nn.Linear], keep_last=1)
    reprise.apply_checkpointing(model, lambda path, module: path.endswith("mlp"))
    applied = reprise.apply_checkpointing(
        model, {"*.attention": keeps, nn.Linear: None, "head": False}, options=keeps, scope=True
    )
    assert_type(applied, reprise.CheckpointedModules)
    return reprise.remove_checkpointing(model) + applied


def decide(context: Any, op: Any, *args: Any, **kwargs: Any) -> reprise.CheckpointPolicy:
    return reprise.CheckpointPolicy.PREFER_SAVE


def chosen_policies() -> reprise.policies.Policy:
    budget = reprise.policies.BudgetPolicy(saved_fraction=0.3)
    assert_type(budget.known_runs(), list[reprise.BudgetedRun])
    return reprise.policies.first_match(
        decide,
        "aten::mm",
        budget,
        reprise.policies.offload(reprise.policies.save_attention()),
        reprise.policies.keep_in(reprise.stores.host(), reprise.policies.every_nth_matmul(2)),
        reprise.policies.save_where(lambda t: t.numel() > 9),
    )


def stores(x: torch.Tensor) -> None:
    disk = reprise.stores.disk(max_disk_bytes=1 << 30)
    assert_type(disk.counters(), dict[str, Any])
    disk.flush()
    codec = reprise.stores.CompressionCodec.LZ4
    with reprise.store_guard(reprise.stores.compressed(codec=codec) | disk, prefetch_depth=2):
        torch.autograd.backward(x.sin().sum())
    with reprise.save_on_cpu(pin_memory=True):
        torch.autograd.backward(x.sin().sum())


def budgets(model: nn.Module, x: torch.Tensor) -> str:
    for device in ("cuda", torch.device("cpu"), 0):
        reprise.MemoryBudget(peak_bytes=1 << 30, device=device)
    budget = reprise.MemoryBudget(stores=[reprise.stores.host()], plans_in_background=True)
    with budget.step():
        loss = model(x).sum()
    torch.autograd.backward(loss)
    last = budget.last_step()
    if last is not None:
        assert_type(last.predicted_peak_bytes, int | None)
        assert_type(last.seconds, float)
    assert_type(budget.device, torch.device)
    with reprise.integrations.apply(model, budget="6GiB") as applied:
        assert_type(applied.values(), dict[str, float])
    reprise.integrations.apply([model], max_overhead=0.2).remove()
    reprise.integrations.transformers.apply(model, budget=budget)
    return applied.report()


def memory(model: nn.Module, loss: torch.Tensor) -> int:
    reprise.install_cpu_memory_counter()
    assert_type(reprise.cpu_memory(), reprise.CpuMemory)
    reprise.set_cpu_memory_limit(None)
    with reprise.collect_memory_report(), reprise.record_modules(model) as recorded:
        model(loss)
    report: reprise.MemoryReport = reprise.memory_report()
    assert_type(report.regions, list[reprise.RegionReport])
    bill = reprise.saved_tensors([loss], modules=recorded)
    reprise.explain_policies()
    return bill.total_bytes + report.devices[0].peak_bytes


def surroundings(x: torch.Tensor) -> None:
    reprise.patch_torch()
    reprise.configure_checkpointing({"profile": True})
    tracker = reprise.default_rng_state_tracker()
    tracker.add("here", 3)
    reprise.model_parallel_manual_seed(1, 0, tracker)
    with (
        reprise.patched_torch(),
        reprise.fork_rng(),
        reprise.name_scope("a/b"),
        reprise.policy_bypass(),
        reprise.set_transforms_allowed(False),
        reprise.configuration_guard("configuration.json"),
    ):
        assert_type(reprise.is_recomputing(), bool)
    try:
        torch.autograd.backward(x.sum())
    except (reprise.DeterminismError, reprise.MutationError) as error:
        raise reprise.CheckpointError(str(error)) from error
    except reprise.BudgetExceededError:
        pass
