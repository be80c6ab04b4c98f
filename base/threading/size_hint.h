// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Remembers the size of a thread's last vector, and reserves as much for the next vector, which is
// mostly as large.
#ifndef REPRISE_BASE_THREADING_SIZE_HINT_H_
#define REPRISE_BASE_THREADING_SIZE_HINT_H_

#include <algorithm>
#include <cstddef>

namespace reprise::base_internal {

// A constinit thread_local variable.
class SizeHint {
 public:
  void reserve(auto& vector) const { vector.reserve(std::min(last_, kMost)); }
  // The vector does not grow any more.
  void complete(auto& vector) {
    last_ = vector.size();
    vector.shrink_to_fit();
  }

 private:
  static constexpr std::size_t kMost = 256;
  std::size_t last_ = 0;
};

}  // namespace reprise::base_internal

#endif  // REPRISE_BASE_THREADING_SIZE_HINT_H_
