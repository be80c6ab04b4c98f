// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A store's file: reads what was written, whatever else is reserved, written and given back.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "reprise/hooks/background/disk_file.h"
#include "tests/fuzz/stored_bytes.h"

namespace reprise::fuzz {
namespace {

using namespace hooks_internal;

constexpr std::int64_t kMaxBytes = std::int64_t{1} << 18;

struct Part {
  Extent extent;
  Bytes bytes;
};

void add(DiskFile& file, std::vector<Part>& parts, Bytes bytes) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  const auto extent = file.reserve(size);
  require(extent || file.used_bytes() + size + 4096 > kMaxBytes, "a file has room for a tensor");
  if (extent) {
    BytesSource source(bytes);
    const auto copy = [&](auto... part) { return source.copy(part...); };
    require(file.write(*extent, size, copy), "a tensor is written");
    parts.push_back({*extent, std::move(bytes)});
  }
}

void remove_last(DiskFile& file, std::vector<Part>& parts) {
  Bytes bytes(parts.back().bytes.size());
  file.read(parts.back().extent, bytes.data(), static_cast<std::int64_t>(bytes.size()));
  require(bytes == parts.back().bytes, "a tensor comes back");
  file.give_back(parts.back().extent);
  parts.pop_back();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  DiskFile file(std::filesystem::temp_directory_path(), kMaxBytes, input.boolean());
  std::vector<Part> parts;
  for (int steps = 0; steps < 64 && !input.is_at_end(); ++steps) {
    const std::uint64_t action = input.number(4);
    if (action < 3) {
      const std::uint64_t bytes = 1 + input.number(1 << 15);
      add(file, parts, Bytes(bytes, std::byte(input.number(255))));
    } else if (action == 3 && !parts.empty()) {
      std::swap(parts[input.number(parts.size() - 1)], parts.back());
      remove_last(file, parts);
    } else {
      file.release_unused();
    }
  }
  while (!parts.empty()) {
    remove_last(file, parts);
  }
  require(file.used_bytes() == 0, "a file without tensors is empty");
  return 0;
}

}  // namespace reprise::fuzz
