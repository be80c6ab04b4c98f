// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: checkpoint_policy.h
//
// The interface of selective checkpointing: a `Policy`, asked in forward after each operator of a
// region, answers with a `CheckpointPolicy` for the operator's results, and optionally with a store
// for them. Ready policies are in policies.h.
//
// Not for the inputs of a region, which are retained under any policy, nor for a region as a whole:
// to save everything, do not make it a region.
//
// Example:
//
//   namespace rp = reprise;
//   const rp::PolicyHolder large_matmuls = [](const rp::PolicyContext& context) {
//     return context.op() == "aten::mm" && context.output_bytes() > (1 << 20);
//   };
//
// Thread-safety: values and contexts are thread-compatible. A policy is asked by one thread at a
// time for one region; a policy shared by regions of several threads must be thread-safe.
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

struct RegionTrace;

// Spelled as torch.utils.checkpoint.CheckpointPolicy. If several policies decide on one operator,
// MUST takes precedence over PREFER; two contradictory MUSTs are an error.
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

// Returns whether a result is to be saved, on its device or on the host.
constexpr bool keeps(CheckpointPolicy policy) noexcept {
  return policy == CheckpointPolicy::MUST_SAVE || policy == CheckpointPolicy::PREFER_SAVE ||
         is_offload(policy);
}

// The answer of a policy for one operator.
struct PolicyAnswer {
  PolicyAnswer(CheckpointPolicy answer,  // NOLINT(google-explicit-constructor): most name no store
               std::shared_ptr<ActivationStore> place = nullptr)
      : policy(answer), store(std::move(place)) {}

  CheckpointPolicy policy;

  // Stores the result, if the answer saves it. Null: the result stays on its device, or, with
  // CPU_OFFLOAD, goes to a HostStore that all regions of the process share (CPU tensors stay where
  // they are).
  std::shared_ptr<ActivationStore> store;

  friend bool operator==(const PolicyAnswer&, const PolicyAnswer&) = default;
};

// Returns "MUST_SAVE" and so on.
[[nodiscard]] REPRISE_API std::string_view to_string(CheckpointPolicy policy) noexcept;

// One call of one operator in a region's forward. Valid during Policy::decide() only.
class REPRISE_API PolicyContext {
 public:
  // Filled in by the engine.
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

  // Return "aten::add" and "Tensor" for aten::add.Tensor. Composite operators appear as their
  // parts: linear as aten::addmm or aten::mm, conv2d as aten::convolution.
  [[nodiscard]] std::string_view op() const;
  [[nodiscard]] std::string_view overload() const;  // empty for the only or default one
  [[nodiscard]] std::string full_name() const;      // "aten::add.Tensor", "aten::mm"
  // Returns a value that identifies the operator within the process.
  [[nodiscard]] const void* op_id() const noexcept;
  [[nodiscard]] bool has_tag(at::Tag tag) const;

  // Return arguments and outputs as the dispatcher passes them (include ATen/core/ivalue.h).
  [[nodiscard]] std::span<const c10::IValue> arguments() const noexcept { return call_.arguments; }
  [[nodiscard]] std::span<const c10::IValue> outputs() const noexcept { return call_.outputs; }
  // Return the defined tensors among them, including elements of lists.
  [[nodiscard]] std::vector<at::Tensor> input_tensors() const;
  [[nodiscard]] std::vector<at::Tensor> output_tensors() const;

  // Returns the bytes of the outputs' storages, each counted once.
  [[nodiscard]] std::int64_t output_bytes() const;
  // Returns the multiplications and additions of a matmul, convolution or attention, from their
  // shapes; 0 for any other operator.
  [[nodiscard]] std::int64_t flops() const;

  // Returns the names of the NameScopes around the call, outermost first.
  [[nodiscard]] std::span<const std::string> scopes() const noexcept { return call_.scopes; }
  // Returns the name given by `reprise::checkpoint_name()`, if the policy is asked because of that
  // call, otherwise an empty string. Such a call has one output and no arguments. The answer
  // PREFER_RECOMPUTE then changes nothing.
  [[nodiscard]] std::string_view name() const noexcept { return call_.name; }
  [[nodiscard]] std::string_view region() const noexcept { return call_.region; }
  // Returns the zero-based index of the operator within its region.
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

  // Returns the decision for one operator. Called in forward only, right after the operator has
  // run, with grad mode off. Operators that the policy itself runs are not part of the region.
  //
  // Throws: any exception; it leaves the region.
  virtual PolicyAnswer decide(const PolicyContext& context) = 0;

  // Returns the policy to ask in a region whose forward begins, or null for this one. A policy with
  // counters returns a fresh copy, so that its answers depend on the region only.
  virtual std::shared_ptr<Policy> begin_region();

  // The forward of the region that begin_region() was called for has ended, without an exception.
  // trace: returns the region's operators, values, and the values that autograd has saved, in time
  // linear in their number; valid during the call only. By default, does nothing.
  //
  // Throws: any exception; it leaves the region.
  virtual void end_region(const std::function<RegionTrace()>& trace);

  // Returns human-readable descriptions of the entries, such as operator names, that have matched
  // no operator since the policy was made.
  [[nodiscard]] virtual std::vector<std::string> unmatched() const;
};

// A policy, or none. Converts from a shared_ptr to a Policy, or from a callable that takes a
// PolicyContext and returns a PolicyAnswer, a CheckpointPolicy, or a bool: true means MUST_SAVE,
// false PREFER_RECOMPUTE.
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
