// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/policies/operators/operator_lookup.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "reprise/base/text/closest.h"

namespace reprise::policies_internal {
namespace {

constexpr std::size_t kSuggestions = 3;

// Splits "aten::add.Tensor" into {"aten::add", "Tensor"}.
c10::OperatorName parse(std::string_view name) {
  const std::size_t colons = name.find("::");
  const std::size_t dot = name.find('.', colons == std::string_view::npos ? 0 : colons);
  if (dot == std::string_view::npos) {
    return {std::string(name), ""};
  }
  return {std::string(name.substr(0, dot)), std::string(name.substr(dot + 1))};
}

std::string full_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

std::string_view without_namespace(std::string_view name) {
  const std::size_t colons = name.find("::");
  return colons == std::string_view::npos ? name : name.substr(colons + 2);
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

// Operators with a schema; an operator that only has kernels cannot be called.
std::vector<c10::OperatorName> all_names() {
  std::vector<c10::OperatorName> names;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (c10::Dispatcher::singleton().findSchema(name)) {
      names.push_back(name);
    }
  }
  return names;
}

std::vector<std::string> overloads_of(const std::string& base,
                                      const std::vector<c10::OperatorName>& names) {
  std::vector<std::string> overloads;
  for (const c10::OperatorName& name : names) {
    if (name.name == base) {
      overloads.push_back(full_name(name));
    }
  }
  std::sort(overloads.begin(), overloads.end());
  return overloads;
}

std::vector<std::string> closest_to(const c10::OperatorName& wanted,
                                    const std::vector<c10::OperatorName>& names) {
  using Candidate = std::pair<std::size_t, std::string>;
  const bool has_namespace = wanted.name.find("::") != std::string::npos;
  std::vector<Candidate> candidates;
  for (const c10::OperatorName& name : names) {
    const std::string_view compared =
        has_namespace ? std::string_view(name.name) : without_namespace(name.name);
    const std::size_t far = base_internal::edit_distance(wanted.name, compared);
    // LibTorch's own first, among equally close ones.
    const bool is_foreign = !name.name.starts_with("aten::");
    candidates.emplace_back(2 * far + (is_foreign ? 1 : 0), name.name);
  }
  std::sort(candidates.begin(), candidates.end());
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  candidates.resize(std::min(candidates.size(), kSuggestions));
  std::vector<std::string> closest;
  closest.reserve(candidates.size());
  for (Candidate& candidate : candidates) {
    closest.push_back(std::move(candidate.second));
  }
  return closest;
}

[[noreturn]] void throw_not_found(std::string_view caller, const c10::OperatorName& wanted,
                                  const std::vector<c10::OperatorName>& names) {
  const std::vector<std::string> overloads = overloads_of(wanted.name, names);
  std::string message = "[" + std::string(caller) + "] ";
  if (overloads.empty()) {
    message += "there is no such operator; received '" + full_name(wanted) +
               "'; the closest names are " + joined(closest_to(wanted, names));
  } else if (wanted.overload_name.empty()) {
    message += "the operator has several overloads and no default one; received '" + wanted.name +
               "'; name one or more of " + joined(overloads);
  } else {
    message += "the operator has no such overload; received '" + full_name(wanted) +
               "'; its names are " + joined(overloads);
  }
  throw std::invalid_argument(message);
}

}  // namespace

c10::OperatorHandle find_operator(std::string_view name, std::string_view caller) {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  const c10::OperatorName wanted = parse(name);
  if (const auto found = dispatcher.findSchema(wanted)) {
    return *found;
  }
  const std::vector<c10::OperatorName> names = all_names();
  if (wanted.overload_name.empty()) {
    const std::vector<std::string> overloads = overloads_of(wanted.name, names);
    if (overloads.size() == 1) {
      return *dispatcher.findSchema(parse(overloads.front()));
    }
  }
  throw_not_found(caller, wanted, names);
}

}  // namespace reprise::policies_internal
