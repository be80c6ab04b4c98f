// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Decides by samples which tensors are worth compressing, and how.
#ifndef REPRISE_HOOKS_COMPRESSION_CODEC_CHOICE_H_
#define REPRISE_HOOKS_COMPRESSION_CODEC_CHOICE_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "reprise/hooks/compressed_store.h"
#include "reprise/hooks/compression/chunk_codec.h"

namespace reprise::hooks_internal {

// Tensors of one size are of one kind. After 8 of a kind in a row that have not become smaller, the
// next 1, 2, 4 and so on up to 64 of it are not looked at. Thread-safe.
class CodecChoice {
 public:
  CodecChoice(CompressionCodec codec, int level, double max_ratio);

  // A tensor has been put. Returns whether to look at it.
  bool is_due(std::int64_t size);

  // Returns the codec for a tensor with this sample; std::nullopt if it does not become smaller.
  std::optional<ChunkCodec> choose(std::int64_t size, const std::vector<std::byte>& sample);

  // Notes whether a tensor has become smaller.
  void note_outcome(std::int64_t size, bool is_smaller);

 private:
  struct Kind {
    std::optional<ChunkCodec> last;
    int failures = 0;  // in a row
    std::int64_t to_skip = 0;
  };

  std::optional<ChunkCodec> best_of(const std::vector<std::byte>& sample) const;

  const CompressionCodec codec_;
  const int level_;
  const double max_ratio_;
  std::mutex mutex_;
  std::unordered_map<std::int64_t, Kind> kinds_;
};

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_COMPRESSION_CODEC_CHOICE_H_
