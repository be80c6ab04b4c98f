// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/operators/uncounted_writes.h"

#include <c10/util/intrusive_ptr.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "reprise/base/threading/mutex.h"
#include "reprise/engine/operators/operator_kernels.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/recomputing.h"

namespace reprise::engine_internal {
namespace {

constexpr auto kObservedKey = c10::DispatchKey::BackendSelect;
constinit std::atomic<WriteMoment> last_moment{0};

// The last write to each storage.
class WriteTable {
 public:
  void add(const at::Tensor& tensor) ABSL_LOCKS_EXCLUDED(mutex_) {
    auto storage = weak_storage_of(tensor);
    if (storage._unsafe_get_target() == nullptr) {
      return;
    }
    const MutexLock lock(mutex_);
    const WriteMoment moment = last_moment.load(std::memory_order_relaxed) + 1;
    const auto [entry, is_new] = writes_.try_emplace(storage._unsafe_get_target());
    entry->second.moment = moment;
    if (is_new) {
      entry->second.storage = std::move(storage);
      forget_freed();
    }
    last_moment.store(moment, std::memory_order_release);
  }

  std::optional<WriteMoment> last(const c10::StorageImpl* storage) ABSL_LOCKS_EXCLUDED(mutex_) {
    const MutexLock lock(mutex_);
    const auto found = writes_.find(storage);
    return found == writes_.end() ? std::nullopt : std::optional(found->second.moment);
  }

 private:
  struct Write {
    WriteMoment moment = 0;
    c10::weak_intrusive_ptr<c10::StorageImpl> storage = no_storage();  // prevents reuse
  };

  // Whenever the table has doubled.
  void forget_freed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writes_.size() < next_cleanup_) {
      return;
    }
    constexpr std::size_t kLeast = 256;
    absl::erase_if(writes_, [](const auto& entry) { return entry.second.storage.expired(); });
    next_cleanup_ = std::max(kLeast, 2 * writes_.size());
  }

  Mutex mutex_;
  absl::flat_hash_map<const c10::StorageImpl*, Write> writes_ ABSL_GUARDED_BY(mutex_);
  std::size_t next_cleanup_ ABSL_GUARDED_BY(mutex_) = 256;
};

// Never destroyed: operators may run while threads and the process end.
WriteTable& table() {
  static auto& table = *new WriteTable;
  return table;
}

void run_noted(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (!is_recomputing()) {
    const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
    for (const std::uint32_t index : OperatorTraits::of(op).written(arguments)) {
      for_each_tensor(arguments[index], [](const at::Tensor& tensor) { table().add(tensor); });
    }
  }
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kObservedKey),
                     stack);
}

}  // namespace

WriteMoment current_write_moment() noexcept { return last_moment.load(std::memory_order_acquire); }

std::optional<WriteMoment> last_uncounted_write(const c10::StorageImpl* storage) {
  return storage == nullptr ? std::nullopt : table().last(storage);
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
