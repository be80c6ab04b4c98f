// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Which tensors from outside a region's forward read, and at which version: a replay that finds
// another one would compute something else.
#ifndef REPRISE_ENGINE_INTERNAL_OUTSIDE_READS_H_
#define REPRISE_ENGINE_INTERNAL_OUTSIDE_READS_H_

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/SmallVector.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "reprise/engine/internal/dispatch_mode.h"
#include "reprise/engine/internal/memory.h"

namespace reprise::engine_internal {

// Holds storages weakly: that keeps no memory of tensors, and an address from being used again.
class OutsideReads {
 public:
  void note(const at::Tensor& tensor);

  // What an operator has told the host of tensors from outside.
  void note_told(std::vector<c10::IValue> results) { told_.push_back(std::move(results)); }

  // A transfer between ranks has run since the last slot was saved, on another thread perhaps.
  std::atomic<bool> has_new_transfer = false;

  // Forgets what is gone.
  void complete();

  struct Change {
    std::int64_t version_in_forward;
    std::int64_t version_now;
  };

  // The reads of one replay, in the order of forward's.
  class Cursor {
   public:
    explicit Cursor(const OutsideReads& reads) : reads_(reads) {}
    // The next read of `tensor`: what forward saw, if that was something else.
    std::optional<Change> next(const at::Tensor& tensor);

    // What forward's operator has told the host, or null if there was none.
    const std::vector<c10::IValue>* next_told() {
      return told_ < reads_.told_.size() ? &reads_.told_[told_++] : nullptr;
    }

   private:
    const OutsideReads& reads_;
    absl::flat_hash_map<Memory, std::uint32_t> counts_;  // of tensors that forward changed
    std::size_t told_ = 0;
  };

 private:
  struct Version {
    std::uint32_t first_read;
    std::int64_t version;
  };
  struct Entry {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    std::uint32_t reads;
    c10::SmallVector<Version, 1> versions;
  };

  absl::flat_hash_map<Memory, Entry> entries_;
  std::vector<std::vector<c10::IValue>> told_;
};

// Notes the reads of a region's forward, and that ranks exchange something.
class ForwardWatch final : public OperatorInterceptor {
 public:
  // outer: what stands around the region, asked after this one; or null.
  ForwardWatch(OutsideReads& reads, OperatorInterceptor* outer) : reads_(reads), outer_(outer) {}

  void intercept(const OperatorCall& call) override;

 private:
  OutsideReads& reads_;
  OperatorInterceptor* const outer_;
  absl::flat_hash_set<Memory> inside_;  // what the region has made
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_INTERNAL_OUTSIDE_READS_H_
