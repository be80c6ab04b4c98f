// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The forms in which a region can run the same code.
#ifndef REPRISE_TESTS_DISTRIBUTED_REGION_FORMS_H_
#define REPRISE_TESTS_DISTRIBUTED_REGION_FORMS_H_

#include <vector>

#include "reprise/engine/checkpoint.h"
#include "reprise/engine/checkpoint_scope.h"
#include "reprise/policies/policies.h"

namespace reprise::testing {

struct RegionForm {
  const char* name;
  CheckpointOptions options;
  bool is_scope = false;

  auto run(const auto& code, const auto&... inputs) const {
    if (is_scope) {
      const CheckpointScope scope(options);
      return code(inputs...);
    }
    return checkpoint(options, code, inputs...);
  }
};

// The forms that have a policy.
inline std::vector<RegionForm> forms_under(const PolicyHolder& policy,
                                           CheckpointOptions options = {}) {
  options.policy = policy;
  CheckpointOptions tape = options;
  tape.replay = ReplayMode::kTape;
  return {
      {"function under a policy", options}, {"tape", tape}, {"scope", options, /*is_scope=*/true}};
}

// All, under a policy that keeps nothing where there has to be one.
inline std::vector<RegionForm> region_forms(const CheckpointOptions& options = {}) {
  std::vector<RegionForm> all = forms_under(policies::save_nothing(), options);
  all.push_back({"function", options});
  return all;
}

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_DISTRIBUTED_REGION_FORMS_H_
