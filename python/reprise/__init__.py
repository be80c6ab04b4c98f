# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Activation checkpointing for torch: regions, policies, stores, and budgets of memory.

>>> import reprise
>>> y = reprise.checkpoint(block, x)                    # as torch.utils.checkpoint.checkpoint
>>> with reprise.CheckpointScope():                     # without a function
...     h = block(h)
>>> with reprise.store_guard(reprise.stores.host()):    # offload
...     loss = model(x).sum()
>>> budget = reprise.MemoryBudget()                     # as fast as fits
>>> with budget.step():
...     loss = model(x).sum()
"""

from reprise import (
    _collection,
    _compile,
    _compiled_graphs,
    _engine,
    _unseen,
    policies,
    stores,
)
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
from reprise._compile import create_selective_checkpoint_contexts
from reprise._configuration import (
    configuration_guard,
    configure_checkpointing,
    is_configured,
    reset_configuration,
    see_memory_usage,
)
from reprise._errors import (
    BudgetExceededError,
    CheckpointError,
    DeterminismError,
    MutationError,
    StopRecomputation,
)
from reprise._guards import (
    RngStateTracker,
    collect_memory_report,
    default_rng_state_tracker,
    explain_policies,
    fork_rng,
    install_cpu_memory_counter,
    is_recomputing,
    memory_report,
    model_parallel_manual_seed,
    name,
    name_scope,
    policy_bypass,
    recompute,
    reset_peak_cpu_memory,
    save,
    save_on_cpu,
    set_cpu_memory_limit,
    store_guard,
)
from reprise._modules import CheckpointedModules, apply_checkpointing, remove_checkpointing
from reprise._native import _C
from reprise._policies import CheckpointPolicy, SelectiveCheckpointContext
from reprise._saved import RecordedModules, SavedTensors, record_modules, saved_tensors
from reprise._torch import patch_torch, patched_torch
from reprise._transforms import set_transforms_allowed

__version__ = _C.version

# What reports consist of.
BudgetedRun = _C.policies.BudgetedRun
BudgetedStep = _C.BudgetedStep
DeviceMemory = _C.DeviceMemory
MemoryReport = _C.MemoryReport
OperatorReport = _C.OperatorReport
RegionReport = _C.RegionReport

_engine.install()
_compile.install()
_unseen.install()
_compiled_graphs.install()
_collection.install()
