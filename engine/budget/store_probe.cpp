// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/store_probe.h"

#include <ATen/ops/as_strided.h>
#include <ATen/ops/clone.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "reprise/engine/kept/kept_result.h"
#include "reprise/engine/profile/step_interceptor.h"
#include "reprise/hooks/seam/hook_stack.h"
#include "reprise/hooks/seam/unseen_scope.h"

namespace reprise::engine_internal {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kMostSampleBytes = std::int64_t{4} << 20;
constexpr std::size_t kSamplesPerKind = 2;
constexpr int kMostSamples = 24;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Copies its first bytes: `result` is dense.
at::Tensor sample_of(const at::Tensor& result, std::int64_t bytes) {
  const at::Tensor alias = hooks_internal::detached_alias(result);
  return at::as_strided(alias, {bytes / static_cast<std::int64_t>(alias.element_size())}, {1},
                        alias.storage_offset())
      .clone();
}

// Returns whether the tensor's own memory has been freed, after a time in which most stores copy
// it.
bool has_left(const StoredTensor& stored, std::int64_t bytes) {
  constexpr std::chrono::milliseconds kMost(25);
  const Clock::time_point start = Clock::now();
  while (stored.device_bytes() >= bytes && Clock::now() - start < kMost) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return stored.device_bytes() < bytes;
}

StoreSample measure(ActivationStore& store, at::Tensor sample) {
  const c10::Device device = sample.device();
  const at::Tensor successor = at::clone(sample.narrow(
      0, 0, std::min<std::int64_t>(sample.numel(), kLeastStoredBytes / sample.element_size())));
  StoreSample measured{.bytes = static_cast<std::int64_t>(sample.nbytes()),
                       .copies_on_device = store.copies_on_device(sample)};
  synchronize(device);
  const Clock::time_point start = Clock::now();
  const std::unique_ptr<StoredTensor> stored = store.put(sample);
  measured.call_seconds = seconds_since(start);
  sample.reset();
  bool is_away = has_left(*stored, measured.bytes);
  measured.put_seconds = seconds_since(start);
  std::unique_ptr<StoredTensor> next;
  if (!is_away) {
    const Clock::time_point later = Clock::now();
    next = store.put(successor);
    measured.needs_successor = is_away = has_left(*stored, measured.bytes);
    measured.put_seconds = seconds_since(later);
  }
  measured.retained_bytes = is_away ? stored->device_bytes() : measured.bytes;
  const Clock::time_point back = Clock::now();
  static_cast<void>(stored->get());
  synchronize(device);
  measured.get_seconds = seconds_since(back);
  return measured;
}

}  // namespace

StoreProbe::StoreProbe(const Stores& stores, StoreRates known)
    : stores_(stores), rates_(std::move(known)) {}

void StoreProbe::look_at(const c10::OperatorHandle& op, std::size_t position,
                         const at::Tensor& result, std::int64_t room) {
  constexpr std::int64_t kCopies = 4;  // the sample, its successor, both in the store
  const auto bytes = std::min({static_cast<std::int64_t>(result.nbytes()), kMostSampleBytes,
                               room / kCopies / kLeastStoredBytes * kLeastStoredBytes});
  const StoreRates::Kind kind = StoreRates::kind_of(op, position);
  if (bytes < kLeastStoredBytes || samples_ == kMostSamples ||
      rates_.samples(kind) >= kSamplesPerKind || !is_keepable(result) ||
      !result.is_non_overlapping_and_dense()) {
    return;
  }
  ++samples_;
  const hooks_internal::UnseenScope unseen;
  std::vector<StoreSample> measured;
  for (const auto& store : stores_) {
    measured.push_back(measure(*store, sample_of(result, bytes)));
  }
  rates_.add(kind, measured);
}

}  // namespace reprise::engine_internal
