// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/internal/stream_marks.h"

#include <ATen/DeviceAccelerator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

namespace reprise::engine_internal {
namespace {

bool has_streams(const at::Tensor& tensor) {
  return !tensor.is_cpu() && at::isAccelerator(tensor.device().type());
}

}  // namespace

void StreamMarks::mark(const at::Tensor& tensor) {
  if (!has_streams(tensor)) {
    return;
  }
  const c10::Device device = tensor.device();
  for (const Mark& mark : marks_) {
    if (mark.stream.device() == device) {
      return;
    }
  }
  const c10::Stream stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  auto event = std::make_shared<c10::Event>(device.type());
  event->record(stream);
  marks_.push_back({stream, std::move(event)});
}

void StreamMarks::order_use(const at::Tensor& tensor) const {
  for (const Mark& mark : marks_) {
    if (mark.stream.device() != tensor.device()) {
      continue;
    }
    const c10::Stream current =
        c10::impl::VirtualGuardImpl(tensor.device().type()).getStream(tensor.device());
    if (current != mark.stream) {
      mark.event->block(current);
      tensor.record_stream(current);
    }
  }
}

}  // namespace reprise::engine_internal
