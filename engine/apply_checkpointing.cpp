// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/apply_checkpointing.h"

#include <c10/util/StringUtil.h>
#include <fnmatch.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "reprise/base/text/closest.h"
#include "reprise/engine/checkpointed_module.h"
#include "reprise/engine/modules/checkpointed_element.h"

namespace reprise {
namespace {

using engine_internal::CheckpointedElement;
using engine_internal::wrapper_in;
using torch::nn::AnyModule;
using torch::nn::Module;
using torch::nn::SequentialImpl;

// An element of a torch::nn::Sequential; null for other modules.
using Element = AnyModule*;

struct Visited {
  std::string path;
  Module* module;
  Element element;
};

// Walks the tree and collects its modules, and the accepted ones.
class Visit {
 public:
  explicit Visit(const ModulePredicate& predicate) : predicate_(predicate) {}

  void visit(Module& module, const std::string& path, Element element) {
    all_.push_back({path, &module, element});
    if (!predicate_ || predicate_(path, module)) {
      accepted_.push_back(all_.back());
    }
    auto* sequential = dynamic_cast<SequentialImpl*>(&module);
    std::map<const Module*, std::ptrdiff_t> seen;
    for (const auto& child : module.named_children()) {
      Module& of_child = *child.value();
      visit(of_child, path.empty() ? child.key() : path + '.' + child.key(),
            sequential == nullptr ? nullptr : find(*sequential, of_child, seen[&of_child]++));
    }
  }

  const std::vector<Visited>& all() const { return all_; }
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

  const ModulePredicate& predicate_;
  std::vector<Visited> all_;
  std::vector<Visited> accepted_;
};

// "BlockImpl" of "my::(anonymous namespace)::BlockImpl".
std::string type_name(const Module& module) {
  const std::string& full = module.name();
  return full.substr(full.find_last_of(": ") + 1);
}

std::string last_name(const std::string& path) { return path.substr(path.rfind('.') + 1); }

bool matches(const std::string& pattern, const std::string& path, const Module& module) {
  const std::string type = type_name(module);
  return fnmatch(pattern.c_str(), path.c_str(), 0) == 0 || pattern == last_name(path) ||
         pattern == type || pattern + "Impl" == type;
}

// The predicate of modules_named().
struct NamedModules {
  std::vector<std::string> patterns;

  bool operator()(const std::string& path, const Module& module) const {
    return std::any_of(patterns.begin(), patterns.end(),
                       [&](const std::string& pattern) { return matches(pattern, path, module); });
  }
};

// A misspelt name would leave the model as it is, in silence.
void check_each_matches(const NamedModules& named, const std::vector<Visited>& all) {
  for (const std::string& pattern : named.patterns) {
    std::set<std::string> names;
    for (const Visited& module : all) {
      if (matches(pattern, module.path, *module.module)) {
        names.clear();
        break;
      }
      const std::string type = type_name(*module.module);
      names.insert({module.path, last_name(module.path),
                    type.ends_with("Impl") ? type.substr(0, type.size() - 4) : type});
    }
    names.erase("");
    if (!names.empty()) {
      throw std::invalid_argument(
          c10::str("[engine.modules_named] no module has this path, name or type; received '",
                   pattern, "'; the closest are ", base_internal::closest_names(pattern, names, 3),
                   " (nothing has been changed)"));
    }
  }
}

std::vector<Visited> accepted_modules(Module& root, const ModulePredicate& predicate) {
  Visit visit(predicate);
  visit.visit(root, "", nullptr);
  if (const auto* const named = predicate.target<NamedModules>()) {
    check_each_matches(*named, visit.all());
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
  if (accepted.element != nullptr || checkpointed(accepted) != nullptr) {
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

}  // namespace

ModulePredicate modules_named(std::vector<std::string> patterns) {
  return NamedModules{std::move(patterns)};
}

std::int64_t apply_checkpointing(Module& module, const ModulePredicate& predicate,
                                 const CheckpointOptions& options, std::int64_t keep_last) {
  if (keep_last < 0) {
    throw std::invalid_argument(
        c10::str("[engine.apply_checkpointing] keep_last is negative: ", keep_last));
  }
  const std::vector<Visited> accepted = accepted_modules(module, predicate);
  std::for_each(accepted.begin(), accepted.end(), check_can_be_region);
  const std::ptrdiff_t regions = std::max<std::ptrdiff_t>(std::ssize(accepted) - keep_last, 0);
  std::set<const Module*> changed;
  // One wrapper per module, so that a module that is used twice remains one.
  std::map<const Module*, std::shared_ptr<CheckpointedElement>> wrappers;
  for (auto each = accepted.begin(); each != accepted.begin() + regions; ++each) {
    CheckpointOptions of_region = options;
    of_region.name = options.name.empty() ? each->path : options.name;
    changed.insert(each->module);
    if (CheckpointedModule* const known = checkpointed(*each)) {
      known->set_checkpoint_options(std::move(of_region));
      continue;
    }
    auto& wrapper = wrappers[each->module];
    if (wrapper == nullptr) {
      wrapper = std::make_shared<CheckpointedElement>(*each->element, std::move(of_region));
    }
    *each->element = AnyModule(wrapper);
  }
  std::for_each(accepted.begin() + regions, accepted.end(), run_plainly);
  return std::ssize(changed);
}

std::int64_t remove_checkpointing(Module& module, const ModulePredicate& predicate) {
  const std::vector<Visited> accepted = accepted_modules(module, predicate);
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
