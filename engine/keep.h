// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: keep.h
//
// `keep()` runs a part of a region's code once: the region retains its results, and a recomputation
// receives them without a call of the part. For kernels that are slow to repeat, or that must not
// run twice. To save the results of LibTorch's operators use a policy (policies.h), and for code
// with effects alone `is_recomputing()`.
//
// Example:
//
//   at::Tensor block(const at::Tensor& x) {
//     const at::Tensor h = reprise::keep("attention", my_attention, x, x, x);
//     return h.relu() + x;
//   }
//   reprise::checkpoint(block, x).sum().backward();  // runs my_attention once
//
// Thread-safety: thread-safe, on the thread of the region.
#ifndef REPRISE_ENGINE_KEEP_H_
#define REPRISE_ENGINE_KEEP_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "reprise/base/export.h"
#include "reprise/engine/callable/invoke_callable.h"
#include "reprise/engine/callable/tensor_visitor.h"

namespace reprise {
namespace engine_internal {

// A result in parts: its tensors, and the rest.
struct PartsOfResult {
  std::vector<at::Tensor> tensors;
  std::shared_ptr<const void> rest;
};

// Returns what `run` returns now, or has returned in forward.
REPRISE_API PartsOfResult keep_parts(std::string_view name,
                                     const std::vector<at::Tensor>& arguments,
                                     const std::function<PartsOfResult()>& run);

// Takes the tensors out of `value`.
template <class T>
std::vector<at::Tensor> take_tensors(T& value) {
  std::vector<at::Tensor> tensors;
  visit_tensors(value, [&](auto& member) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(member)>, at::Tensor>) {
      tensors.push_back(std::move(member));
      member = at::Tensor();
    }
  });
  return tensors;
}

template <class T>
void put_tensors(T& value, std::vector<at::Tensor>& tensors) {
  std::size_t next = 0;
  visit_tensors(value, [&](auto& member) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(member)>, at::Tensor>) {
      member = std::move(tensors[next++]);
    }
  });
}

template <class T>
void append_tensors_of(const T& value, std::vector<at::Tensor>& tensors) {
  if constexpr (std::is_copy_constructible_v<T>) {
    T copy(value);
    for (at::Tensor& tensor : take_tensors(copy)) {
      tensors.push_back(std::move(tensor));
    }
  }
}

}  // namespace engine_internal

// Runs `fn(args...)` once per forward of the regions around: in a function region, its
// recomputation receives the results of forward, and random numbers drawn after it are those of
// forward. Scopes and memory budgets retain the results in the same way. Outside of regions calls
// `fn` and does nothing else.
//
// What autograd saves inside `fn` is retained until backward as without a region: the nodes of `fn`
// are those of the graph. Policies are not asked for operators inside. Regions inside `fn` are
// regions as anywhere.
//
// name: for errors, the same in the recomputation.
// fn, args: as for `checkpoint()`, but nothing is copied. `fn` must not write to tensors in `args`.
//
// Returns: the result of `fn`: tensors, or a copyable type in which they are found as in arguments
//   of `checkpoint()`. In a recomputation a copy with forward's tensors, of which a result that is
//   an argument is the argument. Not void.
// Throws: MutationError if `fn` writes to a tensor in `args`; CheckpointError if it draws from a
//   named generator state; exceptions of `fn`. Backward throws MutationError if a result has been
//   written in place since, DeterminismError if the recomputation makes other calls, and
//   CheckpointError if a backward inside the region's code goes through the results there.
// Stream: a recomputation reads the results on its own stream, that of forward.
template <class F, class... Args>
auto keep(std::string_view name, F&& fn, Args&&... args) {
  using Result = std::remove_cvref_t<decltype(engine_internal::invoke_callable(
      fn, std::forward<Args>(args)...))>;
  static_assert(!std::is_void_v<Result>, "keep() is for results; ask is_recomputing() for effects");
  static_assert(std::is_copy_constructible_v<Result>, "a result of keep() must be copyable");
  std::vector<at::Tensor> arguments;
  (engine_internal::append_tensors_of(args, arguments), ...);
  engine_internal::PartsOfResult parts = engine_internal::keep_parts(name, arguments, [&] {
    auto result =
        std::make_shared<Result>(engine_internal::invoke_callable(fn, std::forward<Args>(args)...));
    std::vector<at::Tensor> tensors = engine_internal::take_tensors(*result);
    return engine_internal::PartsOfResult{std::move(tensors), std::move(result)};
  });
  Result result(*static_cast<const Result*>(parts.rest.get()));
  engine_internal::put_tensors(result, parts.tensors);
  return result;
}

}  // namespace reprise

#endif  // REPRISE_ENGINE_KEEP_H_
