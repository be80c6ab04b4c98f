// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/watch/replay_watch.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <utility>

#include "reprise/engine/checks/saved_tensor_record.h"
#include "reprise/engine/operators/bypass.h"
#include "reprise/engine/operators/operator_facts.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/operators/random_draw.h"

namespace reprise::engine_internal {

void ReplayWatch::start(std::span<const at::Tensor> inputs, OperatorInterceptor& next) {
  inner_ = &next;
  memory_.start(forward_.freed());
  find_uncounted(inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor& input = inputs[i];
    if (input.defined()) {
      made_.add_input(input, forward_.inputs[i].number, forward_.inputs[i].shift_of(input));
    }
  }
}

void ReplayWatch::note_copy(std::uint32_t input, const at::Tensor& copy, bool is_exact) {
  inputs_.add_copy(input, copy, forward_.inputs[input].shift_of(copy), is_exact);
}

void ReplayWatch::note_stand_in(c10::weak_intrusive_ptr<c10::StorageImpl> storage) {
  const std::uint32_t origin = origins_.add(
      "it depends on a tensor that stands for a result, which the recomputation under the region's "
      "policy has left outside",
      ReplayOrigins::Forbids::kKeep);
  made_.add_memory(std::move(storage), {.hash = kChanged, .origin = origin});
}

void ReplayWatch::intercept(const OperatorCall& call) {
  const OperatorTraits& traits = call.traits;
  matched_.reset();
  change_.reset();
  other_.reset();
  has_other_version_ = false;
  has_run_ = false;
  if (traits.is_view) {
    const bool is_opaque = ProvenanceMap::views_opaque(call);
    const std::uint32_t origin = is_opaque ? stale_origin_of(call) : ProvenanceMap::kNone;
    inner_->intercept(call);
    if (is_opaque) {
      made_.note_views(call, origin);
    }
    return;
  }
  if (traits.undeclared) {  // batch-norm in training saves its statistics, but does not read them
    stale_slots_.note_unused(written_memory(call));
  }
  if (is_bypassed()) {
    intercept_hidden(call);
  } else if (is_cast_of_parameter(call)) {
    const std::uint32_t origin = stale_origin_of(call);
    inner_->intercept(call);
    made_.note_cast(call, origin_after(call, origin));
  } else if (traits.transfer == Transfer::kWait && is_wait_for_left_over(call)) {
    match_wait(call);
    inner_->intercept(call);
  } else {
    intercept_followed(call);
  }
  if (has_run_) {
    stale_slots_.note_operator();
  }
}

void ReplayWatch::intercept_followed(const OperatorCall& call) {
  ProvenanceMap::Call described = describe(call);
  ++calls_;
  matched_ = match(described.hash);
  std::uint32_t origin = origin_for(call, described);
  if (origin != described.origin) {
    described.hash = ~described.hash;
  }
  compare_reads(call, described);
  const bool is_stale = ReplayOrigins::is_stale(origin);
  const StorageIdList targets = change_ || is_stale ? written_memory(call) : StorageIdList();
  const std::vector<at::Tensor> wrapped =
      described.has_unknown ? writes_.targets(call, made_) : std::vector<at::Tensor>();
  const std::optional<Draw> draw = draw_of(call);
  if (inside_) {
    inside_->writes().start(call);
  }
  made_.note_writes(call, described, is_stale ? ProvenanceMap::kNone : origin);
  inner_->intercept(call);
  if (!has_run_) {
    add_left_over_parts(call);
  }
  if (!wrapped.empty()) {
    compare_wrapped(call, wrapped);
  }
  origin = origin_after(call, origin);
  made_.note_origin(targets, origin);
  made_.note_results(call, described, origin);
  if (inside_) {
    inside_->writes().note_written(call, made_, has_run_);
  }
  if (draw) {
    compare_draw(call, *draw);
  }
}

ProvenanceMap::Call ReplayWatch::describe(const OperatorCall& call) {
  ProvenanceMap::Call described = made_.call_of(call);
  bool has_added = false;
  if (described.has_unknown) {
    for (const c10::IValue& argument : call.arguments()) {
      for_each_tensor(argument, [&](const at::Tensor& tensor) {
        has_added = add_left_over(tensor) || has_added;
      });
    }
  }
  if (has_added) {
    described = made_.call_of(call);
  }
  if (!others_.empty()) {
    described.origin = std::min(described.origin, origin_of_arguments(described));
  }
  return described;
}

void ReplayWatch::intercept_hidden(const OperatorCall& call) {
  for (const at::Tensor* const tensor : made_.call_of(call).outside) {
    const auto read = forward_.hidden_reads.find(storage_id_of(*tensor));
    const std::int64_t version = version_of(*tensor);
    if (checks_outside_ && read != forward_.hidden_reads.end() && read->second != version &&
        !memory_.is_filled(storage_id_of(*tensor))) {
      change_ = c10::str(call.op.operator_name(), " reads a tensor from outside the region, ",
                         TensorMetadata(*tensor).to_string(), ", at version ", version,
                         ", forward read it at version ", read->second);
    }
  }
  std::uint32_t origin = stale_origin_of(call);
  const StorageIdList targets = written_memory(call);
  made_.note_hidden_writes(call);
  inner_->intercept(call);
  origin = origin_after(call, origin);
  made_.note_origin(targets, origin);
  made_.note_hidden_results(call, origin);
}

std::optional<std::uint32_t> ReplayWatch::match(Provenance hash) {
  const auto& operators = forward_.operators;
  if (next_ < operators.size() && operators[next_].hash == hash) {
    return next_++;
  }
  const auto found = find(hash);
  if (found && *found >= next_) {
    next_ = *found + 1;
  }
  return found;
}

// Returns the next such operator of forward, otherwise the last one.
std::optional<std::uint32_t> ReplayWatch::find(Provenance hash) {
  if (!positions_) {
    positions_.emplace();
    for (std::uint32_t i = 0; i < forward_.operators.size(); ++i) {
      (*positions_)[forward_.operators[i].hash].push_back(i);
    }
  }
  const auto found = positions_->find(hash);
  if (found == positions_->end()) {
    return std::nullopt;
  }
  const auto& positions = found->second;
  const auto next = std::lower_bound(positions.begin(), positions.end(), next_);
  return next == positions.end() ? positions.back() : *next;
}

std::optional<ReplayWatch::Draw> ReplayWatch::draw_of(const OperatorCall& call) {
  const at::Generator generator = preserves_rng_ ? generator_of(call) : at::Generator();
  if (!generator.defined()) {
    return std::nullopt;
  }
  if (const auto [entry, is_new] = drawn_.try_emplace(generator.unsafeGetGeneratorImpl()); is_new) {
    entry->second = std::make_unique<RngForkGuard>(std::vector<at::Generator>{generator});
  }
  const auto forward = matched_ ? forward_.positions.find(*matched_) : forward_.positions.end();
  if (forward == forward_.positions.end() || forward->second == 0) {
    return std::nullopt;
  }
  Draw draw{generator, forward->second, {}};
  for (const std::uint32_t index : call.traits.written(call.arguments())) {
    for_each_tensor(call.argument(index),
                    [&](const at::Tensor& tensor) { draw.written.push_back(tensor); });
  }
  return draw;
}

at::Tensor ReplayWatch::state_before(const OperatorCall& call, const at::Tensor& argument) {
  if (forward_.written.empty() && forward_.befores.empty() && !memory_.hides_any()) {
    return {};
  }
  const StorageId memory = storage_id_of(argument);
  const std::optional<std::uint32_t> op = find(made_.call_of(call).hash);
  if (op) {
    for (const WatchedForward::Read& read : forward_.reads_of(*op)) {
      if (forward_.outside[read.outside].memory.id() == memory) {
        return memory_.seen_by_read(argument, read.writes);
      }
    }
  }
  at::Tensor state;
  for (std::uint32_t index = 0; op && index < call.arguments().size(); ++index) {
    std::uint32_t element = 0;
    for_each_tensor(call.argument(index), [&](const at::Tensor& tensor) {
      if (!state.defined() && tensor.is_same(argument)) {
        state = before_of(op, index, element);
      }
      ++element;
    });
  }
  return state.defined() ? state : memory_.hidden_contents(argument);
}

const std::vector<c10::IValue>* ReplayWatch::host_read_of_forward() const {
  const auto found = matched_ ? forward_.host_reads.find(*matched_) : forward_.host_reads.end();
  return found == forward_.host_reads.end() ? nullptr : &found->second;
}

at::Tensor ReplayWatch::before(std::uint32_t argument, std::uint32_t element) const {
  return before_of(matched_, argument, element);
}

at::Tensor ReplayWatch::before_of(std::optional<std::uint32_t> op, std::uint32_t argument,
                                  std::uint32_t element) const {
  const auto found = op ? forward_.befores.find(*op) : forward_.befores.end();
  if (found != forward_.befores.end()) {
    for (const WatchedForward::Before& before : found->second) {
      if (before.argument == argument && before.element == element) {
        return before.state;
      }
    }
  }
  return {};
}

}  // namespace reprise::engine_internal
