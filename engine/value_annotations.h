// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: value_annotations.h
//
// Says in a region's code what its policy cannot know: that a value must be kept, or must not be,
// or what it is called. For decisions that a recomputation must not take anew (the experts a router
// chose, a top-k), and to tell one matmul from another.
//
// Not a policy: what applies to whole kinds of operators stands better in one (policies.h).
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
// Each of them concerns the value: the memory that an operator of the region has made, which the
// tensor may be a view of, as it is at the time of the call. None has an effect outside of regions,
// in a recomputation, where no gradients are recorded, or for what the region has not made (its
// inputs are kept anyway). In nested regions they concern each of them that has a policy.
//
// Thread-safety: they concern the regions of the calling thread.
#ifndef REPRISE_ENGINE_VALUE_ANNOTATIONS_H_
#define REPRISE_ENGINE_VALUE_ANNOTATIONS_H_

#include <ATen/core/Tensor.h>

#include <string_view>

#include "reprise/base/export.h"

namespace reprise {

// Keeps the value whatever the policy says, like CheckpointPolicy::MUST_SAVE; of a view, the whole
// of what it is a view of. Returns the tensor as it is. Copies nothing, does not synchronise.
// CheckpointError if the region has no policy (give it policies::save_nothing()), if
// must_recompute() was called for the value, or if the region has read the memory and then written
// to it in place.
REPRISE_API at::Tensor must_save(const at::Tensor& tensor);

// Does not keep the value whatever the policy says, like CheckpointPolicy::MUST_RECOMPUTE. Returns
// the tensor as it is. CheckpointError if must_save() was called for the value, or if it depends on
// one that is kept as a later write in place has left it.
REPRISE_API at::Tensor must_recompute(const at::Tensor& tensor);

// Offers the value to the region's policy under a name (`PolicyContext::name`), as
// policies::save_named() understands it. Whatever the policy answers replaces its answer for the
// operator, but for PREFER_RECOMPUTE, which leaves that as it is. After jax.ad_checkpoint's
// checkpoint_name. Returns the tensor as it is. CheckpointError where must_save() or
// must_recompute() would fail, but not for regions without a policy: there is nobody to tell the
// name.
REPRISE_API at::Tensor checkpoint_name(const at::Tensor& tensor, std::string_view name);

}  // namespace reprise

#endif  // REPRISE_ENGINE_VALUE_ANNOTATIONS_H_
