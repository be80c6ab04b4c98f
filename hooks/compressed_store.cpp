// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/compressed_store.h"

#include <utility>

#include "reprise/hooks/background/background_offloader.h"
#include "reprise/hooks/background/compression.h"
#include "reprise/hooks/stored/next_store.h"
#include "reprise/hooks/stored/put_storage.h"

namespace reprise {

using hooks_internal::BackgroundOffloader;
using hooks_internal::Place;

namespace {

using Count = std::shared_ptr<std::atomic<std::int64_t>>;

class CompressedPlace final : public Place {
 public:
  CompressedPlace(CompressedOptions options, Count count, std::shared_ptr<ActivationStore> next)
      : options_(options), count_(std::move(count)), next_(std::move(next)) {}

  bool write(const std::byte* bytes, std::int64_t size) override {
    auto compressed = hooks_internal::compress(bytes, size, options_.level, options_.max_ratio);
    if (!compressed) {
      return false;
    }
    element_size_ = compressed->element_size;
    *count_ += static_cast<std::int64_t>(compressed->bytes.nbytes());
    stored_ = next_->put(compressed->bytes);
    return true;
  }

  void read(std::byte* bytes, std::int64_t size) override {
    hooks_internal::decompress({stored_->get(), element_size_}, bytes, size);
  }

  [[nodiscard]] std::int64_t memory_bytes() const override { return stored_->device_bytes(); }

 private:
  const CompressedOptions options_;
  const Count count_;
  const std::shared_ptr<ActivationStore> next_;
  std::unique_ptr<StoredTensor> stored_;
  std::size_t element_size_ = 1;
};

std::shared_ptr<BackgroundOffloader> make_memory(CompressedOptions options, const Count& count) {
  hooks_internal::check_compression_level(options.level);
  return std::make_shared<BackgroundOffloader>(hooks_internal::BackgroundOptions{
      .name = "stores.compressed",
      .min_bytes = options.min_bytes,
      .max_in_flight_bytes = options.max_in_flight_bytes,
      .keep_last = options.keep_last,
      .throws_failures = true,
      .find_place = [options, count](std::int64_t, const std::shared_ptr<ActivationStore>& next) {
        return std::make_unique<CompressedPlace>(options, count, next);
      }});
}

}  // namespace

CompressedStore::CompressedStore(CompressedOptions options)
    : compressed_bytes_(std::make_shared<std::atomic<std::int64_t>>(0)),
      memory_(make_memory(options, compressed_bytes_)) {}

CompressedStore::CompressedStore(Count compressed_bytes,
                                 std::shared_ptr<BackgroundOffloader> memory,
                                 std::shared_ptr<ActivationStore> next)
    : compressed_bytes_(std::move(compressed_bytes)),
      memory_(std::move(memory)),
      next_(std::move(next)) {}

CompressedStore::~CompressedStore() = default;

std::unique_ptr<StoredTensor> CompressedStore::put(const at::Tensor& tensor) {
  return hooks_internal::put_storage(*this, *memory_, next_, tensor);
}

std::shared_ptr<ActivationStore> CompressedStore::followed_by(
    std::shared_ptr<ActivationStore> next) {
  return std::shared_ptr<ActivationStore>(new CompressedStore(
      compressed_bytes_, memory_, hooks_internal::appended(next_, std::move(next))));
}

CompressedCounters CompressedStore::counters() const {
  return {memory_->counters(), compressed_bytes_->load()};
}

void CompressedStore::flush() { memory_->flush(); }

namespace stores {

std::shared_ptr<CompressedStore> compressed(CompressedOptions options) {
  return std::make_shared<CompressedStore>(options);
}

}  // namespace stores

}  // namespace reprise
