// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/modules/module_patterns.h"

#include <c10/util/StringUtil.h>
#include <fnmatch.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <stdexcept>

#include "reprise/base/text/closest.h"

namespace reprise::engine_internal {
namespace {

constexpr std::size_t kShownNames = 3;

std::string last_name(const std::string& path) { return path.substr(path.rfind('.') + 1); }

bool matches(const std::string& pattern, const std::string& path, const torch::nn::Module& module) {
  const std::string type = short_type_name(module);
  return fnmatch(pattern.c_str(), path.c_str(), 0) == 0 || pattern == last_name(path) ||
         pattern == type || pattern + "Impl" == type;
}

[[noreturn]] void refuse(const char* function, const char* text, const std::string& pattern,
                         std::set<std::string> names) {
  names.erase("");
  throw std::invalid_argument(
      c10::str("[engine.", function, "] ", text, "; received '", pattern, "'; ",
               names.empty()
                   ? "the root has no modules inside"
                   : "the closest are " + base_internal::closest_names(pattern, names, kShownNames),
               " (nothing has been changed)"));
}

void check_named(const NamedModules& named, const std::vector<ModulePath>& modules) {
  for (const std::string& pattern : named.patterns) {
    if (std::any_of(modules.begin(), modules.end(), [&](const ModulePath& each) {
          return matches(pattern, each.path, *each.module);
        })) {
      continue;
    }
    std::set<std::string> names;
    for (const ModulePath& each : modules) {
      const std::string type = short_type_name(*each.module);
      names.insert({each.path, last_name(each.path),
                    type.ends_with("Impl") ? type.substr(0, type.size() - 4) : type});
    }
    refuse("modules_named", "no module has this path, name or type", pattern, std::move(names));
  }
}

void check_matching(const MatchingModules& matching, const std::vector<ModulePath>& modules) {
  std::set<std::string> paths;
  for (const ModulePath& each : modules) {
    if (matching(each.path, *each.module)) {
      return;
    }
    paths.insert(each.path);
  }
  refuse("modules_matching", "no module's path is of this form", matching.expression,
         std::move(paths));
}

}  // namespace

std::string short_type_name(const torch::nn::Module& module) {
  const std::string& full = module.name();
  return full.substr(full.find_last_of(": ") + 1);
}

bool NamedModules::operator()(const std::string& path, const torch::nn::Module& module) const {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches(pattern, path, module); });
}

bool MatchingModules::operator()(const std::string& path,
                                 const torch::nn::Module& /*module*/) const {
  return std::regex_match(path, regex);
}

void check_each_matches(const ModulePredicate& predicate, const std::vector<ModulePath>& modules) {
  if (const auto* const named = predicate.target<NamedModules>()) {
    check_named(*named, modules);
  } else if (const auto* const matching = predicate.target<MatchingModules>()) {
    check_matching(*matching, modules);
  }
}

}  // namespace reprise::engine_internal
