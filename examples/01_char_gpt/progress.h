// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: progress.h
//
// A progress bar on stderr, drawn by tqdm through a pipe. Where stderr is no terminal or tqdm is
// not installed, a line now and then instead.
#ifndef CHAR_GPT_PROGRESS_H_
#define CHAR_GPT_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace char_gpt {

// True if a program of this name is on the PATH.
bool is_program_installed(const std::string& name);

class [[nodiscard]] Progress {
 public:
  // `what` must not need quoting in a shell.
  Progress(std::string what, std::int64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // One more of the total is done.
  void tick();

  // Prints a line on stdout without mixing it with the bar.
  void print(const std::string& line);

 private:
  void print_sparsely();

  const std::string what_;
  const std::int64_t total_;
  std::int64_t done_ = 0;
  std::FILE* bar_ = nullptr;
  std::chrono::steady_clock::time_point last_line_ = std::chrono::steady_clock::now();
};

}  // namespace char_gpt

#endif  // CHAR_GPT_PROGRESS_H_
