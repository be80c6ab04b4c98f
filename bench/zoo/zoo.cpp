// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "bench/zoo/zoo.h"

#include <iterator>

namespace reprise::zoo {

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> kKinds = [] {
    std::vector<Kind> all;
    for (auto kinds : {vision_kinds(), sequence_kinds(), generative_kinds(), rendering_kinds()}) {
      std::move(kinds.begin(), kinds.end(), std::back_inserter(all));
    }
    return all;
  }();
  return kKinds;
}

}  // namespace reprise::zoo
