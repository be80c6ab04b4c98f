// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#ifndef REPRISE_TESTS_TESTING_SANITIZED_H_
#define REPRISE_TESTS_TESTING_SANITIZED_H_

namespace reprise::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

// Returns how many cases a loop has. Sanitizers make each several times slower, and look for other
// things than wrong bits: a few cases of each kind are enough for them.
template <class Count>
constexpr Count cases(Count usually, Count sanitized) {
  return kIsSanitized ? sanitized : usually;
}

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TESTING_SANITIZED_H_
