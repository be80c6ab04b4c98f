// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/compression/chunk_codec.h"

#include <c10/util/Exception.h>
#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace reprise::hooks_internal {
namespace {

struct Free {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

ZSTD_CCtx* compressor() {
  thread_local std::unique_ptr<ZSTD_CCtx, Free> t_context(ZSTD_createCCtx());
  return t_context.get();
}

ZSTD_DCtx* decompressor() {
  thread_local std::unique_ptr<ZSTD_DCtx, Free> t_context(ZSTD_createDCtx());
  return t_context.get();
}

// For a shuffled chunk.
std::byte* shuffle_room() {
  thread_local std::vector<std::byte> t_room(kChunkBytes);
  return t_room.data();
}

const char* chars(const std::byte* bytes) { return reinterpret_cast<const char*>(bytes); }
char* chars(std::byte* bytes) { return reinterpret_cast<char*>(bytes); }

// Returns at least `size` if the bytes cannot be compressed.
std::size_t compress_with(const ChunkCodec& codec, const std::byte* bytes, std::size_t size,
                          std::byte* to) {
  const std::size_t room = compressed_bound(size);
  if (codec.codec == CompressionCodec::kLz4) {
    const int length = LZ4_compress_default(chars(bytes), chars(to), static_cast<int>(size),
                                            static_cast<int>(room));
    return length > 0 ? static_cast<std::size_t>(length) : size;
  }
  const std::size_t length = ZSTD_compressCCtx(compressor(), to, room, bytes, size, codec.level);
  TORCH_CHECK(ZSTD_isError(length) == 0,
              "[stores.compressed] Zstandard fails: ", ZSTD_getErrorName(length));
  return length;
}

// Returns the number of bytes written; more than `size` on an error.
std::size_t decompress_with(CompressionCodec codec, const std::byte* compressed,
                            std::size_t compressed_size, std::byte* bytes, std::size_t size) {
  if (codec == CompressionCodec::kLz4) {
    const int length = LZ4_decompress_safe(
        chars(compressed), chars(bytes), static_cast<int>(compressed_size), static_cast<int>(size));
    return length >= 0 ? static_cast<std::size_t>(length) : size + 1;
  }
  const std::size_t length =
      ZSTD_decompressDCtx(decompressor(), bytes, size, compressed, compressed_size);
  return ZSTD_isError(length) == 0 ? length : size + 1;
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

std::size_t compressed_bound(std::size_t size) {
  return std::max(ZSTD_compressBound(size),
                  static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(size))));
}

std::size_t compress_chunk(const ChunkCodec& codec, const std::byte* bytes, std::size_t size,
                           std::byte* to) {
  const std::byte* input = bytes;
  if (codec.element_size > 1) {
    shuffle(bytes, size, codec.element_size, shuffle_room());
    input = shuffle_room();
  }
  const std::size_t length = compress_with(codec, input, size, to);
  if (length < size) {
    return length;
  }
  std::copy(bytes, bytes + size, to);
  return size;
}

void decompress_chunk(const ChunkCodec& codec, const std::byte* compressed,
                      std::size_t compressed_size, std::byte* bytes, std::size_t size) {
  if (compressed_size == size) {
    std::copy(compressed, compressed + size, bytes);
    return;
  }
  const bool is_shuffled = codec.element_size > 1;
  std::byte* const output = is_shuffled ? shuffle_room() : bytes;
  const std::size_t length =
      decompress_with(codec.codec, compressed, compressed_size, output, size);
  TORCH_CHECK(length == size,
              "[stores.compressed] the compressed bytes of a tensor are damaged: ", compressed_size,
              " bytes do not decompress to ", size);
  if (is_shuffled) {
    unshuffle(output, size, codec.element_size, bytes);
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
