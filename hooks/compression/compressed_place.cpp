// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/compression/compressed_place.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <span>
#include <utility>

#include "reprise/hooks/compression/compressor.h"
#include "reprise/hooks/stores.h"

namespace reprise::hooks_internal {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

// Reused: a thread writes one tensor at a time.
std::vector<std::byte>& buffer_of_thread() {
  thread_local std::vector<std::byte> t_buffer;
  return t_buffer;
}

std::byte* chunk_of_thread() {
  thread_local std::vector<std::byte> t_chunk(kChunkBytes);
  return t_chunk.data();
}

// Returns parts from all over the bytes, whole elements of up to 8 bytes; std::nullopt if nobody
// needs the place any more.
std::optional<std::vector<std::byte>> sample_of(ByteSource& source, std::int64_t size) {
  constexpr std::int64_t kWindows = 4;
  constexpr std::int64_t kWindowBytes = std::int64_t{4} << 10;
  const std::int64_t windows = size > kWindows * kWindowBytes ? kWindows : 1;
  const std::int64_t length = windows > 1 ? kWindowBytes : size;
  std::vector<std::byte> sample(static_cast<std::size_t>(windows * length));
  for (std::int64_t i = 0; i < windows; ++i) {
    const std::int64_t begin = windows > 1 ? (size - length) / (windows - 1) * i / 8 * 8 : 0;
    if (!source.copy(begin, length, sample.data() + i * length)) {
      return std::nullopt;
    }
  }
  return sample;
}

class Stopwatch {
 public:
  explicit Stopwatch(Compressor& compressor) : compressor_(compressor) {}
  ~Stopwatch() { compressor_.note_work(std::chrono::steady_clock::now() - start_); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  Compressor& compressor_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

CompressedPlace::CompressedPlace(std::shared_ptr<Compressor> compressor,
                                 const PlaceRequest& request)
    : compressor_(std::move(compressor)),
      next_(request.next),
      size_(request.bytes),
      is_counted_(request.device.is_cpu()),
      held_(request.bytes) {
  if (is_counted_) {
    compressor_->room().add(size_);
  }
}

CompressedPlace::~CompressedPlace() {
  if (is_counted_) {
    compressor_->room().remove(size_, held_, is_refused_);
  }
}

CompressedPlace::Outcome CompressedPlace::write(ByteSource& source, std::int64_t /*size*/) {
  const Stopwatch stopwatch(*compressor_);
  buffer_ = std::exchange(buffer_of_thread(), {});
  buffer_.resize(kPieceBytes + compressed_bound(kChunkBytes));
  const Outcome outcome = compress(source);
  if (outcome == Outcome::kWritten) {
    compressor_->choice().note_outcome(size_, true);
    return outcome;
  }
  is_refused_ = outcome == Outcome::kRefused;
  buffer_of_thread() = std::move(buffer_);
  pieces_.clear();
  if (is_counted_) {
    compressor_->room().give_back(held_ - size_);
    held_ = size_;
  }
  return outcome;
}

CompressedPlace::Outcome CompressedPlace::compress(ByteSource& source) {
  const auto sample = sample_of(source, size_);
  if (!sample) {
    return Outcome::kAbandoned;
  }
  codec_ = compressor_->choice().choose(size_, *sample);
  if (!codec_) {
    return refuse();
  }
  std::byte* const chunk = chunk_of_thread();
  const auto total = static_cast<std::size_t>(size_);
  for (std::size_t done = 0; done < total;) {
    const bool has_room = !is_counted_ || !compressor_->room().is_exceeded();
    if (!has_room || (filled_ >= kPieceBytes && !flush_piece())) {
      compressor_->bytes_no_room += size_;
      return Outcome::kRefused;
    }
    const std::size_t length = std::min(total - done, kChunkBytes);
    if (!source.copy(static_cast<std::int64_t>(done), static_cast<std::int64_t>(length), chunk)) {
      return Outcome::kAbandoned;
    }
    chunks_.push_back(compress_chunk(*codec_, chunk, length, buffer_.data() + filled_));
    filled_ += chunks_.back();
    done += length;
    if (!is_promising(done, total)) {
      return refuse();
    }
  }
  return Outcome::kWritten;
}

CompressedPlace::Outcome CompressedPlace::refuse() {
  compressor_->choice().note_outcome(size_, false);
  compressor_->bytes_not_smaller += size_;
  return Outcome::kRefused;
}

bool CompressedPlace::is_promising(std::size_t done, std::size_t size) const {
  constexpr std::size_t kEnough = std::size_t{1} << 20;
  const double most = compressor_->options().max_ratio;
  const auto length = static_cast<double>(compressed_size());
  return length <= most * static_cast<double>(size) &&
         (done < kEnough || length <= 1.1 * most * static_cast<double>(done));
}

// Returns false if there is no room for it beside the tensor.
bool CompressedPlace::flush_piece() {
  const auto bytes = static_cast<std::int64_t>(filled_);
  if (is_counted_) {
    if (!compressor_->room().take(bytes)) {
      return false;
    }
    held_ += bytes;
  }
  put_piece();
  return true;
}

// If the next store fails, the piece stays here.
void CompressedPlace::put_piece() {
  const at::Tensor bytes = at::empty({static_cast<std::int64_t>(filled_)},
                                     at::TensorOptions(at::kByte).device(at::kCPU));
  std::copy_n(buffer_.data(), filled_, static_cast<std::byte*>(bytes.mutable_data_ptr()));
  Piece& piece =
      pieces_.emplace_back(Piece{stores::device()->put(bytes), chunks_.size() - chunks_in_pieces_});
  chunks_in_pieces_ = chunks_.size();
  filled_ = 0;
  piece.stored = next_->put(bytes);
}

void CompressedPlace::finish() {
  const Stopwatch stopwatch(*compressor_);
  const auto held = static_cast<std::int64_t>(compressed_size());
  compressor_->compressed_bytes += held;
  if (is_counted_) {
    compressor_->room().give_back(held_ - held);
    held_ = held;
  }
  put_piece();
  buffer_of_thread() = std::move(buffer_);
}

// The tensor then does not exist twice: its memory is filled page by page, while the pieces go one
// by one.
void CompressedPlace::start_last_read() {
  for (Piece& piece : pieces_) {
    if (piece.stored != nullptr && piece.stored->device_bytes() > 0) {
      const at::Tensor compressed = piece.stored->get();
      const auto* const begin = static_cast<const std::byte*>(compressed.const_data_ptr());
      piece.bytes.assign(begin, begin + compressed.nbytes());
      piece.stored.reset();
    }
  }
}

void CompressedPlace::read(std::byte* bytes, std::int64_t size) {
  const Stopwatch stopwatch(*compressor_);
  auto chunk = chunks_.begin();
  std::size_t done = 0;
  const auto total = static_cast<std::size_t>(size);
  // The next store may have lost some of the bytes.
  const auto decompress = [&](std::span<const std::byte> compressed, std::size_t count) {
    for (; count > 0; --count, ++chunk) {
      TORCH_CHECK(*chunk <= compressed.size(),
                  "[stores.compressed] the compressed bytes of a tensor are damaged: of ", *chunk,
                  " bytes of a chunk there are ", compressed.size());
      const std::size_t length = std::min(total - done, kChunkBytes);
      decompress_chunk(*codec_, compressed.data(), *chunk, bytes + done, length);
      compressed = compressed.subspan(*chunk);
      done += length;
    }
  };
  for (Piece& piece : pieces_) {
    if (piece.stored == nullptr) {
      decompress(std::exchange(piece.bytes, {}), piece.chunks);
      continue;
    }
    const at::Tensor compressed = piece.stored->get();
    decompress({static_cast<const std::byte*>(compressed.const_data_ptr()), compressed.nbytes()},
               piece.chunks);
  }
  decompress(buffer_, chunks_.size() - chunks_in_pieces_);
}

std::int64_t CompressedPlace::memory_bytes() const {
  std::int64_t bytes = 0;
  for (const Piece& piece : pieces_) {
    bytes += piece.stored == nullptr ? 0 : piece.stored->device_bytes();
  }
  return bytes;
}

std::size_t CompressedPlace::compressed_size() const {
  return std::accumulate(chunks_.begin(), chunks_.end(), std::size_t{0});
}

}  // namespace reprise::hooks_internal
