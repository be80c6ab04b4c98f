// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include <c10/util/Exception.h>

#include "reprise/partition/backends/backends.h"

namespace reprise::partition_internal {

bool has_nccl_backend() { return false; }

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const Meeting& /*meeting*/) {
  C10_THROW_ERROR(NotImplementedError,
                  "[partition] NCCL is not available: Reprise was built without it; it needs "
                  "LibTorch with CUDA, nccl.h, and REPRISE_WITH_NCCL=ON");
}

}  // namespace reprise::partition_internal
