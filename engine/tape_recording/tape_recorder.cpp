// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/tape_recording/tape_recorder.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/container/inlined_vector.h"
#include "reprise/engine/embedding/embedding_language.h"
#include "reprise/engine/operators/bypass.h"
#include "reprise/engine/operators/operator_facts.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/tape/tape_constants.h"
#include "reprise/hooks/seam/forwarding_engine.h"
#include "reprise/hooks/seam/hook_stack.h"

namespace reprise::engine_internal {
namespace {

using Kind = Tape::Argument::Kind;
using Why = Tape::Given::Why;

// For a copy between the host and a device, returns the argument that a replay sets to blocking.
// Forward's code waits outside the dispatcher before the host reads the received bytes or
// overwrites the sent ones; a replay cannot.
std::optional<std::uint32_t> argument_made_blocking(const OperatorCall& call) {
  const auto index = call.traits.non_blocking_argument;
  if (!index || !call.argument(*index).isBool() || !call.argument(*index).toBool()) {
    return std::nullopt;
  }
  bool has_host = false;
  for (const c10::IValue& argument : call.arguments()) {
    has_host = has_host || (argument.isDevice() && argument.toDevice().is_cpu());
    for_each_tensor(argument, [&](const at::Tensor& tensor) { has_host |= tensor.is_cpu(); });
  }
  return has_host ? index : std::nullopt;
}

// Kernels may read a tensor without memory through the dispatcher, whose key for these is excluded
// while a tape replay runs them.
bool is_zero_tensor(const c10::IValue& argument) {
  return argument.isTensor() && argument.toTensor()._is_zerotensor();
}

// Returns the tensor at a place among the operator's arguments on the tape, where the elements of a
// list follow its head.
const c10::TensorImpl* object_at(const OperatorCall& call, std::size_t place) {
  const auto object_of = [](const c10::IValue& value) {
    return value.isTensor() ? value.toTensor().unsafeGetTensorImpl() : nullptr;
  };
  for (const c10::IValue& argument : call.arguments()) {
    if (place-- == 0) {
      return object_of(argument);
    }
    if (argument.isTensorList() || argument.isOptionalTensorList()) {
      const auto elements = argument.toListRef();
      if (place < elements.size()) {
        return object_of(elements[place]);
      }
      place -= elements.size();
    }
  }
  return nullptr;
}

}  // namespace

TapeRecorder::TapeRecorder(Tape& tape, MemoryTable& memory, std::shared_ptr<Policy> policy,
                           const std::string& region, const Options& options,
                           OperatorInterceptor* next, PolicyRegion* enclosing)
    : TapeWriter(tape, memory, std::move(policy), region,
                 {.follows_parameters = options.follows_parameters,
                  .has_frontier = !options.retention->plans()},
                 next, enclosing),
      is_planned_(options.retention->plans()),
      lookup_(tape, tables_, values_, pending_writes_,
              {.bytes_left = options.state_limit_bytes, .of_refillable = is_planned_}),
      region_(region),
      options_(options) {
  tape_.recomputes_kept = options_.is_nested;
}

void TapeRecorder::intercept(const OperatorCall& call) {
  policy_region_.start_call();
  note_versions(/*is_part=*/wholes_ != nullptr);
  const OperatorTraits& traits = call.traits;
  if ((call.keys.has(c10::DispatchKey::Python) || wholes_ != nullptr) && run_parts(call)) {
    return;
  }
  if (traits.is_bookkeeping || (traits.is_view && !traits.is_inplace_view)) {
    run_next(call);
    return;
  }
  options_.retention->before_operator(tape_);
  lookup_.start_operator();
  refilled_.start_operator();
  read_now_.clear();
  targets_now_.clear();
  first_argument_now_ = static_cast<std::uint32_t>(tape_.arguments.size());
  const absl::Cleanup is_over = [this] { saved_now_.clear(); };
  Tape::Operator op{.op = call.op};
  op.first_argument = first_argument_now_;
  op.ordinal = calls_++;
  samples_now_ = traits.transfer == Transfer::kNone || traits.transfer == Transfer::kWait;
  StorageIdList memory;
  const Bypass* const bypass = current_bypass();
  const bool asks_no_policy = bypass != nullptr;
  const bool is_unrecorded = asks_no_policy && *bypass == Bypass::kPoliciesAndTapes;
  if (traits.is_inplace_view || traits.transfer == Transfer::kOneSided || is_unrecorded ||
      is_of_other_graph() || !encode_arguments(call, memory)) {
    leave_out(op);
    run_unseen(call);
    return;
  }
  op.end_argument = static_cast<std::uint32_t>(tape_.arguments.size());
  op.context = tables_.current_context(traits);
  op.is_cheap = traits.is_cheap;
  op.transfer = traits.transfer;
  op.is_hidden = asks_no_policy;
  has_transfers_ = has_transfers_ || traits.transfer != Transfer::kNone;
  settle_targets();
  std::vector<Written> written = std::exchange(targets_now_, {});
  prepare_writes(call, written);
  std::optional<RandomDraw> draw = begin_draw(call, options_.preserves_rng);
  const auto now = call.arguments();
  const absl::InlinedVector<c10::IValue, 8> arguments(now.begin(), now.end());
  run_next(call);
  if (commit(call, op, written, memory)) {
    note_draw(std::move(draw), traits);
    if (is_planned_) {
      retain_last(call, written);
    } else if (!asks_no_policy) {
      policy_region_.decide(call, arguments);
    }
    values_.note_last(call.results());
  }
}

// A backward inside the region has no graph, and perhaps effects on gradients, or runs on threads
// of its own; unless its own gradients are to have gradients, see Note [Gradients of gradients].
bool TapeRecorder::is_of_other_graph() const {
  return is_in_backward_inside(backward_) && !(c10::GradMode::is_enabled() && is_on_its_thread());
}

TapeLookup::Found TapeRecorder::look_up(const at::Tensor& tensor, Use use, const at::Tensor& state,
                                        const at::Tensor& whole) {
  const bool is_within = use == Use::kRead && !targets_now_.empty() &&
                         std::any_of(targets_now_.begin(), targets_now_.end(),
                                     [memory = TapeValues::key_of(tensor)](const Written& target) {
                                       return target.memory == memory;
                                     });
  const TapeLookup::Found found =
      lookup_.find(tensor, is_within ? Use::kCopiedWithin : use, state, whole);
  if (found.is_first_read) {
    read_now_.push_back(found.tensor.value);
  }
  if (found.is_refillable || refilled_.has_any()) {
    note_refillable(found, is_within ? Use::kCopiedWithin : use, tensor);
  }
  if (!TapeLookup::is_read(use)) {
    note_target(tensor, found.tensor.value);
  }
  return found;
}

Tape::Tensor TapeRecorder::slot(const at::Tensor& tensor, bool is_input) {
  note_versions();
  read_now_.clear();
  std::optional<Tape::Tensor> assembled;
  if (is_of_language(tensor)) {
    assembled = assemble(tensor);
  }
  Tape::Tensor found = assembled ? *assembled : save(tensor);
  found.is_input = is_input;
  saved_now_.insert(saved_now_.end(), read_now_.begin(), read_now_.end());
  read_now_.clear();
  return found;
}

Tape::Tensor TapeRecorder::save(const at::Tensor& tensor) {
  const Tape::Tensor found = look_up(tensor, Use::kSaved).tensor;
  values_[found.value].saved_at_version = version_of(tensor);
  if (options_.retention->retains_saved(tensor)) {
    retain_saved(tensor, found.value);
  }
  return found;
}

// No replay runs the operator, so its inputs do not count as read.
void TapeRecorder::leave_out(const Tape::Operator& op) {
  tape_.arguments.erase(tape_.arguments.begin() + op.first_argument, tape_.arguments.end());
  for (const TapeValueId value : read_now_) {
    values_[value].is_read = false;
  }
  read_now_.clear();
}

bool TapeRecorder::encode_arguments(const OperatorCall& call, StorageIdList& memory) {
  const auto arguments = call.arguments();
  const auto& written = call.traits.written(arguments);
  const auto& statistics = call.traits.read_statistics(arguments);
  const std::optional<std::uint32_t> made_blocking = argument_made_blocking(call);
  const c10::IValue blocking(false);
  arrives_later_now_ = made_blocking.has_value();
  for (std::uint32_t index = 0; index < arguments.size(); ++index) {
    const auto is_among = [index](const std::vector<std::uint32_t>& indices) {
      return std::find(indices.begin(), indices.end(), index) != indices.end();
    };
    const Use use = is_among(written)      ? use_of_targets(call)
                    : is_among(statistics) ? Use::kReadStatistics
                                           : Use::kRead;
    const bool is_as_given = index != made_blocking;
    if (!encode(call, is_as_given ? arguments[index] : blocking, use, memory)) {
      return false;
    }
  }
  return true;
}

bool TapeRecorder::encode(const OperatorCall& call, const c10::IValue& argument, Use use,
                          StorageIdList& memory) {
  if (is_zero_tensor(argument)) {
    return false;
  }
  if (argument.isTensor()) {
    encode_tensor(call, argument.toTensor(), use, memory);
    return true;
  }
  if (argument.isTensorList() || argument.isOptionalTensorList()) {
    const auto elements = argument.toListRef();
    if (std::any_of(elements.begin(), elements.end(), &is_zero_tensor)) {
      return false;
    }
    tape_.arguments.push_back(
        {argument.isTensorList() ? Kind::kTensorList : Kind::kOptionalTensorList,
         static_cast<std::uint32_t>(elements.size()), GeometryId()});
    for (const c10::IValue& element : elements) {
      encode_tensor(call, element.isTensor() ? element.toTensor() : at::Tensor(), use, memory);
    }
    return true;
  }
  if (!is_constant(argument)) {
    return false;
  }
  tape_.arguments.push_back(
      {Kind::kConstant, tables_.constant(with_device_index(argument)), GeometryId()});
  return true;
}

void TapeRecorder::encode_tensor(const OperatorCall& call, const at::Tensor& tensor, Use use,
                                 StorageIdList& memory) {
  samples_now_ = samples_now_ && (!tensor.defined() || tensor.is_cpu());
  // LibTorch wraps numbers into tensors, and releases these, outside the dispatcher.
  if (!tensor.defined() || tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    tape_.arguments.emplace_back(Kind::kConstant, tables_.constant(tensor), GeometryId());
    if (tensor.defined()) {
      memory.push_back(TapeValues::key_of(tensor));
    }
    return;
  }
  const at::Tensor state = TapeLookup::is_read(use) ? state_before(call, tensor) : at::Tensor();
  if (use == Use::kReadStatistics && options_.statistics != nullptr) {
    options_.statistics->note_read(tensor, TapeValues::copy_of(state.defined() ? state : tensor));
  }
  const at::Tensor whole = whole_of(tensor);
  const TapeLookup::Found looked_up = look_up(tensor, use, state, whole);
  const Tape::Tensor& found = looked_up.tensor;
  if (whole.defined()) {
    note_whole(found.value, whole);
  }
  memory.push_back(looked_up.memory);
  values_[found.value].is_statistics = false;
  const auto place = static_cast<std::uint32_t>(tape_.arguments.size()) - first_argument_now_;
  if (is_planned_ && use == Use::kRead &&
      options_.retention->copies(call.op, calls_ - 1, place, tensor)) {
    lookup_.note_rewritten(found.value, tensor);
  }
  const bool is_first = tape_.arguments.size() == first_argument_now_;
  tape_.arguments.emplace_back(Kind::kTensor, found.value.number(), found.geometry,
                               is_first ? 0 : place_of_same(call, tensor, found));
}

std::uint8_t TapeRecorder::place_of_same(const OperatorCall& call, const at::Tensor& tensor,
                                         const Tape::Tensor& recorded) const {
  constexpr std::size_t kMost = 255;
  const std::size_t end = std::min(tape_.arguments.size(), first_argument_now_ + kMost);
  for (std::size_t i = first_argument_now_; i < end; ++i) {
    const Tape::Argument& other = tape_.arguments[i];
    if (other.kind == Kind::kTensor && other.number == recorded.value.number() &&
        other.geometry == recorded.geometry) {
      const std::size_t place = i - first_argument_now_;
      if (object_at(call, place) == tensor.unsafeGetTensorImpl()) {
        return static_cast<std::uint8_t>(place + 1);
      }
    }
  }
  return 0;
}

bool TapeRecorder::is_unset(const at::Tensor& tensor) const {
  const TapeValues::Memory* const found = values_.find(TapeValues::key_of(tensor));
  return found != nullptr && values_[found->current].has_unset_parts;
}

bool TapeRecorder::commit(const OperatorCall& call, Tape::Operator& op,
                          const std::vector<Written>& written, const StorageIdList& arguments) {
  op.first_made = static_cast<std::uint32_t>(tape_.made.size());
  op.first_write = static_cast<std::uint32_t>(tape_.writes.size());
  note_results(call, arguments);
  const bool has_made = tape_.made.size() > op.first_made;
  const bool writes_inside = std::any_of(written.begin(), written.end(),
                                         [this](const Written& write) { return is_inside(write); });
  if (!has_made && !writes_inside) {
    note_writes(call, written, /*is_run_again=*/false);
    leave_out(op);
    return false;
  }
  note_writes(call, written, /*is_run_again=*/true);
  push_operator(op);
  return true;
}

}  // namespace reprise::engine_internal
