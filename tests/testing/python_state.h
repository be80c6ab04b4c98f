// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The state that Python sets on a thread of LibTorch's, set without Python.
#ifndef REPRISE_TESTS_TESTING_PYTHON_STATE_H_
#define REPRISE_TESTS_TESTING_PYTHON_STATE_H_

#include <ATen/SavedTensorHooks.h>
#include <c10/core/SafePyObject.h>
#include <c10/core/impl/PyInterpreter.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <memory>

namespace reprise::testing {

// While alive, LibTorch's own stack of saved-tensor hooks is one deeper, as inside Python's
// saved_tensors_hooks. The entry is empty: Python's engine would read it, and no other does.
class [[nodiscard]] PushedHooks {
 public:
  PushedHooks() {
    at::impl::SavedTensorDefaultHooksTLS state = at::SavedTensorDefaultHooks::get_tls_state();
    state.stack.emplace(c10::SafePyObject(nullptr, nullptr), c10::SafePyObject(nullptr, nullptr));
    at::SavedTensorDefaultHooks::set_tls_state(state);
  }
  ~PushedHooks() {
    at::impl::SavedTensorDefaultHooksTLS state = at::SavedTensorDefaultHooks::get_tls_state();
    state.stack.pop();
    at::SavedTensorDefaultHooks::set_tls_state(state);
  }
  PushedHooks(const PushedHooks&) = delete;
  PushedHooks& operator=(const PushedHooks&) = delete;
};

// While alive, a compiler traces code on this thread.
class [[nodiscard]] Tracing {
 public:
  Tracing() : before_(at::SavedTensorDefaultHooks::set_tracing(true)) {}
  ~Tracing() { at::SavedTensorDefaultHooks::set_tracing(before_); }
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;

 private:
  const bool before_;
};

// While alive, a mode of Python's is on, of an interpreter that throws at each question.
class [[nodiscard]] PythonMode {
 public:
  PythonMode() {
    static c10::impl::PyInterpreter interpreter(nullptr);
    interpreter.disarm();
    using Mode = c10::impl::PyObject_TorchDispatchMode;
    c10::impl::TorchDispatchModeTLS::push_non_infra_mode_onto_stack(
        std::make_shared<Mode>(nullptr, &interpreter));
  }
  ~PythonMode() { c10::impl::TorchDispatchModeTLS::pop_stack(); }
  PythonMode(const PythonMode&) = delete;
  PythonMode& operator=(const PythonMode&) = delete;
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TESTING_PYTHON_STATE_H_
