// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#ifndef REPRISE_TESTS_TESTING_SANITIZED_H_
#define REPRISE_TESTS_TESTING_SANITIZED_H_

// GCC's macro, which Clang has not.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1  // NOLINT(bugprone-reserved-identifier): its name in GCC
#endif
#endif

namespace reprise::testing {

// Returns the number of cases of a loop. The address sanitizer makes each several times slower, and
// looks for other faults than wrong bits: a few cases of each kind suffice.
template <class Count>
constexpr Count cases([[maybe_unused]] Count usually, [[maybe_unused]] Count sanitized) {
#if defined(__SANITIZE_ADDRESS__)
  return sanitized;
#else
  return usually;
#endif
}

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TESTING_SANITIZED_H_
