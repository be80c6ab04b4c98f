// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/function/early_stop.h"

#include <ATen/SequenceNumber.h>

#include <utility>

#include "reprise/engine/embedding/embedding_language.h"
#include "reprise/engine/function/function_replay.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/hooks/seam/forwarding_engine.h"

namespace reprise::engine_internal {
namespace {

thread_local bool t_is_deferred = false;

}  // namespace

EarlyStopDeferral::EarlyStopDeferral() : outer_(std::exchange(t_is_deferred, true)) {}
EarlyStopDeferral::~EarlyStopDeferral() { t_is_deferred = outer_; }
bool EarlyStopDeferral::is_active() { return t_is_deferred; }

void throw_early_stop(const FunctionReplay* replay) {
  const EmbeddingLanguage* const language = embedding_language();
  if (language != nullptr && language->throw_early_stop != nullptr) {
    return language->throw_early_stop();
  }
  throw EarlyStop(replay);
}

SlotSet slots_of_custom_functions(const RegionRecord& record) {
  SlotSet of_custom_function(record.slots.size());
  SlotId first(0);  // of the node
  bool is_of_custom_function = false;
  for (const SlotId slot : record.slots.ids()) {
    const SavedTensorRecord& saved = record.slots[slot].saved;
    if (saved.node_number() != record.slots[first].saved.node_number()) {
      first = slot;
      is_of_custom_function = false;
    }
    if (saved.is_of_custom_function() && !is_of_custom_function) {
      is_of_custom_function = true;
      for (SlotId earlier = first; earlier < slot; ++earlier) {
        of_custom_function[earlier] = true;
      }
    }
    of_custom_function[slot] = is_of_custom_function;
  }
  return of_custom_function;
}

void StopBeforeOperator::start(OperatorInterceptor& next) {
  set_next(&next);
  backward_ = hooks_internal::current_backward();
}

void StopBeforeOperator::arm() { node_at_save_ = at::sequence_number::peek(); }

bool StopBeforeOperator::is_behind_the_save(const OperatorCall& call) const {
  return node_at_save_ &&
         (call.traits.transfer == Transfer::kCollective ||
          *node_at_save_ != at::sequence_number::peek()) &&
         !is_in_backward_inside(backward_);
}

void StopBeforeOperator::intercept(const OperatorCall& call) {
  if (is_behind_the_save(call) && replay_.on_operator()) {
    return throw_early_stop(&replay_);
  }
  pass_on(call);
}

}  // namespace reprise::engine_internal
