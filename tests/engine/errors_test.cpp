// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The root of the exceptions, and the version.
#include "reprise/engine/errors.h"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>

#include "reprise/base/error.h"
#include "reprise/base/version.h"
#include "reprise/hooks/saved_tensor_hooks.h"

namespace reprise::errors_test {
namespace {

static_assert(std::is_base_of_v<c10::Error, Error>);
static_assert(std::is_base_of_v<Error, CheckpointError>);
static_assert(std::is_base_of_v<CheckpointError, DeterminismError>);
static_assert(std::is_base_of_v<CheckpointError, MutationError>);
static_assert(std::is_base_of_v<Error, SavedTensorHookError>);

TEST(ErrorsTest, AreCaughtAsTheCommonRootWithTheirMessage) {
  try {
    throw MutationError("[checkpoint] changed");
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what_without_backtrace()), "[checkpoint] changed");
  }
}

TEST(VersionTest, MatchesTheHeaders) {
  EXPECT_EQ(version(), REPRISE_VERSION);
  EXPECT_EQ(REPRISE_VERSION,
            REPRISE_VERSION_MAJOR * 10000 + REPRISE_VERSION_MINOR * 100 + REPRISE_VERSION_PATCH);
}

}  // namespace
}  // namespace reprise::errors_test
