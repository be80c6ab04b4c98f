// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Python as the engine sees it: the interpreter's lock, its exceptions.
#ifndef REPRISE_PYTHON_BINDINGS_PYTHON_LANGUAGE_H_
#define REPRISE_PYTHON_BINDINGS_PYTHON_LANGUAGE_H_

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <exception>
#include <memory>
#include <utility>

namespace reprise::python {

namespace py = pybind11;

// Sets the interpreter's functions for the engine, from the modules reprise._errors (the classes of
// its exceptions) and reprise._parts. To be called once, with the interpreter's lock.
void install_language(const py::module_& errors, const py::module_& parts);

// Throws Python's current exception as LibTorch's own: it keeps type and traceback, also from the
// device threads of a backward.
[[noreturn]] void throw_python_error();

// Sets Python's exception for an error of ours, or of the code that a region runs. To be called in
// a catch block, with the interpreter's lock.
void set_python_error(const std::exception_ptr& error);

// Returns what `function` returns, or null with Python's exception set. LibTorch's warnings become
// Python's.
template <class Function>
PyObject* with_python_errors(const Function& function) {
  try {
    torch::PyWarningHandler warnings;
    try {
      return function();
    } catch (...) {
      warnings.set_in_exception();
      throw;
    }
  } catch (...) {
    set_python_error(std::current_exception());
    return nullptr;
  }
}

// For the table of a class's or a module's methods, whose flags say which arguments there are.
template <class Function>
PyCFunction as_method(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

// Returns the module's object of that name, which is never let go of.
inline py::handle keep_object(const py::module_& module, const char* name) {
  return py::object(module.attr(name)).release();
}

// Destroys `objects` with the interpreter's lock, on whichever thread this is. Once the interpreter
// has ended they are left alone.
template <class Objects>
void destroy_with_lock(Objects& objects) {
  if (Py_IsInitialized() != 0) {
    const py::gil_scoped_acquire lock;
    const Objects destroyed = std::move(objects);
  } else {
    static_cast<void>(new Objects(std::move(objects)));
  }
}

// Returns a reference to `object` that any thread may let go of.
inline std::shared_ptr<py::object> share_object(py::object object) {
  return {new py::object(std::move(object)), [](py::object* owned) {
            destroy_with_lock(*owned);
            delete owned;
          }};
}

}  // namespace reprise::python

#endif  // REPRISE_PYTHON_BINDINGS_PYTHON_LANGUAGE_H_
