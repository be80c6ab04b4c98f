# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Guards and annotations for code inside and around regions, and reports."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from reprise._native import _C

if TYPE_CHECKING:
    import torch

    from reprise.stores import ActivationStore

__all__ = [
    "CpuMemory",
    "MemoryReport",
    "RngStateTracker",
    "checkpoint_name",
    "collect_memory_report",
    "cpu_memory",
    "default_rng_state_tracker",
    "explain_policies",
    "fork_rng",
    "install_cpu_memory_counter",
    "is_recomputing",
    "memory_report",
    "model_parallel_manual_seed",
    "must_recompute",
    "must_save",
    "name_scope",
    "policy_bypass",
    "reset_peak_cpu_memory",
    "save_on_cpu",
    "set_cpu_memory_limit",
    "store_guard",
]

CpuMemory = _C.CpuMemory
MemoryReport = _C.MemoryReport
RngStateTracker = _C.RngStateTracker


def save_on_cpu(
    pin_memory: bool = False, *, max_device_bytes: int = 0
) -> AbstractContextManager[None]:
    """Context manager: tensors that autograd saves live in host memory until backward.

    As torch.autograd.graph.save_on_cpu, but brings tensors back ahead. CPU tensors and parameters
    stay where they are.

    Args:
        pin_memory: whether the host memory is page-locked, so that copies run at the bus's speed.
        max_device_bytes: as many of them stay on the device.
    """
    return _C.stores.save_on_cpu(pin_memory, max_device_bytes=max_device_bytes)


def store_guard(store: ActivationStore, *, prefetch_depth: int = 1) -> AbstractContextManager[None]:
    """Context manager: tensors that autograd saves go to `store` until backward. Guards nest.

    Around regions it receives their inputs. Parameters stay where they are.

    Args:
        store: one of `reprise.stores`.
        prefetch_depth: how many tensors to fetch ahead of the one that backward asks for.

    Raises:
        ValueError: If the depth is negative.
    """
    return _C.stores.store_guard(store, prefetch_depth=prefetch_depth)


def is_recomputing() -> bool:
    """Returns whether this thread recomputes a region now."""
    return _C.is_recomputing()


def checkpoint_name(tensor: torch.Tensor, name: str) -> torch.Tensor:
    """Offers the value to the region's policy under a name; see `policies.save_named`.

    After jax.ad_checkpoint.checkpoint_name.

    Args:
        tensor: whose value it is.
        name: not empty.

    Returns:
        The tensor.
    """
    return _C.checkpoint_name(tensor, name)


def must_save(tensor: torch.Tensor) -> torch.Tensor:
    """Saves the value whatever the policy says, such as the experts that a router chose.

    Returns:
        The tensor.

    Raises:
        CheckpointError: In a region without a policy, or if must_recompute() was called for the
            value.
    """
    return _C.must_save(tensor)


def must_recompute(tensor: torch.Tensor) -> torch.Tensor:
    """Recomputes the value whatever the policy says.

    Returns:
        The tensor.

    Raises:
        CheckpointError: If must_save() was called for the value.
    """
    return _C.must_recompute(tensor)


def name_scope(name: str) -> AbstractContextManager[None]:
    """Context manager: a name for the operators in it, which policies see. "a/b" is two scopes."""
    return _C.name_scope(name)


def policy_bypass() -> AbstractContextManager[None]:
    """Context manager: code that policies do not see, and that each recomputation runs.

    For code that runs a different number of times in forward and recomputation, such as gathering
    parameters or filling a cache.
    """
    return _C.policy_bypass()


def install_cpu_memory_counter() -> None:
    """Counts the memory of CPU tensors from now on, for memory_report(). Before the model is built."""
    _C.install_cpu_memory_counter()


def cpu_memory() -> CpuMemory:
    """Returns the bytes of CPU tensors: `current_bytes`, `peak_bytes`, and the `allocations` so far.

    All are 0 before install_cpu_memory_counter().
    """
    return _C.cpu_memory()


def reset_peak_cpu_memory() -> None:
    """Starts a new peak of CPU memory."""
    _C.reset_peak_cpu_memory()


def set_cpu_memory_limit(limit_bytes: int | None) -> None:
    """Refuses to have more bytes of CPU tensors than these, to try out which model fits.

    An allocation beyond the limit raises torch.OutOfMemoryError.

    Args:
        limit_bytes: the limit; None: as many as there are.

    Raises:
        CheckpointError: Before install_cpu_memory_counter().
        ValueError: If the limit is negative.
    """
    _C.set_cpu_memory_limit(limit_bytes)


def collect_memory_report() -> AbstractContextManager[None]:
    """Context manager: regions whose forward runs in it are counted for memory_report()."""
    return _C.collect_memory_report()


def memory_report() -> MemoryReport:
    """Returns `devices`, with current and peak bytes, and `regions`, with bytes and times.

    Printed, it is a table. CPU memory needs install_cpu_memory_counter().
    """
    return _C.memory_report()


def explain_policies() -> str:
    """Returns a table for each region with a policy: the decision for each operator, and its cost."""
    return _C.explain_policies()


def default_rng_state_tracker() -> RngStateTracker:
    """Returns the tracker of the process, Megatron-LM's get_cuda_rng_tracker()."""
    return _C.default_rng_state_tracker()


def fork_rng(name: str = "model-parallel-rng") -> AbstractContextManager[None]:
    """Context manager: the default generators draw from a named state of the default tracker.

    Regions recompute with the numbers of forward inside and outside of it.

    Raises:
        ValueError: If the name is unknown, when it is entered.
    """
    return default_rng_state_tracker().fork(name)


def model_parallel_manual_seed(
    seed: int, tensor_parallel_rank: int, tracker: RngStateTracker | None = None
) -> None:
    """Seeds a rank of a tensor-parallel group, instead of torch.manual_seed().

    After Megatron-LM's model_parallel_cuda_manual_seed.

    Args:
        seed: of the default generators, the same on all ranks.
        tensor_parallel_rank: by which the seeds of the state "model-parallel-rng" differ.
        tracker: that has this state; None: the default one.
    """
    _C.model_parallel_manual_seed(seed, tensor_parallel_rank, tracker)
