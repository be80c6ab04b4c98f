// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/background/disk_file.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

namespace reprise::hooks_internal {
namespace {

// The alignment of offsets, lengths and memory for direct access, on any file system in use.
constexpr std::int64_t kBlock = 4096;
constexpr std::int64_t kChunk = std::int64_t{4} << 20;

std::int64_t whole_blocks(std::int64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }

int open_unnamed(const std::string& directory, int flags) {
  const int file =
      open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | flags, S_IRUSR | S_IWUSR);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) {
    return file;
  }
  std::string name = directory + "/reprise-XXXXXX";  // a file system without unnamed files
  const int named = mkostemp(name.data(), O_CLOEXEC | flags);
  if (named >= 0) {
    unlink(name.c_str());
  }
  return named;
}

// Aligned memory of this thread.
std::byte* chunk_memory() {
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  thread_local std::unique_ptr<std::byte, Free> t_memory(
      static_cast<std::byte*>(std::aligned_alloc(kBlock, kChunk)));
  return t_memory.get();
}

// Calls `transfer` (pwrite or pread) until all bytes are transferred. Returns the error number, or
// 0.
template <class Transfer, class Byte>
int transfer_all(Transfer transfer, int file, Byte* bytes, std::int64_t size, std::int64_t offset) {
  while (size > 0) {
    const ssize_t done = transfer(file, bytes, size, static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) {
      continue;
    }
    if (done <= 0) {
      return done == 0 ? EIO : errno;
    }
    bytes += done;
    size -= static_cast<std::int64_t>(done);
    offset += static_cast<std::int64_t>(done);
  }
  return 0;
}

}  // namespace

DiskFile::DiskFile(std::string directory, std::int64_t max_bytes, bool direct)
    : directory_(std::move(directory)), max_bytes_(max_bytes), is_direct_(direct) {
  open_file();
}

DiskFile::~DiskFile() {
  close(file_);
  for (const Inherited& inherited : inherited_) {
    close(inherited.file);
  }
}

void DiskFile::open_file() {
  file_ = open_unnamed(directory_, is_direct_ ? O_DIRECT : 0);
  if (file_ < 0 && is_direct_ && errno == EINVAL) {
    is_direct_ = false;
    file_ = open_unnamed(directory_, 0);
  }
  if (file_ < 0) {
    fail("cannot make a file", errno, "Name another directory");
  }
  owner_ = getpid();
}

// See Note [Disk files of forked processes].
void DiskFile::leave_parents_file() {
  if (owner_ == getpid()) {
    return;
  }
  const int parents = file_;
  open_file();
  inherited_.push_back({parents, extents_.end()});
  extents_.retire_free();
  allocated_ = extents_.end();
}

bool DiskFile::is_inherited(const Extent& extent) const {
  return !inherited_.empty() && extent.offset < inherited_.back().end;
}

int DiskFile::file_of(const Extent& extent) const {
  const std::lock_guard lock(mutex_);
  for (const Inherited& inherited : inherited_) {
    if (extent.offset < inherited.end) {
      return inherited.file;
    }
  }
  return file_;
}

std::optional<Extent> DiskFile::reserve(std::int64_t bytes) {
  const std::int64_t length = whole_blocks(bytes);
  const std::lock_guard lock(mutex_);
  leave_parents_file();
  if (length > max_bytes_ || extents_.used() > max_bytes_ - length) {
    return std::nullopt;
  }
  const Extent extent = extents_.take(length).value();  // there is no limit
  if (extents_.end() <= allocated_) {
    return extent;
  }
  const std::int64_t more = extents_.end() - allocated_;
  int error = 0;
  do {
    error = fallocate(file_, 0, static_cast<off_t>(allocated_), static_cast<off_t>(more)) == 0
                ? 0
                : errno;
  } while (error == EINTR);
  if (error != 0 && error != EOPNOTSUPP) {
    extents_.give_back(extent);
    fail("no room for " + std::to_string(bytes) + " bytes more, with " +
             std::to_string(extents_.used()) + " in use",
         error, "Free some space, name another directory, or set max_disk_bytes");
  }
  allocated_ = extents_.end();
  return extent;
}

void DiskFile::give_back(const Extent& extent) {
  const std::lock_guard lock(mutex_);
  leave_parents_file();
  if (!is_inherited(extent)) {
    extents_.give_back(extent);
  }
}

void DiskFile::release_unused() {
  const std::lock_guard lock(mutex_);
  if (owner_ == getpid() && extents_.end() < allocated_ &&
      ftruncate(file_, static_cast<off_t>(extents_.end())) == 0) {
    allocated_ = extents_.end();
  }
}

bool DiskFile::write(const Extent& extent, std::int64_t size, const CopyBytes& copy) const {
  int error = 0;
  const int file = file_of(extent);
  for (std::int64_t done = 0; error == 0 && done < size; done += kChunk) {
    std::byte* const chunk = chunk_memory();
    const std::int64_t length = std::min(kChunk, size - done);
    if (!copy(done, length, chunk)) {
      return false;
    }
    std::memset(chunk + length, 0, whole_blocks(length) - length);
    error = transfer_all(pwrite, file, chunk, whole_blocks(length), extent.offset + done);
  }
  if (error != 0) {
    fail("writing " + std::to_string(size) + " bytes failed", error,
         "Free some space, name another directory, or set max_disk_bytes");
  }
  return true;
}

void DiskFile::read(const Extent& extent, std::byte* bytes, std::int64_t size) const {
  int error = 0;
  const int file = file_of(extent);
  if (!is_direct_) {
    error = transfer_all(pread, file, bytes, size, extent.offset);
  }
  for (std::int64_t done = 0; is_direct_ && error == 0 && done < size; done += kChunk) {
    std::byte* const chunk = chunk_memory();
    const std::int64_t length = std::min(kChunk, size - done);
    error = transfer_all(pread, file, chunk, whole_blocks(length), extent.offset + done);
    std::memcpy(bytes + done, chunk, length);
  }
  if (error != 0) {
    fail("reading " + std::to_string(size) + " bytes failed", error, "Name another directory");
  }
}

std::int64_t DiskFile::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return extents_.used();
}

void DiskFile::fail(const std::string& what, int error, const char* remedy) const {
  TORCH_CHECK(false, "[stores.disk] ", what, " in '", directory_,
              "': ", std::generic_category().message(error), ". ", remedy);
}

}  // namespace reprise::hooks_internal
