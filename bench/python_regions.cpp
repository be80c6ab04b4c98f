// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Our regions and their floors for a Python process, so that bench/side_by_side/overhead.py can
// take turns between both sides: called through ctypes, which lets go of the interpreter's lock.
// Forms are "function" and "scope"; policies "none", "recompute" and "save".
#include <map>
#include <string>
#include <utility>

#include "bench/chain.h"
#include "reprise/engine/checkpoint.h"
#include "reprise/policies/policies.h"

namespace reprise::bench {
namespace {

const CheckpointOptions& options_of(const std::string& form, const std::string& policy) {
  static const auto* const kOptions =
      new std::map<std::pair<std::string, std::string>, CheckpointOptions>{
          {{"function", "none"}, {}},
          {{"function", "recompute"}, {.policy = policies::save_nothing()}},
          {{"function", "save"}, {.policy = policies::save_everything()}},
          {{"scope", "none"}, {.replay = ReplayMode::kTape}},
          {{"scope", "recompute"},
           {.policy = policies::save_nothing(), .replay = ReplayMode::kTape}},
          {{"scope", "save"},
           {.policy = policies::save_everything(), .replay = ReplayMode::kTape}}};
  return kOptions->at({form, policy});
}

}  // namespace
}  // namespace reprise::bench

extern "C" {

// Times floors and regions by turns, the region first in each second pair, and writes the
// microseconds of each. One more pair before these fills the caches, which the other side has used.
[[gnu::visibility("default")]] void reprise_time_regions(const char* form, const char* policy,
                                                         int length, int depth, int pairs,
                                                         double* floor_us, double* region_us) {
  using namespace reprise::bench;
  const reprise::CheckpointOptions& options = options_of(form, policy);
  const at::Tensor x = leaf();
  const auto run_region = [&] { backward(in_regions(options, x, length, depth), x); };
  const auto time_floor = [&] { return microseconds([&] { run_floor(x, length); }); };
  time_floor();
  run_region();
  for (int i = 0; i < pairs; ++i) {
    if (i % 2 == 0) {
      floor_us[i] = time_floor();
      region_us[i] = microseconds(run_region);
    } else {
      region_us[i] = microseconds(run_region);
      floor_us[i] = time_floor();
    }
  }
}

// For counting instructions.
[[gnu::visibility("default")]] void reprise_run_floors(int length, int runs) {
  const at::Tensor x = reprise::bench::leaf();
  for (int i = 0; i < runs; ++i) {
    reprise::bench::run_floor(x, length);
  }
}

[[gnu::visibility("default")]] void reprise_run_regions(const char* form, const char* policy,
                                                        int length, int runs) {
  using namespace reprise::bench;
  const reprise::CheckpointOptions& options = options_of(form, policy);
  const at::Tensor x = leaf();
  for (int i = 0; i < runs; ++i) {
    backward(in_regions(options, x, length, /*depth=*/1), x);
  }
}

}  // extern "C"
