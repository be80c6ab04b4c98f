// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/watch/watched_forward.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/clone.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "reprise/engine/operators/autograd_facts.h"
#include "reprise/engine/operators/bypass.h"
#include "reprise/engine/operators/operator_facts.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/operators/random_draw.h"
#include "reprise/hooks/seam/hook_stack.h"
#include "reprise/hooks/storage/alias.h"

namespace reprise::engine_internal {

namespace {

MemorySample sample_values(const at::Tensor& tensor) {
  if (is_leaf_with_gradient(tensor) || !tensor.is_cpu()) {
    return 0;
  }
  if (ProvenanceMap::is_object(tensor)) {
    return sample_object(tensor);
  }
  return is_dense_cpu(tensor) ? sample_elements(tensor) : 0;
}

std::int64_t offset_of(const at::Tensor& input) {
  return input.defined() && ProvenanceMap::is_followed(input) ? input.storage_offset() : 0;
}

}  // namespace

WatchedForward::Input::Input(const at::Tensor& tensor, std::uint32_t number)
    : memory(tensor), number(number), offset(offset_of(tensor)) {}

std::int64_t WatchedForward::Input::shift_of(const at::Tensor& replayed) const {
  return offset_of(replayed) - offset;
}

WatchedForward::WatchedForward(std::span<const at::Tensor> region_inputs, std::int64_t copied_bytes)
    : written(copied_bytes),
      input_samples(region_inputs),
      first_node_(at::sequence_number::peek()) {
  for (std::uint32_t i = 0; i < region_inputs.size(); ++i) {
    const at::Tensor& input = region_inputs[i];
    Input& added = inputs.emplace_back(input, i);
    if (!input.defined()) {
      continue;
    }
    const StorageId memory = added.memory.id();
    const auto first = std::find_if(inputs.begin(), inputs.end(), [&](const Input& each) {
      return memory != nullptr && each.memory.id() == memory;
    });
    added.number = first == inputs.end() ? i : first->number;
    has_wrappers_ = has_wrappers_ || is_wrapper_in_cpp(input);
    made_.add_input(input, added.number, 0);
  }
}

WatchedForward::WeakMemory::WeakMemory(const at::Tensor& tensor)
    : storage(weak_storage_of(tensor)),
      object(tensor.defined() && ProvenanceMap::is_object(tensor)
                 ? tensor.getIntrusivePtr()
                 : c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>()) {}

WatchedForward::Outside::Outside(const at::Tensor& tensor)
    : memory(tensor),
      sample(sample_values(tensor)),
      contents(is_leaf_with_gradient(tensor) || !is_dense_cpu(tensor)
                   ? 0
                   : sample_memory(tensor, !tensor.requires_grad())),
      is_of_all_bytes(!tensor.requires_grad()),
      is_whole(covers_storage(tensor)),
      version(version_of(tensor)),
      is_wrapped(engine_internal::is_wrapped(tensor)) {}

bool WatchedForward::Outside::differs_from(const at::Tensor& tensor) const {
  const bool is_of_all = is_of_all_bytes && contents != 0;
  if (is_of_all && is_whole && is_dense_cpu(tensor) && covers_storage(tensor)) {
    return sample_memory(tensor, /*of_all_bytes=*/true) != contents;
  }
  const MemorySample other = sample == 0 ? 0 : sample_values(tensor);
  return other != 0 && other != sample;
}

bool WatchedForward::is_unidentified(const at::Tensor& tensor) const {
  return may_be_of_wrapper(tensor) || may_be_of_region(tensor);
}

bool WatchedForward::may_be_of_wrapper(const at::Tensor& tensor) const {
  return has_wrappers_ && !is_leaf_with_gradient(tensor);
}

bool WatchedForward::may_be_of_region(const at::Tensor& tensor) const {
  if (tensor.has_storage() && is_non_owning(tensor)) {
    return true;
  }
  const torch::autograd::Node* const node = node_of(tensor);
  if (node == nullptr) {
    return is_wrapper(tensor) && !tensor.requires_grad();  // its constructor is no operator
  }
  const bool is_from_other_thread = node->thread_id() != at::RecordFunction::currentThreadId();
  // A write to a tensor from outside gives it a new node, too.
  const bool is_made_by_region =
      node->sequence_nr() >= first_node_ && !written.contains(storage_id_of(tensor));
  return is_from_other_thread || is_made_by_region;
}

SlotProvenance WatchedForward::of_slot(const at::Tensor& tensor) const {
  if (!is_on_its_thread()) {
    return {};
  }
  const auto* const entry = made_.find(storage_id_of(tensor));
  const Provenance known = made_.of(tensor, entry);
  const Provenance hash = ProvenanceMap::is_opaque(known) ? 0 : known;
  if (entry == nullptr) {
    const bool is_captured = ProvenanceMap::is_followed(tensor) && !is_unidentified(tensor);
    return {.hash = hash, .is_captured = is_captured};
  }
  return {.hash = hash, .of_memory = entry->hash, .is_unset = entry->is_unset};
}

const ProvenanceMap::Entry* WatchedForward::left_over(StorageId memory) const {
  if (!is_complete) {
    return is_on_its_thread() ? made_.find(memory) : nullptr;
  }
  const auto found = left_.find(memory);
  return found == left_.end() ? nullptr : &found->second;
}

std::span<const WatchedForward::Read> WatchedForward::reads_of(std::uint32_t op) const {
  const std::size_t first = operators[op].first_read;
  const std::size_t end = op + 1 < operators.size() ? operators[op + 1].first_read : reads.size();
  return std::span(reads).subspan(first, end - first);
}

std::vector<StorageId> WatchedForward::freed() const {
  std::vector<StorageId> freed;
  written.append_freed(freed);
  for (const auto& [memory, entry] : left_) {
    const auto storage = entry.storage.lock();
    if (storage && storage->nbytes() == 0) {
      freed.push_back(memory);
    }
  }
  return freed;
}

void WatchedForward::note_inside(const at::Tensor& parameter) {
  const StorageId memory = storage_id_of(parameter);
  if (std::none_of(inputs.begin(), inputs.end(),
                   [&](const Input& input) { return input.memory.id() == memory; })) {
    assigned_.note(parameter);
  }
}

std::optional<AssignedData::Guard> WatchedForward::guard_assigned() const {
  return is_complete || is_on_its_thread() ? std::make_optional<AssignedData::Guard>(assigned_)
                                           : std::nullopt;
}

void WatchedForward::complete() {
  is_complete = true;
  for (Outside& each : outside) {
    each.is_alive = !each.is_unidentified && each.memory.exists();
  }
  left_ = made_.take_alive();
  for (const Input& input : inputs) {
    left_.erase(input.memory.id());
  }
  assigned_.complete();
  number_of_outside_ = {};
  if (inside_samples != nullptr) {
    inside_samples->complete();
  }
  std::erase_if(generators, [](const RngState& state) {
    constexpr std::size_t kOurs = 2;                                  // here and in `drawn`
    return state.generator().getIntrusivePtr().use_count() == kOurs;  // the region's own
  });
  operators.shrink_to_fit();
  reads.shrink_to_fit();
}

bool ForwardWatch::is_outside(const at::Tensor& tensor) const {
  return forward_.made_.find(storage_id_of(tensor)) == nullptr;
}

void ForwardWatch::note_recomputed(const at::Tensor& tensor, StorageId saved,
                                   Provenance provenance) {
  forward_.made_.note_recomputed(tensor, saved, provenance);
  ChainedInterceptor::note_recomputed(tensor, saved, provenance);
}

// It may run other operators in a replay, but must read the same tensors from outside.
void ForwardWatch::intercept_hidden(const OperatorCall& call) {
  for (const at::Tensor* const tensor : forward_.made_.call_of(call).outside) {
    forward_.hidden_reads.insert_or_assign(storage_id_of(*tensor), version_of(*tensor));
    forward_.written.note_read(*tensor);
  }
  note_targets(call);
  forward_.made_.note_hidden_writes(call);
  pass_on(call);
  forward_.made_.note_hidden_results(call);
}

void ForwardWatch::intercept(const OperatorCall& call) {
  settle();
  const OperatorTraits& traits = call.traits;
  if (traits.is_view) {
    const bool is_opaque = ProvenanceMap::views_opaque(call);
    pass_on(call);
    if (is_opaque) {
      forward_.made_.note_views(call);
    }
    return;
  }
  if (traits.transfer != Transfer::kNone) {
    forward_.has_new_transfer = true;
  }
  ProvenanceMap& made = forward_.made_;
  if (is_bypassed()) {
    intercept_hidden(call);
    return;
  }
  if (is_cast_of_parameter(call)) {
    pass_on(call);
    made.note_cast(call);
    return;
  }
  const ProvenanceMap::Call described = made.call_of(call);
  for (const at::Tensor* const parameter : described.parameters_inside) {
    forward_.note_inside(*parameter);
  }
  const auto index = static_cast<std::uint32_t>(forward_.operators.size());
  forward_.operators.push_back({described.hash, &call.op.operator_name(),
                                static_cast<std::uint32_t>(forward_.reads.size()),
                                current_write_moment()});
  note_reads(call, described);
  if (!traits.written_arguments.empty()) {
    note_targets(call);
    note_befores(call);
  }
  if (traits.undeclared) {
    note_statistics(call);
  }
  if (forward_.inside_samples != nullptr) {
    forward_.inside_samples->writes().start(call);
  }
  made.note_writes(call, described, ProvenanceMap::kNone);
  const at::Generator generator = generator_of(call);
  const std::uint64_t position =
      traits.may_draw && generator.defined() ? position_of(generator) : 0;
  if (generator.defined()) {
    note_generator(generator);
  }
  const std::vector<at::Tensor> wrapped =
      described.has_unknown ? forward_.writes_.targets(call, made) : std::vector<at::Tensor>();
  const bool is_read_of_outside = traits.is_host_read && !described.outside.empty() &&
                                  described.outside.size() == described.arguments.size();
  pass_on(call);
  if (generator.defined() && (traits.is_random || position_of(generator) != position)) {
    forward_.positions.emplace(index, position_of(generator));
  }
  if (!wrapped.empty()) {
    forward_.wrapped_writes.emplace(index, WrappedWrites::fingerprints(wrapped));
  }
  if (is_read_of_outside) {
    forward_.host_reads.emplace(index, call.results().vec());
  }
  made.note_results(call, described, ProvenanceMap::kNone);
  if (forward_.inside_samples != nullptr) {
    forward_.inside_samples->writes().note_written(call, made, /*has_run=*/true);
  }
}

void ForwardWatch::note_reads(const OperatorCall& call, const ProvenanceMap::Call& described) {
  for (const at::Tensor* const input : described.inputs) {
    forward_.input_samples.note_read(*input);
  }
  // A replay reads the outcome of such a write without writing again. That others have written
  // since is not always counted.
  const bool has_targets = !forward_.written.empty();
  if (forward_.inside_samples != nullptr) {
    const auto op = static_cast<std::uint32_t>(forward_.operators.size() - 1);
    forward_.inside_samples->note_reads(op, call, forward_.made_);
  }
  forward_.has_wrappers_ = forward_.has_wrappers_ || described.has_wrapper;
  for (const at::Tensor* const tensor : described.outside) {
    const auto next = static_cast<std::uint32_t>(forward_.outside.size());
    const auto [number, is_new] =
        forward_.number_of_outside_.try_emplace(storage_id_of(*tensor), next);
    if (is_new) {
      WatchedForward::Outside& added = forward_.outside.emplace_back(*tensor);
      added.may_be_of_region = forward_.may_be_of_region(*tensor);
      added.is_unidentified = added.may_be_of_region || forward_.may_be_of_wrapper(*tensor);
    }
    if (const at::Tensor state = state_before(call, *tensor); state.defined()) {
      forward_.written.note_state(*tensor, state);
    }
    const bool is_written =
        has_targets && is_dense_cpu(*tensor) && forward_.written.contains(storage_id_of(*tensor));
    const bool is_wrapped = forward_.outside[number->second].is_wrapped;
    forward_.reads.push_back({number->second, version_of(*tensor),
                              is_written   ? sample_elements(*tensor)
                              : is_wrapped ? sample_wrapped(*tensor)
                                           : 0,
                              /*is_of_elements=*/is_written, forward_.written.note_read(*tensor)});
  }
}

void ForwardWatch::note_targets(const OperatorCall& call) {
  for (const std::uint32_t index : call.traits.written(call.arguments())) {
    for_each_tensor(call.argument(index), [&](const at::Tensor& tensor) {
      if (is_outside(tensor)) {
        const StorageId memory = storage_id_of(tensor);
        const bool was_read =
            forward_.number_of_outside_.contains(memory) || forward_.hidden_reads.contains(memory);
        forward_.written.note_write(call.traits, tensor, was_read);
      }
    });
  }
  if (forward_.inside_samples == nullptr && !forward_.written.empty()) {
    forward_.inside_samples = std::make_unique<InsideSamples>();
  }
}

// A replay must not write to them, and runs the operator on copies of their earlier contents.
void ForwardWatch::note_befores(const OperatorCall& call) {
  const OperatorTraits& traits = call.traits;
  if (traits.ignores_targets) {
    return;
  }
  bool writes_inside = false;
  std::vector<WatchedForward::Before> befores;
  for (const std::uint32_t index : traits.written_arguments) {
    std::uint32_t element = 0;
    for_each_tensor(call.argument(index), [&](const at::Tensor& tensor) {
      if (is_outside(tensor)) {
        befores.push_back({index, element, tensor});
      } else {
        writes_inside = true;
      }
      ++element;
    });
  }
  if (befores.empty() || (traits.returns_only_arguments && !writes_inside)) {
    return;  // an effect only: a replay skips it
  }
  const at::NoGradGuard no_grad;
  const InterceptionScope unseen(nullptr);
  for (WatchedForward::Before& before : befores) {
    before.state = contents_before(call, before.state);
  }
  forward_.befores.emplace(static_cast<std::uint32_t>(forward_.operators.size() - 1),
                           std::move(befores));
}

// The statistics of batch-norm in evaluation: training changes them without counting a version.
void ForwardWatch::note_statistics(const OperatorCall& call) {
  const at::NoGradGuard no_grad;
  const InterceptionScope unseen(nullptr);
  std::vector<WatchedForward::Before> befores;
  for (const std::uint32_t index : call.traits.read_statistics(call.arguments())) {
    for_each_tensor(call.argument(index), [&](const at::Tensor& tensor) {
      if (is_outside(tensor)) {
        befores.push_back({index, 0, contents_before(call, tensor)});
      }
    });
  }
  if (!befores.empty()) {
    forward_.befores.emplace(static_cast<std::uint32_t>(forward_.operators.size() - 1),
                             std::move(befores));
  }
}

at::Tensor ForwardWatch::contents_before(const OperatorCall& call, const at::Tensor& argument) {
  const at::Tensor state = state_before(call, argument);
  return at::clone(hooks_internal::detached_alias(state.defined() ? state : argument));
}

void ForwardWatch::note_generator(const at::Generator& generator) {
  std::vector<at::Generator>& drawn = forward_.drawn;
  if (std::find(drawn.begin(), drawn.end(), generator) == drawn.end()) {
    drawn.push_back(generator);
    forward_.generators.push_back(RngState::capture(generator));
  }
}

}  // namespace reprise::engine_internal
