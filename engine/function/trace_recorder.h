// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Writes the trace of a region's forward: what is kept of each operator's results, and what of the
// rest a replay has to compute.
//
// Note [Values]: a value is a storage that an operator of the region has made; views share it, and
// writes in place belong to it. From the saved tensors backwards, complete() finds the values that
// a replay needs. Results that the policy keeps, but that nothing needs, are let go of, and
// operators that nothing needs are not run: an empty tensor of the same shape stands in for their
// result.
//
// Note [In place]: an operator that writes in place to a kept result follows the operator that made
// it: the result stays kept as it is afterwards, and a replay leaves the write out. The other way
// round, to keep what an operator has written is to keep it as the result of the one that made it.
// Neither goes if an operator that a replay runs has read the earlier state, if the policy insists
// on running the write again, or if code that is hidden from the policy has written as well. Then a
// result that is only preferred to be kept is computed again, and one that must be kept becomes a
// snapshot: a copy, taken before the write, of which each replay gets a copy to write to.
//
// Note [Constants]: results that depend on no tensor and no random number, as those of zeros(), are
// not kept. Memory like that is often filled through a pointer next, and a replay that was given
// what the pointer left there would have it filled twice.
#ifndef REPRISE_ENGINE_FUNCTION_TRACE_RECORDER_H_
#define REPRISE_ENGINE_FUNCTION_TRACE_RECORDER_H_

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "reprise/engine/function/operator_trace.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/policy/decision_target.h"
#include "reprise/engine/report/region_stats.h"

namespace reprise::engine_internal {

// Lives as long as forward, on its thread.
class TraceRecorder final : public DecisionTarget {
 public:
  // trace: must outlive this.
  explicit TraceRecorder(OperatorTrace& trace) : trace_(trace) {}

  std::optional<ValueId> value_in(StorageId memory) const;
  std::uint32_t index_of(const TracedOperator& op) const {
    return static_cast<std::uint32_t>(&op - trace_.operators.data());
  }
  // A replay needs what lies in `memory`: it is saved, or used out of sight.
  void need(StorageId memory);

  // Notes the versions of what the last operator has written, which autograd has counted by now.
  void note_versions();
  // A change of the tensor's shape in place: no write.
  void note_reshape(const at::Tensor& tensor);

  // The next operator writes to the value, which lies in the memory of `tensor`. may_follow: see
  // Note [In place].
  void prepare_write(ValueId value, const at::Tensor& tensor, bool may_follow);
  // The next operator, hidden from the policy, writes to the value.
  void prepare_hidden_write(ValueId value, const at::Tensor& tensor);
  // The next operator changes the shape of the tensor, whose value it is, in place.
  void prepare_reshape(ValueId value, const at::Tensor& tensor);

  // The next operator has run, with these results; notes which values it made.
  void add(TracedOperator op, c10::ArrayRef<c10::IValue> results,
           const std::vector<std::optional<std::uint32_t>>& result_arguments,
           const StorageIdList& arguments);
  TracedOperator& last() { return trace_.operators.back(); }
  const TracedOperator& last() const { return trace_.operators.back(); }
  // The decision is final; what the operator reads is marked as read.
  void finish_last();

  std::optional<Decision> decision_of_creator(const at::Tensor& tensor) override {
    TracedOperator* const op = creator_of(tensor);
    return op == nullptr ? std::nullopt : std::optional(decision_of(*op));
  }
  Decision last_decision() override { return decision_of(last()); }
  bool has_last_written() const override { return !last().written.empty(); }
  void decide_last(const PolicyAnswer& answer, c10::ArrayRef<c10::IValue> results) override;
  bool keep_value(const at::Tensor& tensor, const PolicyAnswer& answer) override;
  bool recompute_value(const at::Tensor& tensor, CheckpointPolicy decision) override;

  // Forward has ended. may_pack: what is kept may go to its store, or to the surrounding hooks,
  // which may throw. stats: to be added to, or null.
  void complete(bool may_pack, RegionStats* stats);

 private:
  // The operator that made the contents of the tensor's memory; null if none of the region did.
  TracedOperator* creator_of(const at::Tensor& tensor);
  Decision decision_of(TracedOperator& op) const {
    return {op.name, index_of(op), &op.decision, &op.is_forced};
  }

  struct Value {
    std::uint32_t creator;
    std::uint32_t tensor;  // of the creator's
    std::int64_t bytes;
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // its address cannot be given out anew
    bool is_needed = false;
    bool is_used = false;             // by an operator, run again or not
    bool is_read = false;             // by an operator that a replay runs
    bool has_earlier_reader = false;  // one that did so before a write
    bool is_constant = false;         // see Note [Constants]
    MemorySample sample = 0;          // of a constant
    bool may_follow = true;           // see Note [In place]
    std::vector<std::uint32_t> writers;
  };

  void note_results(TracedOperator& op, c10::ArrayRef<c10::IValue> results,
                    const std::vector<std::optional<std::uint32_t>>& result_arguments,
                    const StorageIdList& arguments);
  void keep_results(std::uint32_t index, const PolicyAnswer& answer,
                    c10::ArrayRef<c10::IValue> results);
  void decide_write(std::uint32_t index, const PolicyAnswer& answer,
                    c10::ArrayRef<c10::IValue> results);
  at::Tensor whole(const Value& value, const at::Tensor& tensor) const;
  KeptResult* kept(const Value& value);
  // As the last writer has left it; null unless it is kept as such.
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
  bool let_follow(std::uint32_t index, Value& value, const at::Tensor& written);
  std::vector<std::uint32_t> runs_without(std::uint32_t index) const;
  bool can_unkeep(std::uint32_t index) const;
  bool unkeep(std::uint32_t index);
  bool reads_what_is_lost(std::uint32_t index, std::uint32_t creator) const;
  void run(std::uint32_t index);
  // For error messages.
  std::string describe_operator(std::uint32_t index) const;
  std::uint32_t last_index() const { return index_of(last()); }

  void need_dead_ends();
  void find_needed();
  bool has_hidden_writes() const;
  bool is_written_through_pointer(const Value& value) const;
  void need_everything();
  void let_go(std::uint32_t index);
  std::uint32_t keeper_of(const Value& value) const;
  bool keeps_as(std::uint32_t index, const Value& value);
  void report(std::uint32_t index, RegionStats& stats);
  void put_kept_away();
  bool is_any_needed(const auto& ids) const;

  OperatorTrace& trace_;
  absl::flat_hash_map<StorageId, ValueId> value_of_memory_;
  std::vector<Value> values_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> written_now_;  // kept results
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_FUNCTION_TRACE_RECORDER_H_
