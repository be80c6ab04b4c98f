// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The forward run of a region, from its entry to its exit.
//
// Note [Compile time]: GCC takes into its analysis every class that a virtual call may reach, with
// all that it uses. For a virtual function of c10::intrusive_ptr_target, or of the control block of
// a std::shared_ptr, these are most classes of torch/torch.h, and the first such call of a source
// costs three seconds. Therefore a region with default options makes and destroys no
// CheckpointOptions and no RegionInputs in headers.
#ifndef REPRISE_ENGINE_REGION_FORWARD_REGION_H_
#define REPRISE_ENGINE_REGION_FORWARD_REGION_H_

#include <memory>
#include <type_traits>

#include "reprise/base/export.h"
#include "reprise/engine/callable/region_code.h"
#include "reprise/engine/checkpoint_options.h"

namespace reprise::engine_internal {

class Frame;
class TapeRetention;

class REPRISE_API ForwardRegion {
 public:
  // Checks the options and that hooks are enabled, and has autograd ask our engine for hooks.
  // Returns false, and no region begins, with grad mode off (`context_fn` is called nevertheless)
  // and while a compiler traces.
  static bool prepare(const CheckpointOptions& options);
  // The same for the default options.
  static bool prepare();

  // Enters the region: tensors that autograd saves on this thread go to its frame from now on.
  // Takes the inputs of `code`. `options` are moved from; null means the defaults.
  ForwardRegion(CheckpointOptions* options, std::unique_ptr<RegionCode> code);
  // The same for tape replay, which needs no code.
  explicit ForwardRegion(CheckpointOptions options);
  // The same, with what decides instead of a policy.
  ForwardRegion(CheckpointOptions options, std::shared_ptr<TapeRetention> retention);
  // Leaves the region if finish() was not reached, as after an exception of its code.
  ~ForwardRegion();
  ForwardRegion(const ForwardRegion&) = delete;
  ForwardRegion& operator=(const ForwardRegion&) = delete;

  // Runs the region's code, leaves the region, and returns the code's result.
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

  // Leaves the region. Throws exceptions of the surrounding saved-tensor hooks. A region that
  // cannot end here is abandoned (see Note [Abandoned regions]): backward then fails on its saved
  // tensors.
  void finish();

  // Before finish().
  std::weak_ptr<Frame> frame() const;

 private:
  class REPRISE_LOCAL Impl;
  REPRISE_LOCAL ForwardRegion(CheckpointOptions options, std::unique_ptr<RegionCode> code,
                              std::shared_ptr<TapeRetention> retention);
  bool abandon_unless_innermost() noexcept;

  std::shared_ptr<Impl> impl_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_REGION_FORWARD_REGION_H_
