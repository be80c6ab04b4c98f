// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A tensor's values in host memory, and the way back to its device, shape and strides.
#ifndef REPRISE_HOOKS_INTERNAL_HOST_COPY_H_
#define REPRISE_HOOKS_INTERNAL_HOST_COPY_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/util/DimVector.h>

#include "reprise/hooks/export.h"

namespace reprise::hooks_internal {

class REPRISE_API HostCopy {
 public:
  // Copies `tensor` (dense of any strides, or sparse) to the host and waits for the copy. Elements
  // that several indices share (stride 0) are copied once. Dense copies are page-locked if
  // `pin_memory`. The source is not changed.
  HostCopy(const at::Tensor& tensor, bool pin_memory);

  // A new tensor on the original device with the original sizes and strides; without gaps if the
  // original's elements overlapped in memory in another way than by a stride of 0.
  [[nodiscard]] at::Tensor restore() const;

  // What is held on the host.
  [[nodiscard]] const at::Tensor& host() const { return host_; }

 private:
  at::Tensor host_;
  c10::Device device_;
  c10::DimVector sizes_;    // of the original; empty for sparse layouts
  c10::DimVector strides_;  // likewise
};

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_INTERNAL_HOST_COPY_H_
