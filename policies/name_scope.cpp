// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/policies/name_scope.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "reprise/hooks/seam/thread_stack.h"
#include "reprise/policies/matching/name_path.h"

namespace reprise {
namespace {

using hooks_internal::ThreadStackEntry;

// Of a thread, outermost first.
class Names {
 public:
  std::shared_ptr<ThreadStackEntry> push(std::string name) {
    drop_ended();
    names_.push_back(std::move(name));
    return entries_.emplace_back(std::make_shared<ThreadStackEntry>());
  }

  std::span<const std::string> get() noexcept {
    drop_ended();
    return names_;
  }

 private:
  // Including the scopes inside them.
  void drop_ended() noexcept {
    const auto ended = std::find_if(entries_.begin(), entries_.end(),
                                    [](const auto& entry) { return !entry->is_open(); });
    names_.erase(names_.begin() + (ended - entries_.begin()), names_.end());
    entries_.erase(ended, entries_.end());
  }

  std::vector<std::string> names_;
  std::vector<std::shared_ptr<ThreadStackEntry>> entries_;
};

thread_local Names t_names;
constinit thread_local bool t_may_have_names = false;  // found with less work

}  // namespace

NameScope::NameScope(std::string name) {
  policies_internal::check_path(name, "policies.NameScope");
  entry_ = t_names.push(std::move(name));
  t_may_have_names = true;
}

NameScope::~NameScope() { entry_->end(); }

std::span<const std::string> NameScope::current() noexcept {
  if (!t_may_have_names) {
    return {};
  }
  const std::span<const std::string> names = t_names.get();
  t_may_have_names = !names.empty();
  return names;
}

}  // namespace reprise
