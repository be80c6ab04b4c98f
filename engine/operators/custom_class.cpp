// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/operators/custom_class.h"

#include <ATen/core/class_type.h>

#include <string>

namespace reprise::engine_internal {

bool is_of_classes_in(const c10::IValue& value, std::string_view name_space) {
  if (!value.isCustomClass()) {
    return false;
  }
  constexpr std::string_view kRegistered = "__torch__.torch.classes.";
  const auto name = value.type()->expectRef<c10::ClassType>().name();
  const std::string_view prefix = name ? std::string_view(name->prefix()) : std::string_view();
  return prefix.starts_with(kRegistered) && prefix.substr(kRegistered.size()) == name_space;
}

}  // namespace reprise::engine_internal
