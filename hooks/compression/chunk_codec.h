// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Lossless compression of a chunk of bytes, by LZ4 (its block format) or Zstandard (RFC 8878).
#ifndef REPRISE_HOOKS_COMPRESSION_CHUNK_CODEC_H_
#define REPRISE_HOOKS_COMPRESSION_CHUNK_CODEC_H_

#include <cstddef>

#include "reprise/hooks/compressed_store.h"

namespace reprise::hooks_internal {

// Chunks are at most this large: between two of them, work can be abandoned.
inline constexpr std::size_t kChunkBytes = std::size_t{256} << 10;

struct ChunkCodec {
  CompressionCodec codec;  // not kAutomatic
  int level;               // of Zstandard
  std::size_t element_size;

  friend bool operator==(const ChunkCodec&, const ChunkCodec&) = default;
};

// Returns the room that compress_chunk() needs for this many bytes.
std::size_t compressed_bound(std::size_t size);

// Writes the compressed chunk to `to`. Returns its size; `size` if it is not smaller than that, and
// is written as it is.
std::size_t compress_chunk(const ChunkCodec& codec, const std::byte* bytes, std::size_t size,
                           std::byte* to);

// Throws c10::Error if these are not `size` bytes compressed.
void decompress_chunk(const ChunkCodec& codec, const std::byte* compressed,
                      std::size_t compressed_size, std::byte* bytes, std::size_t size);

// The first bytes of each element, then the second ones, and so on: exponents are alike, mantissas
// are not. (After the shuffle filter of HDF5 and Blosc.)
void shuffle(const std::byte* bytes, std::size_t size, std::size_t element_size, std::byte* to);
void unshuffle(const std::byte* bytes, std::size_t size, std::size_t element_size, std::byte* to);

// Throws std::invalid_argument for a level that Zstandard does not have.
void check_compression_level(int level);

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_COMPRESSION_CHUNK_CODEC_H_
