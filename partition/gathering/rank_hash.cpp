// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/partition/gathering/rank_hash.h"

#include <xxhash.h>

#include <array>
#include <cstdio>

namespace reprise::partition_internal {

std::string rank_hash(const std::vector<at::Tensor>& rows) {
  XXH64_hash_t hash = 0;
  for (const at::Tensor& row : rows) {
    const at::Tensor here = row.cpu();
    hash = XXH3_64bits_withSeed(here.const_data_ptr(), here.nbytes(), hash);
  }
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(hash));
  return text.data();
}

}  // namespace reprise::partition_internal
