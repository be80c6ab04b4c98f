// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The policies defined by lists of names.
#include <c10/core/DispatchKey.h>

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "reprise/policies/matching/match_flags.h"
#include "reprise/policies/matching/name_path.h"
#include "reprise/policies/operators/operator_lookup.h"
#include "reprise/policies/policies.h"

namespace reprise::policies {
namespace {

using policies_internal::MatchFlags;

std::vector<std::string> without_duplicates(std::vector<std::string> names) {
  std::vector<std::string> unique;
  for (std::string& name : names) {
    if (std::find(unique.begin(), unique.end(), name) == unique.end()) {
      unique.push_back(std::move(name));
    }
  }
  return unique;
}

class SaveOperators final : public Policy {
 public:
  explicit SaveOperators(std::vector<std::string> names)
      : names_(without_duplicates(std::move(names))), matched_(names_.size()) {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const c10::OperatorHandle op =
          policies_internal::find_operator(names_[i], "policies.save_operators");
      // "aten::mm" and another spelling of it are one entry.
      entries_.push_back(by_id_.try_emplace(&op.operator_name(), i).first->second);
      if (op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) {
        names_[i] += " (composite: a region sees its parts)";
      }
    }
  }

  PolicyAnswer decide(const PolicyContext& context) override {
    const auto found = by_id_.find(context.op_id());
    if (found == by_id_.end()) {
      return CheckpointPolicy::PREFER_RECOMPUTE;
    }
    matched_.set(found->second);
    return CheckpointPolicy::MUST_SAVE;
  }

  std::vector<std::string> unmatched() const override {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (!matched_.test(entries_[i])) {
        names.push_back(names_[i]);
      }
    }
    return names;
  }

 private:
  std::vector<std::string> names_;
  std::vector<std::size_t> entries_;  // of each name, the index of its operator's first one
  absl::flat_hash_map<const void*, std::size_t> by_id_;
  MatchFlags matched_;
};

class SaveNamed final : public Policy {
 public:
  explicit SaveNamed(std::vector<std::string> names)
      : names_(without_duplicates(std::move(names))), matched_(names_.size()) {
    for (const std::string& name : names_) {
      policies_internal::check_path(name, "policies.save_named");
    }
  }

  PolicyAnswer decide(const PolicyContext& context) override {
    CheckpointPolicy answer = CheckpointPolicy::PREFER_RECOMPUTE;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (names_[i] == context.name()) {
        matched_.set(i);
        answer = CheckpointPolicy::MUST_SAVE;
      } else if (policies_internal::stands_in(context.scopes(), names_[i])) {
        matched_.set(i);
        if (answer == CheckpointPolicy::PREFER_RECOMPUTE) {
          answer = CheckpointPolicy::PREFER_SAVE;
        }
      }
    }
    return answer;
  }

  std::vector<std::string> unmatched() const override {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (!matched_.test(i)) {
        names.push_back(names_[i]);
      }
    }
    return names;
  }

 private:
  const std::vector<std::string> names_;
  MatchFlags matched_;
};

}  // namespace

PolicyHolder save_operators(std::vector<std::string> names) {
  return std::make_shared<SaveOperators>(std::move(names));
}

PolicyHolder save_named(std::vector<std::string> names) {
  return std::make_shared<SaveNamed>(std::move(names));
}

}  // namespace reprise::policies
