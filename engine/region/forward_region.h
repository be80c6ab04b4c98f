// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The forward run of a region: what stands between its entry and its exit.
#ifndef REPRISE_ENGINE_REGION_FORWARD_REGION_H_
#define REPRISE_ENGINE_REGION_FORWARD_REGION_H_

#include <memory>
#include <type_traits>

#include "reprise/base/export.h"
#include "reprise/engine/callable/region_code.h"
#include "reprise/engine/checkpoint_options.h"

namespace reprise::engine_internal {

class REPRISE_API ForwardRegion {
 public:
  // Checks the options and whether hooks are possible here. False if autograd records nothing.
  static bool is_needed(const CheckpointOptions& options);

  // Enters: from here on, what autograd saves on this thread goes to the region's frame.
  ForwardRegion(CheckpointOptions options, std::unique_ptr<RegionCode> code, RegionInputs inputs);
  // The same, with a tape to replay instead of code.
  explicit ForwardRegion(CheckpointOptions options);
  // Leaves, if finish() was not reached, as after an exception of the region's code.
  ~ForwardRegion();
  ForwardRegion(const ForwardRegion&) = delete;
  ForwardRegion& operator=(const ForwardRegion&) = delete;

  // Runs the region's code, then leaves, and returns what the code returned.
  template <class Body>
  std::invoke_result_t<Body&> run(Body&& body) {
    using Result = std::invoke_result_t<Body&>;
    if constexpr (std::is_void_v<Result>) {
      body();
      finish();
    } else if constexpr (std::is_reference_v<Result>) {
      Result result = body();
      finish();
      return static_cast<Result>(result);
    } else {
      Result result = body();
      finish();
      return result;
    }
  }

  // Leaves. Throws what the surrounding saved-tensor hooks throw. Where it cannot leave, it is
  // abandoned, see Note [Abandoned regions]: then what it has saved is an error in backward.
  void finish();

 private:
  class Impl;
  bool abandon_unless_innermost() noexcept;

  std::shared_ptr<Impl> impl_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_REGION_FORWARD_REGION_H_
