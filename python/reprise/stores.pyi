# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
from enum import Enum
from typing import Any

from torch.distributed import ProcessGroup

class ActivationStore:
    def __or__(self, next: ActivationStore, /) -> ActivationStore: ...

# Stores that count what they do, and free what they do not use.
class _CountingStore(ActivationStore):
    def counters(self) -> dict[str, Any]: ...

class _BackgroundStore(_CountingStore):
    def flush(self) -> None: ...

class _HostStore(_CountingStore):
    def release_unused(self) -> None: ...

class _DiskStore(_BackgroundStore):
    def release_unused(self) -> None: ...

class QuantizedFormat(Enum):
    INT8 = ...
    FLOAT8_E4M3 = ...

class CompressionCodec(Enum):
    AUTOMATIC = ...
    LZ4 = ...
    ZSTANDARD = ...

def device() -> ActivationStore: ...
def host(
    *,
    pin_memory: bool = True,
    min_bytes: int = 4096,
    max_host_bytes: int | None = None,
    max_wait_seconds: float = 0.0,
    max_in_flight_bytes: int = ...,
    max_device_bytes: int = 0,
    keep_last: int = 1,
) -> _HostStore: ...
def disk(
    *,
    directory: str = "",
    min_bytes: int = ...,
    max_disk_bytes: int | None = None,
    forward_when_full: bool = False,
    max_in_flight_bytes: int = ...,
    keep_last: int = 1,
    direct: bool = True,
) -> _DiskStore: ...
def packed(*, min_bytes: int = 1024, find_constants: bool = False) -> ActivationStore: ...
def quantized(
    *,
    format: QuantizedFormat = ...,
    block_size: int = 128,
    stochastic_rounding: bool = False,
    seed: int = 0,
    min_bytes: int = 4096,
) -> ActivationStore: ...
def compressed(
    *,
    codec: CompressionCodec = ...,
    level: int = 1,
    max_ratio: float = 0.9,
    max_slowdown: float = 0.2,
    min_bytes: int = ...,
    max_in_flight_bytes: int = ...,
    keep_last: int = 1,
) -> _BackgroundStore: ...
def slab(
    *, initial_bytes: int = 0, initial_tensors: int = 0, min_bytes: int = 4096
) -> _CountingStore: ...
def partitioned(
    group: ProcessGroup,
    *,
    min_bytes: int = 4096,
    check_order: bool = False,
    check_timeout: float = 300,
) -> _CountingStore: ...
