// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: progress.h
//
// A progress bar on stderr, drawn by tqdm through a pipe, if stderr is a terminal and tqdm is
// installed; and about ten lines of losses on stdout.
#ifndef LLAMA_LORA_PROGRESS_H_
#define LLAMA_LORA_PROGRESS_H_

#include <cstdint>
#include <cstdio>
#include <string>

namespace llama_lora {

class [[nodiscard]] Progress {
 public:
  // `title` must not need quoting in a shell.
  Progress(const std::string& title, std::int64_t steps);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // One more step is done. Prints the mean loss since the last line, if one is due.
  void finish_step(double loss);
  // The same without a loss.
  void finish_step();

 private:
  void print_loss();

  const std::int64_t steps_;
  std::int64_t done_ = 0;
  double loss_sum_ = 0;
  std::int64_t losses_ = 0;
  std::FILE* bar_ = nullptr;
};

}  // namespace llama_lora

#endif  // LLAMA_LORA_PROGRESS_H_
