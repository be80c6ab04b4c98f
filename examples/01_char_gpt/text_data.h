// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: text_data.h
//
// The text to train on, as tokens: one for each of the bytes that occur in it.
#ifndef CHAR_GPT_TEXT_DATA_H_
#define CHAR_GPT_TEXT_DATA_H_

#include <array>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

namespace char_gpt {

// The file's bytes or, if `path` is empty, those of the sources and docs of Reprise, in the order
// of their paths. Throws UsageError if there is nothing to read.
std::string load_text(const std::filesystem::path& path);

// `count` sequences of `length` tokens, one after the other; targets are the inputs one token on.
struct Batch {
  std::vector<std::int64_t> inputs;
  std::vector<std::int64_t> targets;
};

class TextData {
 public:
  // Sequences have `length` tokens. Throws UsageError if `text` is too short for one of them.
  TextData(const std::string& text, std::int64_t length);

  [[nodiscard]] std::size_t size() const { return tokens_.size(); }
  [[nodiscard]] std::int64_t vocabulary() const { return static_cast<std::int64_t>(bytes_.size()); }

  // Sequences from random places, drawn from `generator`.
  [[nodiscard]] Batch draw(std::int64_t count, std::mt19937_64& generator) const;

  // The token of `byte`, or 0 if it does not occur.
  [[nodiscard]] std::int64_t encode(char byte) const;
  [[nodiscard]] char decode(std::int64_t token) const;

 private:
  std::int64_t length_;
  std::vector<char> bytes_;  // by token
  std::array<std::int64_t, 256> token_of_byte_{};
  std::vector<std::int64_t> tokens_;
};

}  // namespace char_gpt

#endif  // CHAR_GPT_TEXT_DATA_H_
