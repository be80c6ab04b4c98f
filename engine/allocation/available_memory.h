// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The limits on the memory of this process: how much more it may allocate under each.
#ifndef REPRISE_ENGINE_ALLOCATION_AVAILABLE_MEMORY_H_
#define REPRISE_ENGINE_ALLOCATION_AVAILABLE_MEMORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace reprise::engine_internal {

// The bytes that a limit counts: of tensors and nothing else, of addresses, or of pages in memory.
enum class LimitOn { kTensors, kAddresses, kPages };

// Under one limit.
struct AvailableMemory {
  std::int64_t bytes;        // that may still be allocated; negative: more is in use than the limit
  std::int64_t total_bytes;  // the limit itself
  std::string limit;         // its name
  LimitOn on = LimitOn::kPages;
};

// Limits of setrlimit(); none if unlimited.
struct ProcessLimits {
  std::optional<std::int64_t> address_space_bytes = std::nullopt;  // RLIMIT_AS
  std::optional<std::int64_t> data_bytes = std::nullopt;           // RLIMIT_DATA

  static ProcessLimits current();
};

// Returns the bytes that were freed, and that malloc() holds for later ones: glibc's, from 2.33 on.
// Others do not tell.
std::int64_t bytes_held_by_malloc();
// Has glibc's malloc() give back the pages of these, but not the addresses. What is made of them
// later takes longer.
void release_held_pages();

// What Linux tells of memory, in its files. Thread-safe.
class SystemMemory {
 public:
  // root: of the file system. Which control groups are mounted is read here, once.
  explicit SystemMemory(std::string root = "");

  // Returns what each limit leaves now: those of the process, those of its control group and all
  // groups around that one, and the memory of the machine that is free or can be made so without
  // swapping. File pages that a group has not used recently count as free. So do held_bytes as
  // addresses, of which later tensors can be made, but not as pages: of the holes between other
  // blocks only some have the right size. Empty where the files are missing.
  std::vector<AvailableMemory> available(const ProcessLimits& limits,
                                         std::int64_t held_bytes) const;

 private:
  // A hierarchy of control groups with limits on memory.
  struct Hierarchy {
    bool is_unified;    // version 2
    std::string group;  // that is mounted
    std::string point;  // where
  };

  void add_process_limits(const ProcessLimits& limits, std::int64_t held_bytes,
                          std::vector<AvailableMemory>& found) const;
  void add_group_limits(const Hierarchy& hierarchy, const std::string& group,
                        std::vector<AvailableMemory>& found) const;

  const std::string root_;
  std::vector<Hierarchy> hierarchies_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_ALLOCATION_AVAILABLE_MEMORY_H_
