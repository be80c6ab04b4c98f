// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The models of the zoo as parameters of tests.
#ifndef REPRISE_TESTS_MODELS_MODEL_NAMES_H_
#define REPRISE_TESTS_MODELS_MODEL_NAMES_H_

#include <algorithm>
#include <string>
#include <vector>

#include "bench/zoo/zoo.h"

namespace reprise::testing {

inline std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const zoo::Kind& kind : zoo::kinds()) {
    names.push_back(kind.name);
  }
  return names;
}

// For the name of a test.
inline std::string identifier_of(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_MODELS_MODEL_NAMES_H_
