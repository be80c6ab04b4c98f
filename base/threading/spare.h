// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Buffers that a thread uses again: growing them each time takes longer than filling them.
#ifndef REPRISE_BASE_THREADING_SPARE_H_
#define REPRISE_BASE_THREADING_SPARE_H_

#include <memory>
#include <utility>

namespace reprise::base_internal {

// A constinit thread_local variable. `Buffers` has a member function clear().
template <class Buffers>
class Spare {
 public:
  constexpr Spare() = default;
  ~Spare() { delete std::exchange(buffers_, nullptr); }
  Spare(const Spare&) = delete;
  Spare& operator=(const Spare&) = delete;

  // Returns empty buffers, with the capacity of those that were put here, if any.
  std::unique_ptr<Buffers> take() {
    std::unique_ptr<Buffers> taken(std::exchange(buffers_, nullptr));
    return taken != nullptr ? std::move(taken) : std::make_unique<Buffers>();
  }
  // Destroys the buffers if there are others here.
  void put(std::unique_ptr<Buffers> buffers) {
    if (buffers_ == nullptr) {
      buffers->clear();
      buffers_ = buffers.release();
    }
  }

 private:
  Buffers* buffers_ = nullptr;
};

}  // namespace reprise::base_internal

#endif  // REPRISE_BASE_THREADING_SPARE_H_
