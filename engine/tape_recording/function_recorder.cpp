// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/tape_recording/function_recorder.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "reprise/engine/embedding/embedding_language.h"
#include "reprise/engine/errors.h"
#include "reprise/engine/operators/operator_facts.h"
#include "reprise/engine/recomputing.h"

namespace reprise::engine_internal {
namespace {

using Arguments = absl::InlinedVector<c10::IValue, 8>;
using Shapes = std::vector<std::vector<std::int64_t>>;

// The shapes of the tensors that the operator writes to; out= may change them.
Shapes shapes_written(const Arguments& arguments, const OperatorTraits& traits) {
  Shapes shapes;
  if (!traits.undeclared) {
    for (const std::uint32_t index : traits.written_arguments) {
      for_each_tensor(arguments[index],
                      [&](const at::Tensor& tensor) { shapes.push_back(tensor.sizes().vec()); });
    }
  }
  return shapes;
}

// Returns whether a result is an alias of an argument, as of _unsafe_view, though its schema does
// not say so, or two results are aliases of each other.
bool has_undeclared_aliases(const OperatorCall& call, const StorageIdList& arguments) {
  StorageIdList made;
  bool is_any = false;
  const auto results = call.results();
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (call.traits.result_arguments[i]) {
      continue;
    }
    for_each_tensor(results[i], [&](const at::Tensor& tensor) {
      const StorageId memory = storage_id_of(tensor);
      is_any = is_any || std::find(arguments.begin(), arguments.end(), memory) != arguments.end() ||
               std::find(made.begin(), made.end(), memory) != made.end();
      made.push_back(memory);
    });
  }
  return is_any;
}

}  // namespace

FunctionRecorder::FunctionRecorder(FunctionTape& tape, WatchedForward& watched,
                                   std::shared_ptr<Policy> policy, const std::string& region,
                                   bool preserves_rng, OperatorInterceptor* next,
                                   PolicyRegion* enclosing)
    : TapeWriter(tape.tape, watched.memory(), std::move(policy), region, {.samples_results = false},
                 next, enclosing),
      function_(tape),
      watched_(watched),
      preserves_rng_(preserves_rng),
      may_share_results_(enclosing != nullptr || is_recomputing()),
      enclosing_(enclosing) {}

void FunctionRecorder::intercept(const OperatorCall& call) {
  policy_region_.start_call();
  note_versions();
  const OperatorTraits& traits = call.traits;
  note_wrappers(call);
  if (traits.is_bookkeeping || (traits.is_view && !traits.is_inplace_view)) {
    pass_on(call);
    return;
  }
  Tape::Operator op{.op = call.op};
  op.ordinal = static_cast<std::uint32_t>(watched_.operators.size());
  op.is_cheap = traits.is_cheap;
  op.transfer = traits.transfer;
  op.is_hidden = is_untraced(call) || is_in_backward_inside(backward_);
  has_transfers_ = has_transfers_ || traits.transfer != Transfer::kNone;
  const StorageIdList memory = note_arguments(call, op);
  std::vector<Written> written = std::exchange(targets_now_, {});
  prepare_writes(call, op, written);
  std::optional<RandomDraw> draw =
      begin_draw(call, preserves_rng_ && !op.is_hidden && !traits.is_inplace_view);
  const auto now = call.arguments();
  const Arguments given(now.begin(), now.end());
  const Shapes shapes = shapes_written(given, traits);
  pass_on(call);
  op.is_hidden = op.is_hidden || op.ordinal == watched_.operators.size();
  op.is_required = op.is_required || op.is_hidden;
  is_resizing_now_ = !shapes.empty() && shapes_written(given, traits) != shapes;
  const bool asks = !op.is_hidden && !traits.is_inplace_view;
  if (!note_outcome(call, op, written, memory)) {
    return;
  }
  note_draw(std::move(draw), traits);
  const Tape::Operator& noted = tape_.operators.back();
  if (asks && (noted.first_made < noted.end_made || has_last_written())) {
    policy_region_.decide(call, given);
  }
  values_.note_last(call.results());
}

void FunctionRecorder::note_wrappers(const OperatorCall& call) {
  for (const c10::IValue& argument : call.arguments()) {
    for_each_tensor(argument, [&](const at::Tensor& tensor) {
      has_unknown_parts_ = has_unknown_parts_ || is_wrapper_in_cpp(tensor);
    });
  }
}

void FunctionRecorder::prepare_writes(const OperatorCall& call, Tape::Operator& op,
                                      std::vector<Written>& written) {
  const OperatorTraits& traits = call.traits;
  const bool is_wait = traits.transfer == Transfer::kWait;
  op.is_required = op.is_required || op.is_hidden || traits.is_inplace_view ||
                   traits.is_host_read || (traits.transfer != Transfer::kNone && !is_wait) ||
                   (!written.empty() && !traits.returns_only_arguments);
  is_lone_write_now_ = written.size() == 1 && !op.is_required &&
                       traits.result_arguments.size() == 1 &&
                       call.argument(*traits.result_arguments[0]).isTensor();
  for (Written& write : written) {
    if (traits.is_inplace_view) {
      prepare_stored(write);  // autograd counts it as a write
      continue;
    }
    write.is_arrival = is_wait;
    write.follows = !op.is_required;
    prepare_write_inside(write);
  }
  op.is_required = op.is_required || is_wait;
}

StorageIdList FunctionRecorder::note_arguments(const OperatorCall& call, Tape::Operator& op) {
  StorageIdList memory;
  op.first_argument = static_cast<std::uint32_t>(tape_.arguments.size());
  const auto arguments = call.arguments();
  const auto& written = call.traits.written(arguments);
  for (std::uint32_t index = 0; index < arguments.size(); ++index) {
    const bool is_written = std::find(written.begin(), written.end(), index) != written.end();
    for_each_tensor(arguments[index], [&](const at::Tensor& tensor) {
      memory.push_back(storage_id_of(tensor));
      const TapeValues::Memory* const known = values_.find(TapeValues::key_of(tensor));
      if (known == nullptr) {
        op.is_required = op.is_required || is_written;  // an effect
        return;
      }
      const TapeValueId value = known->current;
      values_.note_arrival(value, tensor);
      tape_.arguments.emplace_back(Tape::Argument::Kind::kTensor,
                                   static_cast<std::uint32_t>(value.number()), GeometryId());
      if (is_written) {
        note_target(tensor, value);
      }
    });
  }
  op.end_argument = static_cast<std::uint32_t>(tape_.arguments.size());
  return memory;
}

bool FunctionRecorder::note_outcome(const OperatorCall& call, Tape::Operator& op,
                                    const std::vector<Written>& written,
                                    const StorageIdList& arguments) {
  const OperatorTraits& traits = call.traits;
  op.first_made = static_cast<std::uint32_t>(tape_.made.size());
  op.first_write = static_cast<std::uint32_t>(tape_.writes.size());
  const bool is_alias = has_undeclared_aliases(call, arguments);
  std::optional<ResultList::Range> results;
  if (!op.is_hidden && !traits.is_inplace_view && !is_alias) {
    results = function_.results.append(call.results());
  }
  can_keep_now_ = results.has_value();
  if (!op.is_hidden && !traits.is_inplace_view) {
    note_results(call, arguments);
  }
  op.is_required = op.is_required || is_resizing_now_ || !results;
  for (const Written& write : written) {
    note_write(call, write, arguments);
  }
  const bool is_outcome = tape_.made.size() > op.first_made || tape_.writes.size() > op.first_write;
  const bool reads = op.end_argument > op.first_argument && !(is_alias && written.empty());
  if (!is_outcome && !reads) {  // making a view reads no element
    tape_.arguments.erase(tape_.arguments.begin() + op.first_argument, tape_.arguments.end());
    return false;
  }
  push_operator(op);
  tape_.for_each_tensor_argument(tape_.operators.back(), [this](const Tape::Tensor& argument) {
    values_[argument.value].is_read = true;
  });
  function_.results_of.push_back(results);
  return true;
}

void FunctionRecorder::note_made(const OperatorCall& call, TapeValueId value,
                                 const at::Tensor& tensor) {
  TapeValues::Info& info = values_[value];
  info.is_constant = call.traits.is_factory;
  info.may_keep = can_keep_now_ && !info.is_constant;
  info.is_needed = is_of_language(tensor);
  if (info.is_constant) {
    info.sample = sample_memory(tensor, /*of_all_bytes=*/false);
  }
  if (may_share_results_ || InterceptionScope::current() != this) {
    owned_by_others_.insert_or_assign(value, WeakTensor(tensor.getIntrusivePtr()));
  }
}

void FunctionRecorder::note_write(const OperatorCall& call, Written write,
                                  const StorageIdList& arguments) {
  const bool is_reshaped = call.traits.is_inplace_view;
  if (is_reshaped) {
    pending_writes_.add_input(write.before);  // autograd counts it as a write
    pending_writes_.add_reshaped(write.tensor, write.before);
    const bool has_grown =
        TapeValues::key_of(write.tensor) == write.memory && write.tensor.has_storage() &&
        static_cast<std::int64_t>(write.tensor.storage().nbytes()) != values_[write.before].bytes;
    if (!has_grown) {
      return;
    }
    write.follows = false;
    prepare_write_inside(write);
  }
  if (is_resizing_now_ && write.follows) {
    values_.forget(write.before);
    write.follows = false;
  }
  const bool was_constant = values_[write.before].is_constant;
  pending_writes_.add(write.tensor, write.before, tape_.values.next_id(), call.traits.transfer);
  note_write_inside(call, write);
  if (is_resizing_now_) {
    tape_.writes.back().reshaped = tables_.geometry_of(write.tensor);
  }
  TapeValues::Info& info = values_[tape_.writes.back().after];
  info.is_read = true;  // the memory, if not these contents
  // It takes no other tensor than the one that it writes to.
  info.is_constant = was_constant && is_lone_write_now_ && arguments.size() == 1 &&
                     !call.traits.is_random && !is_reshaped;
  info.may_keep = !info.is_constant && can_keep_now_;
  info.sample = info.is_constant ? sample_memory(write.tensor, /*of_all_bytes=*/false) : 0;
}

void FunctionRecorder::decide_last(const PolicyAnswer& answer, c10::ArrayRef<c10::IValue> results) {
  const bool may_keep_writes =
      can_keep_now_ && is_lone_write_now_ && (!is_resizing_now_ || is_must(answer.policy));
  if (!has_last_written() || !keeps(answer.policy) || may_keep_writes) {
    TapeWriter::decide_last(answer, results);
    return;
  }
  Tape::Operator& op = tape_.operators.back();
  op.decision = answer.policy;
  op.is_asked = true;
  if (is_must(answer.policy)) {
    const c10::OperatorName& name = op.op.operator_name();
    throw CheckpointError(c10::str(
        "[checkpoint] the policy's answer for operator ", op.ordinal, ", ", name, " is ",
        to_string(op.decision),
        ", but what it has written in place cannot be kept: it has written to several "
        "tensors, or has further results",
        name.name.starts_with("c10d::") ? ". Of collectives, those of _c10d_functional can be kept"
                                        : ""));
  }
}

Tape::Tensor FunctionRecorder::slot(const at::Tensor& tensor) {
  need_parts(tensor);
  const TapeValues::Memory* const known = values_.find(TapeValues::key_of(tensor));
  if (known == nullptr) {
    return {};
  }
  const TapeValueId value = known->current;
  values_.note_arrival(value, tensor);
  values_[value].saved_at_version = version_of(tensor);
  return {value, GeometryId()};
}

void FunctionRecorder::note_saved_elsewhere(const at::Tensor& tensor) {
  need_parts(tensor);
  need(TapeValues::key_of(tensor));
}

void FunctionRecorder::need(StorageId memory) {
  if (const TapeValues::Memory* const known = values_.find(memory)) {
    values_[known->current].is_needed = true;
  }
}

// See Note [Parts].
void FunctionRecorder::need_parts(const at::Tensor& tensor) {
  if (!is_of_language(tensor)) {
    return;
  }
  std::vector<at::Tensor> parts;
  if (append_parts(tensor, parts)) {
    for (const at::Tensor& part : parts) {
      need(TapeValues::key_of(part));
    }
  } else if (!is_inside(TapeValues::key_of(tensor))) {
    has_unknown_parts_ = true;
  }
}

}  // namespace reprise::engine_internal
