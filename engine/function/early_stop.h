// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The two places where a function replay that has all it needs leaves the region's code: the save
// of the last tensor, or the operator after it.
#ifndef REPRISE_ENGINE_FUNCTION_EARLY_STOP_H_
#define REPRISE_ENGINE_FUNCTION_EARLY_STOP_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <optional>

#include "reprise/base/export.h"
#include "reprise/engine/checks/slot_id.h"
#include "reprise/engine/operators/chained_interceptor.h"
#include "reprise/engine/recomputation/region_record.h"

namespace reprise::engine_internal {

class FunctionReplay;

// Leaves the region's code. Derived from std::exception, because LibTorch's device threads
// propagate no others; not from c10::Error, so that user code that handles LibTorch's errors lets
// it pass.
class EarlyStop final : public std::exception {
 public:
  explicit EarlyStop(const FunctionReplay* replay) : replay_(replay) {}
  const FunctionReplay* replay() const { return replay_; }
  const char* what() const noexcept override { return kMessage; }

  static constexpr const char* kMessage =
      "reprise: a recomputation has all it needs (internal; do not catch)";

 private:
  const FunctionReplay* replay_;
};

// Throws EarlyStop, or what stands for it in the embedding language. Not marked as [[noreturn]],
// and out of its callers' sight (see CMakeLists.txt): as the last call of a function it then takes
// the place of its caller on the stack, and each frame there is unwound twice.
void throw_early_stop(const FunctionReplay* replay);

// While alive, no save on this thread stops a replay; a later one does. For destructors: Clang, up
// to 19 at least, destroys no returned value if the destructor of a local variable throws after it,
// and the value's graph would be left behind.
class [[nodiscard]] EarlyStopDeferral {
 public:
  [[nodiscard]] EarlyStopDeferral();
  ~EarlyStopDeferral();
  EarlyStopDeferral(const EarlyStopDeferral&) = delete;
  EarlyStopDeferral& operator=(const EarlyStopDeferral&) = delete;

  static bool is_active();

 private:
  const bool outer_;
};

// Returns the slots whose node also saved a result of a custom autograd Function, no later than
// they were saved themselves.
SlotSet slots_of_custom_functions(const RegionRecord& record);

// Ends a replay whose last needed tensor is saved where no exception may be thrown, by a custom
// autograd Function: at the first operator after that save that has made a node of the graph, or
// is a collective. Others run: a destructor may call them, without grad mode for instance, and
// lets no exception out. Operators of a backward inside the region run as well: LibTorch would
// leave its nodes behind.
class StopBeforeOperator final : public ChainedInterceptor {
 public:
  explicit StopBeforeOperator(FunctionReplay& replay)
      : ChainedInterceptor(nullptr), replay_(replay) {}

  // next: the interceptor that runs the operators.
  void start(OperatorInterceptor& next);
  // The replay has all it needs from here on. On the replay's thread.
  void arm();

  // Throws EarlyStop.
  void intercept(const OperatorCall& call) override;

 private:
  bool is_behind_the_save(const OperatorCall& call) const;

  FunctionReplay& replay_;
  int backward_ = -1;                          // in which the replay runs
  std::optional<std::uint64_t> node_at_save_;  // the number of autograd's next node then
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_FUNCTION_EARLY_STOP_H_
