// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The policies that combine others.
#include <algorithm>
#include <functional>
#include <iterator>
#include <stdexcept>

#include "reprise/policies/matching/match_flags.h"
#include "reprise/policies/policies.h"
#include "reprise/policies/region_trace.h"

namespace reprise::policies {
namespace {

using Parts = std::vector<std::shared_ptr<Policy>>;

void check_parts(const Parts& parts, const std::string& caller) {
  const auto missing = std::find(parts.begin(), parts.end(), nullptr);
  if (missing != parts.end()) {
    throw std::invalid_argument("[policies." + caller +
                                "] a policy is missing; received an empty PolicyHolder as policy " +
                                std::to_string(missing - parts.begin()) + " of " +
                                std::to_string(parts.size()) + "; pass save_nothing() for none");
  }
}

// Combines one or more parts. `Combine` answers with a const operator()(parts, context); it is
// copied with each region's parts.
template <class Combine>
class Combinator final : public Policy {
 public:
  Combinator(Parts parts, Combine combine)
      : parts_(std::move(parts)), combine_(std::move(combine)) {}

  PolicyAnswer decide(const PolicyContext& context) override { return combine_(parts_, context); }

  std::shared_ptr<Policy> begin_region() override {
    Parts parts = parts_;
    bool any_is_fresh = false;
    for (std::shared_ptr<Policy>& part : parts) {
      if (std::shared_ptr<Policy> fresh = part->begin_region()) {
        part = std::move(fresh);
        any_is_fresh = true;
      }
    }
    return any_is_fresh ? std::make_shared<Combinator>(std::move(parts), combine_) : nullptr;
  }

  void end_region(const std::function<RegionTrace()>& trace) override {
    for (const std::shared_ptr<Policy>& part : parts_) {
      part->end_region(trace);
    }
  }

  std::vector<std::string> unmatched() const override {
    std::vector<std::string> all;
    if constexpr (requires { combine_.unmatched(); }) {
      all = combine_.unmatched();
    }
    for (const std::shared_ptr<Policy>& part : parts_) {
      std::ranges::move(part->unmatched(), std::back_inserter(all));
    }
    return all;
  }

 private:
  const Parts parts_;
  const Combine combine_;
};

template <class Combine>
PolicyHolder combined(const std::string& caller, Parts parts, Combine combine) {
  check_parts(parts, caller);
  return std::make_shared<Combinator<Combine>>(std::move(parts), std::move(combine));
}

PolicyAnswer offloaded(PolicyAnswer answer) {
  if (answer.policy == CheckpointPolicy::MUST_SAVE) {
    answer.policy = CheckpointPolicy::MUST_CPU_OFFLOAD;
  } else if (answer.policy == CheckpointPolicy::PREFER_SAVE) {
    answer.policy = CheckpointPolicy::PREFER_CPU_OFFLOAD;
  }
  return answer;
}

class ByRegion {
 public:
  explicit ByRegion(std::string name) : name_(std::move(name)) {}

  PolicyAnswer operator()(const Parts& parts, const PolicyContext& context) const {
    if (context.region() != name_) {
      return parts[1]->decide(context);
    }
    seen_->set(0);
    return parts[0]->decide(context);
  }

  std::vector<std::string> unmatched() const {
    return seen_->test(0) ? std::vector<std::string>() : std::vector{"region '" + name_ + "'"};
  }

 private:
  std::string name_;
  std::shared_ptr<policies_internal::MatchFlags> seen_ =
      std::make_shared<policies_internal::MatchFlags>(1);
};

}  // namespace

PolicyHolder offload(const PolicyHolder& inner) {
  return combined("offload", {inner.get()}, [](const Parts& parts, const PolicyContext& context) {
    return offloaded(parts[0]->decide(context));
  });
}

PolicyHolder keep_in(std::shared_ptr<ActivationStore> store, const PolicyHolder& inner) {
  if (store == nullptr) {
    throw std::invalid_argument(
        "[policies.keep_in] the store is a null pointer; pass stores::device() for none");
  }
  return combined("keep_in", {inner.get()},
                  [store = std::move(store)](const Parts& parts, const PolicyContext& context) {
                    PolicyAnswer answer = parts[0]->decide(context);
                    if (keeps(answer.policy) && answer.store == nullptr) {
                      answer.store = store;
                    }
                    return answer;
                  });
}

PolicyHolder first_match(const std::vector<PolicyHolder>& policies) {
  Parts parts;
  for (const PolicyHolder& policy : policies) {
    parts.push_back(policy.get());
  }
  return combined("first_match", std::move(parts),
                  [](const Parts& all, const PolicyContext& context) {
                    for (const std::shared_ptr<Policy>& part : all) {
                      PolicyAnswer answer = part->decide(context);
                      if (answer.policy != CheckpointPolicy::PREFER_RECOMPUTE) {
                        return answer;
                      }
                    }
                    return PolicyAnswer(CheckpointPolicy::PREFER_RECOMPUTE);
                  });
}

PolicyHolder override_with(const PolicyHolder& base, const PolicyHolder& overriding) {
  return combined("override_with", {base.get(), overriding.get()},
                  [](const Parts& parts, const PolicyContext& context) {
                    PolicyAnswer answer = parts[0]->decide(context);
                    PolicyAnswer overriding_answer = parts[1]->decide(context);
                    return is_must(overriding_answer.policy) ? overriding_answer : answer;
                  });
}

PolicyHolder for_region(std::string name, const PolicyHolder& policy,
                        const PolicyHolder& otherwise) {
  return combined("for_region", {policy.get(), otherwise.get()}, ByRegion(std::move(name)));
}

}  // namespace reprise::policies
