// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include <memory>
#include <utility>

#include "reprise/engine/checkpoint_options.h"
#include "reprise/engine/region/forward_region.h"
#include "reprise/python/bindings/python_language.h"
#include "reprise/python/bindings/python_region.h"
#include "reprise/python/bindings/transforms.h"

namespace reprise::python {
namespace {

using engine_internal::ForwardRegion;

// A region over the block of a with statement.
class PythonScope {
 public:
  explicit PythonScope(CheckpointOptions options) : options_(std::move(options)) {
    if (options_.min_input_bytes > 0) {
      throw py::value_error("min_input_bytes is set, but a scope has no inputs to count");
    }
    options_.replay = ReplayMode::kTape;
  }

  void enter() {
    if (region_ != nullptr) {
      throw std::runtime_error("this scope is entered already; make one for each region");
    }
    if (is_in_transform() && runs_plainly(/*is_tape=*/true)) {
      ++plain_entries_;
      return;
    }
    if (ForwardRegion::prepare(options_)) {
      region_ = std::make_unique<ForwardRegion>(options_);
    }
  }

  // After an exception nothing is packed, as in C++.
  void exit(bool has_failed) {
    if (plain_entries_ > 0) {
      --plain_entries_;
      return;
    }
    const std::unique_ptr<ForwardRegion> region = std::move(region_);
    if (region != nullptr && !has_failed) {
      region->finish();
    }
  }

 private:
  CheckpointOptions options_;
  std::unique_ptr<ForwardRegion> region_;
  int plain_entries_ = 0;  // that are no region
};

struct ScopeObject {
  PyObject_HEAD PythonScope* scope;
};

PythonScope& scope_of(PyObject* self) {
  PythonScope* const scope = reinterpret_cast<ScopeObject*>(self)->scope;
  if (scope == nullptr) {
    throw py::value_error("this scope has not been initialised");
  }
  return *scope;
}

PyObject* enter_scope(PyObject* self, PyObject* /*none*/) {
  return with_python_errors([self] {
    scope_of(self).enter();
    return Py_NewRef(self);
  });
}

// __exit__(class, exception, traceback)
PyObject* exit_scope(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  return with_python_errors([&] {
    const bool has_failed = count > 0 && arguments[0] != Py_None;
    scope_of(self).exit(has_failed);
    return Py_NewRef(Py_None);
  });
}

// __init__(options)
int init_scope(PyObject* self, PyObject* arguments, PyObject* /*named*/) {
  PyObject* const done = with_python_errors([&] {
    const auto options =
        py::cast<const CheckpointOptions&>(py::reinterpret_borrow<py::tuple>(arguments)[0]);
    auto scope = std::make_unique<PythonScope>(options);
    delete std::exchange(reinterpret_cast<ScopeObject*>(self)->scope, scope.release());
    return Py_None;  // borrowed
  });
  return done == nullptr ? -1 : 0;
}

void delete_scope(PyObject* self) {
  delete reinterpret_cast<ScopeObject*>(self)->scope;
  PyTypeObject* const type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

}  // namespace

void add_scope(py::module_& module) {
  static PyMethodDef methods[] = {{"__enter__", &enter_scope, METH_NOARGS, nullptr},
                                  {"__exit__", as_method(&exit_scope), METH_FASTCALL, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_methods, methods},
                                {Py_tp_init, reinterpret_cast<void*>(&init_scope)},
                                {Py_tp_new, reinterpret_cast<void*>(&PyType_GenericNew)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(&delete_scope)},
                                {0, nullptr}};
  static PyType_Spec spec{.name = "reprise._C.Scope",
                          .basicsize = sizeof(ScopeObject),
                          .itemsize = 0,
                          .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                          .slots = slots};
  auto type = py::reinterpret_steal<py::object>(PyType_FromSpec(&spec));
  if (!type) {
    throw py::error_already_set();
  }
  module.attr("Scope") = std::move(type);
}

}  // namespace reprise::python
