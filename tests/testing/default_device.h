// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Runs code that names no device on a device of choice, as Python's torch.set_default_device()
// does.
#ifndef REPRISE_TESTS_TESTING_DEFAULT_DEVICE_H_
#define REPRISE_TESTS_TESTING_DEFAULT_DEVICE_H_

#include <c10/core/Device.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace reprise::testing {

// Until its end, operators that this thread calls make new tensors on `device` where the caller
// names none, and so do the backwards that this thread starts. One at a time.
class [[nodiscard]] DefaultDevice {
 public:
  explicit DefaultDevice(c10::Device device);

 private:
  const c10::impl::IncludeDispatchKeyGuard included_;
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TESTING_DEFAULT_DEVICE_H_
