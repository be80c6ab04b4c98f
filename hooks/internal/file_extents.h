// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Which parts of a file are in use.
#ifndef REPRISE_HOOKS_INTERNAL_FILE_EXTENTS_H_
#define REPRISE_HOOKS_INTERNAL_FILE_EXTENTS_H_

#include <cstddef>
#include <map>

namespace reprise::hooks_internal {

struct Extent {
  std::size_t offset = 0;
  std::size_t length = 0;
};

// Not thread-safe.
class FileExtents {
 public:
  // The first part that is free and large enough, or at the end of the file.
  Extent take(std::size_t length);
  // Next to free parts, it grows together with them.
  void give_back(const Extent& extent);

  // In use. After it, the file may be cut.
  std::size_t end() const { return end_; }
  std::size_t used() const { return used_; }

 private:
  std::map<std::size_t, std::size_t> free_;  // length by offset, before end_
  std::size_t end_ = 0;
  std::size_t used_ = 0;
};

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_INTERNAL_FILE_EXTENTS_H_
