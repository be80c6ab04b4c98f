// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Helpers of the fuzz targets: an input as text or as numbers, and properties that must hold of it.
#ifndef REPRISE_TESTS_FUZZ_INPUT_H_
#define REPRISE_TESTS_FUZZ_INPUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace reprise::fuzz {

// Ends the program unless `property` holds; a fuzzer then keeps the input.
inline void require(bool holds, const char* property) {
  if (!holds) {
    std::fprintf(stderr, "violated: %s\n", property);
    std::abort();
  }
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// LibTorch's errors take long to describe where they were thrown.
inline std::string_view message_of(const auto& error) {
  if constexpr (requires { error.what_without_backtrace(); }) {
    return error.what_without_backtrace();
  } else {
    return error.what();
  }
}

// Returns the result of `read()`; nothing if that refuses its input by a `Refusal` whose message
// starts with one of `prefixes`. Any other exception ends the program.
template <typename Refusal, typename Read>
auto accepted(const Read& read, std::initializer_list<std::string_view> prefixes)
    -> std::optional<decltype(read())> {
  try {
    return read();
  } catch (const Refusal& refusal) {
    const std::string_view message = message_of(refusal);
    require(std::any_of(prefixes.begin(), prefixes.end(),
                        [&](std::string_view prefix) { return message.starts_with(prefix); }),
            "an input is refused by an error of the reader's own");
    return std::nullopt;
  }
}

// An input as numbers, taken one by one; after its end they are 0.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : left_(data, size) {}

  // Returns a number from 0 to `most`, of as many bytes as that has.
  std::uint64_t number(std::uint64_t most) {
    std::uint64_t number = 0;
    for (std::uint64_t rest = most; rest > 0; rest >>= 8) {
      number = number << 8 | byte();
    }
    return most == ~std::uint64_t{0} ? number : number % (most + 1);
  }
  bool boolean() { return number(1) == 1; }

  bool is_at_end() const { return left_.empty(); }

  // Returns the bytes that are left, up to `most`.
  std::vector<std::byte> bytes(std::size_t most) {
    const auto taken = std::as_bytes(left_.first(std::min(most, left_.size())));
    left_ = left_.subspan(taken.size());
    return {taken.begin(), taken.end()};
  }

 private:
  std::uint8_t byte() {
    if (left_.empty()) {
      return 0;
    }
    const std::uint8_t first = left_.front();
    left_ = left_.subspan(1);
    return first;
  }

  std::span<const std::uint8_t> left_;
};

}  // namespace reprise::fuzz

#endif  // REPRISE_TESTS_FUZZ_INPUT_H_
