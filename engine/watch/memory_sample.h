// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A short value that reveals whether memory has been written outside the dispatcher.
#ifndef REPRISE_ENGINE_WATCH_MEMORY_SAMPLE_H_
#define REPRISE_ENGINE_WATCH_MEMORY_SAMPLE_H_

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>

namespace reprise::engine_internal {

// Equal for equal contents of a storage of the same size. 0: unknown.
using MemorySample = std::uint64_t;

// The end of a message about a tensor of which another sample was taken before.
inline constexpr char kWrittenThroughPointer[] =
    ", which has been written through a pointer, or an alias with a version counter of its own, "
    "since it was read";

// Returns the sample of a dense CPU tensor's storage: of all bytes, or of 64 that are spread evenly
// over it, including the first and the last. Storages of up to 240 bytes always count as a whole. 0
// for tensors on other devices, which would require synchronisation, and for storages without
// memory.
MemorySample sample_memory(const at::Tensor& tensor, bool of_all_bytes);
// Returns the sample that a storage with the elements of this contiguous CPU tensor alone would
// have.
MemorySample sample_contiguous(const at::Tensor& tensor, bool of_all_bytes);
// The same for a storage.
MemorySample sample_storage(c10::StorageImpl& storage, bool of_all_bytes);
// Returns the sample of up to 16 elements of a strided CPU tensor, spread evenly over it.
MemorySample sample_elements(const at::Tensor& tensor);
// Returns the sample of all bytes of a sparse or nested CPU tensor.
MemorySample sample_object(const at::Tensor& tensor);
// Returns the sample of wrapped memory that an operator reads: of all bytes of its storage, up to
// 1 MiB, otherwise that of elements.
MemorySample sample_wrapped(const at::Tensor& tensor);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_WATCH_MEMORY_SAMPLE_H_
