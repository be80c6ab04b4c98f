// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/bill/operator_names.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <cctype>
#include <cstddef>
#include <initializer_list>

#include "absl/container/flat_hash_set.h"

namespace reprise::engine_internal {
namespace {

bool is_upper(char character) { return std::isupper(static_cast<unsigned char>(character)) != 0; }

// Returns "native_batch_norm" for "NativeBatchNorm".
std::string with_underscores(std::string_view name) {
  std::string text;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool begins_word =
        i > 0 && is_upper(name[i]) &&
        ((!is_upper(name[i - 1]) && name[i - 1] != '_') ||
         (is_upper(name[i - 1]) && i + 1 < name.size() && !is_upper(name[i + 1])));
    text += begins_word ? "_" : "";
    text += static_cast<char>(std::tolower(static_cast<unsigned char>(name[i])));
  }
  return text;
}

// Returns the names of LibTorch's own operators, without overloads.
absl::flat_hash_set<std::string> names_of_operators() {
  absl::flat_hash_set<std::string> names;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    names.insert(name.name);
  }
  return names;
}

}  // namespace

std::string operator_of_node(std::string_view node) {
  static const auto* const kNames = new absl::flat_hash_set<std::string>(names_of_operators());
  const std::size_t end = node.rfind("Backward");
  if (end == std::string_view::npos || end == 0) {
    return "";
  }
  const std::string name = with_underscores(node.substr(0, end));
  for (const char* const prefix : {"aten::", "aten::_"}) {
    if (const std::string full = prefix + name; kNames->contains(full)) {
      return full;
    }
  }
  return "";
}

}  // namespace reprise::engine_internal
