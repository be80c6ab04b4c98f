// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Numbers of a test that the environment can set.
#ifndef REPRISE_TESTS_TESTING_NUMBER_FROM_H_
#define REPRISE_TESTS_TESTING_NUMBER_FROM_H_

#include <cstdint>
#include <cstdlib>

namespace reprise::testing {

// Returns the variable's number, if it is set.
inline std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TESTING_NUMBER_FROM_H_
