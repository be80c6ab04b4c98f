// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// An argument of a region's code. The engine retains the tensors of a region's arguments through
// the hooks and stores around it, so they are taken out of the containers that hold them.
#ifndef REPRISE_PYTHON_BINDINGS_REGION_ARGUMENT_H_
#define REPRISE_PYTHON_BINDINGS_REGION_ARGUMENT_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "reprise/python/bindings/python_language.h"

namespace reprise::python {

// Adds the tensors in `object`, at any nesting: in tuples, lists and dicts, and in the containers
// that torch.utils._pytree knows.
void collect_tensors(py::handle object, std::vector<at::Tensor>& tensors);

// The containers as they are in forward, with or without their tensors.
class RegionArgument {
 public:
  // holds_tensors: whether to keep the objects of the tensors and the containers too.
  RegionArgument(py::handle object, bool holds_tensors);

  // Returns the argument with forward's contents. Without tensors of its own, it takes the next of
  // `tensors`, in the order of collect_tensors(), and drops them there. Otherwise containers that
  // have the same contents now are the same objects.
  py::object with(std::span<const at::Tensor>& tensors) const;

  // Calls `visitor` with each object that it owns, once per reference.
  void for_each_object(absl::FunctionRef<void(PyObject*)> visitor) const;

 private:
  enum class Kind : std::uint8_t { kObject, kTensor, kTuple, kList, kDict, kRegistered };

  py::object container_with(std::span<const at::Tensor>& tensors) const;
  std::vector<py::object> parts_with(std::span<const at::Tensor>& tensors) const;
  void add_parts(py::handle sequence, bool holds_tensors);

  Kind kind_;
  // The object itself; the class of a tensor; a tuple of the keys of a dict; the specification of a
  // registered container.
  py::object object_;
  py::object original_;  // a container; null if tensors are not held
  std::vector<RegionArgument> parts_;
};

}  // namespace reprise::python

#endif  // REPRISE_PYTHON_BINDINGS_REGION_ARGUMENT_H_
