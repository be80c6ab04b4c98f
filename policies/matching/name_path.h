// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Names of nested scopes: "block3/attn/q_proj".
#ifndef REPRISE_POLICIES_MATCHING_NAME_PATH_H_
#define REPRISE_POLICIES_MATCHING_NAME_PATH_H_

#include <span>
#include <string>
#include <string_view>

namespace reprise::policies_internal {

// Throws std::invalid_argument, on behalf of `caller`, if `path` has an empty segment.
void check_path(std::string_view path, std::string_view caller);

// Returns whether a scope among `scopes`, the outermost first, has a path that ends with the
// segments of `path`, which is not empty.
[[nodiscard]] bool stands_in(std::span<const std::string> scopes, std::string_view path) noexcept;

}  // namespace reprise::policies_internal

#endif  // REPRISE_POLICIES_MATCHING_NAME_PATH_H_
