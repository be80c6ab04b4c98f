// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/policies/policies.h"

#include <ATen/core/ivalue.h>

#include <algorithm>
#include <stdexcept>

#include "reprise/policies/matching/match_flags.h"
#include "reprise/policies/operators/operator_kind.h"

namespace reprise::policies {
namespace {

using policies_internal::kind_of;
using policies_internal::MatchFlags;
using policies_internal::OperatorKind;

CheckpointPolicy prefer(bool save) {
  return save ? CheckpointPolicy::PREFER_SAVE : CheckpointPolicy::PREFER_RECOMPUTE;
}

// Saves results of the kinds of operators that are bits of `kinds`.
class KindPolicy final : public Policy {
 public:
  KindPolicy(unsigned kinds, std::string if_unmatched)
      : kinds_(kinds), if_unmatched_(std::move(if_unmatched)) {}

  PolicyAnswer decide(const PolicyContext& context) override {
    if ((kinds_ & static_cast<unsigned>(kind_of(context))) == 0) {
      return CheckpointPolicy::PREFER_RECOMPUTE;
    }
    matched_.set(0);
    return CheckpointPolicy::PREFER_SAVE;
  }

  std::vector<std::string> unmatched() const override {
    return matched_.test(0) ? std::vector<std::string>() : std::vector{if_unmatched_};
  }

 private:
  const unsigned kinds_;
  const std::string if_unmatched_;
  MatchFlags matched_{1};
};

constexpr unsigned bits(auto... kinds) { return (static_cast<unsigned>(kinds) | ...); }

class EveryNthMatmul final : public Policy {
 public:
  explicit EveryNthMatmul(std::int64_t n) : n_(n) {}

  PolicyAnswer decide(const PolicyContext& context) override {
    if (!context.name().empty() || kind_of(context) != OperatorKind::kMatmul) {
      return CheckpointPolicy::PREFER_RECOMPUTE;
    }
    const bool is_nth = until_next_ == 0;
    until_next_ = (is_nth ? n_ : until_next_) - 1;
    return prefer(is_nth);
  }

  std::shared_ptr<Policy> begin_region() override { return std::make_shared<EveryNthMatmul>(n_); }

 private:
  const std::int64_t n_;
  std::int64_t until_next_ = 0;
};

bool any_tensor(const c10::IValue& value,
                const std::function<bool(const at::Tensor& output)>& condition) {
  if (value.isTensor()) {
    return value.toTensor().defined() && condition(value.toTensor());
  }
  if (!value.isList()) {
    return false;
  }
  const auto elements = value.toListRef();
  return std::any_of(elements.begin(), elements.end(),
                     [&](const c10::IValue& each) { return any_tensor(each, condition); });
}

}  // namespace

PolicyHolder save_everything() {
  return [](const PolicyContext&) { return CheckpointPolicy::PREFER_SAVE; };
}

PolicyHolder save_nothing() {
  return [](const PolicyContext&) { return CheckpointPolicy::PREFER_RECOMPUTE; };
}

PolicyHolder save_matmuls() {
  return std::make_shared<KindPolicy>(
      bits(OperatorKind::kMatmul), "save_matmuls: aten::mm, aten::addmm, aten::bmm, aten::baddbmm");
}

PolicyHolder save_attention() {
  return std::make_shared<KindPolicy>(
      bits(OperatorKind::kAttention),
      "save_attention: any attention operator (LibTorch's math variant is seen as aten::bmm and "
      "aten::_softmax)");
}

PolicyHolder save_compute_intensive() {
  return std::make_shared<KindPolicy>(
      bits(OperatorKind::kMatmul, OperatorKind::kConvolution, OperatorKind::kAttention),
      "save_compute_intensive: any matmul, convolution or attention operator");
}

PolicyHolder every_nth_matmul(std::int64_t n) {
  if (n <= 0) {
    throw std::invalid_argument("[policies.every_nth_matmul] n must be positive; received n = " +
                                std::to_string(n) + "; 1 keeps every matmul, 2 every second one");
  }
  return std::make_shared<EveryNthMatmul>(n);
}

PolicyHolder save_where(std::function<bool(const at::Tensor& output)> condition) {
  if (!condition) {
    throw std::invalid_argument(
        "[policies.save_where] there is no condition; received an empty std::function; pass a "
        "callable that takes an at::Tensor and returns a bool");
  }
  return [condition = std::move(condition)](const PolicyContext& context) {
    const auto outputs = context.outputs();
    return prefer(std::any_of(outputs.begin(), outputs.end(), [&](const c10::IValue& output) {
      return any_tensor(output, condition);
    }));
  };
}

PolicyHolder save_tagged(at::Tag tag) {
  return [tag](const PolicyContext& context) { return prefer(context.has_tag(tag)); };
}

}  // namespace reprise::policies
