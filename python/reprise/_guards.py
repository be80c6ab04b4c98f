# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Guards and annotations for code inside and around regions, and reports."""

from reprise._native import _C

__all__ = [
    "RngStateTracker",
    "collect_memory_report",
    "default_rng_state_tracker",
    "explain_policies",
    "fork_rng",
    "install_cpu_memory_counter",
    "is_recomputing",
    "memory_report",
    "model_parallel_manual_seed",
    "name",
    "name_scope",
    "policy_bypass",
    "recompute",
    "reset_peak_cpu_memory",
    "save",
    "save_on_cpu",
    "set_cpu_memory_limit",
    "store_guard",
]

RngStateTracker = _C.RngStateTracker


def save_on_cpu(pin_memory=False, *, max_device_bytes=0):
    """Context manager: tensors that autograd saves live in host memory until backward.

    As torch.autograd.graph.save_on_cpu, but brings tensors back ahead, and leaves up to
    `max_device_bytes` of them on the device. CPU tensors and parameters stay where they are.
    """
    return _C.stores.save_on_cpu(pin_memory, max_device_bytes=max_device_bytes)


def store_guard(store, *, prefetch_depth=1):
    """Context manager: tensors that autograd saves go to `store` until backward. Guards nest.

    Around regions it receives their inputs. Parameters stay where they are.
    prefetch_depth: how many tensors to fetch ahead of the one that backward asks for.

    Raises ValueError for a negative depth.
    """
    return _C.stores.store_guard(store, prefetch_depth=prefetch_depth)


def is_recomputing():
    """Returns whether this thread recomputes a region now."""
    return _C.is_recomputing()


def name(tensor, name):
    """Offers the value to the region's policy under a name; see `policies.save_named`.

    After jax.ad_checkpoint.checkpoint_name. Returns the tensor.
    """
    return _C.name(tensor, name)


def save(tensor):
    """Saves the value whatever the policy says, such as the experts that a router chose.

    Returns the tensor. Raises CheckpointError in a region without a policy, or if `recompute` was
    called for the value.
    """
    return _C.save(tensor)


def recompute(tensor):
    """Recomputes the value whatever the policy says.

    Returns the tensor. Raises CheckpointError if `save` was called for the value.
    """
    return _C.recompute(tensor)


def name_scope(name):
    """Context manager: a name for the operators in it, which policies see. "a/b" is two scopes."""
    return _C.name_scope(name)


def policy_bypass():
    """Context manager: code that policies do not see, and that each recomputation runs.

    For code that runs a different number of times in forward and recomputation, such as gathering
    parameters or filling a cache.
    """
    return _C.policy_bypass()


def install_cpu_memory_counter():
    """Counts the memory of CPU tensors from now on, for memory_report(). Before the model is built."""
    _C.install_cpu_memory_counter()


def reset_peak_cpu_memory():
    """Starts a new peak of CPU memory."""
    _C.reset_peak_cpu_memory()


def set_cpu_memory_limit(limit_bytes):
    """Refuses to have more bytes of CPU tensors than these; None: as many as there are.

    For trying out which model fits. An allocation beyond the limit raises torch.OutOfMemoryError.
    Raises reprise.CheckpointError before install_cpu_memory_counter(), ValueError for a negative limit.
    """
    _C.set_cpu_memory_limit(limit_bytes)


def collect_memory_report():
    """Context manager: regions whose forward runs in it are counted for memory_report()."""
    return _C.collect_memory_report()


def memory_report():
    """Returns `devices`, with current and peak bytes, and `regions`, with bytes and times.

    Printed, it is a table. CPU memory needs install_cpu_memory_counter().
    """
    return _C.memory_report()


def explain_policies():
    """Returns a table for each region with a policy: the decision for each operator, and its cost."""
    return _C.explain_policies()


def default_rng_state_tracker():
    """Returns the tracker of the process, Megatron-LM's get_cuda_rng_tracker()."""
    return _C.default_rng_state_tracker()


def fork_rng(name="model-parallel-rng"):
    """Context manager: the default generators draw from a named state of the default tracker.

    Regions recompute with the numbers of forward inside and outside of it.
    Raises ValueError for an unknown name, when it is entered.
    """
    return default_rng_state_tracker().fork(name)


def model_parallel_manual_seed(seed, tensor_parallel_rank, tracker=None):
    """Seeds a rank of a tensor-parallel group, instead of torch.manual_seed().

    The default generators get `seed`, the same on all ranks; the state "model-parallel-rng" of the
    tracker, the default one unless it is given, gets one for each rank. After Megatron-LM's
    model_parallel_cuda_manual_seed.
    """
    _C.model_parallel_manual_seed(seed, tensor_parallel_rank, tracker)
