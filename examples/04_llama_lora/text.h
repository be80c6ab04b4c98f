// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: text.h
//
// A text as tokens, one per byte. Its last tenth is held out.
#ifndef LLAMA_LORA_TEXT_H_
#define LLAMA_LORA_TEXT_H_

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>

namespace llama_lora {

constexpr std::int64_t kVocabulary = 256;

class Text {
 public:
  // Sequences have `length` tokens. Throws UsageError if there is no file, or if it is too short.
  Text(const std::filesystem::path& path, std::int64_t length);

  [[nodiscard]] std::int64_t size() const { return size_; }

  // (count, length + 1) int64: sequences from random places of the text, each with the token that
  // follows it.
  [[nodiscard]] torch::Tensor draw(std::int64_t count, at::Generator generator) const;

  // (n, length + 1) int64: the held-out part, in sequences one after the other.
  [[nodiscard]] const torch::Tensor& held_out() const { return held_out_; }

 private:
  std::int64_t size_;
  torch::Tensor windows_;  // (places, length + 1), a view of the tokens
  torch::Tensor held_out_;
};

}  // namespace llama_lora

#endif  // LLAMA_LORA_TEXT_H_
