// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/compression/codec_choice.h"

#include <algorithm>

namespace reprise::hooks_internal {
namespace {

constexpr int kFailuresBeforeSkipping = 8;
constexpr int kMostDoublings = 6;
// Zstandard takes a multiple of LZ4's time: it is chosen if it saves a quarter more.
constexpr double kGainOfZstandard = 1.25;

double ratio_with(const ChunkCodec& codec, const std::vector<std::byte>& sample) {
  std::vector<std::byte> to(compressed_bound(sample.size()));
  const std::size_t length = compress_chunk(codec, sample.data(), sample.size(), to.data());
  return static_cast<double>(length) / static_cast<double>(sample.size());
}

struct Rated {
  ChunkCodec codec;
  double ratio;
};

Rated best_shuffle(CompressionCodec codec, int level, const std::vector<std::byte>& sample) {
  Rated best{{codec, level, 1}, 2.0};
  for (const std::size_t element_size : {1U, 2U, 4U, 8U}) {
    const ChunkCodec candidate{codec, level, element_size};
    if (const double ratio = ratio_with(candidate, sample); ratio < best.ratio) {
      best = {candidate, ratio};
    }
  }
  return best;
}

}  // namespace

CodecChoice::CodecChoice(CompressionCodec codec, int level, double max_ratio)
    : codec_(codec), level_(level), max_ratio_(max_ratio) {}

bool CodecChoice::is_due(std::int64_t size) {
  const std::lock_guard lock(mutex_);
  Kind& kind = kinds_[size];
  if (kind.to_skip == 0) {
    return true;
  }
  --kind.to_skip;
  return false;
}

std::optional<ChunkCodec> CodecChoice::choose(std::int64_t size,
                                              const std::vector<std::byte>& sample) {
  std::optional<ChunkCodec> last;
  {
    const std::lock_guard lock(mutex_);
    last = kinds_[size].last;
  }
  if (last && ratio_with(*last, sample) <= max_ratio_) {
    return last;
  }
  const std::optional<ChunkCodec> best = best_of(sample);
  if (best) {
    const std::lock_guard lock(mutex_);
    kinds_[size].last = best;
  }
  return best;
}

std::optional<ChunkCodec> CodecChoice::best_of(const std::vector<std::byte>& sample) const {
  const bool is_automatic = codec_ == CompressionCodec::kAutomatic;
  Rated best = best_shuffle(is_automatic ? CompressionCodec::kLz4 : codec_, level_, sample);
  if (is_automatic) {
    const Rated slow = best_shuffle(CompressionCodec::kZstandard, level_, sample);
    if (best.ratio > max_ratio_ || 1 - slow.ratio > kGainOfZstandard * (1 - best.ratio)) {
      best = slow;
    }
  }
  return best.ratio <= max_ratio_ ? std::optional(best.codec) : std::nullopt;
}

void CodecChoice::note_outcome(std::int64_t size, bool is_smaller) {
  const std::lock_guard lock(mutex_);
  Kind& kind = kinds_[size];
  kind.failures = is_smaller ? 0 : kind.failures + 1;
  if (kind.failures >= kFailuresBeforeSkipping) {
    const int doublings = std::min(kind.failures - kFailuresBeforeSkipping, kMostDoublings);
    kind.to_skip = std::int64_t{1} << doublings;
  }
}

}  // namespace reprise::hooks_internal
