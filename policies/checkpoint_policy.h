// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: checkpoint_policy.h
//
// What selective checkpointing does with the results of one operator of a region: `Policy`, asked
// in forward after each operator, answers with a `CheckpointPolicy`, and with the store where what
// is kept shall live if that is not its device. The ready ones stand in policies.h.
//
// Not for the inputs of a region, which are kept whatever a policy says, nor for a region as a
// whole: to keep everything, do not make it a region.
//
// Example:
//
//   namespace rp = reprise;
//   const rp::PolicyHolder large_matmuls = [](const rp::PolicyContext& context) {
//     return context.op() == "aten::mm" && context.output_bytes() > (1 << 20);
//   };
//
// Thread-safety: values and contexts are thread-compatible. A policy is asked by one thread at a
// time for one region; one that several threads' regions share must be thread-safe.
#ifndef REPRISE_POLICIES_CHECKPOINT_POLICY_H_
#define REPRISE_POLICIES_CHECKPOINT_POLICY_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/enum_tag.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "reprise/base/export.h"
#include "reprise/hooks/activation_store.h"

namespace c10 {
struct IValue;
class OperatorHandle;
}  // namespace c10

namespace reprise {

// The spelling is that of torch.utils.checkpoint.CheckpointPolicy. MUST wins over PREFER where
// several policies speak of one operator; two MUSTs that contradict each other are an error.
enum class CheckpointPolicy : std::uint8_t {
  MUST_SAVE,
  PREFER_SAVE,
  MUST_RECOMPUTE,
  PREFER_RECOMPUTE,
  MUST_CPU_OFFLOAD,
  PREFER_CPU_OFFLOAD,
};

constexpr bool is_must(CheckpointPolicy policy) noexcept {
  return policy == CheckpointPolicy::MUST_SAVE || policy == CheckpointPolicy::MUST_RECOMPUTE ||
         policy == CheckpointPolicy::MUST_CPU_OFFLOAD;
}

constexpr bool is_offload(CheckpointPolicy policy) noexcept {
  return policy == CheckpointPolicy::MUST_CPU_OFFLOAD ||
         policy == CheckpointPolicy::PREFER_CPU_OFFLOAD;
}

// True if a result is to be kept, on its device or on the host.
constexpr bool keeps(CheckpointPolicy policy) noexcept {
  return policy == CheckpointPolicy::MUST_SAVE || policy == CheckpointPolicy::PREFER_SAVE ||
         is_offload(policy);
}

// What a policy answers.
struct PolicyAnswer {
  PolicyAnswer(CheckpointPolicy answer,  // NOLINT(google-explicit-constructor): most name no store
               std::shared_ptr<ActivationStore> place = nullptr)
      : policy(answer), store(std::move(place)) {}

  CheckpointPolicy policy;

  // Where a result lives that is kept; means nothing with an answer that keeps none. Null: on its
  // device, or, with CPU_OFFLOAD, in a HostStore that all regions of the process share (CPU tensors
  // stay where they are).
  std::shared_ptr<ActivationStore> store;

  friend bool operator==(const PolicyAnswer&, const PolicyAnswer&) = default;
};

// "MUST_SAVE" and so on.
[[nodiscard]] REPRISE_API std::string_view to_string(CheckpointPolicy policy) noexcept;

// One call of one operator in a region's forward. Lives for one question: copy what is to stay.
class REPRISE_API PolicyContext {
 public:
  // What the engine fills in.
  struct Call {
    const c10::OperatorHandle* op = nullptr;
    std::span<const c10::IValue> arguments;  // as the schema lists them
    std::span<const c10::IValue> outputs;
    std::span<const std::string> scopes;
    std::string_view name;
    std::string_view region;
    std::int64_t ordinal = 0;
  };
  explicit PolicyContext(const Call& call) : call_(call) {}
  PolicyContext(const PolicyContext&) = delete;
  PolicyContext& operator=(const PolicyContext&) = delete;

  // "aten::add" and "Tensor" of aten::add.Tensor. Composite operators are seen as their parts:
  // linear as aten::addmm or aten::mm, conv2d as aten::convolution.
  [[nodiscard]] std::string_view op() const;
  [[nodiscard]] std::string_view overload() const;  // empty for the only or default one
  [[nodiscard]] std::string full_name() const;      // "aten::add.Tensor", "aten::mm"
  // The same for each call of the operator in this process.
  [[nodiscard]] const void* op_id() const noexcept;
  [[nodiscard]] bool has_tag(at::Tag tag) const;

  // Arguments and outputs as the dispatcher passes them (include ATen/core/ivalue.h).
  [[nodiscard]] std::span<const c10::IValue> arguments() const noexcept { return call_.arguments; }
  [[nodiscard]] std::span<const c10::IValue> outputs() const noexcept { return call_.outputs; }
  // The defined tensors among them, those in lists included.
  [[nodiscard]] std::vector<at::Tensor> input_tensors() const;
  [[nodiscard]] std::vector<at::Tensor> output_tensors() const;

  // Bytes of the storages of the outputs, each once.
  [[nodiscard]] std::int64_t output_bytes() const;
  // Multiplications and additions of a matmul, convolution or attention, by their shapes; 0 for any
  // other operator.
  [[nodiscard]] std::int64_t flops() const;

  // The NameScopes that the call stands in, outermost first.
  [[nodiscard]] std::span<const std::string> scopes() const noexcept { return call_.scopes; }
  // What `reprise::checkpoint_name()` has called the result, if that is why the policy is asked;
  // else empty. Such a question has one output, and no arguments. PREFER_RECOMPUTE leaves things as
  // they are.
  [[nodiscard]] std::string_view name() const noexcept { return call_.name; }
  [[nodiscard]] std::string_view region() const noexcept { return call_.region; }
  // The how-manieth operator of the region this is, from 0.
  [[nodiscard]] std::int64_t ordinal() const noexcept { return call_.ordinal; }

 private:
  const Call call_;
};

class REPRISE_API Policy {
 public:
  Policy() = default;
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;
  virtual ~Policy();

  // Asked in forward only, right after the operator has run, with grad mode off. Operators that the
  // policy runs itself are not seen by the region. An exception leaves the region.
  virtual PolicyAnswer decide(const PolicyContext& context) = 0;

  // Called when a region's forward begins: the policy to ask in it, or null for this one. A policy
  // that counts returns a copy that starts anew, so that what it answers depends on the region
  // only.
  virtual std::shared_ptr<Policy> begin_region();

  // Entries (operator names, say) that have matched no operator since the policy was made, in words
  // for the report.
  [[nodiscard]] virtual std::vector<std::string> unmatched() const;
};

// A policy, or none. Made of a shared_ptr to a Policy, or of a callable that takes a PolicyContext
// and returns a PolicyAnswer, a CheckpointPolicy, or a bool: true is MUST_SAVE and false
// PREFER_RECOMPUTE.
class REPRISE_API PolicyHolder {
 public:
  PolicyHolder() = default;

  template <std::derived_from<Policy> P>
  PolicyHolder(std::shared_ptr<P> policy)  // NOLINT(google-explicit-constructor): an option's value
      : policy_(std::move(policy)) {}

  template <class F>
  requires std::is_invocable_r_v<PolicyAnswer, F&, const PolicyContext&> PolicyHolder(
      F decide)  // NOLINT(google-explicit-constructor): an option's value
      : PolicyHolder(from_function(std::move(decide))) {}

  template <class F>
  requires std::same_as < std::invoke_result_t<F&, const PolicyContext&>,
  bool > PolicyHolder(F decide)  // NOLINT(google-explicit-constructor): an option's value
      : PolicyHolder(from_function([decide = std::move(decide)](const PolicyContext& c) mutable {
          return decide(c) ? CheckpointPolicy::MUST_SAVE : CheckpointPolicy::PREFER_RECOMPUTE;
        })) {}

  explicit operator bool() const noexcept { return policy_ != nullptr; }
  [[nodiscard]] const std::shared_ptr<Policy>& get() const noexcept { return policy_; }

 private:
  static std::shared_ptr<Policy> from_function(
      std::function<PolicyAnswer(const PolicyContext&)> decide);

  std::shared_ptr<Policy> policy_;
};

}  // namespace reprise

#endif  // REPRISE_POLICIES_CHECKPOINT_POLICY_H_
