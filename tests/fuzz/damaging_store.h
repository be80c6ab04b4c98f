// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A store of bytes as a damaged disk gives them back.
#ifndef REPRISE_TESTS_FUZZ_DAMAGING_STORE_H_
#define REPRISE_TESTS_FUZZ_DAMAGING_STORE_H_

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "reprise/hooks/activation_store.h"
#include "tests/fuzz/input.h"

namespace reprise::fuzz {

struct Damage {
  std::int64_t missing = 0;       // bytes at the end
  std::uint8_t changed_bits = 0;  // of the byte `at`, modulo the size
  std::uint64_t at = 0;

  bool is_any() const { return missing > 0 || changed_bits != 0; }
};

// Returns damage in one of two inputs.
inline Damage damage_of(Input& input) {
  Damage damage;
  if (const bool is_damaged = input.boolean(); is_damaged && input.boolean()) {
    damage.missing = static_cast<std::int64_t>(input.number(1 << 12));
  } else if (is_damaged) {
    damage.changed_bits = static_cast<std::uint8_t>(input.number(255));
    damage.at = input.number(1 << 22);
  }
  return damage;
}

class DamagingStore final : public ActivationStore {
 public:
  explicit DamagingStore(const Damage& damage) : damage_(damage) {}

  std::unique_ptr<StoredTensor> put(const at::Tensor& tensor) override {
    return std::make_unique<Stored>(damaged(tensor));
  }

 private:
  class Stored final : public StoredTensor {
   public:
    explicit Stored(at::Tensor tensor) : tensor_(std::move(tensor)) {}
    at::Tensor get() override { return tensor_; }
    std::int64_t device_bytes() const override { return tensor_.numel(); }

   private:
    const at::Tensor tensor_;
  };

  // In memory of its own, at whose end the address sanitizer watches.
  at::Tensor damaged(const at::Tensor& tensor) const {
    const std::int64_t size = std::max<std::int64_t>(0, tensor.numel() - damage_.missing);
    at::Tensor found = tensor.slice(0, 0, size).clone();
    if (size > 0) {
      const std::uint64_t at = damage_.at % static_cast<std::uint64_t>(size);
      found.mutable_data_ptr<std::uint8_t>()[at] ^= damage_.changed_bits;
    }
    return found;
  }

  const Damage damage_;
};

}  // namespace reprise::fuzz

#endif  // REPRISE_TESTS_FUZZ_DAMAGING_STORE_H_
