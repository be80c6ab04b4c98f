// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// How a callable is called: functions, modules and module holders. LibTorch's module types are
// recognised by their members, so that this file does not include torch/nn.
#ifndef REPRISE_ENGINE_CALLABLE_INVOKE_CALLABLE_H_
#define REPRISE_ENGINE_CALLABLE_INVOKE_CALLABLE_H_

#include <functional>
#include <type_traits>
#include <utility>

namespace reprise::engine_internal {

template <class F, class... Args>
concept HasForward = requires(F& fn, Args&&... args) {
  fn.forward(std::forward<Args>(args)...);
};

template <class F, class... Args>
concept PointsToForward = requires(F& fn, Args&&... args) {
  fn->forward(std::forward<Args>(args)...);
};

template <class F, class... Args>
concept Callable =
    PointsToForward<F, Args...> || HasForward<F, Args...> || std::is_invocable_v<F&, Args...>;

// Calls the member function `forward` of `fn`'s pointee or of `fn`, or else `fn` itself. In this
// order, because the operator() of a module holder returns void if the module's forward is a
// template, as in torch::nn::Sequential.
template <class F, class... Args>
decltype(auto) invoke_callable(F& fn, Args&&... args) {
  if constexpr (PointsToForward<F, Args...>) {
    return fn->forward(std::forward<Args>(args)...);
  } else if constexpr (HasForward<F, Args...>) {
    return fn.forward(std::forward<Args>(args)...);
  } else {
    return std::invoke(fn, std::forward<Args>(args)...);
  }
}

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_CALLABLE_INVOKE_CALLABLE_H_
