// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/format/text_file.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <ios>
#include <stdexcept>
#include <system_error>

namespace reprise::planner_internal {
namespace {

namespace fs = std::filesystem;

bool write_in_place(const std::string& text, const fs::path& path) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return static_cast<bool>(file);
}

// Other processes, and other threads, may write to the same path.
fs::path temporary_beside(const fs::path& path) {
  static std::atomic<int> files = 0;
  return path.string() + '.' + std::to_string(::getpid()) + '.' + std::to_string(++files) + ".tmp";
}

}  // namespace

// What is no regular file, a pipe or /dev/stdout, cannot be replaced; a link stays one.
void write_file(const std::string& text, const std::string& path) {
  std::error_code error;
  const fs::file_status there = fs::status(path, error);
  error.clear();  // it need not be there
  bool is_written = false;
  if (fs::exists(there) && !fs::is_regular_file(there)) {
    is_written = write_in_place(text, path);
  } else {
    const fs::path target = fs::exists(there) ? fs::canonical(path, error) : fs::path(path);
    const fs::path temporary = temporary_beside(target);
    is_written = !error && write_in_place(text, temporary);
    if (is_written) {
      fs::rename(temporary, target, error);
      is_written = !error;
    }
    if (!is_written) {
      fs::remove(temporary, error);
    }
  }
  if (!is_written) {
    throw std::runtime_error("cannot write " + path);
  }
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  std::array<char, 1 << 16> buffer;
  while (file.read(buffer.data(), buffer.size()) || file.gcount() > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (!file.eof() || file.bad()) {
    throw std::runtime_error("cannot read " + path);
  }
  return text;
}

}  // namespace reprise::planner_internal
