// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/operators/c10d_work.h"

#include <ATen/core/class_type.h>
#include <ATen/core/function.h>
#include <ATen/core/stack.h>

#include "reprise/engine/operators/custom_class.h"

namespace reprise::engine_internal {

bool is_of_c10d(const c10::IValue& value) { return is_of_classes_in(value, "c10d"); }

void wait_for_work(c10::ArrayRef<c10::IValue> results) {
  for (const c10::IValue& result : results) {
    if (is_of_c10d(result)) {
      torch::jit::Stack stack = {result};
      result.type()->expectRef<c10::ClassType>().getMethod("wait").run(stack);
    }
  }
}

}  // namespace reprise::engine_internal
