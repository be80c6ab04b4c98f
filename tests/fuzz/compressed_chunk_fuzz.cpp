// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Chunks of compressed bytes: those of compress_chunk() come back; any others are an error, or give
// as many bytes as are asked for, and never more.
#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reprise/hooks/compression/chunk_codec.h"
#include "tests/fuzz/input.h"

namespace reprise::fuzz {
namespace {

using namespace hooks_internal;
using Bytes = std::vector<std::byte>;

ChunkCodec codec_of(Input& input) {
  constexpr std::size_t kElementSizes[] = {1, 2, 4, 8};
  return {input.boolean() ? CompressionCodec::kLz4 : CompressionCodec::kZstandard,
          static_cast<int>(input.number(8)) - 2, kElementSizes[input.number(3)]};
}

void decompress(const ChunkCodec& codec, const Bytes& compressed, std::size_t size) {
  Bytes bytes(size);  // at whose end the address sanitizer watches
  const auto decompress = [&] {
    decompress_chunk(codec, compressed.data(), compressed.size(), bytes.data(), size);
    return true;
  };
  accepted<c10::Error>(decompress, {"[stores.compressed] the compressed bytes of a tensor are"});
}

void check_round_trip(const ChunkCodec& codec, const Bytes& bytes, Input damage) {
  Bytes compressed(compressed_bound(bytes.size()));
  compressed.resize(compress_chunk(codec, bytes.data(), bytes.size(), compressed.data()));
  Bytes back(bytes.size());
  decompress_chunk(codec, compressed.data(), compressed.size(), back.data(), back.size());
  require(back == bytes, "a chunk comes back");
  compressed[damage.number(compressed.size() - 1)] ^= std::byte(1 + damage.number(254));
  decompress(codec, compressed, bytes.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const ChunkCodec codec = codec_of(input);
  const std::size_t decompressed = 1 + input.number(kChunkBytes - 1);
  const Input damage = input;
  if (const Bytes bytes = input.bytes(kChunkBytes); !bytes.empty()) {
    check_round_trip(codec, bytes, damage);
    decompress(codec, bytes, decompressed);
  }
  return 0;
}

}  // namespace reprise::fuzz
