// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/buffers/extents.h"

#include <algorithm>
#include <iterator>

namespace reprise::hooks_internal {

std::optional<Extent> Extents::take(std::int64_t length) {
  const auto found = std::find_if(free_.begin(), free_.end(),
                                  [length](const auto& part) { return part.second >= length; });
  if (found == free_.end()) {
    if (length > limit_ - end_) {
      return std::nullopt;
    }
    end_ += length;
    used_ += length;
    return Extent{end_ - length, length};
  }
  used_ += length;
  const Extent taken{found->first, length};
  const std::int64_t left = found->second - length;
  free_.erase(found);
  if (left > 0) {
    free_.emplace(taken.offset + length, left);
  }
  return taken;
}

void Extents::give_back(const Extent& extent) {
  used_ -= extent.length;
  auto part = free_.emplace(extent.offset, extent.length).first;
  if (part != free_.begin()) {
    const auto before = std::prev(part);
    if (before->first + before->second == part->first) {
      before->second += part->second;
      free_.erase(part);
      part = before;
    }
  }
  const auto after = std::next(part);
  if (after != free_.end() && part->first + part->second == after->first) {
    part->second += after->second;
    free_.erase(after);
  }
  if (part->first + part->second == end_) {
    end_ = part->first;
    free_.erase(part);
  }
}

std::int64_t Extents::largest_free() const {
  std::int64_t largest = limit_ - end_;
  for (const auto& [offset, length] : free_) {
    largest = std::max(largest, length);
  }
  return largest;
}

}  // namespace reprise::hooks_internal
