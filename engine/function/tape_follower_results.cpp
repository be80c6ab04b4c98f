// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The results that a replay supplies in place of running an operator.
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "reprise/engine/function/tape_follower.h"
#include "reprise/engine/operators/operator_facts.h"
#include "reprise/hooks/seam/unseen_scope.h"
#include "reprise/hooks/storage/alias.h"

namespace reprise::engine_internal {
namespace {

// With a version counter of its own: a write by the replay does not count as one to the retained
// tensor.
at::Tensor own_alias(const at::Tensor& kept) {
  return hooks_internal::detached_alias(kept, c10::VariableVersion(0),
                                        /*may_change_metadata=*/true);
}

at::Tensor own_copy(const at::Tensor& kept) {
  const hooks_internal::UnseenScope unseen;
  return at::clone(kept);
}

}  // namespace

std::size_t TapeFollower::saved_aliases_of(StorageId memory) const {
  if (saved_ == nullptr) {
    return 0;
  }
  return static_cast<std::size_t>(
      std::count_if(saved_->begin(), saved_->end(), [memory](const auto& entry) {
        const at::Tensor& alias = entry.second.kept.alias;
        return alias.defined() && storage_id_of(alias) == memory;
      }));
}

void TapeFollower::supply(const OperatorCall& call, TapeOperatorId index) {
  const ResultList::Range& range = *tape_.results_of[index];
  std::uint32_t ordinal = 0;
  std::vector<c10::IValue> supplied;
  supplied.reserve(call.traits.result_arguments.size());
  for (const ResultList::Result& result : tape_.results.results(range)) {
    if (result.kind == ResultList::Kind::kOther) {
      supplied.push_back(result.other);
    } else if (result.kind == ResultList::Kind::kTensor) {
      supplied.emplace_back(result_for(call, index, ordinal++));
    } else {
      c10::List<at::Tensor> list;
      for (std::uint32_t i = 0; i < result.tensors; ++i) {
        list.push_back(result_for(call, index, ordinal++));
      }
      supplied.emplace_back(std::move(list));
    }
  }
  torch::jit::drop(call.stack, call.op.schema().arguments().size());
  std::move(supplied.begin(), supplied.end(), std::back_inserter(call.stack));
}

// Each tensor of the results is a value of its own.
at::Tensor TapeFollower::result_for(const OperatorCall& call, TapeOperatorId index,
                                    std::uint32_t ordinal) {
  const Tape::Made& made = tape_.tape.made[tape_.tape.operators[index].first_made + ordinal];
  at::Tensor tensor = saved(call, actions_.supplied[made.value]);
  if (!tensor.defined()) {
    tensor = stand_ins_.make(tape_.tape.geometries[made.geometry], made.device,
                             /*has_memory=*/call.traits.is_factory);
    effects_.adopt(tensor);
  }
  return tensor;
}

void TapeFollower::skip_writes(const OperatorCall& call, TapeOperatorId index) {
  const Tape::Operator& op = tape_.tape.operators[index];
  effects_.settle();
  StorageIdList seen;
  const auto writes = tape_.tape.writes_of(op);
  std::size_t next = 0;
  for (const std::uint32_t argument : call.traits.written(call.arguments())) {
    for_each_tensor(call.argument(argument), [&](const at::Tensor& target) {
      const StorageId memory = storage_id_of(target);
      if (next == writes.size() || std::find(seen.begin(), seen.end(), memory) != seen.end()) {
        return;
      }
      seen.push_back(memory);
      const Tape::Write& write = writes[next++];
      if (actions_.is_copied[write.after]) {
        copy(call, target, write);
      } else if (actions_.is_left_out[write.after]) {  // the target keeps its contents
        stand_ins_.note_left_out(target);
      }
    });
  }
  leave_out(call);
}

void TapeFollower::copy(const OperatorCall& call, const at::Tensor& target,
                        const Tape::Write& write) {
  const at::Tensor kept = saved(call, write.after);
  stand_ins_.note_filled(target);
  if (write.reshaped != Tape::kNone) {
    const Geometry& reshaped = tape_.tape.geometries[write.reshaped];
    target.resize_(reshaped.sizes);
    // With the layout that `out=` gives a tensor that it resizes.
    target.unsafeGetTensorImpl()->set_sizes_and_strides(reshaped.sizes, reshaped.strides);
  }
  // The target may be a part of what the operator leaves in the memory.
  const GeometryId geometry = saved_->at(write.after).geometry;
  tape_.tape.geometries[geometry].look_at(target, 0).copy_(kept);
}

void TapeFollower::replace_results(const OperatorCall& call, TapeOperatorId index) {
  const Tape::Operator& op = tape_.tape.operators[index];
  const auto is_supplied = [&](const Tape::Made& made) {
    return actions_.supplied[made.value] != Tape::kNone;
  };
  const auto made = tape_.tape.made_by(op);
  if (std::none_of(made.begin(), made.end(), is_supplied)) {
    return;
  }
  std::uint32_t ordinal = 0;
  std::size_t next = 0;
  const auto replaced = [&](const at::Tensor& tensor) {
    if (next == made.size() || made[next].ordinal != ordinal++) {
      return tensor;
    }
    at::Tensor kept = saved(call, actions_.supplied[made[next++].value]);
    return kept.defined() ? kept : tensor;
  };
  const std::size_t first = call.stack.size() - call.traits.result_arguments.size();
  for (std::size_t i = first; i < call.stack.size(); ++i) {
    c10::IValue& result = call.stack[i];
    if (result.isTensor() && result.toTensor().defined()) {
      result = replaced(result.toTensor());
    } else if (result.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : result.toTensorVector()) {
        list.push_back(tensor.defined() ? replaced(tensor) : tensor);
      }
      result = std::move(list);
    }
  }
}

at::Tensor TapeFollower::saved(const OperatorCall& call, TapeValueId value) {
  const auto found = value == Tape::kNone ? saved_->end() : saved_->find(value);
  if (found == saved_->end() || !found->second.kept.is_defined()) {
    return {};
  }
  const KeptResult& kept = found->second.kept;
  const std::optional<at::Tensor> kept_now = kept.get_unless_mutated();
  if (!kept_now) {
    std::string why = c10::str(
        "[checkpoint] region '", region_,
        "': a tensor that the policy keeps has been mutated: the "
        "result of operator ",
        watch_.matched().value_or(0), ", ", call.op.operator_name(), ", ", kept.describe_mutation(),
        ". Change a clone instead, or set allow_cache_entry_mutation to compute it again");
    if (kept.stored && !kept.is_mutated()) {  // perhaps by the region's code, through a pointer
      lose_tape(std::move(why));
      return {};
    }
    mutation_ = std::move(why);
    check();
  }
  const bool is_written = actions_.is_written[value];
  at::Tensor tensor = is_written ? own_copy(*kept_now) : own_alias(*kept_now);
  effects_.adopt(tensor);
  if (!tape_.is_complete() && !is_written) {
    shared_.push_back(storage_id_of(tensor));
  }
  if (taken_ != nullptr) {
    taken_->at(value).kept = {};
  }
  return tensor;
}

}  // namespace reprise::engine_internal
