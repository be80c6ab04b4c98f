// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The effect of writes in place on the values of a tape.
#include <algorithm>
#include <utility>

#include "reprise/engine/operators/operator_facts.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/operators/refillable_memory.h"
#include "reprise/engine/tape_recording/tape_recorder.h"

namespace reprise::engine_internal {
namespace {

using Why = Tape::Given::Why;

}  // namespace

// For an operator whose arguments do not go on the tape.
std::vector<TapeRecorder::Written> TapeRecorder::written_by(const OperatorCall& call) {
  targets_now_.clear();
  for (const std::uint32_t index : call.traits.written(call.arguments())) {
    for_each_tensor(call.argument(index),
                    [&](const at::Tensor& tensor) { look_up(tensor, use_of_targets(call)); });
  }
  return std::exchange(targets_now_, {});
}

// A pointer may have written to a target, which a later argument of the operator reveals.
void TapeRecorder::settle_targets() {
  for (Written& target : targets_now_) {
    if (const TapeValueId now = values_.current(target.memory); now != target.before) {
      give_instead(target.before, now);
      target.before = now;
    }
  }
}

// To the operator that runs.
void TapeRecorder::give_instead(TapeValueId value, TapeValueId other) {
  for (std::size_t i = first_argument_now_; i < tape_.arguments.size(); ++i) {
    Tape::Argument& argument = tape_.arguments[i];
    if (argument.kind == Tape::Argument::Kind::kTensor && argument.number == value.number()) {
      argument.number = static_cast<std::uint32_t>(other.number());
    }
  }
}

void TapeRecorder::prepare_writes(const OperatorCall& call, std::vector<Written>& written) {
  for (Written& write : written) {
    write.is_refill = refills(call.traits, write.tensor);
    write.is_arrival = call.traits.transfer == Transfer::kWait;
  }
  const bool is_run_again = !call.traits.returns_only_arguments ||
                            std::any_of(written.begin(), written.end(),
                                        [this](const Written& write) { return is_inside(write); });
  for (Written& write : written) {
    if (write.is_refill && values_.find(write.memory)->is_others_or_outside()) {
      prepare_refill(call, write);
    } else if (is_inside(write)) {
      prepare_write_inside(write);
    } else {
      prepare_write_outside(&call, write, is_run_again, !call.traits.undeclared);
    }
  }
}

// See Note [Refilled memory]. The operator depends on earlier contents only if it reads them.
void TapeRecorder::prepare_refill(const OperatorCall& call, Written& write) {
  const bool is_read =
      std::find(saved_now_.begin(), saved_now_.end(), write.before) == saved_now_.end() &&
      values_[write.before].is_read;
  if (values_.is_outside(write.memory) && is_read) {
    prepare_write_outside(&call, write, /*is_run_again=*/true, /*is_read_by_it=*/false);
  } else if (!is_read) {
    write.scratch = values_.add_unset(write.tensor);
    give_instead(write.before, write.scratch);
  }
}

// See Note [What is not on the tape].
void TapeRecorder::prepare_write_outside(const OperatorCall* call, const Written& write,
                                         bool is_run_again, bool is_read_by_it) {
  Tape::Given& before = tape_.given.at(write.before);
  if (before.why == Why::kCopied) {
    return;
  }
  // Batch norm saves its statistics and means the updated ones.
  const bool is_saved_for_later = !is_read_by_it && std::find(saved_now_.begin(), saved_now_.end(),
                                                              write.before) != saved_now_.end();
  const bool is_read = values_[write.before].is_read && !is_saved_for_later;
  if (is_read || (is_run_again && is_read_by_it)) {
    lookup_.copy(before, write.tensor,
                 call == nullptr ? at::Tensor() : state_before(*call, write.tensor));
  } else if (is_run_again) {
    before.why = Why::kScratch;
    if (before.parameter.defined()) {
      before.parameter.reset();
      before.kept = KeptResult(write.tensor);
      before.geometry = tables_.geometry_of(write.tensor);
    }
  }
}

// Also if an enclosing replay skips the write.
void TapeRecorder::note_lost(const Written& write) {
  Tape::Given* const before = values_.input(write.before);
  if (before != nullptr && before->why == Why::kOutside && !before->lost &&
      !before->parameter.defined()) {
    before->lost = describe_loss(*before);
  }
}

void TapeRecorder::note_writes(const OperatorCall& call, const std::vector<Written>& written,
                               bool is_run_again) {
  for (const Written& write : written) {
    pending_writes_.add(write.tensor, write.before, tape_.values.next_id(), call.traits.transfer,
                        whole_of(write.tensor));
    if (!call.traits.undeclared) {
      note_lost(write);
    }
    if (is_inside(write)) {
      note_write_inside(call, write);
      continue;
    }
    const TapeValueId after = values_.add_input(write.memory, write.tensor, Why::kOutside);
    pending_writes_.add_input(after);
    values_[after].is_statistics = call.traits.undeclared;
    values_[after].is_state = !call.traits.undeclared;
    values_[after].is_in_transfer = call.traits.delivers_later();
    if (is_run_again) {
      tape_.writes.push_back({write.before, Tape::kNone});
    }
  }
}

// Runs an operator that no replay repeats: its results become tape inputs.
void TapeRecorder::run_unseen(const OperatorCall& call) {
  std::vector<Written> written = written_by(call);
  std::erase_if(written, [](const Written& write) { return is_refillable(write.tensor); });
  if (call.traits.is_inplace_view) {
    run_reshaping(call, written);
    return;
  }
  for (const Written& write : written) {
    prepare_unseen_write(&call, write);
  }
  options_.retention->run(call, next(),
                          is_of_other_graph() ? RunsOnce::kNo : RunsOnce::kUnrecorded);
  for (const Written& write : written) {
    const bool is_outside = values_.is_outside(write.memory);
    note_lost(write);
    const TapeValueId after = values_.add_input(write.memory, write.tensor, Why::kOutOfSight);
    values_[after].is_state = is_outside;
    values_[after].is_in_transfer = call.traits.delivers_later();
    pending_writes_.add_input(after);
  }
}

void TapeRecorder::prepare_unseen_write(const OperatorCall* call, Written write) {
  if (values_.is_outside(write.memory)) {
    prepare_write_outside(call, write, /*is_run_again=*/false, /*is_read_by_it=*/true);
  } else {
    write.follows = false;
    prepare_write_inside(write);
  }
}

// The tensor changes, not the contents of its memory. But resize_() may enlarge the storage by a
// part that no operator fills.
void TapeRecorder::run_reshaping(const OperatorCall& call, const std::vector<Written>& written) {
  const auto bytes_of = [](const Written& write) {
    return write.tensor.has_storage() ? write.tensor.storage().nbytes() : 0;
  };
  std::vector<std::size_t> bytes;
  for (const Written& write : written) {
    bytes.push_back(bytes_of(write));
    prepare_stored(write);  // autograd counts it as a write
  }
  run_next(call);
  for (std::size_t i = 0; i < written.size(); ++i) {
    const Written& write = written[i];
    pending_writes_.add_input(write.before);  // likewise
    pending_writes_.add_reshaped(write.tensor, write.before);
    if (TapeValues::key_of(write.tensor) == write.memory && bytes_of(write) != bytes[i]) {
      prepare_unseen_write(nullptr, write);
      pending_writes_.add_input(values_.add_input(write.memory, write.tensor, Why::kOutOfSight));
    }
  }
}

}  // namespace reprise::engine_internal
