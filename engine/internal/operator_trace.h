// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The operators of a region's forward under a policy, for its replays: what to do with each, and
// the results that need not be computed. TraceBuilder writes it.
#ifndef REPRISE_ENGINE_INTERNAL_OPERATOR_TRACE_H_
#define REPRISE_ENGINE_INTERNAL_OPERATOR_TRACE_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/operator_name.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/synchronization/mutex.h"
#include "reprise/engine/internal/tensor_record.h"
#include "reprise/hooks/internal/host_copy.h"
#include "reprise/policies/checkpoint_policy.h"
#include "reprise/rng/rng_state.h"

namespace reprise::engine_internal {

using ValueId = std::uint32_t;

// One result that is kept: an alias without graph that shares the version counter, a copy on the
// host, or what the surrounding saved-tensor hooks have made of it.
struct KeptResult {
  at::Tensor alias;
  std::int64_t version = 0;
  std::optional<hooks_internal::HostCopy> host;
  std::unique_ptr<torch::autograd::SavedVariableHooks> packed;

  bool is_overwritten = false;  // by an operator that replays run again

  bool is_defined() const { return alias.defined() || host || packed; }
  bool is_mutated() const {
    return is_overwritten ||
           (alias.defined() && !alias.is_inference() && alias._version() != version);
  }
};

// The results of one call.
struct OperatorResults {
  enum class Kind : std::uint8_t { kTensor, kTensorList, kOther };
  struct Result {
    Kind kind;
    std::uint32_t tensors;  // how many of `tensors` it has
    c10::IValue other;      // of kOther
  };
  struct Made {
    TensorMetadata metadata;
    std::int64_t storage_offset;
  };
  absl::InlinedVector<Result, 1> results;
  absl::InlinedVector<Made, 1> tensors;
};

struct TracedOperator {
  enum class Plan : std::uint8_t {
    kRun,
    kServe,        // what is needed of its results is kept
    kServePartly,  // is run, but for some of its results
    kCopy,         // writes in place; what it left is kept, and copied
    kSkip,         // writes in place what is kept as it left it
    kDead,         // nothing needs its results
  };

  const c10::OperatorName* name = nullptr;
  std::uint64_t arguments = 0;  // fingerprint of their metadata
  CheckpointPolicy decision = CheckpointPolicy::PREFER_RECOMPUTE;
  Plan plan = Plan::kRun;
  bool is_view = false;    // a result lies in an argument's memory: neither kept nor left out
  bool is_root = false;    // to be run whether its results are needed or not
  bool is_asked = false;   // the policy was asked
  bool is_pinned = false;  // by save() or recompute(): `decision` is theirs
  absl::InlinedVector<ValueId, 3> inputs;
  absl::InlinedVector<ValueId, 2> made;     // for each tensor result that is a value of its own
  absl::InlinedVector<ValueId, 1> written;  // in place
  // Null: they can be neither kept nor stood in for (sparse tensors).
  std::unique_ptr<OperatorResults> results;
  std::optional<RngState> rng;  // before it ran, if it is random
};

class OperatorTrace {
 public:
  // By operator, for each of its tensors.
  using Kept = absl::flat_hash_map<std::uint32_t, std::vector<KeptResult>>;

  OperatorTrace(bool allow_mutation, bool through_hooks)
      : through_hooks(through_hooks), allow_mutation_(allow_mutation) {}

  const bool through_hooks;  // kept results go to the surrounding saved-tensor hooks
  bool is_complete = false;  // forward has ended
  std::vector<TracedOperator> operators;

  // In forward.
  Kept& mutable_kept() ABSL_NO_THREAD_SAFETY_ANALYSIS { return *kept_; }

  // Null if the kept results are gone, or have been changed and that is allowed: then each operator
  // is to be run.
  std::shared_ptr<const Kept> kept() const ABSL_LOCKS_EXCLUDED(mutex_);
  void drop_kept() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const bool allow_mutation_;
  mutable absl::Mutex mutex_;
  std::shared_ptr<Kept> kept_ ABSL_GUARDED_BY(mutex_) = std::make_shared<Kept>();
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_INTERNAL_OPERATOR_TRACE_H_
