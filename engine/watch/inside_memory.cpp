// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/watch/inside_memory.h"

#include <algorithm>
#include <cstddef>

#include "absl/functional/function_ref.h"
#include "reprise/engine/operators/operator_traits.h"

namespace reprise::engine_internal {
namespace {

using Visitor = absl::FunctionRef<void(const at::Tensor&, MemorySample)>;

// Returns null unless the region has made the memory, on the CPU.
const ProvenanceMap::Entry* entry_if_inside(const c10::StorageImpl* storage,
                                            const ProvenanceMap& made) {
  const ProvenanceMap::Entry* const entry =
      storage != nullptr && storage->device().is_cpu() ? made.find(storage) : nullptr;
  return entry == nullptr || entry->is_input || entry->is_left_over ? nullptr : entry;
}

// Calls `visitor` with each tensor of such memory that the operator reads, and its sample.
void for_each_read(const OperatorCall& call, const ProvenanceMap& made, Visitor visitor) {
  const OperatorTraits& traits = call.traits;
  if (traits.transfer != Transfer::kNone) {
    return;  // its memory may be in use
  }
  const bool ignores_targets = traits.overwrites || traits.ignores_targets;
  for (std::uint32_t index = 0; index < call.arguments().size(); ++index) {
    if (!ignores_targets || !traits.may_write(index)) {
      for_each_tensor(call.argument(index), [&](const at::Tensor& tensor) {
        c10::StorageImpl* const storage = storage_of(tensor);
        if (const ProvenanceMap::Entry* const entry = entry_if_inside(storage, made)) {
          visitor(tensor, sample_storage(*storage, entry->is_factorys));
        }
      });
    }
  }
}

}  // namespace

void InsideWrites::start(const OperatorCall& call) {
  const auto non_blocking = call.traits.non_blocking_argument;
  may_arrive_later_ = call.traits.transfer != Transfer::kNone ||
                      (non_blocking && call.argument(*non_blocking).isBool() &&
                       call.argument(*non_blocking).toBool());
  targets_.clear();
  for (const std::uint32_t index : call.traits.written(call.arguments())) {
    for_each_tensor(call.argument(index), [this](const at::Tensor& tensor) {
      targets_.push_back(weak_storage_of(tensor));
    });
  }
}

void InsideWrites::note_written(const OperatorCall& call, const ProvenanceMap& made, bool has_run) {
  const auto note = [&](c10::StorageImpl* storage) {
    const ProvenanceMap::Entry* const entry = entry_if_inside(storage, made);
    if (!has_run || may_arrive_later_) {
      samples_.erase(storage);
    } else if (entry != nullptr) {
      samples_.insert_or_assign(storage, sample_storage(*storage, entry->is_factorys));
    }
  };
  for (const c10::IValue& result : call.results()) {
    for_each_tensor(result, [&](const at::Tensor& tensor) { note(storage_of(tensor)); });
  }
  for (const auto& target : targets_) {
    note(target.lock().get());
  }
}

bool InsideWrites::is_filled(const at::Tensor& tensor, MemorySample now) const {
  const auto written = samples_.find(storage_id_of(tensor));
  return written != samples_.end() && now != written->second;
}

void InsideSamples::note_reads(std::uint32_t op, const OperatorCall& call,
                               const ProvenanceMap& made) {
  for_each_read(call, made, [&](const at::Tensor& tensor, MemorySample value) {
    samples_.push_back({op, writes_.is_filled(tensor, value), value});
  });
}

std::span<const InsideSamples::Sample> InsideSamples::of(std::uint32_t op) const {
  const auto is_before = [](const Sample& sample, std::uint32_t op) { return sample.op < op; };
  const auto first = std::lower_bound(samples_.begin(), samples_.end(), op, is_before);
  const auto end = std::lower_bound(first, samples_.end(), op + 1, is_before);
  return {first, end};
}

std::optional<at::Tensor> InsideComparison::find_change(std::uint32_t op, const OperatorCall& call,
                                                        const ProvenanceMap& made) const {
  std::optional<at::Tensor> changed;
  const auto in_forward = samples_.of(op);
  std::size_t next = 0;
  for_each_read(call, made, [&](const at::Tensor& tensor, MemorySample now) {
    if (next == in_forward.size()) {
      return;
    }
    const InsideSamples::Sample& sample = in_forward[next++];
    const bool has_changed = now != sample.value && writes_.knows(tensor) &&
                             (sample.is_filled || writes_.is_filled(tensor, now));
    if (has_changed && !changed) {
      changed = tensor;
    }
  });
  return changed;
}

}  // namespace reprise::engine_internal
