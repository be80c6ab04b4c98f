// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/python/bindings/module_reference.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_anomaly_mode.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>
#include <vector>

#include "reprise/engine/errors.h"
#include "reprise/python/bindings/region_argument.h"

namespace reprise::python {
namespace {

bool is_module(PyObject* object) {
  static auto* const kModule =
      reinterpret_cast<PyTypeObject*>(keep_object(py::module_::import("torch.nn"), "Module").ptr());
  return PyType_IsSubtype(Py_TYPE(object), kModule) != 0;
}

torch::autograd::Node* node_of(const at::Tensor& tensor) {
  const auto* const meta = torch::autograd::impl::get_autograd_meta(tensor);
  return meta == nullptr ? nullptr : meta->grad_fn_.get();
}

}  // namespace

bool is_of_module(py::handle object) {
  PyObject* const pointer = object.ptr();
  return is_module(PyMethod_Check(pointer) ? PyMethod_GET_SELF(pointer) : pointer);
}

bool make_results_own(py::handle result, py::handle object, std::uint64_t first_node) {
  std::vector<at::Tensor> tensors;
  collect_tensors(result, tensors);
  bool is_owned = false;
  for (const at::Tensor& tensor : tensors) {
    torch::autograd::Node* const node = node_of(tensor);
    if (node == nullptr || node->sequence_nr() < first_node) {
      continue;
    }
    // Of Python's engine, which has made it; its class is not exported.
    auto* const metadata = static_cast<torch::autograd::PyAnomalyMetadata*>(node->metadata());
    const py::int_ key(reinterpret_cast<std::uintptr_t>(object.ptr()));
    py::reinterpret_borrow<py::dict>(metadata->dict())[key] = object;
    is_owned = true;
  }
  return is_owned;
}

void ModuleReference::weaken() {
  PyObject* const pointer = object_.ptr();
  is_method_ = PyMethod_Check(pointer);
  weak_ = py::weakref(is_method_ ? PyMethod_GET_SELF(pointer) : pointer);
  object_ = is_method_ ? py::reinterpret_borrow<py::object>(PyMethod_GET_FUNCTION(pointer))
                       : py::object();
}

py::object ModuleReference::get() const {
  if (!weak_) {
    return object_;
  }
  const py::object module = weak_();
  if (module.is_none()) {
    throw CheckpointError(
        "[checkpoint] the module that the region runs is gone, and so are the results that it "
        "returned. For a backward from what the module kept besides, keep the module");
  }
  return is_method_ ? py::reinterpret_steal<py::object>(PyMethod_New(object_.ptr(), module.ptr()))
                    : module;
}

}  // namespace reprise::python
