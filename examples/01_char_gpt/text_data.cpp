// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "text_data.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "options.h"

namespace char_gpt {
namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!fs::is_regular_file(path) || !in || !(text << in.rdbuf())) {
    throw UsageError("cannot read the text '" + path.string() + "'; --text wants a file that is " +
                     "not empty");
  }
  return text.str();
}

bool is_text_of_the_repository(const fs::directory_entry& entry) {
  static const std::array<std::string, 5> kExtensions = {".h", ".cpp", ".md", ".cmake", ".txt"};
  return entry.is_regular_file() && !entry.is_symlink() &&
         std::find(kExtensions.begin(), kExtensions.end(), entry.path().extension().string()) !=
             kExtensions.end();
}

// Build trees and hidden folders hold what others wrote, or what changes from run to run.
bool is_skipped_folder(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  return entry.is_directory() && (name.rfind("build", 0) == 0 || name.rfind('.', 0) == 0);
}

std::string read_repository(const fs::path& root) {
  std::vector<fs::path> paths;
  for (auto entry = fs::recursive_directory_iterator(root); entry != fs::end(entry); ++entry) {
    if (is_skipped_folder(*entry)) {
      entry.disable_recursion_pending();
    } else if (is_text_of_the_repository(*entry)) {
      paths.push_back(entry->path());
    }
  }
  std::sort(paths.begin(), paths.end());
  std::string text;
  for (const fs::path& path : paths) {
    text += read_file(path);
  }
  return text;
}

}  // namespace

std::string load_text(const fs::path& path) {
  if (!path.empty()) {
    return read_file(path);
  }
  const fs::path repository = CHAR_GPT_REPOSITORY;
  if (!fs::is_directory(repository)) {
    throw UsageError("no text to train on: the sources of Reprise are not here; give --text FILE");
  }
  return read_repository(repository);
}

TextData::TextData(const std::string& text, std::int64_t length) : length_(length) {
  const auto needed = static_cast<std::size_t>(length) + 1;
  if (text.size() < needed) {
    throw UsageError("the text has " + std::to_string(text.size()) + " bytes, and --context " +
                     std::to_string(length) + " needs at least " + std::to_string(needed));
  }
  std::array<bool, 256> occurs{};
  for (const char byte : text) {
    occurs[static_cast<unsigned char>(byte)] = true;
  }
  for (std::size_t byte = 0; byte < occurs.size(); ++byte) {
    if (occurs[byte]) {
      token_of_byte_[byte] = vocabulary();
      bytes_.push_back(static_cast<char>(byte));
    }
  }
  tokens_.resize(text.size());
  std::transform(text.begin(), text.end(), tokens_.begin(),
                 [&](char byte) { return encode(byte); });
}

Batch TextData::draw(std::int64_t count, std::mt19937_64& generator) const {
  const std::uint64_t places = size() - static_cast<std::size_t>(length_);
  Batch batch;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto start = tokens_.begin() + static_cast<std::ptrdiff_t>(generator() % places);
    batch.inputs.insert(batch.inputs.end(), start, start + length_);
    batch.targets.insert(batch.targets.end(), start + 1, start + 1 + length_);
  }
  return batch;
}

std::int64_t TextData::encode(char byte) const {
  return token_of_byte_[static_cast<unsigned char>(byte)];
}

char TextData::decode(std::int64_t token) const {
  return bytes_.at(static_cast<std::size_t>(token));
}

}  // namespace char_gpt
