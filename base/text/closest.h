// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Names that are close to one that nothing has, for error messages.
#ifndef REPRISE_BASE_TEXT_CLOSEST_H_
#define REPRISE_BASE_TEXT_CLOSEST_H_

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::base_internal {

// Returns the least number of characters to insert, delete or replace (Levenshtein's distance).
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

// Returns up to `count` of the names, the closest ones first, separated by commas.
inline std::string closest_names(std::string_view wanted, const std::set<std::string>& names,
                                 std::size_t count) {
  std::vector<std::pair<std::size_t, std::string_view>> candidates;
  for (const std::string& name : names) {
    candidates.emplace_back(edit_distance(wanted, name), name);
  }
  std::sort(candidates.begin(), candidates.end());
  candidates.resize(std::min(candidates.size(), count));
  std::string text;
  for (const auto& [distance, name] : candidates) {
    text.append(text.empty() ? "" : ", ").append(name);
  }
  return text;
}

}  // namespace reprise::base_internal

#endif  // REPRISE_BASE_TEXT_CLOSEST_H_
