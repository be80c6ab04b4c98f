// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/selective/selective_replay.h"

#include <ATen/core/List.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "reprise/engine/errors.h"
#include "reprise/engine/operators/operator_facts.h"
#include "reprise/engine/operators/random_draw.h"
#include "reprise/hooks/seam/forwarding_engine.h"
#include "reprise/hooks/seam/hook_stack.h"

namespace reprise::engine_internal {
namespace {

using Plan = TracedOperator::Plan;
using Kind = ResultList::Kind;

// With a version counter of its own: a write by the replay does not count as one to the retained
// tensor.
at::Tensor own_alias(const at::Tensor& kept) {
  return hooks_internal::detached_alias(kept, c10::VariableVersion(0),
                                        /*may_change_metadata=*/true);
}

// Replaces a result whose elements are not needed.
at::Tensor empty_like(const TensorMetadata& metadata) {
  return at::empty_strided(metadata.sizes, metadata.strides,
                           at::TensorOptions(metadata.dtype).device(metadata.device));
}

}  // namespace

SelectiveReplay::SelectiveReplay(OperatorTrace& trace, bool is_last, bool may_lose_trace,
                                 const std::string& region, ReplayEffects& effects,
                                 RegionStats* stats)
    : trace_(trace),
      may_lose_trace_(may_lose_trace),
      region_(region),
      effects_(effects),
      stats_(stats),
      taken_(is_last ? trace.take_kept() : nullptr),
      kept_(is_last ? taken_ : trace.kept()),
      backward_(hooks_internal::current_backward()) {}

void SelectiveReplay::intercept(const OperatorCall& call) {
  if (has_stopped_ || has_lost_trace_) {
    effects_.intercept(
        call);  // code that has swallowed or translated the early stop, or left the trace
    return;
  }
  if (is_ahead_of_forward()) {
    disown_shared();
  }
  if (is_untraced(call) || is_in_backward_inside(backward_)) {
    check_reads(call);
    effects_.intercept(call);
    return;
  }
  if (is_ahead_of_forward()) {
    effects_.intercept(call);
    return;
  }
  if (!trace_.operators.contains(next_) ||
      *trace_.operators[next_].name != call.op.operator_name() ||
      trace_.operators[next_].arguments != fingerprint_of_arguments(call)) {
    lose_trace(describe_other_operator(call));
    effects_.intercept(call);
    return;
  }
  replay(call, trace_.operators[next_]);
  ++next_;
}

bool SelectiveReplay::is_ahead_of_forward() const {
  return !trace_.operators.contains(next_) && !trace_.is_complete;
}

std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> SelectiveReplay::left_stand_ins() const {
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> left;
  for (const auto& [memory, unset] : unset_) {
    if (!unset.storage.expired() && unset.storage.use_count() > kept_aliases_of(memory)) {
      left.push_back(unset.storage);
    }
  }
  return left;
}

std::size_t SelectiveReplay::kept_aliases_of(StorageId memory) const {
  std::size_t count = 0;
  if (kept_ != nullptr) {
    for (const auto& [index, results] : *kept_) {
      count += static_cast<std::size_t>(
          std::count_if(results.begin(), results.end(), [memory](const KeptResult& kept) {
            return kept.alias.defined() && storage_id_of(kept.alias) == memory;
          }));
    }
  }
  return count;
}

// The tensors that the call would write to keep their contents.
void SelectiveReplay::note_left_out(const OperatorCall& call) {
  for (const std::uint32_t index : call.traits.written_arguments) {
    for_each_tensor(call.argument(index), [this](const at::Tensor& tensor) {
      unset_.try_emplace(storage_id_of(tensor), Unset{weak_storage_of(tensor)});
    });
  }
}

void SelectiveReplay::check() const {
  if (other_operator_) {
    throw DeterminismError(*other_operator_);
  }
  if (mutation_) {
    throw MutationError(*mutation_);
  }
}

void SelectiveReplay::replay(const OperatorCall& call, const TracedOperator& op) {
  if (kept_ == nullptr || op.plan == Plan::kRun) {
    run(call, op);
    return;
  }
  const OperatorTraits& traits = call.traits;
  const bool only_writes =
      !traits.undeclared && !traits.written_arguments.empty() && traits.returns_only_arguments;
  const bool knows_rng = !op.draw || op.draw->after;
  const bool is_served = op.plan == Plan::kServe && has_all(op) && knows_rng;
  if (op.plan == Plan::kServePartly || (op.plan == Plan::kServe && !is_served)) {
    run(call, op);
    replace_kept(call);
  } else if (op.plan == Plan::kCopy) {
    copy(call);
  } else if (only_writes) {
    if (op.plan == Plan::kDead) {
      note_left_out(call);
    }
    effects_.settle();
    leave_out(call);
  } else {
    effects_.note_supplied(call);
    supply(call, *op.results);
  }
  if (op.draw && op.draw->after) {
    op.draw->after->restore();  // for inner regions, whose own replays start there
  }
}

void SelectiveReplay::run(const OperatorCall& call, const TracedOperator& op) {
  if (op.draw) {
    op.draw->before.restore();
  }
  run_timed(call, op);
  if (op.draw && !op.draw->is_repeated()) {
    other_operator_ =
        c10::str("[checkpoint] region '", region_, "': operator ", next_, " of the recomputation, ",
                 *op.name, ", ", describe_shared_draw(op.draw->before.generator()));
    check();
  }
}

void SelectiveReplay::run_timed(const OperatorCall& call, const TracedOperator& op) {
  if (stats_ == nullptr || !op.is_asked) {
    effects_.intercept(call);
    return;
  }
  const auto start = std::chrono::steady_clock::now();
  effects_.intercept(call);
  stats_->add_replay(*op.name, op.decision, std::chrono::steady_clock::now() - start);
}

// While forward runs, the needed results are not yet known.
bool SelectiveReplay::has_all(const TracedOperator& op) const {
  if (trace_.is_complete) {
    return true;
  }
  const auto found = kept_->find(next_);
  return found != kept_->end() && found->second.size() == op.results->tensor_count() &&
         std::all_of(found->second.begin(), found->second.end(),
                     [](const KeptResult& kept) { return kept.is_defined(); });
}

void SelectiveReplay::supply(const OperatorCall& call, const ResultList::Range& range) {
  const auto made = trace_.results.tensors(range);
  std::size_t ordinal = 0;
  const auto next_tensor = [&] {
    at::Tensor tensor = kept_tensor(call, ordinal);
    if (!tensor.defined()) {
      const TensorMetadata& metadata = made[ordinal].metadata;
      // The region's code may fill the memory of a factory through a pointer.
      tensor = call.traits.is_factory ? empty_like(metadata) : unset_memory_.tensor_like(metadata);
      effects_.adopt(tensor);
      unset_.insert_or_assign(storage_id_of(tensor),
                              Unset{weak_storage_of(tensor), /*is_stand_in=*/true});
    }
    ++ordinal;
    return tensor;
  };
  std::vector<c10::IValue> supplied;
  supplied.reserve(call.traits.result_arguments.size());
  for (const ResultList::Result& result : trace_.results.results(range)) {
    if (result.kind == Kind::kOther) {
      supplied.push_back(result.other);
    } else if (result.kind == Kind::kTensor) {
      supplied.emplace_back(next_tensor());
    } else {
      c10::List<at::Tensor> list;
      for (std::uint32_t i = 0; i < result.tensors; ++i) {
        list.push_back(next_tensor());
      }
      supplied.emplace_back(std::move(list));
    }
  }
  torch::jit::drop(call.stack, call.op.schema().arguments().size());
  std::move(supplied.begin(), supplied.end(), std::back_inserter(call.stack));
}

void SelectiveReplay::copy(const OperatorCall& call) {
  effects_.settle();
  const at::Tensor target = call.argument(call.traits.written_arguments[0]).toTensor();
  const at::Tensor kept = kept_tensor(call, 0);
  if (const auto found = unset_.find(storage_id_of(target));
      found != unset_.end() && found->second.is_stand_in) {
    unset_.erase(found);
    UnsetMemory::allocate(target);
  }
  if (target.sizes() != kept.sizes()) {
    target.resize_(kept.sizes());
    // With the layout that `out=` gives a tensor that it resizes.
    target.unsafeGetTensorImpl()->set_sizes_and_strides(kept.sizes(), kept.strides());
  }
  target.copy_(kept);
  leave_out(call);
}

void SelectiveReplay::replace_kept(const OperatorCall& call) {
  std::size_t ordinal = 0;
  const auto replaced = [&](const at::Tensor& tensor) {
    at::Tensor kept = kept_tensor(call, ordinal++);
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
        list.push_back(replaced(tensor));
      }
      result = std::move(list);
    }
  }
}

at::Tensor SelectiveReplay::kept_tensor(const OperatorCall& call, std::size_t ordinal) {
  const auto found = kept_->find(next_);
  if (found == kept_->end() || !found->second[ordinal].is_defined()) {
    return {};
  }
  const KeptResult& kept = found->second[ordinal];
  const std::optional<at::Tensor> kept_now = kept.get_unless_mutated();
  if (!kept_now) {
    std::string why =
        c10::str("[checkpoint] region '", region_,
                 "': a tensor that the policy keeps has been mutated: the "
                 "result of operator ",
                 next_, ", ", call.op.operator_name(), ", ", kept.describe_mutation(),
                 ". Change a clone instead, or set allow_cache_entry_mutation to compute it again");
    if (kept.stored && !kept.is_mutated()) {  // perhaps by the region's code, through a pointer
      lose_trace(std::move(why));
      return {};
    }
    mutation_ = std::move(why);
    check();
  }
  at::Tensor tensor = own_alias(*kept_now);
  effects_.adopt(tensor);
  if (!trace_.is_complete && !kept.is_snapshot) {
    shared_.push_back(storage_id_of(tensor));
  }
  if (taken_ != nullptr) {
    taken_->at(next_)[ordinal] = {};
  }
  return tensor;
}

// Excluded code that reads a tensor which it did not read in forward.
void SelectiveReplay::check_reads(const OperatorCall& call) {
  if (unset_.empty() || call.traits.is_view) {
    return;
  }
  const auto arguments = call.arguments();
  for (std::uint32_t index = 0; index < arguments.size(); ++index) {
    if (call.traits.may_write(index)) {
      continue;
    }
    for_each_tensor(arguments[index], [&](const at::Tensor& tensor) {
      if (unset_.contains(storage_id_of(tensor)) && !has_lost_trace_) {
        lose_trace(c10::str(
            "[checkpoint] region '", region_, "': code that is hidden from the policy reads, by ",
            call.op.operator_name(), ", a result of the region, ",
            TensorMetadata(tensor).to_string(),
            ", in the recomputation only. Nothing else needs it, so it is not computed again. Have "
            "the hidden code read it in forward as well"));
      }
    });
  }
}

// The region's code may write to these tensors, while forward reads them.
void SelectiveReplay::disown_shared() {
  for (const StorageId memory : std::exchange(shared_, {})) {
    effects_.disown(memory);
  }
}

void SelectiveReplay::lose_trace(std::string why) {
  disown_shared();
  other_operator_ = std::move(why);
  has_lost_trace_ = true;
  if (!may_lose_trace_) {
    check();
  }
}

std::string SelectiveReplay::describe_other_operator(const OperatorCall& call) const {
  const bool is_end = !trace_.operators.contains(next_);
  const bool same_name = !is_end && *trace_.operators[next_].name == call.op.operator_name();
  return c10::str(
      "[checkpoint] region '", region_, "': operator ", next_, " of the recomputation is ",
      call.op.operator_name(), same_name ? " with arguments of other shapes, dtypes or values" : "",
      is_end ? c10::str("; forward ran only ", next_, " operators")
             : c10::str("; forward ran ", *trace_.operators[next_].name),
      ". The region's code must run the same operators each time; what cannot, can be hidden from "
      "the policy by a PolicyBypassGuard",
      torchscript_hint());
}

}  // namespace reprise::engine_internal
