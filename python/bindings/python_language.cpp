// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/python/bindings/python_language.h"

#include <torch/csrc/Exceptions.h>

#include <stdexcept>

#include "reprise/engine/embedding/embedding_language.h"
#include "reprise/engine/errors.h"
#include "reprise/engine/memory_budget.h"

namespace reprise::python {
namespace {

// Classes in Python, which live as long as the process.
struct ErrorClasses {
  PyObject* early_stop;
  PyObject* checkpoint;
  PyObject* determinism;
  PyObject* mutation;
  PyObject* budget_exceeded;
};
ErrorClasses g_classes;

PyObject* class_of(const Error& error) {
  if (dynamic_cast<const DeterminismError*>(&error) != nullptr) {
    return g_classes.determinism;
  }
  return dynamic_cast<const MutationError*>(&error) != nullptr ? g_classes.mutation
                                                               : g_classes.checkpoint;
}

void* release_lock() noexcept { return PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr; }

void take_lock(void* released) noexcept {
  PyEval_RestoreThread(static_cast<PyThreadState*>(released));
}

void throw_early_stop() {
  const py::gil_scoped_acquire lock;
  PyErr_SetNone(g_classes.early_stop);
  throw_python_error();
}

void throw_error(const std::exception& error) {
  if (const auto* const ours = dynamic_cast<const Error*>(&error)) {
    const py::gil_scoped_acquire lock;
    PyErr_SetString(class_of(*ours), ours->what_without_backtrace());
    throw_python_error();
  }
}

PyObject* class_in(const py::module_& errors, const char* name) {
  return py::object(errors.attr(name)).release().ptr();
}

}  // namespace

void install_language(const py::module_& errors) {
  g_classes = {.early_stop = class_in(errors, "StopRecomputation"),
               .checkpoint = class_in(errors, "CheckpointError"),
               .determinism = class_in(errors, "DeterminismError"),
               .mutation = class_in(errors, "MutationError"),
               .budget_exceeded = class_in(errors, "BudgetExceededError")};
  static constexpr engine_internal::EmbeddingLanguage kPython{.release_lock = &release_lock,
                                                              .take_lock = &take_lock,
                                                              .throw_early_stop = &throw_early_stop,
                                                              .throw_error = &throw_error};
  engine_internal::set_embedding_language(&kPython);
}

void throw_python_error() {
  python_error error;
  error.persist();
  throw error;  // NOLINT(misc-throw-by-value-catch-by-reference): a name is needed for persist()
}

bool is_early_stop() { return PyErr_ExceptionMatches(g_classes.early_stop) != 0; }

void set_python_error(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& ours) {
    PyErr_SetString(class_of(ours), ours.what_without_backtrace());
  } catch (const BudgetExceededError& exceeded) {
    PyErr_SetString(g_classes.budget_exceeded, exceeded.what_without_backtrace());
  } catch (const std::invalid_argument& invalid) {
    PyErr_SetString(PyExc_ValueError, invalid.what());
  } catch (...) {
    torch::translate_exception_to_python(error);
  }
}

}  // namespace reprise::python
