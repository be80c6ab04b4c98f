// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/allocation/available_memory.h"

#include <dlfcn.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

namespace reprise::engine_internal {
namespace {

// Empty if there is no such file.
std::string read_file(const std::string& path) {
  const auto close = [](std::FILE* file) { std::fclose(file); };
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "re"), close);
  std::string text;
  if (file != nullptr) {
    std::setvbuf(file.get(), nullptr, _IONBF, 0);
    std::array<char, 8192> part;
    std::size_t read = 0;
    while ((read = std::fread(part.data(), 1, part.size(), file.get())) > 0) {
      text.append(part.data(), read);
    }
  }
  return text;
}

// Returns the text up to `end` or the last character, and removes both.
std::string_view take_until(std::string_view& text, char end) {
  const std::size_t length = text.find(end);
  const std::string_view taken = text.substr(0, length);
  text.remove_prefix(length == std::string_view::npos ? text.size() : length + 1);
  return taken;
}

std::string_view take_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return take_until(text, ' ');
}

// Returns nothing for "max" and other words.
std::optional<std::int64_t> number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

// Returns the number behind `key` at the beginning of a line.
std::optional<std::int64_t> number_of(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    std::string_view line = take_until(text, '\n');
    if (line.starts_with(key)) {
      return number(line.substr(key.size()));
    }
  }
  return std::nullopt;
}

bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    if (take_until(list, ',') == word) {
      return true;
    }
  }
  return false;
}

// Returns the group of the process, from /proc/self/cgroup; nothing if it is in none.
std::optional<std::string> group_of_process(std::string_view groups, bool is_unified) {
  while (!groups.empty()) {
    std::string_view line = take_until(groups, '\n');
    const std::string_view number = take_until(line, ':');
    const std::string_view controllers = take_until(line, ':');
    if (is_unified ? number == "0" && controllers.empty() : has_word(controllers, "memory")) {
      return std::string(line);
    }
  }
  return std::nullopt;
}

// Returns the group's path below the one that is mounted; that one itself for a group outside of
// it, as seen from a container.
std::string below(const std::string& mounted, std::string group) {
  if (mounted != "/") {
    const bool is_inside = group.starts_with(mounted) &&
                           (group.size() == mounted.size() || group[mounted.size()] == '/');
    group = is_inside ? group.substr(mounted.size()) : "";
  }
  return group == "/" || group.starts_with("/..") ? "" : group;
}

struct GroupFiles {
  std::vector<std::string> limits;
  std::string used;
  std::string cached;  // the key in memory.stat
};

// Beyond memory.high the kernel slows a process down, to take memory from it.
const GroupFiles& files_of(bool is_unified) {
  static const auto* const kUnified =
      new GroupFiles{{"memory.max", "memory.high"}, "memory.current", "inactive_file "};
  static const auto* const kVersion1 =
      new GroupFiles{{"memory.limit_in_bytes"}, "memory.usage_in_bytes", "total_inactive_file "};
  return is_unified ? *kUnified : *kVersion1;
}

}  // namespace

ProcessLimits ProcessLimits::current() {
  const auto limit = [](auto resource) -> std::optional<std::int64_t> {
    rlimit found{};
    if (getrlimit(resource, &found) != 0 || found.rlim_cur == RLIM_INFINITY ||
        found.rlim_cur > static_cast<rlim_t>(INT64_MAX)) {
      return std::nullopt;
    }
    return static_cast<std::int64_t>(found.rlim_cur);
  };
  return {.address_space_bytes = limit(RLIMIT_AS), .data_bytes = limit(RLIMIT_DATA)};
}

// A line: number, parent, device, group, mount point, options, others, "-", type, source, options
// of the hierarchy.
SystemMemory::SystemMemory(std::string root) : root_(std::move(root)) {
  const std::string mounts = read_file(root_ + "/proc/self/mountinfo");
  for (std::string_view left = mounts; !left.empty();) {
    std::string_view line = take_until(left, '\n');
    for (int i = 0; i < 3; ++i) {
      take_word(line);
    }
    const std::string group(take_word(line));
    const std::string point(take_word(line));
    while (!line.empty() && take_word(line) != "-") {
    }
    const std::string_view type = take_word(line);
    take_word(line);
    if (type == "cgroup2" || (type == "cgroup" && has_word(take_word(line), "memory"))) {
      hierarchies_.push_back({type == "cgroup2", group, point});
    }
  }
}

// Looked up, as headers of other libraries, or of older versions, do not declare them.
std::int64_t bytes_held_by_malloc() {
  struct Statistics {
    std::array<std::size_t, 8> others;
    std::size_t free_bytes;  // `fordblks`
    std::size_t top_bytes;
  };
  using Mallinfo2 = Statistics();
  static auto* const kMallinfo2 = reinterpret_cast<Mallinfo2*>(dlsym(RTLD_DEFAULT, "mallinfo2"));
  return kMallinfo2 == nullptr ? 0 : static_cast<std::int64_t>(kMallinfo2().free_bytes);
}

void release_held_pages() {
  using MallocTrim = int(std::size_t);
  static auto* const kMallocTrim =
      reinterpret_cast<MallocTrim*>(dlsym(RTLD_DEFAULT, "malloc_trim"));
  if (kMallocTrim != nullptr) {
    kMallocTrim(0);
  }
}

std::vector<AvailableMemory> SystemMemory::available(const ProcessLimits& limits,
                                                     std::int64_t held_bytes) const {
  constexpr std::int64_t kKibibyte = 1024;
  std::vector<AvailableMemory> found;
  add_process_limits(limits, held_bytes, found);
  if (!hierarchies_.empty()) {
    const std::string groups = read_file(root_ + "/proc/self/cgroup");
    for (const Hierarchy& hierarchy : hierarchies_) {
      if (const auto group = group_of_process(groups, hierarchy.is_unified)) {
        add_group_limits(hierarchy, below(hierarchy.group, *group), found);
      }
    }
  }
  const std::string machine = read_file(root_ + "/proc/meminfo");
  const auto free = number_of(machine, "MemAvailable:");
  const auto total = number_of(machine, "MemTotal:");
  if (free && total) {
    found.push_back({*free * kKibibyte, *total * kKibibyte, "MemAvailable"});
  }
  return found;
}

// The kernel compares RLIMIT_DATA with less than the sum of data and stacks that it tells.
void SystemMemory::add_process_limits(const ProcessLimits& limits, std::int64_t held_bytes,
                                      std::vector<AvailableMemory>& found) const {
  if (!limits.address_space_bytes && !limits.data_bytes) {
    return;
  }
  const std::string statm = read_file(root_ + "/proc/self/statm");
  std::string_view left = statm;
  std::array<std::int64_t, 6> pages{};  // in the address space; the sixth, of data and stacks
  for (std::int64_t& count : pages) {
    count = number(take_word(left)).value_or(0);
  }
  const std::int64_t page_bytes = sysconf(_SC_PAGESIZE);
  const auto add = [&](std::optional<std::int64_t> limit, std::int64_t used, const char* name) {
    if (limit) {
      found.push_back({*limit - used * page_bytes + held_bytes, *limit, name, LimitOn::kAddresses});
    }
  };
  add(limits.address_space_bytes, pages.front(), "RLIMIT_AS");
  add(limits.data_bytes, pages.back(), "RLIMIT_DATA");
}

void SystemMemory::add_group_limits(const Hierarchy& hierarchy, const std::string& group,
                                    std::vector<AvailableMemory>& found) const {
  constexpr std::int64_t kUnlimited = std::int64_t{1} << 60;  // version 1 has a number for "none"
  const GroupFiles& files = files_of(hierarchy.is_unified);
  const std::string point = root_ + hierarchy.point;
  for (std::string path = group;; path.resize(path.rfind('/'))) {
    const std::string folder = point + path + "/";
    for (const std::string& name : files.limits) {
      const auto limit = number(read_file(folder + name));
      if (!limit || *limit >= kUnlimited) {
        continue;
      }
      const auto used = number(read_file(folder + files.used));
      const auto cached = number_of(read_file(folder + "memory.stat"), files.cached);
      found.push_back({*limit - used.value_or(0) + cached.value_or(0), *limit,
                       name + " of the control group " + (path.empty() ? "/" : path)});
    }
    if (path.empty()) {
      return;
    }
  }
}

}  // namespace reprise::engine_internal
