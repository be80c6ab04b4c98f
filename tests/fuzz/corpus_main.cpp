// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Runs a fuzz target once for each file of the folders that are its arguments: without libFuzzer,
// by any compiler.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

// In memory of its own size, at whose end a sanitizer watches.
std::vector<std::uint8_t> contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file) {
    throw std::runtime_error("cannot read " + path.string());
  }
  return {bytes.begin(), bytes.end()};
}

int run_folder(const std::filesystem::path& folder) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    // Before it runs: a finding ends the program.
    std::cerr << entry.path().filename().string() << '\n';
    const std::vector<std::uint8_t> bytes = contents(entry.path());
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    ++files;
  }
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  int files = 0;
  try {
    for (int i = 1; i < argc; ++i) {
      files += run_folder(argv[i]);
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  std::cerr << files << " files\n";
  return files > 0 ? 0 : 1;
}
