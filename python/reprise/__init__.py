# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Activation checkpointing for torch: regions, policies, stores, and budgets of memory.

>>> import reprise
>>> y = reprise.checkpoint(block, x)                    # as torch.utils.checkpoint.checkpoint
>>> with reprise.CheckpointScope():                     # without a function
...     h = block(h)
>>> with reprise.store_guard(reprise.stores.host()):    # offload
...     loss = model(x).sum()
>>> budget = reprise.MemoryBudget(peak_bytes=2 << 30)   # as fast as fits
>>> with budget.step():
...     loss = model(x).sum()
"""

from reprise import _engine, policies, stores
from reprise._budget import MemoryBudget
from reprise._checkpoint import (
    CheckpointOptions,
    CheckpointScope,
    GraphExecGroup,
    checkpoint,
    checkpoint_sequential,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)
from reprise._errors import (
    BudgetExceededError,
    CheckpointError,
    DeterminismError,
    MutationError,
    StopRecomputation,
)
from reprise._native import _C
from reprise._policies import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)
from reprise._torch import patch_torch, patched_torch

__version__ = _C.version

collect_memory_report = _C.collect_memory_report
explain_policies = _C.explain_policies
fork_rng = _C.fork_rng
install_cpu_memory_counter = _C.install_cpu_memory_counter
is_recomputing = _C.is_recomputing
memory_report = _C.memory_report
model_parallel_manual_seed = _C.model_parallel_manual_seed
name = _C.name
name_scope = _C.name_scope
policy_bypass = _C.policy_bypass
recompute = _C.recompute
reset_peak_cpu_memory = _C.reset_peak_cpu_memory
save = _C.save
save_on_cpu = _C.stores.save_on_cpu
store_guard = _C.stores.store_guard

_engine.install()
