// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/internal/region_scope.h"

namespace reprise::engine_internal {
namespace {

thread_local const RegionScope* innermost = nullptr;

}  // namespace

RegionScope::RegionScope(const std::string& name, SelectiveForward* selective)
    : name_(name), selective_(selective), enclosing_(innermost) {
  innermost = this;
}

RegionScope::~RegionScope() { innermost = enclosing_; }

const RegionScope* RegionScope::current() noexcept { return innermost; }

SelectiveForward* RegionScope::innermost_selective() noexcept {
  const RegionScope* region = innermost;
  while (region != nullptr && region->selective_ == nullptr) {
    region = region->enclosing_;
  }
  return region == nullptr ? nullptr : region->selective_;
}

}  // namespace reprise::engine_internal
