// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "text.h"

#include <fstream>
#include <iterator>
#include <string>

#include "options.h"

namespace llama_lora {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!std::filesystem::is_regular_file(path) || !in) {
    throw UsageError("cannot read the text '" + path.string() + "'");
  }
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

Text::Text(const std::filesystem::path& path, std::int64_t length) {
  std::string bytes = read_file(path);
  size_ = static_cast<std::int64_t>(bytes.size());
  const std::int64_t held_out = size_ / 10;
  if (held_out <= length) {
    throw UsageError("the text '" + path.string() + "' has " + std::to_string(size_) +
                     " bytes, and --context " + std::to_string(length) +
                     " needs more than ten times as many as itself");
  }
  const torch::Tensor tokens =
      torch::from_blob(bytes.data(), {size_}, torch::kUInt8).to(torch::kInt64);
  windows_ = tokens.narrow(0, 0, size_ - held_out).unfold(0, length + 1, 1);
  held_out_ = tokens.narrow(0, size_ - held_out, held_out).unfold(0, length + 1, length);
}

torch::Tensor Text::draw(std::int64_t count, at::Generator generator) const {
  const torch::Tensor places =
      torch::randint(windows_.size(0), {count}, std::move(generator), torch::kInt64);
  return windows_.index_select(0, places);
}

}  // namespace llama_lora
