// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "progress.h"

#include <unistd.h>

#include <cstdlib>
#include <iostream>

namespace resnet {
namespace {

bool is_tqdm_installed() { return std::system("command -v tqdm >/dev/null 2>&1") == 0; }

}  // namespace

Progress::Progress(const std::string& title, std::int64_t steps) {
  if (isatty(STDERR_FILENO) != 0 && is_tqdm_installed()) {
    const std::string command = "tqdm --null --leave False --unit step --desc '" + title +
                                "' --total " + std::to_string(steps);
    bar_ = popen(command.c_str(), "w");
  }
}

Progress::~Progress() {
  if (bar_ != nullptr) {
    pclose(bar_);
  }
}

void Progress::finish_step() {
  if (bar_ != nullptr) {
    std::fputs("\n", bar_);
    std::fflush(bar_);
  }
}

void Progress::print(const std::string& line) {
  // Clears what the bar has drawn in the terminal's last line; tqdm draws it again further down.
  const bool is_over_bar = bar_ != nullptr && isatty(STDOUT_FILENO) != 0;
  std::cout << (is_over_bar ? "\r\x1b[K" + line : line) << std::endl;
}

}  // namespace resnet
