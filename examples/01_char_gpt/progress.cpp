// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "progress.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <utility>

namespace char_gpt {
namespace {

constexpr std::chrono::seconds kBetweenLines(30);

}  // namespace

bool is_program_installed(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (access((std::filesystem::path(folder) / name).c_str(), X_OK) == 0) {
      return true;
    }
  }
  return false;
}

Progress::Progress(std::string what, std::int64_t total) : what_(std::move(what)), total_(total) {
  if (isatty(STDERR_FILENO) != 0 && is_program_installed("tqdm")) {
    const std::string command = "tqdm --null --leave False --unit step --desc '" + what_ +
                                "' --total " + std::to_string(total_);
    bar_ = popen(command.c_str(), "w");
  }
}

Progress::~Progress() {
  if (bar_ != nullptr) {
    pclose(bar_);
  }
}

void Progress::tick() {
  ++done_;
  if (bar_ != nullptr) {
    std::fputs("\n", bar_);
    std::fflush(bar_);
  } else {
    print_sparsely();
  }
}

void Progress::print(const std::string& line) {
  // Clears what the bar has drawn in the terminal's last line; tqdm draws it again further down.
  const bool is_over_bar = bar_ != nullptr && isatty(STDOUT_FILENO) != 0;
  std::cout << (is_over_bar ? "\r\x1b[K" + line : line) << std::endl;
}

void Progress::print_sparsely() {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_line_ < kBetweenLines || done_ == total_) {
    return;
  }
  last_line_ = now;
  std::cerr << what_ << ": step " << done_ << " of " << total_ << '\n';
}

}  // namespace char_gpt
