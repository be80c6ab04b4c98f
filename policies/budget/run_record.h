// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The operators of one run of a region's forward, as a policy sees them.
#ifndef REPRISE_POLICIES_BUDGET_RUN_RECORD_H_
#define REPRISE_POLICIES_BUDGET_RUN_RECORD_H_

#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "reprise/policies/budget/autograd_saves.h"
#include "reprise/policies/checkpoint_policy.h"

namespace reprise::policies_internal {

// One question of the engine's.
struct RecordedCall {
  const void* op = nullptr;
  std::int64_t ordinal = 0;
  std::int64_t bytes = 0;
  std::uint32_t result = 0;  // an index: the one that it makes or writes to
  double seconds = 0;

  [[nodiscard]] bool is_same_operator(const RecordedCall& other) const noexcept {
    return op == other.op && ordinal == other.ordinal && bytes == other.bytes &&
           result == other.result;
  }
};

// The results of an operator, and the writes in place to them: saved together, as the last of these
// operators leaves them, or computed again together.
struct RecordedResult {
  std::int64_t bytes = 0;
  std::uint32_t last_call = 0;
  bool is_constant = false;      // depends on no tensor and no random number: the engine drops it
  bool is_communicated = false;  // by a collective
  bool is_saved = false;         // autograd may read it in backward
  // The other results of the operators that read it.
  absl::InlinedVector<std::uint32_t, 2> readers;

  // Collectives are repeated by each rank or by none: times, which differ between ranks, do not
  // decide about them.
  [[nodiscard]] bool may_be_kept() const noexcept {
    return bytes > 0 && !is_constant && !is_communicated;
  }
};

struct RunRecord {
  std::vector<RecordedCall> calls;
  std::vector<RecordedResult> results;
};

[[nodiscard]] bool is_same_run(const RunRecord& one, const RunRecord& other) noexcept;

// Writes the record of a run, on its thread. Owns no tensor.
class RunRecorder {
 public:
  const RecordedCall& add(const PolicyContext& context, double seconds);

  // Returns whether the last call has written in place.
  [[nodiscard]] bool has_written() const noexcept { return has_written_; }
  RunRecord& record() noexcept { return record_; }

 private:
  struct Memory {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // prevents the reuse of its address
    std::uint32_t result;
  };

  std::uint32_t result_of(const PolicyContext& context);
  bool note_inputs(const PolicyContext& context, std::uint32_t result, const AutogradSaves& saves);

  RunRecord record_;
  absl::flat_hash_map<const c10::StorageImpl*, Memory> memory_;
  bool has_written_ = false;
};

}  // namespace reprise::policies_internal

#endif  // REPRISE_POLICIES_BUDGET_RUN_RECORD_H_
