// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/outside/written_memory.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/clone.h>

#include "reprise/engine/checks/provenance.h"
#include "reprise/engine/operators/interception.h"
#include "reprise/engine/operators/operator_facts.h"
#include "reprise/engine/operators/refillable_memory.h"
#include "reprise/hooks/storage/storage_view.h"

namespace reprise::engine_internal {

void WrittenMemory::note_write(const OperatorTraits& traits, const at::Tensor& target,
                               bool was_read) {
  const auto [found, is_new] = memories_.try_emplace(
      storage_id_of(target), Memory{weak_storage_of(target), !was_read && refills(traits, target)});
  Memory& memory = found->second;
  if (is_new && was_read) {
    copy(memory, target);
  }
  ++memory.writes;
}

void WrittenMemory::note_state(const at::Tensor& tensor, const at::Tensor& state) {
  if (!ProvenanceMap::is_followed(tensor)) {
    return;
  }
  const auto [found, is_new] = memories_.try_emplace(
      storage_id_of(tensor), Memory{weak_storage_of(tensor), /*is_refilled=*/false});
  Memory& memory = found->second;
  if (has_whole_storage(state, tensor)) {
    copy(memory, state);
  }
}

std::uint32_t WrittenMemory::note_read(const at::Tensor& tensor) {
  const auto found = memories_.empty() ? memories_.end() : memories_.find(storage_id_of(tensor));
  if (found == memories_.end()) {
    return 0;
  }
  Memory& memory = found->second;
  memory.is_read = true;
  if (!memory.is_refilled) {
    copy(memory, tensor);
  }
  return memory.writes;
}

void WrittenMemory::copy(Memory& memory, const at::Tensor& tensor) {
  const bool has_copy = !memory.copies.empty() && memory.copies.back().first == memory.writes;
  const bool is_there_again = is_refillable(tensor);  // backward of what reads it finds it filled
  if (has_copy || is_there_again || !ProvenanceMap::is_followed(tensor) ||
      is_beyond_storage(tensor)) {
    return;
  }
  const auto bytes = static_cast<std::int64_t>(tensor.storage().nbytes());
  if (bytes == 0 || bytes > bytes_left_) {
    return;
  }
  bytes_left_ -= bytes;
  const at::NoGradGuard no_grad;
  const InterceptionScope unseen(nullptr);
  memory.copies.emplace_back(memory.writes, at::clone(hooks_internal::storage_bytes(tensor)));
}

bool WrittenMemory::is_refilled_and_read(StorageId memory) const {
  const auto found = memories_.find(memory);
  return found != memories_.end() && found->second.is_refilled && found->second.is_read;
}

at::Tensor WrittenMemory::contents(StorageId memory, std::uint32_t writes) const {
  if (const auto found = memories_.find(memory); found != memories_.end()) {
    for (const auto& [before, bytes] : found->second.copies) {
      if (before == writes) {
        return bytes;
      }
    }
  }
  return {};
}

void WrittenMemory::append_freed(std::vector<MemoryTable::WeakStorage>& freed) const {
  for (const auto& [id, memory] : memories_) {
    const auto storage = memory.storage.lock();
    if (storage && storage->nbytes() == 0) {
      freed.push_back(memory.storage);
    }
  }
}

}  // namespace reprise::engine_internal
