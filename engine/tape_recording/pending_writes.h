// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The writes of the last operator, whose outcome shows only at the next event: autograd counts a
// write, if it does, when the operator has returned.
#ifndef REPRISE_ENGINE_TAPE_RECORDING_PENDING_WRITES_H_
#define REPRISE_ENGINE_TAPE_RECORDING_PENDING_WRITES_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/tape/tape.h"
#include "reprise/engine/tape_recording/tape_values.h"

namespace reprise::engine_internal {

// Lives as long as forward, on its thread.
class PendingWrites {
 public:
  // Both must outlive this.
  PendingWrites(Tape& tape, TapeValues& values) : tape_(tape), values_(values) {}

  // The retained tensor of a tape input has been written: its new version is the expected one.
  void add_input(TapeValueId value) { inputs_.push_back(value); }
  // The tensor is being written: its memory holds `after` instead of `before`. whole: the tensor of
  // which it is a part, where autograd counts the write; undefined if there is none.
  void add(const at::Tensor& tensor, TapeValueId before, TapeValueId after, Transfer transfer,
           const at::Tensor& whole = {}) {
    const std::int64_t version = version_of(whole.defined() ? whole : tensor);
    writes_.push_back({tensor, whole, version, before, after, transfer});
  }

  // The tensor is being reshaped, which counts a version.
  void add_reshaped(const at::Tensor& tensor, TapeValueId value) {
    reshaped_.emplace_back(tensor, value);
  }

  // The operator has returned. is_part: the operator on the whole, in whose place it has run, has
  // not: what it writes to parts of that is not settled yet.
  void settle(bool is_part) {
    if (!inputs_.empty() || !writes_.empty() || !reshaped_.empty()) {
      settle_all(is_part);
    }
  }

  // Slots of `from` hold the contents of `to`. For a write that autograd does not count (the noise
  // of rrelu): it saves a tensor before the operator writes to it, and means the contents after it.
  void move_slots(TapeValueId from, TapeValueId to);

 private:
  struct Write {
    at::Tensor tensor;
    at::Tensor whole;
    std::int64_t version;  // of that, or of the tensor, before it
    TapeValueId before;
    TapeValueId after;
    Transfer transfer;  // of the operator
  };
  void settle_all(bool is_part);
  // The same with the slots of assembled tensors, of which `from` is a part.
  void move_assembled(TapeValueId from, TapeValueId to);
  void note_saved(TapeValueId value);

  Tape& tape_;
  TapeValues& values_;
  std::vector<TapeValueId> inputs_;
  std::vector<Write> writes_;
  std::vector<std::pair<at::Tensor, TapeValueId>> reshaped_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_TAPE_RECORDING_PENDING_WRITES_H_
