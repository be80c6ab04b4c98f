// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Contents of tensors, and how a store's place copies them.
#ifndef REPRISE_TESTS_FUZZ_STORED_BYTES_H_
#define REPRISE_TESTS_FUZZ_STORED_BYTES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "reprise/hooks/background/background_offloader.h"
#include "tests/fuzz/input.h"

namespace reprise::fuzz {

using Bytes = std::vector<std::byte>;

class BytesSource final : public hooks_internal::ByteSource {
 public:
  // `bytes` must outlive the source.
  explicit BytesSource(const Bytes& bytes) : bytes_(bytes) {}
  bool copy(std::int64_t offset, std::int64_t size, std::byte* to) override {
    std::copy_n(bytes_.data() + offset, size, to);
    return true;
  }

 private:
  const Bytes& bytes_;
};

// Returns up to 4 MiB. Of each 4096 bytes the first are noise, so that the input decides how small
// they become, and the others repeat the rest of the input.
inline Bytes large_contents(Input& input) {
  constexpr std::size_t kPeriod = 4096;
  const std::uint64_t most = input.boolean() ? std::uint64_t{1} << 22 : kPeriod;
  Bytes bytes(1 + input.number(most - 1));
  const std::size_t noise = input.number(kPeriod);
  std::minstd_rand random;
  const Bytes pattern = input.bytes(kPeriod);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i % kPeriod < noise) {
      bytes[i] = static_cast<std::byte>(random() >> 8);
    } else if (!pattern.empty()) {
      bytes[i] = pattern[i % pattern.size()];
    }
  }
  return bytes;
}

}  // namespace reprise::fuzz

#endif  // REPRISE_TESTS_FUZZ_STORED_BYTES_H_
