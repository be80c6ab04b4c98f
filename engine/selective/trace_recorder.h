// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Writes the trace of a region's forward: the retained results of each operator, and the other
// values that a replay has to compute.
//
// Note [Values]: a value is a storage that an operator of the region has made; views share it, and
// writes in place belong to it. From the saved tensors backwards, complete() finds the values that
// a replay needs. Results that the policy saves but no replay needs are released, and operators
// whose results are not needed are not run: an empty tensor of the same shape replaces their
// result.
//
// Note [In place]: an operator that writes in place to a retained result follows the operator that
// made it: the result is retained as of after the write, which replays skip. Conversely, saving the
// result of a write retains it as the result of the operator that made the value. Neither is
// possible if an operator that a replay runs has read the earlier state, if the policy insists on
// running the write again, or if code excluded from the policy has written as well. Then a result
// under PREFER_SAVE is recomputed, and one under MUST_SAVE becomes a snapshot: a copy, taken before
// the write, of which each replay receives a copy to write to.
//
// Note [Constants]: results that depend on no tensor and no random number, such as from
// zeros(), are not retained. Such memory is often filled through a pointer next, and a replay that
// received the filled memory would fill it twice.
//
// Note [Parts]: a tensor of a class of another language (DTensor, a jagged tensor) has its elements
// in other tensors. Operators reach the trace with the tensor itself or with its parts: see Note
// [Python's key]. What autograd saves is the tensor, so that its parts are saved as well; a class
// that does not name them may have any value of the region as one. So may a class of C++ that wraps
// other tensors, saved or not: its operators read them unseen. Nothing can stand for a result of
// such a class: its operator is supplied or runs.
#ifndef REPRISE_ENGINE_SELECTIVE_TRACE_RECORDER_H_
#define REPRISE_ENGINE_SELECTIVE_TRACE_RECORDER_H_

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "reprise/engine/kept/kept_frontier.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/policy/decision_target.h"
#include "reprise/engine/policy/policy_region.h"
#include "reprise/engine/report/region_stats.h"
#include "reprise/engine/selective/operator_trace.h"

namespace reprise::engine_internal {

// Lives as long as forward, on its thread.
class TraceRecorder final : public DecisionTarget,
                            private KeptFrontier<TracedValueId, TracedOperatorId>::Record {
 public:
  // trace: must outlive this.
  explicit TraceRecorder(OperatorTrace& trace) : trace_(trace), frontier_(*this) {}
  // Forward begins. enclosing: the policy of the next region further out, or null.
  void begin(PolicyRegion* enclosing);

  std::optional<TracedValueId> value_in(StorageId memory) const;
  // A replay needs the contents of `memory`: they are used outside the dispatcher, or autograd
  // saves them.
  void need(StorageId memory);
  // See Note [Parts].
  void note_saved(const at::Tensor& tensor);
  void note_argument(const at::Tensor& tensor) {
    has_unknown_parts_ = has_unknown_parts_ || is_wrapper_in_cpp(tensor);
  }

  // Records the versions of the tensors that the last operator wrote, now that autograd has counted
  // them.
  void note_versions();
  // The tensor's shape has changed in place, which is not a write.
  void note_reshape(const at::Tensor& tensor);

  // The next operator writes to the value, which is in the memory of `tensor`. may_follow: see
  // Note [In place].
  void prepare_write(TracedValueId value, const at::Tensor& tensor, bool may_follow);
  // The next operator, excluded from the policy, writes to the value.
  void prepare_hidden_write(TracedValueId value, const at::Tensor& tensor);
  // The next operator changes the shape of the value's tensor in place.
  void prepare_reshape(TracedValueId value, const at::Tensor& tensor);

  // The next operator has run, with these results; records the values that it made.
  void add(TracedOperator op, c10::ArrayRef<c10::IValue> results,
           const std::vector<std::optional<std::uint32_t>>& result_arguments,
           const StorageIdList& arguments);
  TracedOperator& last() { return trace_.operators.back(); }
  const TracedOperator& last() const { return trace_.operators.back(); }
  // The decision is final: marks the operator's inputs as read. results: its own.
  void finish_last(c10::ArrayRef<c10::IValue> results);

  void note_read_by_host(const void* memory) override { need(memory); }
  std::optional<Decision> decision_of_creator(const at::Tensor& tensor) override {
    const auto creator = creator_of(tensor);
    return creator ? std::optional(decision_of(*creator)) : std::nullopt;
  }
  Decision last_decision() override { return decision_of(last_index()); }
  bool has_last_written() const override { return !last().written.empty(); }
  void decide_last(const PolicyAnswer& answer, c10::ArrayRef<c10::IValue> results) override;
  bool keep_value(const at::Tensor& tensor, const PolicyAnswer& answer) override;
  bool recompute_value(const at::Tensor& tensor, CheckpointPolicy decision) override;

  // Forward has ended. dropped: memory of tensors that autograd has saved in graphs that are gone.
  // may_pack: retained results may go to their store or to the surrounding hooks, which may throw.
  // stats: is added to, unless null.
  void complete(const absl::flat_hash_set<StorageId>& dropped, bool may_pack, RegionStats* stats);

 private:
  // Returns the operator that made the contents of the tensor's memory, if one of the region did.
  std::optional<TracedOperatorId> creator_of(const at::Tensor& tensor) const;
  Decision decision_of(TracedOperatorId index) const {
    TracedOperator& op = trace_.operators[index];
    return {op.name, index.number(), &op.decision, &op.is_forced};
  }

  using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  struct Value {
    TracedOperatorId creator;
    std::uint32_t tensor;  // of the creator's
    std::int64_t bytes;
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // prevents the reuse of its address
    bool is_needed = false;
    std::optional<TracedOperatorId> last_reader;  // that needs it; none if it is needed at the end
    bool is_saved = false;                        // by autograd: is needed, unless it is dropped
    bool is_used = false;                         // by an operator, run again or not
    bool is_read = false;                         // by an operator that a replay may run
    bool has_earlier_reader = false;              // an operator that did so before a write
    bool is_constant = false;                     // see Note [Constants]
    MemorySample sample = 0;                      // of a constant
    bool may_follow = true;                       // see Note [In place]
    std::vector<TracedOperatorId> writers;
    WeakTensor result;  // that the code has received; only if there may be other owners
  };

  void note_saved_memory(StorageId memory);
  void note_results(TracedOperator& op, c10::ArrayRef<c10::IValue> results,
                    const std::vector<std::optional<std::uint32_t>>& result_arguments,
                    const StorageIdList& arguments);
  void keep_results(TracedOperatorId index, const PolicyAnswer& answer,
                    c10::ArrayRef<c10::IValue> results);
  void decide_write(TracedOperatorId index, const PolicyAnswer& answer,
                    c10::ArrayRef<c10::IValue> results);
  at::Tensor whole(const Value& value, const at::Tensor& tensor) const;
  const KeptResult* kept(const Value& value) const;
  KeptResult* kept(const Value& value) {
    return const_cast<KeptResult*>(std::as_const(*this).kept(value));  // NOLINT(*-const-cast)
  }
  // Returns the value as the last writer left it; null unless it is retained as such.
  KeptResult* kept_write(const Value& value);
  void prepare_written_results(const Value& value, const at::Tensor& tensor);
  enum class Moment : std::uint8_t { kInWrite, kAfterwards };
  bool keep_as_result(Value& value, const at::Tensor& tensor, const PolicyAnswer& answer,
                      Moment moment);
  bool is_in_flight(const Value& value) const;
  void overwrite(Value& value);
  void note_version_later(const Value& value);
  void note_final_versions();
  void unkeep_what_pointers_wrote();
  bool let_follow(TracedOperatorId index, Value& value, const at::Tensor& written);
  std::vector<TracedOperatorId> runs_without(TracedOperatorId index) const;
  bool can_unkeep(TracedOperatorId index) const;
  bool unkeep(TracedOperatorId index);
  bool reads_what_is_lost(TracedOperatorId index, TracedOperatorId creator) const;
  void run(TracedOperatorId index);
  // For error messages.
  std::string describe_operator(TracedOperatorId index) const;
  TracedOperatorId last_index() const { return trace_.operators.last_id(); }

  // The frontier, in trace_frontier.cpp.
  void note_frontier(TracedOperatorId index, c10::ArrayRef<c10::IValue> results);
  at::Tensor replaceable(TracedValueId id) const override;
  bool is_kept(TracedValueId id) const override { return kept(values_[id]) != nullptr; }
  std::int64_t bytes_of(TracedValueId id) const override { return values_[id].bytes; }
  bool is_served(TracedOperatorId index) const override;
  bool may_keep(TracedOperatorId index, TracedValueId id, const at::Tensor& tensor) const override;
  bool is_read(TracedValueId id) const override { return values_[id].is_used; }
  void keep_instead(TracedOperatorId index, TracedValueId id, const at::Tensor& tensor) override;
  void release(TracedValueId id, const std::vector<TracedOperatorId>& readers) override;
  bool may_release(const Value& value) const;
  std::int64_t dropped_bytes() const override;
  bool may_drop(TracedValueId id) const override;
  bool is_cheap(TracedValueId id) const override;
  void drop_excess();
  std::vector<TracedValueId> beyond_saved() const;

  void need_saved(const absl::flat_hash_set<StorageId>& dropped);
  void need_dead_ends();
  void find_needed();
  bool has_hidden_writes() const;
  bool is_written_through_pointer(const Value& value) const;
  void need_everything();
  void let_go(TracedOperatorId index);
  TracedOperatorId keeper_of(const Value& value) const;
  bool keeps_as(TracedOperatorId index, const Value& value);
  void report(TracedOperatorId index, RegionStats& stats);
  void put_kept_away();
  bool is_any_needed(const auto& ids) const;
  bool is_needed_after(TracedOperatorId index) const;

  OperatorTrace& trace_;
  PolicyRegion* enclosing_ = nullptr;
  bool is_nested_ = false;  // regions around it may own the results as well
  absl::flat_hash_map<StorageId, TracedValueId> value_of_memory_;
  base_internal::IdVector<TracedValueId, Value> values_;
  std::vector<std::pair<TracedOperatorId, std::uint32_t>> written_now_;  // kept results
  bool has_unknown_parts_ = false;                                       // see Note [Parts]
  KeptFrontier<TracedValueId, TracedOperatorId> frontier_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_SELECTIVE_TRACE_RECORDER_H_
