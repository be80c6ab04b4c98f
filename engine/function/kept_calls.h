// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Calls of keep() in function regions: forward notes their results, and a replay takes them.
//
// Note [Kept calls]: a kept function runs unseen (Note [Unseen]), so that nothing records its
// operators and what autograd saves there: its results come from outside, for function regions and
// for tapes. A function replay takes them from the list of its forward, in order. A call belongs to
// the regions around it: to all that are in forward, up to the innermost that is being recomputed,
// which has its results.
#ifndef REPRISE_ENGINE_FUNCTION_KEPT_CALLS_H_
#define REPRISE_ENGINE_FUNCTION_KEPT_CALLS_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/engine/keep.h"
#include "reprise/rng/rng_state.h"

namespace reprise::engine_internal {

struct KeptCall {
  struct Tensor {
    at::Tensor value;  // without graph, unless it is a leaf, which comes back as it is
    std::int64_t version = 0;
    bool requires_grad = false;
    bool is_leaf = false;
    std::optional<std::size_t> argument;  // that it is
  };

  std::string name;
  std::vector<Tensor> tensors;
  std::shared_ptr<const void> rest;
  std::vector<RngState> generators;  // that it has drawn from, as it has left them
};

using KeptCalls = std::vector<std::shared_ptr<const KeptCall>>;

// While alive, calls of keep() on this thread belong to a region.
class [[nodiscard]] KeptCallScope {
 public:
  // For forward, which adds to `calls`; for a replay, which takes from them. Both must outlive
  // this.
  KeptCallScope(KeptCalls& calls, const std::string& region);
  KeptCallScope(const KeptCalls& calls, const std::string& region);
  ~KeptCallScope();
  KeptCallScope(const KeptCallScope&) = delete;
  KeptCallScope& operator=(const KeptCallScope&) = delete;

 private:
  friend class KeptCallPlace;

  KeptCalls* const added_;        // null in a replay
  const KeptCalls* const taken_;  // null in forward
  const std::string& region_;
  const int depth_;  // of unseen scopes
  std::size_t next_ = 0;
};

// One call of keep() among the regions of its thread.
class KeptCallPlace {
 public:
  explicit KeptCallPlace(std::string_view name);

  bool is_in_region() const { return is_in_region_; }
  bool is_recomputed() const { return replay_ != nullptr; }

  PartsOfResult run(const std::vector<at::Tensor>& arguments,
                    const std::function<PartsOfResult()>& run);
  PartsOfResult take(const std::vector<at::Tensor>& arguments);

 private:
  void add(const std::shared_ptr<const KeptCall>& call);
  const std::shared_ptr<const KeptCall>& next_call();
  at::Tensor tensor_of(const KeptCall::Tensor& kept,
                       const std::vector<at::Tensor>& arguments) const;
  std::string prefix() const;

  const std::string_view name_;
  bool is_in_region_ = false;
  KeptCallScope* replay_ = nullptr;
  std::vector<KeptCallScope*> forwards_;  // that the call belongs to
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_FUNCTION_KEPT_CALLS_H_
