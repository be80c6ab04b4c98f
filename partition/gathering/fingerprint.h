// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#ifndef REPRISE_PARTITION_GATHERING_FINGERPRINT_H_
#define REPRISE_PARTITION_GATHERING_FINGERPRINT_H_

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace reprise::partition_internal {

// Of rows of bytes: other values have, but for chance, another one. Waits for the device.
std::string fingerprint(const std::vector<at::Tensor>& rows);

}  // namespace reprise::partition_internal

#endif  // REPRISE_PARTITION_GATHERING_FINGERPRINT_H_
