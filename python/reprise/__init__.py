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

Importing this package replaces in torch, for the process: the engine that Tensor.backward() calls
(torch.autograd.Variable._execution_engine), by one that shows backwards to budgets and calls it; and
once torch has imported their modules, the call of inductor's graphs (CompiledFxGraph.__call__), which
is one operator inside of regions, fully_shard()'s hooks and gathers (FSDPState, FSDPParamGroup) and the
entry of torch.compile's compiler, which regions do not see. Outside of regions and budgets all of them
do what they did. torch.utils.checkpoint stays torch's; see patch_torch().
"""

from reprise import (
    _collection,
    _compile,
    _compiled_graphs,
    _engine,
    _saved_parameters,
    _unseen,
    integrations,
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
    CpuMemory,
    MemoryReport,
    RngStateTracker,
    checkpoint_name,
    collect_memory_report,
    cpu_memory,
    default_rng_state_tracker,
    explain_policies,
    fork_rng,
    install_cpu_memory_counter,
    is_recomputing,
    memory_report,
    model_parallel_manual_seed,
    must_recompute,
    must_save,
    name_scope,
    policy_bypass,
    reset_peak_cpu_memory,
    save_on_cpu,
    set_cpu_memory_limit,
    store_guard,
)
from reprise._keep import keep
from reprise._memory_errors import explain_out_of_memory
from reprise._modules import CheckpointedModules, apply_checkpointing, remove_checkpointing
from reprise._native import _C
from reprise._policies import CheckpointPolicy, SelectiveCheckpointContext
from reprise._saved import RecordedModules, SavedTensors, record_modules, saved_tensors
from reprise._torch import patch_torch, patched_torch
from reprise._transforms import set_transforms_allowed

__all__ = [
    "BudgetExceededError",
    "BudgetedRun",
    "BudgetedStep",
    "CheckpointError",
    "CheckpointOptions",
    "CheckpointPolicy",
    "CheckpointScope",
    "CheckpointedModules",
    "CpuMemory",
    "DeterminismError",
    "DeviceMemory",
    "GraphExecGroup",
    "MemoryBudget",
    "MemoryReport",
    "MutationError",
    "OperatorReport",
    "RecordedModules",
    "RegionReport",
    "RngStateTracker",
    "SavedTensors",
    "SelectiveCheckpointContext",
    "StopRecomputation",
    "apply_checkpointing",
    "checkpoint",
    "checkpoint_name",
    "checkpoint_sequential",
    "collect_memory_report",
    "configuration_guard",
    "configure_checkpointing",
    "cpu_memory",
    "create_selective_checkpoint_contexts",
    "default_rng_state_tracker",
    "explain_policies",
    "fork_rng",
    "install_cpu_memory_counter",
    "integrations",
    "is_configured",
    "is_recomputing",
    "memory_report",
    "model_parallel_manual_seed",
    "must_recompute",
    "must_save",
    "name_scope",
    "patch_torch",
    "patched_torch",
    "policies",
    "policy_bypass",
    "record_modules",
    "remove_checkpointing",
    "reset_configuration",
    "reset_peak_cpu_memory",
    "save_on_cpu",
    "saved_tensors",
    "see_memory_usage",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_cpu_memory_limit",
    "set_transforms_allowed",
    "store_guard",
    "stores",
]

__version__ = _C.version

# What reports consist of.
BudgetedRun = _C.policies.BudgetedRun
BudgetedStep = _C.BudgetedStep
DeviceMemory = _C.DeviceMemory
OperatorReport = _C.OperatorReport
RegionReport = _C.RegionReport

_engine.install()
_compile.install()
_unseen.install()
_compiled_graphs.install()
_saved_parameters.install()
_collection.install()
