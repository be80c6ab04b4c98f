// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/policies/name_scope.h"

#include <utility>
#include <vector>

#include "reprise/policies/internal/name_path.h"

namespace reprise {
namespace {

std::vector<std::string>& scopes() {
  thread_local std::vector<std::string> names;
  return names;
}

}  // namespace

NameScope::NameScope(std::string name) : found_depth_(scopes().size()) {
  policies_internal::check_path(name, "policies.NameScope");
  scopes().push_back(std::move(name));
}

NameScope::~NameScope() {
  std::vector<std::string>& names = scopes();
  while (names.size() > found_depth_) {
    names.pop_back();
  }
}

std::span<const std::string> NameScope::current() noexcept { return scopes(); }

}  // namespace reprise
