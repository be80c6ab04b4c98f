// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/function/captured_draws.h"

#include <c10/util/StringUtil.h>

#include <algorithm>

#include "reprise/engine/errors.h"
#include "reprise/engine/operators/operator_facts.h"

namespace reprise::engine_internal {

void CapturedDraws::intercept(const OperatorCall& call) {
  const at::Generator generator = generator_of(call);
  if (generator.defined() && !is_captured(generator)) {
    error_ = c10::str("[checkpoint] region '", region_, "': ", call.op.operator_name(),
                      " draws from a generator of ", generator.device(),
                      " whose state forward has not captured, as "
                      "CheckpointOptions::watch_operators is off. Leave "
                      "it on, or pass the generator to the region as an argument");
    check();
  }
  pass_on(call);
}

void CapturedDraws::check() const {
  if (error_) {
    throw CheckpointError(*error_);
  }
}

bool CapturedDraws::is_captured(const at::Generator& generator) const {
  const auto& states = captured_.states();
  return std::any_of(states.begin(), states.end(),
                     [&](const RngState& state) { return state.generator() == generator; });
}

}  // namespace reprise::engine_internal
