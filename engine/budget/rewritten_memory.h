// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Memory from outside that the program writes to between forward and backward.
//
// Note [Memory written between]: autograd does not save an addend, and does not mind if the program
// then writes to it; a recomputation reads it. Which memory is written is seen when backward
// begins, or a replay finds other contents. What is there by then can no longer be computed again:
// it stays, and a step that has let go of it fails. From the next step on the tape copies such
// memory when an operator reads it, as it does with state; of memory beyond the limit of copies,
// the operator runs once. What autograd has saved is left out: writing to that is an error of the
// plain step, too.
#ifndef REPRISE_ENGINE_BUDGET_REWRITTEN_MEMORY_H_
#define REPRISE_ENGINE_BUDGET_REWRITTEN_MEMORY_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "reprise/base/threading/mutex.h"
#include "reprise/engine/operators/storage_table.h"
#include "reprise/engine/tape/tape.h"

namespace reprise::engine_internal {

// Found by the steps of a budget so far. Thread-safe.
class RewrittenMemory {
 public:
  // How a write shows: by counts alone, or also by samples of the contents, which take longer.
  enum class By : std::uint8_t { kVersion, kContents };

  // Looks for such memory among the inputs of a tape whose forward has ended, and notes where
  // operators read it. By versions, before any replay, also marks the inputs as lost. Returns
  // whether something new has been found.
  bool find(Tape& tape, By by);

  // Returns whether the operator, number `ordinal` of a forward, reads such memory at this place
  // among its arguments: the same memory, or another tensor at the same position of a step.
  bool is_read_by(const c10::OperatorHandle& op, std::uint32_t ordinal, std::uint32_t place,
                  const at::Tensor& tensor) const {
    return has_any_.load(std::memory_order_acquire) && is_known(op, ordinal, place, tensor);
  }

 private:
  bool is_known(const c10::OperatorHandle& op, std::uint32_t ordinal, std::uint32_t place,
                const at::Tensor& tensor) const;
  bool note_readers(const Tape& tape, const TapeValueSet& written);

  using Position = std::pair<std::uint32_t, std::uint32_t>;  // ordinal and place
  using Operators = absl::InlinedVector<c10::OperatorHandle, 1>;

  std::atomic<bool> has_any_ = false;
  StorageTable<bool> memory_;
  mutable Mutex mutex_;
  absl::flat_hash_map<Position, Operators> readers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_REWRITTEN_MEMORY_H_
