// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: value_annotations.h
//
// Annotates values in a region's code: a value must be saved, must be recomputed, or has a name
// that the policy sees. For decisions that a recomputation must not repeat (the experts that a
// router chose, a top-k), and to distinguish one matmul from another.
//
// Not for whole kinds of operators: use a policy (policies.h).
//
// Example:
//
//   auto y = reprise::checkpoint({.policy = reprise::policies::save_named({"q_proj"})},
//       [&](const at::Tensor& x) {
//         auto [weights, experts] = router(x).topk(2);
//         reprise::must_save(weights);
//         reprise::must_save(experts);
//         return attend(reprise::checkpoint_name(q(x), "q_proj"), k(x)) + mix(x, weights, experts);
//       }, x);
//
// Each applies to the value: the contents, at the time of the call, of the memory that an operator
// of the region has made and that the tensor may be a view of. None has an effect outside of
// regions, in a recomputation, if no gradients are recorded, or for tensors that the region has not
// made (inputs are retained anyway). In nested regions they apply to each region with a policy.
// None copies or synchronises.
//
// Thread-safety: they apply to the regions of the calling thread.
#ifndef REPRISE_ENGINE_VALUE_ANNOTATIONS_H_
#define REPRISE_ENGINE_VALUE_ANNOTATIONS_H_

#include <ATen/core/Tensor.h>

#include <string_view>

#include "reprise/base/export.h"

namespace reprise {

// Saves the value regardless of the policy, like CheckpointPolicy::MUST_SAVE; for a view, its whole
// base.
//
// Returns: `tensor`, unchanged.
// Throws: CheckpointError if the region has no policy (use policies::save_nothing()), if
//   must_recompute() was called for the value, or if the region has read the memory and then
//   written to it in place.
REPRISE_API at::Tensor must_save(const at::Tensor& tensor);

// Recomputes the value regardless of the policy, like CheckpointPolicy::MUST_RECOMPUTE.
//
// Returns: `tensor`, unchanged.
// Throws: CheckpointError if must_save() was called for the value, or if it depends on a value that
//   is saved as of after a later write in place.
REPRISE_API at::Tensor must_recompute(const at::Tensor& tensor);

// Offers the value to the region's policy under a name (`PolicyContext::name`), as used by
// policies::save_named(). The policy's answer replaces its answer for the operator, unless it is
// PREFER_RECOMPUTE, which changes nothing. After jax.ad_checkpoint.checkpoint_name. No effect in
// regions without a policy.
//
// Returns: `tensor`, unchanged.
// Throws: CheckpointError in the cases of must_save() and must_recompute().
REPRISE_API at::Tensor checkpoint_name(const at::Tensor& tensor, std::string_view name);

}  // namespace reprise

#endif  // REPRISE_ENGINE_VALUE_ANNOTATIONS_H_
