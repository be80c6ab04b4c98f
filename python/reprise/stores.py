# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Stores: where tensors live between forward and backward. They combine by `|`.

>>> disk = reprise.stores.disk(directory="/scratch")
>>> with reprise.store_guard(reprise.stores.packed() | disk):
...     loss = model(x).sum()
>>> loss.backward()
>>> disk.counters()["bytes_out"]

A store serves as a guard around any code, as the `input_store` of regions, and as the answer of a
policy (`reprise.policies.keep_in`). All but `quantized` are exact. A tensor that a store does not
take, it forwards to the next one, or leaves where it is. Stores are thread-safe.
"""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING

from reprise._native import _C

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

__all__ = [
    "ActivationStore",
    "CompressionCodec",
    "QuantizedFormat",
    "compressed",
    "device",
    "disk",
    "host",
    "packed",
    "partitioned",
    "quantized",
    "slab",
]

ActivationStore = _C.stores.ActivationStore
CompressionCodec = _C.stores.CompressionCodec
QuantizedFormat = _C.stores.QuantizedFormat

os.register_at_fork(before=_C.stores.wait_before_fork)
atexit.register(_C.stores.wait_before_exit)

_MIB = 1 << 20


def device() -> ActivationStore:
    """Keeps an alias, as autograd does without a store. Can only be the last of a chain."""
    return _C.stores.device()


def host(
    *,
    pin_memory: bool = True,
    min_bytes: int = 4096,
    max_host_bytes: int | None = None,
    max_wait_seconds: float = 0.0,
    max_in_flight_bytes: int = 256 * _MIB,
    max_device_bytes: int = 0,
    keep_last: int = 1,
) -> _C.stores.HostStore:
    """Moves tensors of an accelerator to host memory; copies overlap with the computation.

    Args:
        pin_memory: page-locks the host memory, so that copies run at the bus's speed.
        min_bytes: smaller tensors are forwarded, as are those of the CPU.
        max_host_bytes: of host memory; tensors beyond it are forwarded, after `max_wait_seconds`.
        max_in_flight_bytes: of device memory of tensors being copied out; beyond it forward waits.
        max_device_bytes: leaves as much on the device; the oldest tensors are moved first.
        keep_last: as many of the last tensors stay on the device: backward asks for them at once.
    """
    return _C.stores.host(
        pin_memory=pin_memory,
        min_bytes=min_bytes,
        max_host_bytes=max_host_bytes,
        max_wait_seconds=max_wait_seconds,
        max_in_flight_bytes=max_in_flight_bytes,
        max_device_bytes=max_device_bytes,
        keep_last=keep_last,
    )


def disk(
    *,
    directory: str = "",
    min_bytes: int = 64 << 10,
    max_disk_bytes: int | None = None,
    forward_when_full: bool = False,
    max_in_flight_bytes: int = 256 * _MIB,
    keep_last: int = 1,
    direct: bool = True,
) -> _C.stores.DiskStore:
    """Writes tensors to a file during forward, and reads them ahead of backward.

    Args:
        directory: of the file, which has no name; the system's one for temporary files by default.
        max_disk_bytes: of the file; tensors beyond it are forwarded.
        forward_when_full: what the disk has no space for stays in memory, instead of an error.
        max_in_flight_bytes: of tensors being written; beyond it forward waits.
        direct: bypasses the page cache, where the file system can.

    Raises:
        RuntimeError: If the file cannot be made.
    """
    return _C.stores.disk(
        directory=directory,
        min_bytes=min_bytes,
        max_disk_bytes=max_disk_bytes,
        forward_when_full=forward_when_full,
        max_in_flight_bytes=max_in_flight_bytes,
        keep_last=keep_last,
        direct=direct,
    )


def packed(*, min_bytes: int = 1024, find_constants: bool = False) -> ActivationStore:
    """Packs without loss: masks to bits, integers to the narrowest type, expanded tensors once.

    Args:
        find_constants: looks for floating-point tensors of equal elements; synchronises the device.
    """
    return _C.stores.packed(min_bytes=min_bytes, find_constants=find_constants)


def quantized(
    *,
    format: QuantizedFormat = QuantizedFormat.INT8,
    block_size: int = 128,
    stochastic_rounding: bool = False,
    seed: int = 0,
    min_bytes: int = 4096,
) -> ActivationStore:
    """Quantises floating-point tensors to one byte per element and a scale per block. **Lossy.**

    With `a` the largest magnitude in a block, INT8 is off by at most a / 254 (a / 127 with
    stochastic rounding). Blocks: Dettmers et al., "8-bit Optimizers via Block-wise Quantization",
    2021. Formats: Micikevicius et al., "FP8 Formats for Deep Learning", 2022.

    Raises:
        ValueError: For a block_size below 1.
    """
    return _C.stores.quantized(
        format=format,
        block_size=block_size,
        stochastic_rounding=stochastic_rounding,
        seed=seed,
        min_bytes=min_bytes,
    )


def compressed(
    *,
    codec: CompressionCodec = CompressionCodec.AUTOMATIC,
    level: int = 1,
    max_ratio: float = 0.9,
    max_slowdown: float = 0.2,
    min_bytes: int = 64 << 10,
    max_in_flight_bytes: int = 256 * _MIB,
    keep_last: int = 1,
) -> _C.stores.CompressedStore:
    """Compresses in host memory without loss, in the background, where it helps.

    Args:
        max_ratio: of compressed to original size; worse ones are forwarded as they are.
        max_slowdown: of the computation, as a part of the time; beyond it tensors are forwarded.

    Raises:
        ValueError: For a level that the codec does not have.
    """
    return _C.stores.compressed(
        codec=codec,
        level=level,
        max_ratio=max_ratio,
        max_slowdown=max_slowdown,
        min_bytes=min_bytes,
        max_in_flight_bytes=max_in_flight_bytes,
        keep_last=keep_last,
    )


def slab(
    *, initial_bytes: int = 0, initial_tensors: int = 0, min_bytes: int = 4096
) -> _C.stores.SlabStore:
    """Keeps tensors in one piece of memory for each device, against fragmentation.

    Without a size the first step finds it. After DeepSpeed's contiguous_memory_optimization.
    """
    return _C.stores.slab(
        initial_bytes=initial_bytes, initial_tensors=initial_tensors, min_bytes=min_bytes
    )


def partitioned(
    group: ProcessGroup,
    *,
    min_bytes: int = 4096,
    check_order: bool = False,
    check_timeout: float = 300,
) -> _C.stores.PartitionedStore:
    """Keeps an n-th of each tensor on each of the n ranks of a torch.distributed process group.

    For tensors that are equal on all ranks: with tensor parallelism, the inputs of regions. Backward
    gathers them, one region ahead. After DeepSpeed's partition_activations.

    Args:
        check_order: ranks compare what they gather, for debugging; the same on all ranks.
        check_timeout: seconds after which ranks that wait there for others raise RuntimeError.
    """
    return _C.stores.partitioned(
        group, min_bytes=min_bytes, check_order=check_order, check_timeout=check_timeout
    )
