// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/operators/uncounted_writes.h"

#include <atomic>

#include "reprise/engine/operators/operator_kernels.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/operators/storage_table.h"
#include "reprise/engine/recomputing.h"

namespace reprise::engine_internal {
namespace {

constexpr auto kObservedKey = c10::DispatchKey::BackendSelect;
constinit std::atomic<WriteMoment> last_moment{0};

// The last write to each storage. Never destroyed: operators may run while threads and the process
// end.
StorageTable<WriteMoment>& last_writes() {
  static auto& table = *new StorageTable<WriteMoment>;
  return table;
}

// Moments follow the order of the table's changes.
void note_write(const at::Tensor& tensor) {
  last_writes().set(tensor, [] {
    const WriteMoment moment = last_moment.load(std::memory_order_relaxed) + 1;
    last_moment.store(moment, std::memory_order_release);
    return moment;
  });
}

void run_noted(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (!is_recomputing()) {
    const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
    for (const std::uint32_t index : OperatorTraits::of(op).written(arguments)) {
      for_each_tensor(arguments[index], &note_write);
    }
  }
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kObservedKey),
                     stack);
}

}  // namespace

WriteMoment current_write_moment() noexcept { return last_moment.load(std::memory_order_acquire); }

std::optional<WriteMoment> last_uncounted_write(const c10::StorageImpl* storage) {
  return storage == nullptr ? std::nullopt : last_writes().find(storage);
}

bool is_written_uncounted_since(const c10::StorageImpl* storage, WriteMoment moment) {
  if (current_write_moment() == moment) {
    return false;
  }
  const auto last = last_uncounted_write(storage);
  return last && is_after(*last, moment);
}

bool is_written_uncounted_since(const at::Tensor& tensor, WriteMoment moment) {
  return is_written_uncounted_since(storage_of(tensor), moment);
}

void observe_uncounted_writes() {
  static auto& kernels = *new OperatorKernels(
      kObservedKey, c10::KernelFunction::makeFromBoxedFunction<&run_noted>(),
      [](const c10::OperatorHandle& op) {
        return counts_no_version(op.schema()) && !op.hasKernelForDispatchKey(kObservedKey);
      });
  kernels.register_new_operators();
}

}  // namespace reprise::engine_internal
