// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The comparisons of a replay's operators with forward's.
#include <c10/util/StringUtil.h>

#include <algorithm>

#include "reprise/engine/checks/saved_tensor_record.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/operators/random_draw.h"
#include "reprise/engine/watch/replay_watch.h"
#include "reprise/hooks/storage/alias.h"

namespace reprise::engine_internal {

// See Note [Shared generators].
void ReplayWatch::compare_draw(const OperatorCall& call, const Draw& draw) {
  if (position_of(draw.generator) == draw.position_after) {
    return;
  }
  const std::uint32_t origin =
      origins_.add(c10::str(describe_call(call), ", which ", describe_shared_draw(draw.generator)));
  const auto mark = [&](const at::Tensor& tensor) {
    made_.add(tensor, {.hash = kChanged, .origin = origin});
  };
  std::for_each(draw.written.begin(), draw.written.end(), mark);
  for (const c10::IValue& result : call.results()) {
    for_each_tensor(result, mark);
  }
}

// See Note [Wrapped memory].
void ReplayWatch::compare_wrapped(const OperatorCall& call,
                                  const std::vector<at::Tensor>& written) {
  const auto forward = matched_ && checks_outside_ ? forward_.wrapped_writes.find(*matched_)
                                                   : forward_.wrapped_writes.end();
  if (forward == forward_.wrapped_writes.end() || forward->second.size() != written.size()) {
    return;
  }
  const std::vector<Fingerprint> now = WrappedWrites::fingerprints(written);
  for (std::size_t i = 0; i < written.size(); ++i) {
    if (!Fingerprint::equal(now[i], forward->second[i])) {
      const std::uint32_t origin = origins_.add(
          c10::str(describe_call(call),
                   ", which writes to memory that the region wraps itself (from_blob) and "
                   "that forward has changed already. Wrap it before the region"));
      made_.add(written[i], {.hash = kChanged, .origin = origin});
    }
  }
}

void ReplayWatch::compare_reads(const OperatorCall& call, const ProvenanceMap::Call& described) {
  if (!matched_) {
    return;
  }
  const auto reads = forward_.reads_of(*matched_);
  const std::size_t count = std::min(reads.size(), described.outside.size());
  for (std::size_t i = 0; i < count && !change_; ++i) {
    const at::Tensor& tensor = *described.outside[i];
    const WatchedForward::Outside& outside = forward_.outside[reads[i].outside];
    const StorageId memory = outside.memory.id();
    const bool is_same_memory = memory == storage_id_of(tensor);
    const bool is_known = (is_same_memory || !outside.is_unidentified) &&
                          memory_.note_read(tensor, memory, reads[i].writes);
    if (is_known || !checks_outside_) {
      continue;
    }
    const auto report = [&](const auto&... what) {
      change_ = c10::str(call.op.operator_name(), " reads a tensor from outside the region, ",
                         TensorMetadata(tensor).to_string(), what...);
    };
    const std::int64_t version = version_of(tensor);
    // A transfer's backend may hold what forward's read, as Gloo's threads do for a while.
    const bool may_be_held = call.traits.transfer != Transfer::kNone &&
                             (is_dense_cpu(tensor) || !outside.memory.exists());
    const bool is_alive = outside.is_alive && !may_be_held;
    if (!is_same_memory) {
      if (is_alive) {
        report(", in other memory than the tensor that forward read there");
      } else if (!outside.is_wrapped && reads[i].writes == 0 &&
                 looked_at_.insert(reads[i].outside).second && outside.differs_from(tensor)) {
        report(", with other values than the tensor that forward read there, which is gone");
      }
      other_ = change_ ? tensor : at::Tensor();
    } else if (version != reads[i].version) {
      report(", at version ", version, ", forward read it at version ", reads[i].version);
      has_other_version_ = true;
    }
    const auto sample_now = [&] {
      return reads[i].is_of_elements ? sample_elements(tensor) : sample_wrapped(tensor);
    };
    if (!change_ && reads[i].sample != 0 && is_dense_cpu(tensor) &&
        sample_now() != reads[i].sample) {
      report(is_wrapped(tensor) ? ", whose memory (from_blob) holds" : ", whose memory holds",
             " other values than forward read there");
    }
  }
  if (!uncounted_.empty()) {
    compare_uncounted(call);
  }
  compare_inputs(call, described);
  if (inside_ && checks_outside_ && !change_) {
    compare_inside(call);
  }
  for (std::size_t i = 0; i < count && !change_ && checks_outside_; ++i) {
    const at::Tensor& tensor = *described.outside[i];
    if (is_overwritten(reads[i], tensor)) {
      change_ = c10::str(call.op.operator_name(), " reads a tensor from outside the region, ",
                         TensorMetadata(tensor).to_string(), kWrittenThroughPointer);
    }
  }
}

void ReplayWatch::compare_inputs(const OperatorCall& call, const ProvenanceMap::Call& described) {
  for (const at::Tensor* const input : described.inputs) {
    if (checks_outside_ && !change_ && inputs_.finds_change(*input)) {
      change_ = c10::str(call.op.operator_name(), " reads an input of the region, ",
                         TensorMetadata(*input).to_string(), kWrittenThroughPointer);
    }
  }
}

void ReplayWatch::compare_inside(const OperatorCall& call) {
  if (const auto tensor = inside_->find_change(*matched_, call, made_)) {
    change_ = c10::str(call.op.operator_name(), " reads a tensor that the region has made, ",
                       TensorMetadata(*tensor).to_string(),
                       ", and that the region's code has filled through a pointer, with other "
                       "values than in forward: the code reads memory from outside through a "
                       "pointer, which the recomputation does not write. Read it by an operator");
  }
}

// Looks at each tensor once, at its first read: the region's code may write to it later, as in
// forward.
bool ReplayWatch::is_overwritten(const WatchedForward::Read& read, const at::Tensor& tensor) {
  const WatchedForward::Outside& outside = forward_.outside[read.outside];
  const bool is_comparable = outside.contents != 0 && !outside.may_be_of_region &&
                             outside.memory.id() == storage_id_of(tensor) && read.writes == 0 &&
                             !memory_.hides(tensor) && !memory_.is_filled(outside.memory.id()) &&
                             read.version == outside.version && is_dense_cpu(tensor);
  if (!is_comparable || !looked_at_.insert(read.outside).second) {
    return false;
  }
  return sample_memory(tensor, outside.is_of_all_bytes) != outside.contents;
}

void ReplayWatch::find_uncounted(std::span<const at::Tensor> inputs) {
  if (!checks_outside_ || current_write_moment() == forward_.first_moment) {
    return;
  }
  const auto look_up = [this](const c10::StorageImpl* storage) {
    const auto last = last_uncounted_write(storage);
    if (last && is_after(*last, forward_.first_moment)) {
      uncounted_.emplace(storage, *last);
    }
  };
  for (const at::Tensor& input : inputs) {
    look_up(input.defined() ? storage_of(input) : nullptr);
  }
  for (const WatchedForward::Outside& outside : forward_.outside) {
    look_up(outside.memory.storage._unsafe_get_target());
  }
}

void ReplayWatch::compare_uncounted(const OperatorCall& call) {
  const OperatorTraits& traits = call.traits;
  for (std::uint32_t index = 0; index < call.arguments().size(); ++index) {
    if (traits.may_write(index)) {
      continue;  // of statistics that it reads, forward has a copy
    }
    for_each_tensor(call.argument(index), [&](const at::Tensor& tensor) {
      const auto last = uncounted_.find(storage_id_of(tensor));
      if (last != uncounted_.end() && !change_ && !memory_.is_filled(last->first) &&
          !memory_.hides(tensor) && is_after(last->second, forward_.operators[*matched_].moment)) {
        change_ = c10::str(call.op.operator_name(), " reads a tensor from outside the region, ",
                           TensorMetadata(tensor).to_string(), kWrittenUncounted);
      }
    });
  }
}

}  // namespace reprise::engine_internal
