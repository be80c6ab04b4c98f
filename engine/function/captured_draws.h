// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The random draws of a replay whose forward was not watched.
#ifndef REPRISE_ENGINE_FUNCTION_CAPTURED_DRAWS_H_
#define REPRISE_ENGINE_FUNCTION_CAPTURED_DRAWS_H_

#include <optional>
#include <string>

#include "reprise/engine/operators/chained_interceptor.h"
#include "reprise/rng/rng_state.h"

namespace reprise::engine_internal {

// Refuses operators that draw from a generator whose state was not captured when forward began: the
// replay would draw other numbers. Lives for one replay, on its thread.
class CapturedDraws final : public ChainedInterceptor {
 public:
  // region: its name, for errors. next: runs the operators. All must outlive this.
  CapturedDraws(const RngSnapshot& captured, const std::string& region, OperatorInterceptor& next)
      : ChainedInterceptor(&next), captured_(captured), region_(region) {}

  // Throws CheckpointError.
  void intercept(const OperatorCall& call) override;

  // Rethrows an exception of intercept() that the region's code has swallowed.
  void check() const;

 private:
  bool is_captured(const at::Generator& generator) const;

  const RngSnapshot& captured_;
  const std::string& region_;
  std::optional<std::string> error_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_FUNCTION_CAPTURED_DRAWS_H_
