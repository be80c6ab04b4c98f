// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The parts of a file, or of a piece of memory, that are in use.
#ifndef REPRISE_HOOKS_BUFFERS_EXTENTS_H_
#define REPRISE_HOOKS_BUFFERS_EXTENTS_H_

#include <cstdint>
#include <limits>
#include <map>
#include <optional>

namespace reprise::hooks_internal {

struct Extent {
  std::int64_t offset = 0;
  std::int64_t length = 0;
};

// Not thread-safe.
class Extents {
 public:
  // limit: the maximum end of the last part.
  explicit Extents(std::int64_t limit = std::numeric_limits<std::int64_t>::max()) : limit_(limit) {}

  // Returns the first free part that is large enough, otherwise one after the last part; nothing if
  // that would exceed the limit.
  std::optional<Extent> take(std::int64_t length);
  // Merges with adjacent free parts.
  void give_back(const Extent& extent);
  // From now on takes only parts beyond the present end().
  void retire_free() { free_.clear(); }

  // Returns the end of the parts in use. The file may be truncated there.
  std::int64_t end() const { return end_; }
  std::int64_t used() const { return used_; }
  // Returns the largest free part, up to the limit.
  std::int64_t largest_free() const;

 private:
  const std::int64_t limit_;
  std::map<std::int64_t, std::int64_t> free_;  // length by offset, before end_
  std::int64_t end_ = 0;
  std::int64_t used_ = 0;
};

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_BUFFERS_EXTENTS_H_
