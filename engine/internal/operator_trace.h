// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The operators of a region's forward under a policy: what a replay does with each, and the results
// that it need not compute.
//
// Note [Values]: a value is a storage that an operator of the region has made; views share it, and
// writes in place belong to it. From the saved tensors backwards, complete() finds the values that
// a replay needs. Results that the policy keeps, but that nothing needs, are let go of, and
// operators that nothing needs are not run: a placeholder of the same shape stands for their
// result.
#ifndef REPRISE_ENGINE_INTERNAL_OPERATOR_TRACE_H_
#define REPRISE_ENGINE_INTERNAL_OPERATOR_TRACE_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/operator_name.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/synchronization/mutex.h"
#include "reprise/engine/internal/memory.h"
#include "reprise/engine/internal/tensor_record.h"
#include "reprise/hooks/internal/host_copy.h"
#include "reprise/policies/checkpoint_policy.h"
#include "reprise/rng/rng_state.h"

namespace reprise::engine_internal {

using ValueId = std::uint32_t;

// One result that is kept: an alias without graph that shares the version counter, or a copy on the
// host.
struct KeptResult {
  at::Tensor alias;
  std::int64_t version = 0;
  std::optional<hooks_internal::HostCopy> host;

  bool is_defined() const { return alias.defined() || host.has_value(); }
  bool is_mutated() const {
    return alias.defined() && !alias.is_inference() && alias._version() != version;
  }
};

struct TracedOperator {
  enum class Replay : std::uint8_t {
    kRun,
    kServe,  // its results are kept
    kSkip,   // writes in place what is kept as it left it
    kDead,   // nothing needs its results
  };

  const c10::OperatorName* name = nullptr;
  std::uint64_t arguments = 0;  // fingerprint of their metadata
  CheckpointPolicy decision = CheckpointPolicy::PREFER_RECOMPUTE;
  Replay replay = Replay::kRun;
  bool is_view = false;  // a result lies in an argument's memory: neither kept nor left out
  bool is_root = false;  // to be run whether its results are needed or not
  absl::InlinedVector<ValueId, 3> inputs;
  absl::InlinedVector<ValueId, 2> made;     // for each tensor result that is a value of its own
  absl::InlinedVector<ValueId, 1> written;  // in place
  struct Result {
    std::optional<TensorMetadata> tensor;
    c10::IValue other;  // what is no tensor; none for an undefined tensor
  };
  // Without, the results can neither be kept nor replaced (lists, sparse tensors).
  std::optional<std::vector<Result>> results;
  std::optional<RngState> rng;  // before it ran, if it is random
};

class OperatorTrace {
 public:
  // By operator, for each of its results.
  using Kept = absl::flat_hash_map<std::uint32_t, std::vector<KeptResult>>;

  struct Value {
    std::uint32_t creator;
    std::uint32_t result;  // of the creator
    bool is_read = false;  // by an operator that a replay runs
    std::vector<std::uint32_t> writers;
  };

  explicit OperatorTrace(bool allow_mutation) : allow_mutation_(allow_mutation) {}

  // Forward.
  ValueId make_value(Memory memory, std::uint32_t creator, std::uint32_t result);
  std::optional<ValueId> value_in(Memory memory) const;
  Value& value(ValueId id) { return values_[id]; }
  // A replay needs what lies in `memory`: it is saved, or used out of sight.
  void need(Memory memory);
  Kept& mutable_kept() ABSL_NO_THREAD_SAFETY_ANALYSIS { return *kept_; }
  // Forward has ended.
  void complete();
  bool is_complete() const { return complete_; }

  std::vector<TracedOperator> operators;

  // Replay. Null if the kept results are gone, or have been changed and that is allowed: then each
  // operator is to be run.
  std::shared_ptr<const Kept> kept() const ABSL_LOCKS_EXCLUDED(mutex_);
  void drop_kept() ABSL_LOCKS_EXCLUDED(mutex_);
  std::int64_t kept_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  bool has_hidden_writes(const std::vector<bool>& needed) const;
  std::vector<bool> needed_values() const;
  void let_go(std::uint32_t index, const std::vector<bool>& needed);

  const bool allow_mutation_;
  bool complete_ = false;
  absl::flat_hash_map<Memory, ValueId> value_of_memory_;  // in forward
  std::vector<Value> values_;                             // in forward
  std::vector<bool> roots_;                               // by value

  mutable absl::Mutex mutex_;
  std::shared_ptr<Kept> kept_ ABSL_GUARDED_BY(mutex_) = std::make_shared<Kept>();
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_INTERNAL_OPERATOR_TRACE_H_
