// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Which parts of a file, or of a piece of memory, are in use.
#ifndef REPRISE_HOOKS_STORAGE_EXTENTS_H_
#define REPRISE_HOOKS_STORAGE_EXTENTS_H_

#include <cstddef>
#include <limits>
#include <map>
#include <optional>

namespace reprise::hooks_internal {

struct Extent {
  std::size_t offset = 0;
  std::size_t length = 0;
};

// Not thread-safe.
class Extents {
 public:
  // limit: where the last part has to end, at most.
  explicit Extents(std::size_t limit = std::numeric_limits<std::size_t>::max()) : limit_(limit) {}

  // The first part that is free and large enough, or behind the last one. Nothing if that would go
  // beyond the limit.
  std::optional<Extent> take(std::size_t length);
  // Next to free parts, it grows together with them.
  void give_back(const Extent& extent);

  // In use. After it, the file may be cut.
  std::size_t end() const { return end_; }
  std::size_t used() const { return used_; }
  // Of the free parts, up to the limit.
  std::size_t largest_free() const;

 private:
  const std::size_t limit_;
  std::map<std::size_t, std::size_t> free_;  // length by offset, before end_
  std::size_t end_ = 0;
  std::size_t used_ = 0;
};

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_STORAGE_EXTENTS_H_
