// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// One storage, compressed, in the next store.
#ifndef REPRISE_HOOKS_COMPRESSION_COMPRESSED_PLACE_H_
#define REPRISE_HOOKS_COMPRESSION_COMPRESSED_PLACE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "reprise/hooks/activation_store.h"
#include "reprise/hooks/background/background_offloader.h"
#include "reprise/hooks/compression/chunk_codec.h"

namespace reprise::hooks_internal {

class Compressor;

class CompressedPlace final : public Place {
 public:
  CompressedPlace(std::shared_ptr<Compressor> compressor, const PlaceRequest& request);
  ~CompressedPlace() override;
  CompressedPlace(const CompressedPlace&) = delete;
  CompressedPlace& operator=(const CompressedPlace&) = delete;

  Outcome write(ByteSource& source, std::int64_t size) override;
  void finish() override;
  void start_last_read() override;
  void read(std::byte* bytes, std::int64_t size) override;
  [[nodiscard]] std::int64_t memory_bytes() const override;

 private:
  using Buffer = std::vector<std::byte>;
  // Some chunks, in the next store or, for the last read, here.
  struct Piece {
    std::unique_ptr<StoredTensor> stored;
    std::size_t chunks;
    Buffer bytes = {};
  };

  Outcome compress(ByteSource& source);
  Outcome refuse();
  // Returns whether more chunks may make the result small enough.
  bool is_promising(std::size_t done, std::size_t size) const;
  bool flush_piece();
  void put_piece();
  std::size_t compressed_size() const;

  const std::shared_ptr<Compressor> compressor_;
  const std::shared_ptr<ActivationStore> next_;
  const std::int64_t size_;
  const bool is_counted_;  // its tensor is in the memory that it is compressed to
  std::int64_t held_;
  bool is_refused_ = false;
  std::optional<ChunkCodec> codec_;
  std::vector<std::size_t> chunks_;  // sizes
  std::vector<Piece> pieces_;
  std::size_t chunks_in_pieces_ = 0;
  Buffer buffer_;  // of the thread, while it writes; then of its own
  std::size_t filled_ = 0;
};

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_COMPRESSION_COMPRESSED_PLACE_H_
