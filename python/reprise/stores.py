# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Stores: where tensors live between forward and backward. They combine by `|`.

>>> with reprise.store_guard(reprise.stores.packed() | reprise.stores.disk(directory="/scratch")):
...     loss = model(x).sum()
>>> loss.backward()
"""

from reprise._native import _C

ActivationStore = _C.stores.ActivationStore
CompressionCodec = _C.stores.CompressionCodec
QuantizedFormat = _C.stores.QuantizedFormat
compressed = _C.stores.compressed
device = _C.stores.device
disk = _C.stores.disk
host = _C.stores.host
packed = _C.stores.packed
quantized = _C.stores.quantized
slab = _C.stores.slab
