// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/watch/forward_watch.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/clone.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "reprise/engine/operators/bypass.h"
#include "reprise/engine/operators/operator_facts.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/operators/random_draw.h"
#include "reprise/hooks/storage/alias.h"

namespace reprise::engine_internal {

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
      const bool is_from_outside = is_outside(tensor);
      if (!is_from_outside && statistics_ == nullptr) {
        return;
      }
      const at::Tensor contents = contents_before(call, tensor);
      if (is_from_outside) {
        befores.push_back({index, 0, contents});
      }
      if (statistics_ != nullptr) {
        statistics_->note_read(tensor, contents);
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
