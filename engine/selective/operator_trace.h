// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The operators of a region's forward under a policy, for its replays: the plan for each, and the
// results that need not be computed. TraceRecorder writes it.
#ifndef REPRISE_ENGINE_SELECTIVE_OPERATOR_TRACE_H_
#define REPRISE_ENGINE_SELECTIVE_OPERATOR_TRACE_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/operator_name.h>
#include <c10/util/ArrayRef.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "reprise/base/ids/strong_id.h"
#include "reprise/base/threading/mutex.h"
#include "reprise/engine/kept/kept_result.h"
#include "reprise/engine/operators/random_draw.h"
#include "reprise/policies/checkpoint_policy.h"
#include "reprise/rng/rng_state.h"

namespace reprise::engine_internal {

using TracedValueId = base_internal::StrongId<class TracedValueTag>;
using TracedOperatorId = base_internal::StrongId<class TracedOperatorTag>;

// The results of all operators, one after the other.
class ResultList {
 public:
  enum class Kind : std::uint8_t { kTensor, kTensorList, kOther };
  struct Result {
    Kind kind;
    std::uint32_t tensors;  // their number
    c10::IValue other;      // of kOther
  };
  // The results of one operator.
  struct Range {
    std::uint32_t first_result = 0, end_result = 0;
    std::uint32_t first_tensor = 0, end_tensor = 0;
    std::size_t tensor_count() const { return end_tensor - first_tensor; }
  };

  // Returns nothing, and changes nothing, if a result can be neither retained nor replaced by an
  // empty tensor.
  std::optional<Range> append(c10::ArrayRef<c10::IValue> results);
  // Moves the results of another list here.
  Range take(ResultList& other, const Range& range);

  std::span<const Result> results(const Range& range) const {
    return std::span(results_).subspan(range.first_result, range.end_result - range.first_result);
  }
  std::span<const MadeTensor> tensors(const Range& range) const {
    return std::span(tensors_).subspan(range.first_tensor, range.tensor_count());
  }

 private:
  bool append_result(const c10::IValue& result);

  std::vector<Result> results_;
  std::vector<MadeTensor> tensors_;
};

struct TracedOperator {
  enum class Plan : std::uint8_t {
    kRun,
    kServe,        // its needed results are retained
    kServePartly,  // is run for some of its results
    kCopy,         // writes in place; its result is retained, and copied
    kSkip,         // writes in place to a value that is retained as of after it
    kDead,         // its results, or what it writes in place, are not needed
  };

  const c10::OperatorName* name = nullptr;
  std::uint64_t arguments = 0;  // fingerprint of their metadata
  CheckpointPolicy decision = CheckpointPolicy::PREFER_RECOMPUTE;
  Plan plan = Plan::kRun;
  bool is_view = false;  // a result is in an argument's memory: neither retained nor skipped
  bool is_root = false;  // to be run whether its results are needed or not
  bool has_other_owners = false;  // regions around or inside may own the results as well
  bool is_asked = false;          // the policy was asked
  bool is_forced = false;         // `decision` is that of must_save() or must_recompute()
  bool is_wait = false;           // see Note [Transfers]
  bool is_in_flight = false;      // its results are
  bool is_constant = false;       // see Note [Constants]; of a write, if the value was a constant
  bool is_resizing = false;       // changes the shape of what it writes
  bool is_lone_write = false;     // to a single value, which is its only result
  absl::InlinedVector<TracedValueId, 3> inputs;
  absl::InlinedVector<TracedValueId, 2> made;  // for each tensor result that is a value of its own
  absl::InlinedVector<TracedValueId, 1> written;  // in place
  // None if they can be neither retained nor replaced (sparse tensors).
  std::optional<ResultList::Range> results;
  std::optional<RandomDraw> draw;  // if it is random
};

// Note [Stand-ins]: a replay need not compute a result that no saved tensor depends on, and gives
// the code an empty tensor in its place; nor does a replay write in place for nothing. Code that
// keeps a result in a member, a list, or by set_data() would be left with an empty tensor, or with
// one that lacks the write. The replay finds such tensors when the code has ended, as they exist,
// and the code then runs once more, with all operators: the kept tensors hold forward's contents.
// So does code that runs other operators than in forward, without any influence on the saved
// tensors, such as the gathers of sharded weights.
class OperatorTrace {
 public:
  // Per operator, its tensors.
  using Kept = absl::flat_hash_map<TracedOperatorId, std::vector<KeptResult>>;

  OperatorTrace(bool allow_mutation, bool through_hooks)
      : through_hooks(through_hooks), allow_mutation_(allow_mutation) {}

  const bool through_hooks;  // retained results go to the surrounding saved-tensor hooks
  bool is_complete = false;  // forward has ended
  base_internal::IdVector<TracedOperatorId, TracedOperator> operators;
  ResultList results;

  // Returns whether `matches`, a function or member function of KeptResult, is true of one of them.
  template <class Predicate>
  static bool any_of(const Kept& kept, const Predicate& matches) {
    return std::ranges::any_of(
        kept, [&](const auto& entry) { return std::ranges::any_of(entry.second, matches); });
  }

  // In forward.
  Kept& mutable_kept() ABSL_NO_THREAD_SAFETY_ANALYSIS { return *kept_; }

  // Returns null if the retained results have been released, or modified while that is allowed, or
  // written through a pointer while forward runs: then each operator has to run.
  std::shared_ptr<const Kept> kept() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Forward has ended. From now on replays run the code without this trace, which retains nothing
  // any more: see Note [Stand-ins].
  void run_everything();
  bool runs_everything() const { return runs_everything_; }

  // Returns the same as kept(), and retains nothing.
  std::shared_ptr<Kept> take_kept() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  bool are_usable(const Kept& kept) const;

  const bool allow_mutation_;
  std::atomic<bool> runs_everything_ = false;
  mutable Mutex mutex_;
  std::shared_ptr<Kept> kept_ ABSL_GUARDED_BY(mutex_) = std::make_shared<Kept>();
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_SELECTIVE_OPERATOR_TRACE_H_
