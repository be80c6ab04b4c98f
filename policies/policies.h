// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: policies.h
//
// Ready policies of selective checkpointing, by operator, shape, name or tag, and combinators of
// them. A policy selects the operator results that a region saves; all others are recomputed.
//
// A region retains a saved result in the form that takes least: of a matmul and the relu that reads
// it, the one that backward reads; nothing that no backward reads; and in total no more than a run
// without checkpointing would, unless a policy insists (MUST_SAVE).
//
// Not for meeting a memory budget: no policy knows how much memory is available.
//
// Example:
//
//   namespace policies = reprise::policies;
//   const reprise::PolicyHolder policy = policies::first_match(
//       {policies::offload(policies::save_attention()), policies::every_nth_matmul(2)});
//   auto y = reprise::checkpoint({.name = "block", .policy = policy}, block, x);
//
// Regions see composite operators as their parts (`PolicyContext::op`): name the parts.
//
// Thread-safety: a policy made here is thread-safe if the policies and callables that it is made of
// are; it may serve any number of regions. Counters are per region.
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
#include "reprise/policies/matching/stateful_policy.h"

namespace reprise::policies {

// Return policies that answer PREFER_SAVE and PREFER_RECOMPUTE for each operator. With
// save_everything() a region retains as much as a run without checkpointing does, and recomputes
// next to nothing.
[[nodiscard]] REPRISE_API PolicyHolder save_everything();
[[nodiscard]] REPRISE_API PolicyHolder save_nothing();

// Answers MUST_SAVE for the listed operators, PREFER_RECOMPUTE for others. A name is "aten::mm" or
// "aten::add.Tensor", and means that overload only; without an overload it means the default one,
// or the only one. `unmatched()` lists names that have matched no operator yet, with a note for
// composite operators, of which regions see the parts.
//
// Throws: std::invalid_argument for a name that the dispatcher does not know (the message lists the
//   closest ones) or that is ambiguous between overloads (it lists them). Operators of a library
//   that is not loaded yet are unknown.
[[nodiscard]] REPRISE_API PolicyHolder save_operators(std::vector<std::string> names);

// Answers PREFER_SAVE for aten::mm, addmm, bmm and baddbmm in any overload, PREFER_RECOMPUTE for
// others.
[[nodiscard]] REPRISE_API PolicyHolder save_matmuls();

// Answers PREFER_SAVE for fused attention, PREFER_RECOMPUTE for others: LibTorch's flash,
// memory-efficient, cuDNN, overrideable and CPU variants, and operators of other libraries with
// "attention" or "attn" in their name; not their backward. LibTorch's math variant of attention
// appears as aten::bmm and aten::_softmax and is not saved; `unmatched()` reports if no other was
// seen.
[[nodiscard]] REPRISE_API PolicyHolder save_attention();

// Answers PREFER_SAVE for the operators of save_matmuls() and save_attention(), and for
// convolutions.
[[nodiscard]] REPRISE_API PolicyHolder save_compute_intensive();

// Answers PREFER_SAVE for the first, the (n+1)th, the (2n+1)th ... matmul of a region, by
// save_matmuls(), and PREFER_RECOMPUTE for others. A call for a named result
// (`PolicyContext::name`) is not another matmul: it is not counted, and gets PREFER_RECOMPUTE.
//
// Throws: std::invalid_argument unless n is positive.
[[nodiscard]] REPRISE_API PolicyHolder every_nth_matmul(std::int64_t n);

// Answers PREFER_SAVE for operators with at least one result for which `condition` returns true,
// PREFER_RECOMPUTE for others. It should depend on the tensor's shape, dtype or device, not on its
// values.
//
// Throws: std::invalid_argument if `condition` is empty.
[[nodiscard]] REPRISE_API PolicyHolder
save_where(std::function<bool(const at::Tensor& output)> condition);

// Saves results by name, with two kinds of names, both compared exactly:
//   - the name of a result, `PolicyContext::name()`: MUST_SAVE if an entry equals it;
//   - the scopes of an operator (name_scope.h): PREFER_SAVE if the path of one of them, outer names
//     first and joined by '/', ends with an entry, at a '/'. In scopes "block3", "attn", "q_proj",
//     the entries "q_proj", "attn/q_proj", "block3/attn" and "attn" match; "proj" and
//     "block3/q_proj" do not.
// PREFER_RECOMPUTE otherwise. `unmatched()` lists the entries that have matched nothing yet.
//
// Throws: std::invalid_argument for an entry that is empty or has an empty part between '/'.
[[nodiscard]] REPRISE_API PolicyHolder save_named(std::vector<std::string> names);

// Answers PREFER_SAVE for operators with `tag`, PREFER_RECOMPUTE for others.
[[nodiscard]] REPRISE_API PolicyHolder save_tagged(at::Tag tag);

// Combinators. All throw std::invalid_argument for a PolicyHolder without a policy. Counters of the
// combined policies start again in each region, and `unmatched()` lists the entries of all of them.

// Answers as `inner`, with MUST_CPU_OFFLOAD for MUST_SAVE and PREFER_CPU_OFFLOAD for PREFER_SAVE.
[[nodiscard]] REPRISE_API PolicyHolder offload(const PolicyHolder& inner);

// Answers as `inner`, with `store` for saved results unless an answer names a store itself.
//
// Throws: also std::invalid_argument for a null pointer.
[[nodiscard]] REPRISE_API PolicyHolder keep_in(std::shared_ptr<ActivationStore> store,
                                               const PolicyHolder& inner);

// Returns the first answer other than PREFER_RECOMPUTE, which means "no opinion" here; if there is
// none, PREFER_RECOMPUTE. Later policies are not asked, so a policy with counters counts only the
// calls that reach it.
[[nodiscard]] REPRISE_API PolicyHolder first_match(const std::vector<PolicyHolder>& policies);

// Returns the answer of `overriding` if it is a MUST, otherwise that of `base`. Both are asked each
// time.
[[nodiscard]] REPRISE_API PolicyHolder override_with(const PolicyHolder& base,
                                                     const PolicyHolder& overriding);

// Asks `policy` in regions with exactly this name, and `otherwise` in others. `unmatched()` lists
// the name until an operator of such a region was seen, and the entries of both policies.
[[nodiscard]] REPRISE_API PolicyHolder for_region(std::string name, const PolicyHolder& policy,
                                                  const PolicyHolder& otherwise);

// Returns the answers of `decide`, which receives a copy of `initial` that lives as long as its
// region and that it may modify; a bool is converted as by PolicyHolder. State and callable are
// copied for each region. A call for a named result comes in addition to the one for its operator:
// count operators by an empty `PolicyContext::name`.
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
