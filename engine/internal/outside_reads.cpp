// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/internal/outside_reads.h"

#include <algorithm>

#include "reprise/engine/internal/operator_traits.h"

namespace reprise::engine_internal {

void OutsideReads::note(const at::Tensor& tensor) {
  // Numbers that LibTorch wraps into tensors come and go out of the dispatcher's sight.
  if (tensor.is_inference() || !tensor.has_storage() ||
      tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    return;
  }
  const std::int64_t version = tensor._version();
  const auto found = entries_.find(memory_of(tensor));
  if (found == entries_.end()) {
    entries_.try_emplace(memory_of(tensor),
                         Entry{tensor.storage().getWeakStorageImpl(), 1, {{0, version}}});
    return;
  }
  Entry& entry = found->second;
  if (entry.versions.back().version != version) {
    entry.versions.push_back({entry.reads, version});
  }
  ++entry.reads;
}

void OutsideReads::complete() {
  absl::erase_if(entries_, [](const auto& entry) { return entry.second.storage.expired(); });
}

std::optional<OutsideReads::Change> OutsideReads::Cursor::next(const at::Tensor& tensor) {
  const auto found = reads_.entries_.find(memory_of(tensor));
  if (found == reads_.entries_.end()) {
    return std::nullopt;
  }
  const auto& versions = found->second.versions;
  const auto* seen = versions.begin();
  if (versions.size() > 1) {
    const std::uint32_t read = counts_[found->first]++;
    seen = std::prev(std::find_if(std::next(versions.begin()), versions.end(),
                                  [read](const Version& v) { return v.first_read > read; }));
  }
  const std::int64_t now = tensor._version();
  return seen->version == now ? std::nullopt : std::optional(Change{seen->version, now});
}

void ForwardWatch::intercept(const OperatorCall& call) {
  const OperatorTraits& traits = call.traits;
  if (traits.is_view) {
    pass_on(call, outer_);
    return;
  }
  if (traits.transfer != Transfer::kNone) {
    reads_.has_new_transfer = true;
  }
  MemoryList known;
  const auto arguments = call.arguments();
  for (std::uint32_t index = 0; index < arguments.size(); ++index) {
    // A replay leaves writes to the outside out, so it does not read what they change.
    const bool is_read = !traits.may_write(index);
    for_each_tensor(arguments[index], [&](const at::Tensor& tensor) {
      known.push_back(memory_of(tensor));
      if (is_read && !inside_.contains(known.back())) {
        reads_.note(tensor);
      }
    });
  }
  const bool tells_of_outside = traits.tells_host && !known.empty() &&
                                std::none_of(known.begin(), known.end(), [this](Memory memory) {
                                  return inside_.contains(memory);
                                });
  pass_on(call, outer_);
  const auto results = call.results();
  if (tells_of_outside) {
    reads_.note_told(results.vec());
  }
  for (const c10::IValue& result : results) {
    for_each_tensor(result, [&](const at::Tensor& tensor) {
      if (std::find(known.begin(), known.end(), memory_of(tensor)) == known.end()) {
        inside_.insert(memory_of(tensor));
      }
    });
  }
}

}  // namespace reprise::engine_internal
