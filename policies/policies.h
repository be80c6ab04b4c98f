// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: policies.h
//
// Ready policies of selective checkpointing, by operator, shape, name or tag, and combinators that
// make new ones of them. They decide what a region keeps of its operators' results; everything
// else is recomputed.
//
// Not a planner: none knows how much memory there is.
//
// Example:
//
//   namespace policies = reprise::policies;
//   const reprise::PolicyHolder policy = policies::first_match(
//       {policies::offload(policies::save_attention()), policies::every_nth_matmul(2)});
//   auto y = reprise::checkpoint({.name = "block", .policy = policy}, block, x);
//
// Regions see composite operators as their parts (`PolicyContext::op`), so those are what to name.
//
// Thread-safety: the policies made here are thread-safe in so far as the policies and callables
// that they are made of are; one may serve any number of regions. What counts, counts per region.
#ifndef REPRISE_POLICIES_POLICIES_H_
#define REPRISE_POLICIES_POLICIES_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/enum_tag.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "reprise/base/export.h"
#include "reprise/policies/checkpoint_policy.h"

namespace reprise::policies_internal {

template <class State, class F>
class StatefulPolicy final : public Policy {
 public:
  StatefulPolicy(State initial, F decide)
      : initial_(std::move(initial)), state_(initial_), decide_(std::move(decide)) {}

  PolicyAnswer decide(const PolicyContext& context) override {
    if constexpr (std::same_as<std::invoke_result_t<F&, State&, const PolicyContext&>, bool>) {
      return std::invoke(decide_, state_, context) ? CheckpointPolicy::MUST_SAVE
                                                   : CheckpointPolicy::PREFER_RECOMPUTE;
    } else {
      return std::invoke(decide_, state_, context);
    }
  }

  std::shared_ptr<Policy> begin_region() override {
    return std::make_shared<StatefulPolicy>(initial_, decide_);
  }

 private:
  const State initial_;
  State state_;
  F decide_;
};

}  // namespace reprise::policies_internal

namespace reprise::policies {

// PREFER_SAVE and PREFER_RECOMPUTE for each operator. Saving everything keeps more than a run
// without checkpointing does: also what backward never asks for.
[[nodiscard]] REPRISE_API PolicyHolder save_everything();
[[nodiscard]] REPRISE_API PolicyHolder save_nothing();

// MUST_SAVE for the operators listed, PREFER_RECOMPUTE for others. A name is "aten::mm" or
// "aten::add.Tensor", and means that overload only; without an overload it means the default one,
// or the only one. `unmatched()` has the names of which no operator has come yet, with a note at
// composite operators, of which regions see the parts.
//
// std::invalid_argument for a name that the dispatcher does not know (the message has the closest
// ones) or that leaves a choice of overloads (it has them all). Operators of a library that is not
// loaded yet are not known.
[[nodiscard]] REPRISE_API PolicyHolder save_operators(std::vector<std::string> names);

// PREFER_SAVE for aten::mm, addmm, bmm and baddbmm in any overload, PREFER_RECOMPUTE for others.
[[nodiscard]] REPRISE_API PolicyHolder save_matmuls();

// PREFER_SAVE for attention in one operator, PREFER_RECOMPUTE for others: LibTorch's flash,
// memory-efficient, cuDNN, overrideable and CPU variants, and operators of other libraries with
// "attention" or "attn" in their name; not their backward. Attention that LibTorch composes of
// others (its math variant) arrives as aten::bmm and aten::_softmax and is not kept; where that is
// all there is, `unmatched()` says so.
[[nodiscard]] REPRISE_API PolicyHolder save_attention();

// PREFER_SAVE for what save_matmuls() and save_attention() keep, and for convolutions.
[[nodiscard]] REPRISE_API PolicyHolder save_compute_intensive();

// PREFER_SAVE for the matmuls of save_matmuls() that are the first, the (n+1)th, the (2n+1)th ...
// of their region, PREFER_RECOMPUTE for others. A question about a named result
// (`PolicyContext::name`) is not another matmul: it does not count, and gets PREFER_RECOMPUTE.
// std::invalid_argument unless n is positive.
[[nodiscard]] REPRISE_API PolicyHolder every_nth_matmul(std::int64_t n);

// PREFER_SAVE for operators of which `condition` is true for at least one result, and
// PREFER_RECOMPUTE for others, with no result among them. It should look at the tensor's shape,
// dtype or device, not at its values. std::invalid_argument if it is empty.
[[nodiscard]] REPRISE_API PolicyHolder
save_where(std::function<bool(const at::Tensor& output)> condition);

// Keeps what stands under a name, with two meanings of "name", both compared exactly:
//   - the name of a result, `PolicyContext::name()`: MUST_SAVE if an entry equals it;
//   - the scopes of an operator (name_scope.h): PREFER_SAVE if the path of one of them, outer names
//     first and joined by '/', ends with an entry, at a '/'. In scopes "block3", "attn", "q_proj",
//     the entries "q_proj", "attn/q_proj", "block3/attn" and "attn" match; "proj" and
//     "block3/q_proj" do not.
// PREFER_RECOMPUTE otherwise. `unmatched()` has the entries under which nothing has come yet.
// std::invalid_argument for an entry that is empty, or has an empty part between '/'.
[[nodiscard]] REPRISE_API PolicyHolder save_named(std::vector<std::string> names);

// PREFER_SAVE for operators with `tag`, PREFER_RECOMPUTE for others.
[[nodiscard]] REPRISE_API PolicyHolder save_tagged(at::Tag tag);

// Combinators. All throw std::invalid_argument for a PolicyHolder without a policy. What counts in
// one of the policies they are made of starts anew in each region, and `unmatched()` has what
// theirs have.

// The answers of `inner`, with MUST_CPU_OFFLOAD for MUST_SAVE and PREFER_CPU_OFFLOAD for
// PREFER_SAVE.
[[nodiscard]] REPRISE_API PolicyHolder offload(const PolicyHolder& inner);

// The answers of `inner`, with `store` as the place of what is kept, unless an answer names one.
// std::invalid_argument for a null pointer.
[[nodiscard]] REPRISE_API PolicyHolder keep_in(std::shared_ptr<ActivationStore> store,
                                               const PolicyHolder& inner);

// The first answer that is not PREFER_RECOMPUTE, which stands for "no opinion" here; if there is
// none, PREFER_RECOMPUTE. The policies behind the one that has answered are not asked, so one that
// counts counts only what reaches it.
[[nodiscard]] REPRISE_API PolicyHolder first_match(const std::vector<PolicyHolder>& policies);

// The answer of `overriding` if it is a MUST, whatever `base` says, else that of `base`. Both are
// asked each time.
[[nodiscard]] REPRISE_API PolicyHolder override_with(const PolicyHolder& base,
                                                     const PolicyHolder& overriding);

// `policy` in regions of this very name, `otherwise` in others. `unmatched()` has the name as long
// as no operator of such a region has come, and what both policies have.
[[nodiscard]] REPRISE_API PolicyHolder for_region(std::string name, const PolicyHolder& policy,
                                                  const PolicyHolder& otherwise);

// What `decide` answers, given a copy of `initial` that lives as long as its region, and changes
// as it likes; an answer that is a bool means what it means for a PolicyHolder. State and callable
// are copied for each region. A question about a named result comes besides the one about its
// operator: what counts operators should count those with an empty `PolicyContext::name`.
//
//   with_state(0, [](int& seen, const PolicyContext& c) { return c.name().empty() && ++seen < 4; })
template <std::copy_constructible State, std::copy_constructible F>
requires std::is_invocable_r_v<PolicyAnswer, F&, State&, const PolicyContext&> ||
    std::same_as < std::invoke_result_t<F&, State&, const PolicyContext&>,
bool > [[nodiscard]] PolicyHolder with_state(State initial, F decide) {
  return std::make_shared<policies_internal::StatefulPolicy<State, F>>(std::move(initial),
                                                                       std::move(decide));
}

}  // namespace reprise::policies

#endif  // REPRISE_POLICIES_POLICIES_H_
