// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Tensors that a store has compressed into another store: come back, or are an error if the other
// store has damaged them. No more is read than it has.
#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

#include "reprise/hooks/compression/compressed_place.h"
#include "reprise/hooks/compression/compressor.h"
#include "tests/fuzz/damaging_store.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/stored_bytes.h"

namespace reprise::fuzz {
namespace {

using namespace hooks_internal;

void check(CompressedPlace& place, const Bytes& bytes, bool is_damaged) {
  Bytes back(bytes.size());
  const auto size = static_cast<std::int64_t>(bytes.size());
  const auto is_read = accepted<c10::Error>([&] { return place.read(back.data(), size), true; },
                                            {"[stores.compressed] the compressed bytes"});
  require(is_damaged || (is_read && back == bytes), "a tensor comes back");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const auto codec = static_cast<CompressionCodec>(input.number(2));
  const auto compressor = std::make_shared<Compressor>(
      CompressedOptions{.codec = codec, .max_slowdown = std::numeric_limits<double>::infinity()});
  const Damage damage = damage_of(input);
  const std::shared_ptr<ActivationStore> next = std::make_shared<DamagingStore>(damage);
  const bool is_last = input.boolean();
  // Compressed bytes of a CPU tensor wait for its memory; of others, they go to the next store.
  const c10::Device device(input.boolean() ? c10::kCPU : c10::kCUDA);
  const Bytes bytes = large_contents(input);
  const auto length = static_cast<std::int64_t>(bytes.size());
  CompressedPlace place(compressor, {length, device, 0, next});
  BytesSource source(bytes);
  if (place.write(source, length) == Place::Outcome::kWritten) {
    place.finish();
    if (is_last) {
      place.start_last_read();
    }
    check(place, bytes, damage.is_any());
  }
  return 0;
}

}  // namespace reprise::fuzz
