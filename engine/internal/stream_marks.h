// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Orders the use of recomputed tensors after their recomputation. A replay runs on the stream of
// the node that asked first; nodes on other streams wait by an event.
#ifndef REPRISE_ENGINE_INTERNAL_STREAM_MARKS_H_
#define REPRISE_ENGINE_INTERNAL_STREAM_MARKS_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <memory>

#include "absl/container/inlined_vector.h"

namespace reprise::engine_internal {

class StreamMarks {
 public:
  // Marks the current stream of the tensor's device, unless that device is marked already.
  void mark(const at::Tensor& tensor);

  // Makes the current stream of the tensor's device wait for the mark, and the allocator wait for
  // that stream. Nothing happens if it is the marked stream.
  void order_use(const at::Tensor& tensor) const;

 private:
  struct Mark {
    c10::Stream stream;
    std::shared_ptr<c10::Event> event;
  };
  absl::InlinedVector<Mark, 1> marks_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_INTERNAL_STREAM_MARKS_H_
