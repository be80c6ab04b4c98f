// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A short value that tells whether memory has been written behind the dispatcher's back.
#ifndef REPRISE_ENGINE_WATCH_MEMORY_SAMPLE_H_
#define REPRISE_ENGINE_WATCH_MEMORY_SAMPLE_H_

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>

namespace reprise::engine_internal {

// Equal for equal contents of a storage of the same size. 0: nothing is known.
using MemorySample = std::uint64_t;

// Of the storage of a dense tensor on the CPU: of all bytes, or of 64 that are spread evenly over
// it, the first and the last among them. Storages of up to 240 bytes always count as a whole. 0 for
// tensors on other devices, which would have to be waited for, and for storages without memory.
MemorySample sample_memory(const at::Tensor& tensor, bool of_all_bytes);
// The same of a storage.
MemorySample sample_storage(c10::StorageImpl& storage, bool of_all_bytes);
// Of up to 16 elements of a strided tensor on the CPU, spread evenly over it.
MemorySample sample_elements(const at::Tensor& tensor);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_WATCH_MEMORY_SAMPLE_H_
