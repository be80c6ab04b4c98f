// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// LibTorch's modules that overwrite their input.
#ifndef REPRISE_ENGINE_MODULES_IN_PLACE_MODULE_H_
#define REPRISE_ENGINE_MODULES_IN_PLACE_MODULE_H_

#include "reprise/base/export.h"

namespace torch::nn {
class Module;
}  // namespace torch::nn

namespace reprise::engine_internal {

// Returns whether it is an activation or a dropout with the option `inplace`.
REPRISE_API bool works_in_place(const torch::nn::Module& module);

// The same for an element of a list of functions; false if it is no module.
template <class F>
bool is_in_place_function(const F& function) {
  if constexpr (requires { works_in_place(*function.ptr()); }) {
    return works_in_place(*function.ptr());  // a holder, torch::nn::AnyModule
  } else if constexpr (requires { works_in_place(*function); }) {
    return works_in_place(*function);
  } else if constexpr (requires { works_in_place(function); }) {
    return works_in_place(function);
  } else {
    return false;
  }
}

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_MODULES_IN_PLACE_MODULE_H_
