// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/policies/checkpoint_policy.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/core/StorageImpl.h>

#include <algorithm>
#include <functional>
#include <stdexcept>

#include "absl/container/inlined_vector.h"
#include "reprise/policies/operators/flops.h"
#include "reprise/policies/region_trace.h"

namespace reprise {
namespace {

template <class Visitor>
void for_each_tensor(const c10::IValue& value, Visitor&& visitor) {
  if (value.isTensor()) {
    if (const at::Tensor& tensor = value.toTensor(); tensor.defined()) {
      visitor(tensor);
    }
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) {
      for_each_tensor(element, visitor);
    }
  }
}

std::vector<at::Tensor> tensors_among(std::span<const c10::IValue> values) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& value : values) {
    for_each_tensor(value, [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
  }
  return tensors;
}

class FunctionPolicy final : public Policy {
 public:
  explicit FunctionPolicy(std::function<PolicyAnswer(const PolicyContext&)> decide)
      : decide_(std::move(decide)) {}
  PolicyAnswer decide(const PolicyContext& context) override { return decide_(context); }

 private:
  std::function<PolicyAnswer(const PolicyContext&)> decide_;
};

}  // namespace

std::string_view to_string(CheckpointPolicy policy) noexcept {
  switch (policy) {
    case CheckpointPolicy::MUST_SAVE:
      return "MUST_SAVE";
    case CheckpointPolicy::PREFER_SAVE:
      return "PREFER_SAVE";
    case CheckpointPolicy::MUST_RECOMPUTE:
      return "MUST_RECOMPUTE";
    case CheckpointPolicy::PREFER_RECOMPUTE:
      return "PREFER_RECOMPUTE";
    case CheckpointPolicy::MUST_CPU_OFFLOAD:
      return "MUST_CPU_OFFLOAD";
    case CheckpointPolicy::PREFER_CPU_OFFLOAD:
      return "PREFER_CPU_OFFLOAD";
  }
  return "no CheckpointPolicy";
}

std::string_view PolicyContext::op() const { return call_.op->operator_name().name; }

std::string_view PolicyContext::overload() const { return call_.op->operator_name().overload_name; }

std::string PolicyContext::full_name() const {
  std::string name(op());
  if (!overload().empty()) {
    name.append(".").append(overload());
  }
  return name;
}

// The address of the name is valid as long as the operator exists.
const void* PolicyContext::op_id() const noexcept { return &call_.op->operator_name(); }

bool PolicyContext::has_tag(at::Tag tag) const { return call_.op->hasTag(tag); }

std::vector<at::Tensor> PolicyContext::input_tensors() const {
  return tensors_among(call_.arguments);
}

std::vector<at::Tensor> PolicyContext::output_tensors() const {
  return tensors_among(call_.outputs);
}

std::int64_t PolicyContext::output_bytes() const {
  absl::InlinedVector<const c10::StorageImpl*, 4> storages;
  for (const c10::IValue& output : call_.outputs) {
    for_each_tensor(output, [&](const at::Tensor& tensor) {
      if (tensor.has_storage()) {
        storages.push_back(tensor.storage().unsafeGetStorageImpl());
      }
    });
  }
  std::sort(storages.begin(), storages.end(), std::less<>());
  const auto end = std::unique(storages.begin(), storages.end());
  std::int64_t bytes = 0;
  std::for_each(storages.begin(), end, [&](const c10::StorageImpl* storage) {
    bytes += static_cast<std::int64_t>(storage->nbytes());
  });
  return bytes;
}

std::int64_t PolicyContext::flops() const {
  return call_.arguments.empty() ? 0
                                 : policies_internal::flops(op(), call_.arguments, call_.outputs);
}

Policy::~Policy() = default;

std::shared_ptr<Policy> Policy::begin_region() { return nullptr; }

void Policy::end_region(const std::function<RegionTrace()>& /*trace*/) {}

std::vector<std::string> Policy::unmatched() const { return {}; }

std::shared_ptr<Policy> PolicyHolder::from_function(
    std::function<PolicyAnswer(const PolicyContext&)> decide) {
  if (!decide) {
    throw std::invalid_argument(
        "[policies.PolicyHolder] a policy needs something to ask; received an empty "
        "std::function; pass a callable, or PolicyHolder() for no policy");
  }
  return std::make_shared<FunctionPolicy>(std::move(decide));
}

}  // namespace reprise
