// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/apply_checkpointing.h"

#include <c10/util/StringUtil.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>

#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "reprise/engine/checkpointed_module.h"
#include "reprise/engine/modules/checkpointed_any.h"

namespace reprise {
namespace {

using engine_internal::CheckpointedAnyImpl;
using torch::nn::AnyModule;
using torch::nn::Module;
using torch::nn::SequentialImpl;
using Predicate = std::function<bool(const std::string&, const Module&)>;

// The two places of an element in a torch::nn::Sequential: its list, and its children.
struct Slot {
  SequentialImpl* sequential;
  SequentialImpl::Iterator element;
  std::string key;
};

// An element that will be wrapped.
struct Replacement {
  Slot slot;
  AnyModule wrapper;
};

// A module that has options already.
struct NewOptions {
  CheckpointedModule* module;
  CheckpointOptions options;
};

// Returns the module that owns the children of `module`: itself, or the inner one of a wrapper.
Module& without_wrapper(Module& module) {
  auto* wrapper = dynamic_cast<CheckpointedAnyImpl*>(&module);
  return wrapper == nullptr ? module : wrapper->inner_module();
}

// Walks the tree and collects the changes, without applying them.
class Plan {
 public:
  Plan(const Predicate& predicate, CheckpointOptions options)
      : predicate_(predicate), options_(std::move(options)) {}

  void visit(Module& module, const std::string& path, const std::optional<Slot>& slot) {
    if (auto* wrapper = dynamic_cast<CheckpointedAnyImpl*>(&module)) {
      wrappers_.insert(wrapper);
    }
    if (predicate_(path, without_wrapper(module))) {
      accept(module, path, slot);
    }
    visit_children(without_wrapper(module), path);
  }

  std::int64_t carry_out() && {
    for (auto& [module, options] : new_options_) {
      module->set_checkpoint_options(std::move(options));
    }
    for (auto& [slot, wrapper] : replacements_) {
      slot.sequential->replace_module(slot.key, wrapper.ptr());
      *slot.element = std::move(wrapper);
    }
    for (CheckpointedAnyImpl* wrapper : wrappers_) {
      wrapper->share_state_of_inner();
    }
    return std::ssize(accepted_);
  }

 private:
  CheckpointOptions options_for(const std::string& path) const {
    CheckpointOptions options = options_;
    if (options.name.empty()) {
      options.name = path;
    }
    return options;
  }

  void accept(Module& module, const std::string& path, const std::optional<Slot>& slot) {
    if (auto* checkpointed = dynamic_cast<CheckpointedModule*>(&module)) {
      new_options_.push_back({checkpointed, options_for(path)});
    } else if (slot) {
      replacements_.push_back({*slot, wrapper_of(*slot, module, path)});
    } else {
      throw std::invalid_argument(c10::str(
          "[engine.apply_checkpointing] this module cannot be wrapped, because it is no element of "
          "a torch::nn::Sequential, and what its parent calls cannot be replaced from outside; "
          "received '",
          path, "', a ", module.name(), path.empty() ? ", the root" : "",
          "; declare the member as reprise::Checkpointed<...>, or let the predicate refuse it "
          "(nothing has been changed)"));
    }
    accepted_.insert(&module);
  }

  // One wrapper per module, so that a module that is used twice remains one.
  AnyModule wrapper_of(const Slot& slot, Module& module, const std::string& path) {
    std::shared_ptr<CheckpointedAnyImpl>& wrapper = wrapper_of_[&module];
    if (wrapper == nullptr) {
      wrapper = std::make_shared<CheckpointedAnyImpl>(*slot.element, options_for(path));
      wrappers_.insert(wrapper.get());
    }
    return AnyModule(wrapper);
  }

  void visit_children(Module& parent, const std::string& path) {
    auto* sequential = dynamic_cast<SequentialImpl*>(&parent);
    std::map<const Module*, std::ptrdiff_t> seen;
    for (const auto& child : parent.named_children()) {
      Module& module = *child.value();
      std::optional<Slot> slot;
      if (sequential != nullptr) {
        slot = find_slot(*sequential, module, child.key(), seen[&module]++);
      }
      visit(module, path.empty() ? child.key() : path + '.' + child.key(), slot);
    }
  }

  // Returns the element that is `module`; the `occurrence`-th one if it occurs several times.
  static std::optional<Slot> find_slot(SequentialImpl& sequential, const Module& module,
                                       const std::string& key, std::ptrdiff_t occurrence) {
    for (auto element = sequential.begin(); element != sequential.end(); ++element) {
      if (element->ptr().get() == &module && occurrence-- == 0) {
        return Slot{&sequential, element, key};
      }
    }
    return std::nullopt;
  }

  const Predicate& predicate_;
  const CheckpointOptions options_;
  std::vector<Replacement> replacements_;
  std::vector<NewOptions> new_options_;
  std::set<CheckpointedAnyImpl*> wrappers_;
  std::map<const Module*, std::shared_ptr<CheckpointedAnyImpl>> wrapper_of_;
  std::set<const Module*> accepted_;
};

}  // namespace

std::int64_t apply_checkpointing(Module& module, const Predicate& predicate,
                                 CheckpointOptions options) {
  Plan plan(predicate, std::move(options));
  plan.visit(module, "", std::nullopt);
  return std::move(plan).carry_out();
}

}  // namespace reprise
