// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/modules/checkpointed_any.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <ostream>
#include <utility>
#include <vector>

#include "reprise/engine/checkpoint.h"
#include "reprise/engine/modules/checkpointed_forward.h"

namespace reprise::engine_internal {
namespace {

using torch::nn::AnyModule;
using torch::nn::AnyValue;

constexpr std::size_t kMaxArguments = 8;

template <std::size_t... I>
AnyValue call_with(AnyModule& module, std::vector<AnyValue>& values, std::index_sequence<I...>) {
  return module.any_forward(std::move(values[I])...);
}

// AnyModule takes its arguments only one by one.
template <std::size_t N = kMaxArguments>
AnyValue call(AnyModule& module, std::vector<AnyValue>& values) {
  if constexpr (N > 1) {
    if (values.size() < N) {
      return call<N - 1>(module, values);
    }
  }
  return call_with(module, values, std::make_index_sequence<N>{});
}

}  // namespace

CheckpointedAnyImpl::CheckpointedAnyImpl(AnyModule inner, std::optional<CheckpointOptions> options)
    : CheckpointedModule(std::move(options)),
      inner_(std::move(inner)),
      inner_module_(inner_.ptr()) {
  share_state_of_inner();
}

void CheckpointedAnyImpl::share_state_of_inner() {
  inner_module_->name();  // fixes the name, so that the copy reports the inner type
  static_cast<torch::nn::Module&>(*this) = *inner_module_;
}

AnyValue CheckpointedAnyImpl::run(Arguments arguments) { return call(inner_, arguments.values); }

AnyValue CheckpointedAnyImpl::forward(Arguments arguments, Unused, Unused, Unused, Unused, Unused,
                                      Unused, Unused) {
  if (!checkpoint_options()) {
    return run(std::move(arguments));
  }
  const std::shared_ptr<CheckpointedAnyImpl> self(owner_of(*this), this);
  return checkpoint(
      *checkpoint_options(), [self](Arguments values) { return self->run(std::move(values)); },
      std::move(arguments));
}

std::vector<AnyValue> CheckpointedAnyImpl::_forward_populate_default_args(
    std::vector<AnyValue>&& arguments) {
  std::vector<AnyValue> packed;
  packed.reserve(kMaxArguments);
  packed.emplace_back(Arguments{std::move(arguments)});
  while (packed.size() < kMaxArguments) {
    packed.emplace_back(Unused{});
  }
  return packed;
}

std::shared_ptr<torch::nn::Module> CheckpointedAnyImpl::clone(
    const std::optional<c10::Device>& device) const {
  return std::make_shared<CheckpointedAnyImpl>(inner_.clone(device), checkpoint_options());
}

// The inner module may override each of these, so they are forwarded to it, not to the base.
void CheckpointedAnyImpl::train(bool on) {
  inner_module_->train(on);
  share_state_of_inner();
}

bool CheckpointedAnyImpl::is_training() const noexcept { return inner_module_->is_training(); }

void CheckpointedAnyImpl::to(c10::Device device, c10::ScalarType dtype, bool non_blocking) {
  inner_module_->to(device, dtype, non_blocking);
  share_state_of_inner();
}

void CheckpointedAnyImpl::to(c10::ScalarType dtype, bool non_blocking) {
  inner_module_->to(dtype, non_blocking);
  share_state_of_inner();
}

void CheckpointedAnyImpl::to(c10::Device device, bool non_blocking) {
  inner_module_->to(device, non_blocking);
  share_state_of_inner();
}

void CheckpointedAnyImpl::zero_grad(bool set_to_none) { inner_module_->zero_grad(set_to_none); }

void CheckpointedAnyImpl::save(torch::serialize::OutputArchive& archive) const {
  inner_module_->save(archive);
}

void CheckpointedAnyImpl::load(torch::serialize::InputArchive& archive) {
  inner_module_->load(archive);
  share_state_of_inner();
}

void CheckpointedAnyImpl::pretty_print(std::ostream& stream) const {
  stream << "reprise::Checkpointed(";
  inner_module_->pretty_print(stream);
  stream << ')';
}

bool CheckpointedAnyImpl::is_serializable() const { return inner_module_->is_serializable(); }

}  // namespace reprise::engine_internal
