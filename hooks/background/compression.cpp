// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/background/compression.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <zstd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace reprise::hooks_internal {
namespace {

constexpr std::size_t kSample = std::size_t{64} << 10;

struct Free {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

ZSTD_CCtx* compressor() {
  thread_local const std::unique_ptr<ZSTD_CCtx, Free> t_context(ZSTD_createCCtx());
  return t_context.get();
}

ZSTD_DCtx* decompressor() {
  thread_local const std::unique_ptr<ZSTD_DCtx, Free> t_context(ZSTD_createDCtx());
  return t_context.get();
}

std::size_t check(std::size_t code) {
  TORCH_CHECK(ZSTD_isError(code) == 0,
              "[stores.compressed] Zstandard fails: ", ZSTD_getErrorName(code));
  return code;
}

at::Tensor empty_bytes(std::size_t size) {
  return at::empty({static_cast<std::int64_t>(size)}, at::kByte);
}

std::byte* data(const at::Tensor& bytes) { return static_cast<std::byte*>(bytes.data_ptr()); }

// Of any length: `room` is made large enough.
std::size_t compress_into(at::Tensor& room, const std::byte* bytes, std::size_t size,
                          std::size_t element_size, int level) {
  std::vector<std::byte> shuffled;
  if (element_size > 1) {
    shuffled.resize(size);
    shuffle(bytes, size, element_size, shuffled.data());
    bytes = shuffled.data();
  }
  room = empty_bytes(ZSTD_compressBound(size));
  return check(ZSTD_compressCCtx(compressor(), data(room), room.nbytes(), bytes, size, level));
}

}  // namespace

void shuffle(const std::byte* bytes, std::size_t size, std::size_t element_size, std::byte* to) {
  const std::size_t count = size / element_size;
  for (std::size_t place = 0; place < element_size; ++place) {
    std::byte* const plane = to + place * count;
    for (std::size_t i = 0; i < count; ++i) {
      plane[i] = bytes[i * element_size + place];
    }
  }
  std::copy(bytes + count * element_size, bytes + size, to + count * element_size);
}

void unshuffle(const std::byte* bytes, std::size_t size, std::size_t element_size, std::byte* to) {
  const std::size_t count = size / element_size;
  for (std::size_t place = 0; place < element_size; ++place) {
    const std::byte* const plane = bytes + place * count;
    for (std::size_t i = 0; i < count; ++i) {
      to[i * element_size + place] = plane[i];
    }
  }
  std::copy(bytes + count * element_size, bytes + size, to + count * element_size);
}

std::optional<Compressed> compress(const std::byte* bytes, std::size_t size, int level,
                                   double max_ratio) {
  const std::size_t sample = std::min(size, kSample);
  const std::byte* const middle = bytes + (size - sample) / 2 / 8 * 8;
  at::Tensor room;
  std::size_t best = 1;
  std::size_t least = sample + 1;
  for (const std::size_t element_size : {1U, 2U, 4U, 8U}) {
    const std::size_t length = compress_into(room, middle, sample, element_size, level);
    if (length < least) {
      least = length;
      best = element_size;
    }
  }
  const auto is_worth_it = [max_ratio](std::size_t length, std::size_t of) {
    return static_cast<double>(length) <= max_ratio * static_cast<double>(of);
  };
  if (!is_worth_it(least, sample)) {
    return std::nullopt;
  }
  const std::size_t length = compress_into(room, bytes, size, best, level);
  if (!is_worth_it(length, size)) {
    return std::nullopt;
  }
  return Compressed{room.narrow(0, 0, static_cast<std::int64_t>(length)).clone(), best};
}

void decompress(const Compressed& compressed, std::byte* bytes, std::size_t size) {
  const bool is_shuffled = compressed.element_size > 1;
  std::vector<std::byte> shuffled(is_shuffled ? size : 0);
  const std::size_t length =
      check(ZSTD_decompressDCtx(decompressor(), is_shuffled ? shuffled.data() : bytes, size,
                                data(compressed.bytes), compressed.bytes.nbytes()));
  TORCH_CHECK(length == size, "[stores.compressed] ", length, " bytes came back of ", size);
  if (is_shuffled) {
    unshuffle(shuffled.data(), size, compressed.element_size, bytes);
  }
}

void check_compression_level(int level) {
  if (level < ZSTD_minCLevel() || level > ZSTD_maxCLevel()) {
    throw std::invalid_argument("[stores.compressed] the level is " + std::to_string(level) +
                                "; Zstandard has those from " + std::to_string(ZSTD_minCLevel()) +
                                " to " + std::to_string(ZSTD_maxCLevel()));
  }
}

}  // namespace reprise::hooks_internal
