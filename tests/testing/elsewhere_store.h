// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A store in memory that no counter sees, for CPU tensors: as host memory is for an accelerator.
#ifndef REPRISE_TESTS_TESTING_ELSEWHERE_STORE_H_
#define REPRISE_TESTS_TESTING_ELSEWHERE_STORE_H_

#include <ATen/ops/empty_strided.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "reprise/hooks/activation_store.h"

namespace reprise::testing {

class ElsewhereStore final : public ActivationStore {
 public:
  // delay: for which a tensor is still in memory after put() has returned.
  explicit ElsewhereStore(std::chrono::microseconds delay = std::chrono::microseconds(0))
      : delay_(delay) {}

  std::unique_ptr<StoredTensor> put(const at::Tensor& tensor) override {
    return std::make_unique<Stored>(*this, tensor);
  }

  // Of tensors that are put from now on.
  void set_delay(std::chrono::microseconds delay) { delay_ = delay; }

  int prefetches() const { return prefetches_; }

 private:
  class Stored final : public StoredTensor {
   public:
    Stored(ElsewhereStore& store, const at::Tensor& tensor)
        : store_(store),
          due_(std::chrono::steady_clock::now() + store.delay_.load()),
          sizes_(tensor.sizes().vec()),
          strides_(tensor.strides().vec()),
          options_(tensor.options()),
          bytes_(tensor.nbytes()),
          tensor_(tensor) {
      std::memcpy(bytes_.data(), tensor.const_data_ptr(), bytes_.size());
      leave_if_due();
    }

    void prefetch() override {
      ++store_.prefetches_;
      if (device_bytes() == 0) {
        at::Tensor fetched = copy();  // without the lock: the allocator may call back
        const std::lock_guard lock(mutex_);
        tensor_ = std::move(fetched);
        is_fetched_ = true;
      }
    }
    at::Tensor get() override {
      at::Tensor found;
      {
        const std::lock_guard lock(mutex_);
        found = is_fetched_ ? std::exchange(tensor_, at::Tensor()) : tensor_;
      }
      return found.defined() ? found : copy();
    }
    [[nodiscard]] std::int64_t device_bytes() const override {
      leave_if_due();
      const std::lock_guard lock(mutex_);
      return tensor_.defined() ? static_cast<std::int64_t>(bytes_.size()) : 0;
    }

   private:
    at::Tensor copy() const {
      const at::Tensor tensor = at::empty_strided(sizes_, strides_, options_);
      std::memcpy(tensor.mutable_data_ptr(), bytes_.data(), bytes_.size());
      return tensor;
    }
    void leave_if_due() const {
      at::Tensor left;  // released after the lock
      const std::lock_guard lock(mutex_);
      if (!is_fetched_ && std::chrono::steady_clock::now() >= due_) {
        std::swap(left, tensor_);
      }
    }

    ElsewhereStore& store_;
    const std::chrono::steady_clock::time_point due_;
    const std::vector<std::int64_t> sizes_;
    const std::vector<std::int64_t> strides_;
    const at::TensorOptions options_;
    std::vector<std::byte> bytes_;
    mutable std::mutex mutex_;
    mutable at::Tensor tensor_;
    bool is_fetched_ = false;
  };

  std::atomic<std::chrono::microseconds> delay_;
  std::atomic<int> prefetches_ = 0;
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TESTING_ELSEWHERE_STORE_H_
