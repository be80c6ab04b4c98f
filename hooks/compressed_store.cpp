// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/compressed_store.h"

#include <chrono>
#include <utility>

#include "reprise/hooks/background/background_offloader.h"
#include "reprise/hooks/compression/compressor.h"
#include "reprise/hooks/stored/next_store.h"
#include "reprise/hooks/stored/put_storage.h"

namespace reprise {

using hooks_internal::BackgroundOffloader;
using hooks_internal::Compressor;

namespace {

std::shared_ptr<BackgroundOffloader> make_memory(const std::shared_ptr<Compressor>& compressor) {
  const CompressedOptions& options = compressor->options();
  return std::make_shared<BackgroundOffloader>(hooks_internal::BackgroundOptions{
      .name = "stores.compressed",
      .min_bytes = options.min_bytes,
      .max_in_flight_bytes = options.max_in_flight_bytes,
      .keep_last = options.keep_last,
      .throws_failures = true,
      .find_place =
          [compressor](const hooks_internal::PlaceRequest& request) {
            return compressor->find_place(request);
          },
      .moves_back = true,
      .note_wait = [compressor](std::chrono::nanoseconds time) { compressor->note_wait(time); }});
}

}  // namespace

CompressedStore::CompressedStore(CompressedOptions options)
    : compressor_(std::make_shared<Compressor>(options)), memory_(make_memory(compressor_)) {}

CompressedStore::CompressedStore(std::shared_ptr<Compressor> compressor,
                                 std::shared_ptr<BackgroundOffloader> memory,
                                 std::shared_ptr<ActivationStore> next)
    : compressor_(std::move(compressor)), memory_(std::move(memory)), next_(std::move(next)) {}

CompressedStore::~CompressedStore() = default;

std::unique_ptr<StoredTensor> CompressedStore::put(const at::Tensor& tensor) {
  return hooks_internal::put_storage(*this, *memory_, next_, tensor);
}

bool CompressedStore::copies_on_device(const at::Tensor& tensor) const {
  return (tensor.is_cpu() && hooks_internal::is_for_storages(*memory_, tensor)) ||
         hooks_internal::or_device(next_)->copies_on_device(tensor);
}

std::shared_ptr<ActivationStore> CompressedStore::followed_by(
    std::shared_ptr<ActivationStore> next) {
  return std::shared_ptr<ActivationStore>(
      new CompressedStore(compressor_, memory_, hooks_internal::appended(next_, std::move(next))));
}

CompressedCounters CompressedStore::counters() const {
  CompressedCounters counters{memory_->counters()};
  compressor_->add_to(counters);
  return counters;
}

void CompressedStore::flush() { memory_->flush(); }

namespace stores {

std::shared_ptr<CompressedStore> compressed(CompressedOptions options) {
  return std::make_shared<CompressedStore>(options);
}

}  // namespace stores

}  // namespace reprise
