// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The lossless stores on a device with streams of its own, late enough that what is read too early
// is wrong.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <limits>
#include <memory>

#include "reprise/hooks/compressed_store.h"
#include "reprise/hooks/disk_store.h"
#include "reprise/hooks/host_store.h"
#include "reprise/hooks/slab_store.h"
#include "reprise/hooks/stores.h"
#include "tests/device/device_cases.h"
#include "tests/hooks/lossless_store.h"
#include "tests/testing/bitwise.h"

namespace reprise::lossless_stores_test {
namespace {

using namespace device_cases;  // NOLINT(google-build-using-namespace)
using store_cases::LosslessStoreTest;
using store_cases::StoreCase;

using MakeStore = std::function<std::shared_ptr<ActivationStore>()>;

StoreCase on_test_device(std::string name, MakeStore make) {
  return {std::move(name), std::move(make), test_device()};
}

auto packed() { return stores::packed({.min_bytes = 0}); }
auto disk() { return stores::disk({.min_bytes = 0, .keep_last = 0}); }
auto compressed(double max_ratio) {
  return stores::compressed({.max_ratio = max_ratio,
                             .max_slowdown = std::numeric_limits<double>::infinity(),
                             .min_bytes = 0,
                             .keep_last = 0});
}

INSTANTIATE_TEST_SUITE_P(
    OnTheTestDevice, LosslessStoreTest,
    ::testing::Values(
        on_test_device("device", stores::device), on_test_device("packed", packed),
        on_test_device("packed_with_constants",
                       [] { return stores::packed({.min_bytes = 0, .find_constants = true}); }),
        on_test_device("host", [] { return stores::host(all()); }),
        on_test_device("host_as_it_comes", [] { return stores::host(); }),
        on_test_device("host_not_pinned",
                       [] {
                         return stores::host({.pin_memory = false, .min_bytes = 0, .keep_last = 0});
                       }),
        on_test_device("slab", [] { return stores::slab({.min_bytes = 0}); }),
        on_test_device("disk", disk), on_test_device("compressed", [] { return compressed(1e9); }),
        on_test_device("packed_host", [] { return packed() | stores::host(all()); }),
        on_test_device("packed_compressed_disk",
                       [] { return packed() | compressed(0.9) | disk(); }),
        on_test_device("small_host_disk",
                       [] {
                         return stores::host(
                                    {.min_bytes = 0, .max_host_bytes = 5000, .keep_last = 0}) |
                                disk();
                       })),
    [](const auto& info) { return info.param.name; });

// A kernel still has to write what is put, and one that is queued later overwrites its memory.
TEST_P(LosslessStoreTest, KeepsWhatTheStreamWillHaveWritten) {
  const at::Tensor values = at::arange(3000, at::kFloat);
  const at::Tensor ones = on_device(at::ones({3000}));
  at::Tensor found;
  {
    const DelayGuard late(
        {.kernel = milliseconds(3), .copy_out = milliseconds(5), .copy_in = milliseconds(5)});
    at::Tensor tensor = on_device(values) + ones;
    const auto stored = put(tensor);
    tensor.reset();
    for (int i = 0; i < 3; ++i) {
      static_cast<void>(ones * 7);
    }
    stored->prefetch();
    found = stored->get() * 2;
  }
  EXPECT_TRUE(testing::bitwise_equal(found.cpu(), (values + 1) * 2));
}

}  // namespace
}  // namespace reprise::lossless_stores_test
