// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/internal/selective_replay.h"

#include <ATen/ops/empty_strided.h>
#include <c10/util/StringUtil.h>

#include <utility>
#include <vector>

#include "reprise/engine/errors.h"
#include "reprise/engine/internal/selective_forward.h"
#include "reprise/hooks/internal/forwarding_engine.h"

namespace reprise::engine_internal {
namespace {

using Replay = TracedOperator::Replay;

// With a version counter of its own: what the replay does to it is no change of what is kept.
at::Tensor own_alias(const at::Tensor& kept) {
  return at::Tensor(kept.unsafeGetTensorImpl()->shallow_copy_and_detach(
      c10::VariableVersion(0), /*allow_tensor_metadata_change=*/true));
}

}  // namespace

SelectiveReplay::SelectiveReplay(const OperatorTrace& trace, const std::string& region,
                                 ReplayEffects& effects)
    : trace_(trace),
      region_(region),
      effects_(effects),
      kept_(trace.kept()),
      backward_(hooks_internal::current_backward()) {}

void SelectiveReplay::intercept(const OperatorCall& call) {
  const OperatorTraits& traits = OperatorTraits::of(call.op);
  if (is_untraced(call, traits) || hooks_internal::current_backward() != backward_) {
    effects_.intercept(call);
    return;
  }
  if (next_ == trace_.operators.size() && !trace_.is_complete()) {
    effects_.intercept(call);  // forward has not come here yet
    return;
  }
  if (next_ == trace_.operators.size() ||
      *trace_.operators[next_].name != call.op.operator_name() ||
      trace_.operators[next_].arguments != fingerprint_of_arguments(call)) {
    fail_other_operator(call);
  }
  replay(call, traits, trace_.operators[next_]);
  ++next_;
}

void SelectiveReplay::check() const {
  if (other_operator_) {
    throw DeterminismError(*other_operator_);
  }
  if (mutation_) {
    throw MutationError(*mutation_);
  }
}

void SelectiveReplay::replay(const OperatorCall& call, const OperatorTraits& traits,
                             const TracedOperator& op) {
  const bool may_omit = kept_ != nullptr && op.replay != Replay::kRun;
  if (!may_omit) {
    if (op.rng) {
      op.rng->restore();
    }
    effects_.intercept(call);
    return;
  }
  effects_.settle();
  const bool only_writes =
      !traits.undeclared && !traits.written_arguments.empty() && traits.returns_only_arguments;
  if (only_writes) {
    leave_out(call, traits);
  } else {
    supply(call, op);
  }
}

void SelectiveReplay::supply(const OperatorCall& call, const TracedOperator& op) {
  const auto found = kept_->find(next_);
  std::vector<c10::IValue> results;
  results.reserve(op.results->size());
  for (std::size_t i = 0; i < op.results->size(); ++i) {
    const TracedOperator::Result& result = (*op.results)[i];
    if (result.tensor) {
      results.emplace_back(
          supplied(call, result, found == kept_->end() ? nullptr : &found->second[i]));
    } else {
      results.push_back(result.other.isNone() ? c10::IValue(at::Tensor()) : result.other);
    }
  }
  torch::jit::drop(call.stack, call.op.schema().arguments().size());
  for (c10::IValue& result : results) {
    call.stack.push_back(std::move(result));
  }
}

at::Tensor SelectiveReplay::supplied(const OperatorCall& call, const TracedOperator::Result& result,
                                     const KeptResult* kept) {
  at::Tensor tensor;
  if (kept == nullptr || !kept->is_defined()) {
    // Nothing depends on its elements.
    tensor =
        at::empty_strided(result.tensor->sizes, result.tensor->strides,
                          at::TensorOptions(result.tensor->dtype).device(result.tensor->device));
  } else if (kept->host) {
    tensor = kept->host->restore();
  } else if (kept->is_mutated()) {
    mutation_ = c10::str(
        "[checkpoint] region '", region_,
        "': a tensor that the policy keeps has been mutated: the "
        "result of operator ",
        next_, ", ", call.op.operator_name(), ", ", result.tensor->to_string(),
        ", kept at version ", kept->version, ", is now at version ", kept->alias._version(),
        ". Change a clone instead, or set allow_cache_entry_mutation to compute it again");
    check();
  } else {
    tensor = own_alias(kept->alias);
  }
  effects_.adopt(tensor);
  return tensor;
}

void SelectiveReplay::fail_other_operator(const OperatorCall& call) {
  const bool is_end = next_ == trace_.operators.size();
  const bool same_name = !is_end && *trace_.operators[next_].name == call.op.operator_name();
  other_operator_ = c10::str("[checkpoint] region '", region_, "': operator ", next_,
                             " of the recomputation is ", call.op.operator_name(),
                             same_name ? " with arguments of other shapes, dtypes or values" : "",
                             is_end ? c10::str("; forward ran only ", next_, " operators")
                                    : c10::str("; forward ran ", *trace_.operators[next_].name),
                             ". The region's code must run the same operators each time");
  check();
  TORCH_INTERNAL_ASSERT(false);
}

}  // namespace reprise::engine_internal
