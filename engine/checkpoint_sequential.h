// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: checkpoint_sequential.h
//
// `checkpoint_sequential()` runs a list of functions, each on the result of the one before, as a
// few regions of about equal length and a last part without one. With n functions, sqrt(n) segments
// minimise peak memory at the cost of one extra forward (Chen et al. 2016, "Training Deep Nets with
// Sublinear Memory Cost").
//
// Not for functions that take more than one value, or that share intermediate results across
// segments: call `checkpoint()` for each span instead.
//
// Example:
//
//   torch::nn::Sequential blocks(...);
//   at::Tensor y = reprise::checkpoint_sequential(blocks, 4, x);
//
//   torch::nn::ModuleList list;  // of Block
//   at::Tensor z = reprise::checkpoint_sequential<Block>({.name = "encoder"}, list, 4, x);
//
// Thread-safety: thread-safe.
#ifndef REPRISE_ENGINE_CHECKPOINT_SEQUENTIAL_H_
#define REPRISE_ENGINE_CHECKPOINT_SEQUENTIAL_H_

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "reprise/engine/callable/function_list.h"
#include "reprise/engine/checkpoint.h"
#include "reprise/engine/checkpoint_options.h"
#include "reprise/engine/modules/in_place_module.h"

namespace reprise {

// Runs `functions` on `input`. The first `segments - 1` segments of floor(n / segments) functions
// each are regions; the last one, with the remainder, runs plainly, since backward would ask for
// its tensors immediately.
//
// functions: a torch::nn::Sequential (holder or implementation), or any range of callables, module
//   holders, or pointers to objects with `forward(value)`. The regions own copies (for holders and
//   pointers: shared ownership), so the list itself may be destroyed.
// segments: 1 to the number of functions.
// input: one value, of the type that the functions return, or convertible to it; usually a tensor
//   of any shape. The elements of a torch::nn::Sequential may differ in type; the last one must
//   return a tensor.
//
// A region cannot begin with an operator that overwrites its input, which a recomputation needs. So
// LibTorch's activations and dropouts with the option `inplace` at the beginning of a segment
// belong to the one before; at the beginning of the list, they run plainly. Elements of other types
// that overwrite their input are an error in backward.
//
// Region i is named "<name>[i]" unless `options.name` is empty. Gradients are bit-identical to
// running the functions plainly.
//
// Returns: the last function's result.
// Throws: std::invalid_argument for an empty list or `segments` out of range, before any function
//   runs; exceptions of a function. Backward: as `checkpoint()` with the same options.
// Stream: as `checkpoint()`.
//
// Follows torch.utils.checkpoint.checkpoint_sequential.
template <engine_internal::FunctionList Functions, class Input>
auto checkpoint_sequential(CheckpointOptions options, const Functions& functions,
                           std::int64_t segments, Input&& input) {
  auto all = engine_internal::copy_functions(functions);
  engine_internal::check_segments(segments, all.size());
  using Function = typename decltype(all)::value_type;
  using Segment = engine_internal::FunctionSegment<Function>;
  using Value = typename engine_internal::TravellingValue<Function, Input>::type;

  const auto length = static_cast<std::ptrdiff_t>(all.size()) / segments;
  auto first = all.begin();
  const auto boundary = [&](std::int64_t index) {
    return std::find_if_not(std::max(first, all.begin() + index * length), all.end(),
                            engine_internal::is_in_place_function<Function>);
  };
  Value value = engine_internal::to_travelling_value<Value>(std::forward<Input>(input));
  if (segments > 1) {
    first = boundary(0);
    value = Segment(engine_internal::take_functions(all.begin(), first))(std::move(value));
  }
  for (std::int64_t index = 0; index + 1 < segments; ++index) {
    const auto end = boundary(index + 1);
    if (first == end) {
      continue;
    }
    CheckpointOptions segment_options = options;
    segment_options.name = engine_internal::segment_name(options.name, index);
    Segment segment(engine_internal::take_functions(first, end));
    value = checkpoint(std::move(segment_options), std::move(segment), std::move(value));
    first = end;
  }
  Segment last(engine_internal::take_functions(first, all.end()));
  return engine_internal::to_result(last(std::move(value)));
}

// The same with default options.
template <engine_internal::FunctionList Functions, class Input>
auto checkpoint_sequential(const Functions& functions, std::int64_t segments, Input&& input) {
  return checkpoint_sequential(CheckpointOptions{}, functions, segments,
                               std::forward<Input>(input));
}

// The same for modules known by their base class: a torch::nn::ModuleList (holder or
// implementation), or a range of std::shared_ptr<torch::nn::Module>. `FirstModule` and
// `OtherModules` are the possible types of the elements (`Block` or `BlockImpl`), tried in turn;
// each needs a `forward` of one value, which has the type that the first one returns.
//
// Throws: also std::invalid_argument that names the index and type of an element of another type,
//   before any module runs.
template <class FirstModule, class... OtherModules, engine_internal::FunctionList List, class Input>
auto checkpoint_sequential(CheckpointOptions options, const List& modules, std::int64_t segments,
                           Input&& input) {
  using FirstImpl = engine_internal::ModuleImplementationT<FirstModule>;
  using Value = std::decay_t<decltype(std::declval<FirstImpl&>().forward(std::declval<Input>()))>;
  return checkpoint_sequential(
      std::move(options),
      engine_internal::functions_of_modules<
          Value, FirstImpl, engine_internal::ModuleImplementationT<OtherModules>...>(modules),
      segments, std::forward<Input>(input));
}

// The same with default options.
template <class FirstModule, class... OtherModules, engine_internal::FunctionList List, class Input>
auto checkpoint_sequential(const List& modules, std::int64_t segments, Input&& input) {
  return checkpoint_sequential<FirstModule, OtherModules...>(CheckpointOptions{}, modules, segments,
                                                             std::forward<Input>(input));
}

}  // namespace reprise

#endif  // REPRISE_ENGINE_CHECKPOINT_SEQUENTIAL_H_
