// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <sstream>

namespace llama_lora {
namespace {

constexpr std::int64_t kLines = 10;

bool is_tqdm_installed() { return std::system("command -v tqdm >/dev/null 2>&1") == 0; }

}  // namespace

Progress::Progress(const std::string& title, std::int64_t steps) : steps_(steps) {
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

void Progress::finish_step(double loss) {
  loss_sum_ += loss;
  ++losses_;
  finish_step();
  const std::int64_t interval = std::max<std::int64_t>(1, steps_ / kLines);
  if (done_ == 1 || done_ == steps_ || done_ % interval == 0) {
    print_loss();
  }
}

void Progress::finish_step() {
  ++done_;
  if (bar_ != nullptr) {
    std::fputs("\n", bar_);
    std::fflush(bar_);
  }
}

void Progress::print_loss() {
  std::ostringstream line;
  // Clears the terminal's last line, which the bar is in; tqdm draws it again further down.
  line << (bar_ != nullptr && isatty(STDOUT_FILENO) != 0 ? "\r\x1b[K" : "") << "  step "
       << std::setw(5) << done_ << "   loss " << std::fixed << std::setprecision(3)
       << loss_sum_ / static_cast<double>(losses_);
  std::cout << line.str() << std::endl;
  loss_sum_ = 0;
  losses_ = 0;
}

}  // namespace llama_lora
