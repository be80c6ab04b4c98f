// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/apply_checkpointing.h"

#include <c10/util/StringUtil.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>

#include <algorithm>
#include <cstring>
#include <iomanip>
#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <typeindex>
#include <utility>
#include <vector>

#include "reprise/engine/checkpointed_module.h"
#include "reprise/engine/modules/checkpointed_element.h"
#include "reprise/engine/modules/module_patterns.h"
#include "reprise/engine/modules/option_text.h"

namespace reprise {
namespace {

using engine_internal::check_each_matches;
using engine_internal::CheckpointedElement;
using engine_internal::MatchingModules;
using engine_internal::ModulePath;
using engine_internal::NamedModules;
using engine_internal::option_text;
using engine_internal::short_type_name;
using engine_internal::wrapper_in;
using torch::nn::AnyModule;
using torch::nn::Module;
using torch::nn::SequentialImpl;

// An element of a torch::nn::Sequential; null for other modules.
using Element = AnyModule*;

struct Visited : ModulePath {
  Element element;
  // Of the first rule that accepts it; null without one.
  const ModuleRule* rule;
};

// Walks the tree and collects its modules.
class Visit {
 public:
  explicit Visit(const std::vector<ModuleRule>& rules) : rules_(rules) {}

  void visit(Module& module, const std::string& path, Element element) {
    paths_.push_back({path, &module});
    const auto rule = std::find_if(rules_.begin(), rules_.end(), [&](const ModuleRule& each) {
      return !each.predicate || each.predicate(path, module);
    });
    if (rule != rules_.end()) {
      accepted_.push_back({{path, &module}, element, &*rule});
    }
    auto* sequential = dynamic_cast<SequentialImpl*>(&module);
    std::map<const Module*, std::ptrdiff_t> seen;
    for (const auto& child : module.named_children()) {
      Module& of_child = *child.value();
      visit(of_child, path.empty() ? child.key() : path + '.' + child.key(),
            sequential == nullptr ? nullptr : find(*sequential, of_child, seen[&of_child]++));
    }
  }

  const std::vector<ModulePath>& paths() const { return paths_; }
  const std::vector<Visited>& accepted() const { return accepted_; }

 private:
  // Returns the element that is `module`; the `occurrence`-th one if it occurs several times.
  static Element find(SequentialImpl& sequential, const Module& module, std::ptrdiff_t occurrence) {
    for (AnyModule& element : sequential) {
      if (element.ptr().get() == &module && occurrence-- == 0) {
        return &element;
      }
    }
    return nullptr;
  }

  const std::vector<ModuleRule>& rules_;
  std::vector<ModulePath> paths_;
  std::vector<Visited> accepted_;
};

std::vector<Visited> accepted_modules(Module& root, const std::vector<ModuleRule>& rules) {
  Visit visit(rules);
  visit.visit(root, "", nullptr);
  for (const ModuleRule& rule : rules) {
    check_each_matches(rule.predicate, visit.paths());
  }
  return visit.accepted();
}

CheckpointedModule* checkpointed(const Visited& accepted) {
  if (auto* own = dynamic_cast<CheckpointedModule*>(accepted.module)) {
    return own;
  }
  return accepted.element == nullptr ? nullptr : wrapper_in(*accepted.element);
}

void check_can_be_region(const Visited& accepted) {
  if (!accepted.rule->options || accepted.element != nullptr || checkpointed(accepted) != nullptr) {
    return;
  }
  throw std::invalid_argument(c10::str(
      "[engine.apply_checkpointing] this module cannot be wrapped, because it is no element of a "
      "torch::nn::Sequential, and what its parent calls cannot be replaced from outside; received "
      "'",
      accepted.path, "', a ", accepted.module->name(), accepted.path.empty() ? ", the root" : "",
      "; derive its class from reprise::CheckpointedModule and begin its forward with 'const auto "
      "scope = checkpoint_scope();', declare the member as reprise::Checkpointed<...>, or let the "
      "predicate refuse it (nothing has been changed)"));
}

// Returns whether it was a region.
bool run_plainly(const Visited& accepted) {
  CheckpointedModule* const found = checkpointed(accepted);
  const bool was_region = found != nullptr && found->checkpoint_options();
  if (auto* own = dynamic_cast<CheckpointedModule*>(accepted.module)) {
    own->set_checkpoint_options(std::nullopt);
  } else if (found != nullptr) {
    AnyModule inner = wrapper_in(*accepted.element)->inner();
    *accepted.element = std::move(inner);
  }
  return was_region;
}

// Makes modules regions, with one wrapper for each, so that a module that is used twice remains
// one.
class Regions {
 public:
  void make(const Visited& accepted) {
    CheckpointOptions options = *accepted.rule->options;
    if (made_.insert(accepted.module).second) {
      applied_.rows.push_back(
          {accepted.path, short_type_name(*accepted.module), option_text(options)});
    }
    if (options.name.empty()) {
      options.name = accepted.path;
    }
    if (CheckpointedModule* const known = checkpointed(accepted)) {
      known->set_checkpoint_options(std::move(options));
      return;
    }
    auto& wrapper = wrappers_[accepted.module];
    if (wrapper == nullptr) {
      wrapper = std::make_shared<CheckpointedElement>(*accepted.element, std::move(options));
    }
    *accepted.element = AnyModule(wrapper);
  }

  CheckpointedModules applied() && { return std::move(applied_); }

 private:
  CheckpointedModules applied_;
  std::set<const Module*> made_;
  std::map<const Module*, std::shared_ptr<CheckpointedElement>> wrappers_;
};

void check_choice(const ModuleChoice& choice) {
  if (choice.keep_last < 0) {
    throw std::invalid_argument(
        c10::str("[engine.apply_checkpointing] keep_last is negative: ", choice.keep_last));
  }
  if (choice.every < 1) {
    throw std::invalid_argument(
        c10::str("[engine.apply_checkpointing] every is not positive: ", choice.every));
  }
}

// Returns, for each accepted module, whether it is to be a region.
std::vector<bool> chosen_of(const std::vector<Visited>& accepted, const ModuleChoice& choice) {
  const auto has_options = [](const Visited& each) { return each.rule->options.has_value(); };
  std::int64_t left =
      std::count_if(accepted.begin(), accepted.end(), has_options) - choice.keep_last;
  std::map<std::type_index, std::int64_t> counts;
  std::map<const Module*, bool> is_kth;  // of a module that has several paths, by the first one
  std::vector<bool> chosen;
  for (const Visited& each : accepted) {
    const bool may_be = has_options(each) && left-- > 0;
    if (may_be && !is_kth.contains(each.module)) {
      is_kth[each.module] = counts[typeid(*each.module)]++ % choice.every == 0;
    }
    chosen.push_back(may_be && is_kth[each.module]);
  }
  return chosen;
}

}  // namespace

ModulePredicate modules_named(std::vector<std::string> patterns) {
  return NamedModules{std::move(patterns)};
}

ModulePredicate modules_matching(const std::string& expression) {
  try {
    return MatchingModules{expression, std::regex(expression)};
  } catch (const std::regex_error& error) {
    throw std::invalid_argument(
        c10::str("[engine.modules_matching] this is no regular expression: ", error.what(),
                 "; received '", expression, "'"));
  }
}

std::string CheckpointedModules::to_string() const {
  const auto width = [&](const char* title, const std::string Row::*field) {
    std::size_t most = std::strlen(title);
    for (const Row& row : rows) {
      most = std::max(most, (row.*field).size());
    }
    return static_cast<int>(most);
  };
  const int path = width("module", &Row::path);
  const int type = width("type", &Row::type);
  std::ostringstream out;
  const auto add = [&](const Row& row) {
    out << std::left << std::setw(path) << row.path << "  " << std::setw(type) << row.type << "  "
        << row.options << '\n';
  };
  add({"module", "type", "options"});
  std::for_each(rows.begin(), rows.end(), add);
  return out.str();
}

std::int64_t apply_checkpointing(Module& module, const ModulePredicate& predicate,
                                 const CheckpointOptions& options, std::int64_t keep_last) {
  const std::vector<ModuleRule> rules = {{.predicate = predicate, .options = options}};
  return std::ssize(apply_checkpointing(module, rules, {.keep_last = keep_last}).rows);
}

CheckpointedModules apply_checkpointing(Module& module, const std::vector<ModuleRule>& rules,
                                        const ModuleChoice& choice) {
  check_choice(choice);
  const std::vector<Visited> accepted = accepted_modules(module, rules);
  std::for_each(accepted.begin(), accepted.end(), check_can_be_region);
  const std::vector<bool> chosen = chosen_of(accepted, choice);
  Regions regions;
  for (std::size_t i = 0; i < accepted.size(); ++i) {
    if (chosen[i]) {
      regions.make(accepted[i]);
    }
  }
  for (std::size_t i = 0; i < accepted.size(); ++i) {
    if (!chosen[i]) {
      run_plainly(accepted[i]);
    }
  }
  return std::move(regions).applied();
}

std::int64_t remove_checkpointing(Module& module, const ModulePredicate& predicate) {
  const std::vector<ModuleRule> rules = {{.predicate = predicate}};
  const std::vector<Visited> accepted = accepted_modules(module, rules);
  return std::count_if(accepted.begin(), accepted.end(), run_plainly);
}

CheckpointedModule* checkpointed_element(SequentialImpl& sequential, std::size_t index) {
  if (index >= sequential.size()) {
    throw std::out_of_range(c10::str("[engine.apply_checkpointing] there is no element ", index,
                                     " of ", sequential.size()));
  }
  return wrapper_in(*(sequential.begin() + static_cast<std::ptrdiff_t>(index)));
}

}  // namespace reprise
