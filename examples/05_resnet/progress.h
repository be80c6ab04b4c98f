// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: progress.h
//
// A progress bar on stderr, drawn by tqdm through a pipe, if stderr is a terminal and tqdm is
// installed.
#ifndef RESNET_PROGRESS_H_
#define RESNET_PROGRESS_H_

#include <cstdint>
#include <cstdio>
#include <string>

namespace resnet {

class [[nodiscard]] Progress {
 public:
  // `title` must not need quoting in a shell.
  Progress(const std::string& title, std::int64_t steps);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // One more step is done.
  void finish_step();

  // Prints a line on stdout without mixing it with the bar.
  void print(const std::string& line);

 private:
  std::FILE* bar_ = nullptr;
};

}  // namespace resnet

#endif  // RESNET_PROGRESS_H_
