// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Our guards as context managers.
#ifndef REPRISE_PYTHON_BINDINGS_PYTHON_GUARD_H_
#define REPRISE_PYTHON_BINDINGS_PYTHON_GUARD_H_

#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "reprise/python/bindings/python_language.h"

namespace reprise::python {

// A context manager that can be entered again, also while it is.
class PythonGuard {
 public:
  explicit PythonGuard(std::function<std::shared_ptr<void>()> make) : make_(std::move(make)) {}

  void enter() { entered_.push_back(make_()); }
  void exit() {
    if (entered_.empty()) {
      throw std::runtime_error("this context manager has not been entered");
    }
    const std::shared_ptr<void> last = std::move(entered_.back());
    entered_.pop_back();
  }

 private:
  std::function<std::shared_ptr<void>()> make_;
  std::vector<std::shared_ptr<void>> entered_;
};

// Returns a context manager that is a Guard made of copies of `arguments` while it is entered.
template <class Guard, class... Arguments>
PythonGuard guard_of(Arguments... arguments) {
  return PythonGuard([=] { return std::make_shared<Guard>(arguments...); });
}

// Adds PythonGuard, and the guards of the engine, the policies and the generators, to the module.
void add_guards(py::module_& module);

}  // namespace reprise::python

#endif  // REPRISE_PYTHON_BINDINGS_PYTHON_GUARD_H_
