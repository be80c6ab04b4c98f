// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: name_scope.h
//
// Gives the code of a block a name that policies see (`PolicyContext::scopes`) and reports print,
// so that a policy can tell one matmul from another. Scopes nest: their names, outermost first,
// are the path of the code inside.
//
// Not for naming a region (`CheckpointOptions::name`), nor a single tensor
// (`reprise::checkpoint_name()`).
//
// Example:
//
//   at::Tensor forward(const at::Tensor& x) {
//     reprise::NameScope scope("q_proj");
//     return linear->forward(x);
//   }
//   // policies::save_named({"attn/q_proj"}) if the caller has a NameScope "attn"
//
// Thread-safety: scopes affect the calling thread only. Threads that it starts do not inherit them.
#ifndef REPRISE_POLICIES_NAME_SCOPE_H_
#define REPRISE_POLICIES_NAME_SCOPE_H_

#include <memory>
#include <span>
#include <string>

#include "reprise/base/export.h"

namespace reprise {

namespace hooks_internal {
class ThreadStackEntry;
}

// While alive, adds `name` to the path of code that runs on this thread. A name that contains '/'
// means several nested scopes. Scopes may end in any order and on any thread; the end of a scope
// ends the scopes inside it.
class [[nodiscard]] REPRISE_API NameScope {
 public:
  // Throws: std::invalid_argument if the name is empty, begins or ends with '/', or contains "//".
  [[nodiscard]] explicit NameScope(std::string name);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;

  // Returns the names of this thread's scopes, outermost first. Valid until the thread begins or
  // ends a scope.
  [[nodiscard]] static std::span<const std::string> current() noexcept;

 private:
  std::shared_ptr<hooks_internal::ThreadStackEntry> entry_;
};

}  // namespace reprise

#endif  // REPRISE_POLICIES_NAME_SCOPE_H_
