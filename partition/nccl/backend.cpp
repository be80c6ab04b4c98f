// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "reprise/partition/backends/backends.h"

namespace reprise::partition_internal {

using c10d::ProcessGroupNCCL;

bool has_nccl_backend() { return at::globalContext().hasCUDA() && at::cuda::device_count() > 0; }

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const Meeting& meeting) {
  const auto options = ProcessGroupNCCL::Options::create();
  options->timeout = meeting.timeout;
  return c10::make_intrusive<ProcessGroupNCCL>(meeting.store, meeting.rank, meeting.size, options);
}

}  // namespace reprise::partition_internal
