// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/rng/rng_state_tracker.h"

#include <c10/util/StringUtil.h>

#include <mutex>
#include <stdexcept>
#include <utility>

#include "reprise/rng/generators/default_generators.h"
#include "reprise/rng/tracker/fork.h"
#include "reprise/rng/tracker/state_table.h"

namespace reprise {

using rng_internal::StateTable;

namespace {

// Any offset without collisions would work; this is Megatron-LM's.
constexpr std::uint64_t kModelParallelOffset = 2718;

void check_seeds(const RngStateTracker::States& states) {
  std::map<std::uint64_t, std::string> names;
  for (const auto& [name, state] : states) {
    const auto [known, is_new] = names.emplace(state.seed, name);
    if (!is_new) {
      throw std::invalid_argument(
          c10::str("[rng.set_states] two names have one seed and would draw the same numbers; "
                   "received the seed ",
                   state.seed, " for '", known->second, "' and for '", name,
                   "'; give each name a seed of its own"));
    }
  }
}

}  // namespace

RngTrackerForkGuard::RngTrackerForkGuard(std::unique_ptr<rng_internal::Fork> fork)
    : fork_(std::move(fork)) {}

RngTrackerForkGuard::~RngTrackerForkGuard() = default;

RngStateTracker::RngStateTracker() : table_(std::make_shared<StateTable>()) {
  rng_internal::add_tracker(table_);
}

RngStateTracker::~RngStateTracker() { rng_internal::remove_tracker(table_); }

void RngStateTracker::add(std::string name, std::uint64_t seed) {
  ++rng_internal::tracker_uses().uses;
  rng_internal::table_here(table_)->change([&](States& states) {
    if (const auto found = states.find(name); found != states.end()) {
      throw std::invalid_argument(
          c10::str("[rng.add] the name is taken; received '", name, "' with the seed ", seed,
                   ", and it has been added with the seed ", found->second.seed,
                   "; choose another name, or reset() the tracker first"));
    }
    for (const auto& [known, state] : states) {
      if (state.seed == seed) {
        throw std::invalid_argument(c10::str(
            "[rng.add] the seed is taken, and two names with one seed would draw the same numbers; "
            "received the seed ",
            seed, " for '", name, "', and '", known, "' has it; give each name a seed of its own"));
      }
    }
    states.emplace(std::move(name), NamedRngState{.seed = seed, .generators = {}});
  });
}

RngTrackerForkGuard RngStateTracker::fork(std::string_view name) {
  return RngTrackerForkGuard(
      std::make_unique<rng_internal::Fork>(rng_internal::table_here(table_), name));
}

RngStateTracker::States RngStateTracker::states() const {
  ++rng_internal::tracker_uses().uses;
  return *rng_internal::table_here(table_)->get();
}

void RngStateTracker::set_states(States states) {
  check_seeds(states);
  ++rng_internal::tracker_uses().uses;
  rng_internal::table_here(table_)->change([&](States& held) { held = std::move(states); });
}

void RngStateTracker::reset() { set_states({}); }

RngStateTracker& default_rng_state_tracker() {
  static auto& tracker = *new RngStateTracker;
  return tracker;
}

void model_parallel_manual_seed(std::uint64_t seed, std::int64_t tensor_parallel_rank,
                                RngStateTracker& tracker) {
  if (tensor_parallel_rank < 0) {
    throw std::invalid_argument(
        c10::str("[rng.model_parallel_manual_seed] a rank counts from 0; received ",
                 tensor_parallel_rank, "; pass this process's rank in its tensor-parallel group"));
  }
  for (at::Generator& generator : rng_internal::all_default_generators()) {
    const std::scoped_lock lock(generator.mutex());
    generator.set_current_seed(seed);
  }
  tracker.reset();
  tracker.add(std::string(kModelParallelRng),
              seed + kModelParallelOffset + static_cast<std::uint64_t>(tensor_parallel_rank));
}

}  // namespace reprise
