// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/policies/matching/name_path.h"

#include <cstddef>
#include <stdexcept>
#include <utility>

namespace reprise::policies_internal {
namespace {

// Removes the last segment, with the '/' before it, and returns it.
std::string_view pop_segment(std::string_view& path) noexcept {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) {
    return std::exchange(path, {});
  }
  const std::string_view segment = path.substr(slash + 1);
  path.remove_suffix(segment.size() + 1);
  return segment;
}

// Returns whether the path of `scopes` and, inside them, of `last` ends with the segments of
// `path`.
bool ends_with(std::span<const std::string> scopes, std::string_view last,
               std::string_view path) noexcept {
  while (!path.empty()) {
    if (last.empty()) {
      if (scopes.empty()) {
        return false;
      }
      last = scopes.back();
      scopes = scopes.first(scopes.size() - 1);
    }
    if (pop_segment(last) != pop_segment(path)) {
      return false;
    }
  }
  return true;
}

}  // namespace

void check_path(std::string_view path, std::string_view caller) {
  if (path.empty() || path.front() == '/' || path.back() == '/' ||
      path.find("//") != std::string_view::npos) {
    throw std::invalid_argument("[" + std::string(caller) +
                                "] a name must not be empty, nor a part of it between '/'; "
                                "received '" +
                                std::string(path) + "'; write it as 'attn/q_proj'");
  }
}

bool stands_in(std::span<const std::string> scopes, std::string_view path) noexcept {
  for (; !scopes.empty(); scopes = scopes.first(scopes.size() - 1)) {
    const std::string_view last = scopes.back();
    for (std::size_t end = last.size(); end > 0; --end) {
      const bool is_segment_end = end == last.size() || last[end] == '/';
      // Comparing characters avoids comparing segments for most paths.
      if (is_segment_end && last[end - 1] == path.back() &&
          ends_with(scopes.first(scopes.size() - 1), last.substr(0, end), path)) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace reprise::policies_internal
