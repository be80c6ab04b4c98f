// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A file without a name, which ceases to exist with its last owner, or with the process.
//
// Note [Disk files of forked processes]: a child shares the file's bytes with its parent, but not
// the record of their use. It therefore reads what it has inherited, never writes to or truncates
// it, and writes to a file of its own, at offsets beyond.
#ifndef REPRISE_HOOKS_BACKGROUND_DISK_FILE_H_
#define REPRISE_HOOKS_BACKGROUND_DISK_FILE_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "reprise/hooks/buffers/extents.h"

namespace reprise::hooks_internal {

// Thread-safe. Errors are c10::Errors that name the directory and the system's error.
class DiskFile {
 public:
  // direct: bypass the page cache, if the file system supports that.
  DiskFile(std::string directory, std::int64_t max_bytes, bool direct);
  ~DiskFile();
  DiskFile(const DiskFile&) = delete;
  DiskFile& operator=(const DiskFile&) = delete;

  // Reserves space on the disk, or returns nothing if that would exceed max_bytes. Throws if the
  // disk is full.
  std::optional<Extent> reserve(std::int64_t bytes);
  void give_back(const Extent& extent);
  // Truncates unused space at the end.
  void release_unused();

  // Wait for the disk.
  // Copies `size` bytes from `offset`; returns false to give up.
  using CopyBytes = std::function<bool(std::int64_t offset, std::int64_t size, std::byte* to)>;
  // Returns false if `copy` has given up.
  bool write(const Extent& extent, std::int64_t size, const CopyBytes& copy) const;
  void read(const Extent& extent, std::byte* bytes, std::int64_t size) const;

  const std::string& directory() const { return directory_; }
  // Reserved.
  std::int64_t used_bytes() const;

 private:
  // Of a process that this one has been forked from.
  struct Inherited {
    int file;
    std::int64_t end;  // of its extents; they begin where those of the one before end
  };

  void open_file();
  // To be called before the file is changed, under the lock.
  void leave_parents_file();
  bool is_inherited(const Extent& extent) const;  // likewise
  int file_of(const Extent& extent) const;
  [[noreturn]] void fail(const std::string& what, int error, const char* remedy) const;

  const std::string directory_;
  const std::int64_t max_bytes_;
  mutable std::mutex mutex_;
  int file_ = -1;
  bool is_direct_ = false;
  pid_t owner_ = -1;
  std::vector<Inherited> inherited_;
  Extents extents_;
  std::int64_t allocated_ = 0;  // the file's length
};

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_BACKGROUND_DISK_FILE_H_
