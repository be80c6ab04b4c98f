// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The predicates of modules_named() and modules_matching(), which are asked whether each of their
// patterns matches a module at all.
#ifndef REPRISE_ENGINE_MODULES_MODULE_PATTERNS_H_
#define REPRISE_ENGINE_MODULES_MODULE_PATTERNS_H_

#include <torch/nn/module.h>

#include <regex>
#include <string>
#include <vector>

#include "reprise/engine/apply_checkpointing.h"

namespace reprise::engine_internal {

struct ModulePath {
  std::string path;
  torch::nn::Module* module;
};

// "BlockImpl" of "my::(anonymous namespace)::BlockImpl".
std::string short_type_name(const torch::nn::Module& module);

struct NamedModules {
  std::vector<std::string> patterns;

  bool operator()(const std::string& path, const torch::nn::Module& module) const;
};

struct MatchingModules {
  std::string expression;
  std::regex regex;

  bool operator()(const std::string& path, const torch::nn::Module& module) const;
};

// Throws std::invalid_argument, with the closest names, if a pattern of `predicate` matches no
// module. A misspelt name would leave the model as it is, in silence. Other predicates may.
void check_each_matches(const ModulePredicate& predicate, const std::vector<ModulePath>& modules);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_MODULES_MODULE_PATTERNS_H_
