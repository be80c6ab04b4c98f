// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Reuse of buffers within a thread: growing them each time takes longer than filling them.
#ifndef REPRISE_BASE_THREADING_SPARE_H_
#define REPRISE_BASE_THREADING_SPARE_H_

#include <cstddef>
#include <memory>
#include <utility>

namespace reprise::base_internal {

// A constinit thread_local variable. `Buffers` has the member functions clear() and capacity().
template <class Buffers>
class Spare {
 public:
  constexpr Spare() = default;
  ~Spare() { delete std::exchange(buffers_, nullptr); }
  Spare(const Spare&) = delete;
  Spare& operator=(const Spare&) = delete;

  // Returns empty buffers, with the capacity of the buffers put here last, if any.
  std::unique_ptr<Buffers> take() {
    std::unique_ptr<Buffers> taken(std::exchange(buffers_, nullptr));
    return taken != nullptr ? std::move(taken) : std::make_unique<Buffers>();
  }
  // Destroys large buffers, and all buffers while others are here.
  void put(std::unique_ptr<Buffers> buffers) {
    if (buffers_ == nullptr && buffers->capacity() <= kMost) {
      buffers->clear();
      buffers_ = buffers.release();
    }
  }

 private:
  static constexpr std::size_t kMost = 1024;  // elements: some 50 kB

  Buffers* buffers_ = nullptr;
};

}  // namespace reprise::base_internal

#endif  // REPRISE_BASE_THREADING_SPARE_H_
