// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/value_annotations.h"

#include <c10/util/StringUtil.h>

#include "reprise/engine/errors.h"
#include "reprise/engine/operators/region_scope.h"
#include "reprise/engine/policy/policy_region.h"
#include "reprise/engine/recomputing.h"

namespace reprise {
namespace {

using engine_internal::RegionScope;

// Returns the region whose forward runs here; null if the call has no effect.
const RegionScope* region_of(const at::Tensor& tensor) {
  return tensor.defined() && !is_recomputing() ? RegionScope::current() : nullptr;
}

}  // namespace

at::Tensor must_save(const at::Tensor& tensor) {
  if (const RegionScope* region = region_of(tensor)) {
    if (region->policy_region() == nullptr) {
      throw CheckpointError(c10::str(
          "[checkpoint] region '", region->name(),
          "': must_save() has been called, but the region has no policy, so it keeps nothing "
          "but its inputs. Give it one, policies::save_nothing() at the least"));
    }
    region->policy_region()->must_save(tensor);
  }
  return tensor;
}

at::Tensor must_recompute(const at::Tensor& tensor) {
  if (const RegionScope* region = region_of(tensor); region && region->policy_region() != nullptr) {
    region->policy_region()->must_recompute(tensor);
  }
  return tensor;
}

at::Tensor checkpoint_name(const at::Tensor& tensor, std::string_view name) {
  if (const RegionScope* region = region_of(tensor); region && region->policy_region() != nullptr) {
    region->policy_region()->checkpoint_name(tensor, name);
  }
  return tensor;
}

}  // namespace reprise
