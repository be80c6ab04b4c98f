// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// How names of tests and messages say which replay they are of.
#ifndef REPRISE_TESTS_TESTING_REPLAY_NAMES_H_
#define REPRISE_TESTS_TESTING_REPLAY_NAMES_H_

#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "reprise/engine/checkpoint_options.h"

namespace reprise {

inline std::string to_string(ReplayMode replay) {
  return replay == ReplayMode::kTape ? "tape" : "function";
}

// Found by GoogleTest, which prints bytes otherwise.
inline void PrintTo(ReplayMode replay, std::ostream* out) { *out << to_string(replay); }

}  // namespace reprise

namespace reprise::testing {

inline std::string replay_name(const ::testing::TestParamInfo<ReplayMode>& info) {
  return to_string(info.param);
}

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TESTING_REPLAY_NAMES_H_
