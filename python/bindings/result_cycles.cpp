// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/python/bindings/result_cycles.h"

#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "reprise/hooks/seam/torch_version.h"
#include "reprise/python/bindings/python_code.h"

namespace reprise::python {
namespace {

using Visitor = absl::FunctionRef<void(PyObject*)>;

// Calls `visitor` with each object that `object` owns, once per reference. Runs no Python code.
void for_each_owned(PyObject* object, Visitor visitor) {
  struct Visit {
    PyObject* globals;
    Visitor visitor;
  } visit{PyFunction_Check(object) ? PyFunction_GetGlobals(object) : nullptr, visitor};
  Py_TYPE(object)->tp_traverse(
      object,
      [](PyObject* owned, void* argument) {
        const auto& visit = *static_cast<Visit*>(argument);
        if (owned != visit.globals) {
          visit.visitor(owned);
        }
        return 0;
      },
      &visit);
}

// The objects that regions' callables lead to, as a collector finds garbage: by comparing the
// references to an object with those that have been found. An object with others is reachable, as
// is all that it owns.
class OwnedByRegions {
 public:
  OwnedByRegions() {
    const auto count = [this](PyObject* object) { add(object); };
    PythonCode::for_each_object(count);
    for (std::size_t i = 0; i < objects_.size() && objects_.size() < kMost; ++i) {
      for_each_owned(objects_[i], count);
    }
  }

  // Returns those that nothing else leads to.
  std::vector<PyObject*> unreachable() {
    if (objects_.size() >= kMost) {
      return {};
    }
    std::vector<PyObject*> found;
    for (PyObject* const object : objects_) {
      if (Py_REFCNT(object) > references_[object]) {
        mark_reachable(object);
      }
    }
    for (PyObject* const object : objects_) {
      if (!reachable_.contains(object)) {
        found.push_back(object);
      }
    }
    return found;
  }

 private:
  // A region's callable may lead to all of a program. Such a collection would take long.
  static constexpr std::size_t kMost = 200'000;

  // Classes and modules are of the program, not of a region.
  void add(PyObject* object) {
    if (PyObject_GC_IsTracked(object) == 0 || PyType_Check(object) || PyModule_Check(object)) {
      return;
    }
    if (++references_[object] == 1) {
      objects_.push_back(object);
    }
  }

  void mark_reachable(PyObject* object) {
    std::vector<PyObject*> left{object};
    while (!left.empty()) {
      PyObject* const now = left.back();
      left.pop_back();
      if (references_.contains(now) && reachable_.insert(now).second) {
        for_each_owned(now, [&left](PyObject* owned) { left.push_back(owned); });
      }
    }
  }

  std::vector<PyObject*> objects_;
  absl::flat_hash_map<PyObject*, Py_ssize_t> references_;
  absl::flat_hash_set<PyObject*> reachable_;
};

// A tensor that C++ code holds as well may be read by other code than a region's.
bool has_own_graph(PyObject* object) {
  if (!THPVariable_Check(object)) {
    return false;
  }
  const at::Tensor& tensor = THPVariable_Unpack(object);
  const bool is_owned_here = tensor.defined() && tensor.use_count() == 1 && !tensor.is_leaf();
  return is_owned_here && dynamic_cast<const torch::autograd::Error*>(
                              torch::autograd::impl::grad_fn_unsafe(tensor)) == nullptr;
}

// The tensor stays one with a graph, which is an error in a backward.
void take_graph(const at::Tensor& tensor) {
  using torch::autograd::AutogradMeta;
  hooks_internal::NodePtr error = hooks_internal::make_node<torch::autograd::Error>(
      "[checkpoint] the graph of this tensor, a result that a module keeps, has been freed: only "
      "regions that have run the module refer to the module. Keep a reference to the module");
  error->add_input_metadata(tensor);
  // A view's own metadata would hold the graph of its base.
  tensor.unsafeGetTensorImpl()->set_autograd_meta(
      std::make_unique<AutogradMeta>(tensor.unsafeGetTensorImpl(), /*requires_grad=*/false,
                                     torch::autograd::Edge(std::move(error), 0)));
}

// Returns whether a graph has been freed: tensors that it held may be without other owners now.
bool release_once() {
  std::vector<py::object> tensors;
  for (PyObject* const object : OwnedByRegions().unreachable()) {
    if (has_own_graph(object)) {
      tensors.push_back(py::reinterpret_borrow<py::object>(object));
    }
  }
  for (const py::object& tensor : tensors) {
    take_graph(THPVariable_Unpack(tensor.ptr()));
  }
  return !tensors.empty();
}

}  // namespace

void add_result_cycles(py::module_& module) {
  module.def("release_unreachable_results", [] {
    while (release_once()) {
    }
  });
}

}  // namespace reprise::python
