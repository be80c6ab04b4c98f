// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Note [Modules that keep results]: a module may keep a result of its forward, such as an auxiliary
// loss. That holds the graph of the region, and so the region, and the code of the region is the
// module: a cycle through C++ that Python's collector cannot see. So the region does not own a
// module whose results have a graph. The nodes of the results that it returned do: whoever can
// begin a backward from there has the module. Only a backward from what the code kept besides needs
// a module that somebody still has.
#ifndef REPRISE_PYTHON_BINDINGS_MODULE_REFERENCE_H_
#define REPRISE_PYTHON_BINDINGS_MODULE_REFERENCE_H_

#include <cstdint>

#include "reprise/python/bindings/python_language.h"

namespace reprise::python {

// Returns whether the object is a torch.nn.Module, or a bound method of one.
bool is_of_module(py::handle object);

// Makes the nodes of the tensors in a region's result own `object`. first_node: the sequence number
// at the region's entry; nodes before it are not the region's. Returns false if there is no such
// node.
bool make_results_own(py::handle result, py::handle object, std::uint64_t first_node);

// A reference to an object: owning, until weaken() is called for a module or a method of one.
class ModuleReference {
 public:
  explicit ModuleReference(py::object object) : object_(std::move(object)) {}

  void weaken();

  // Throws CheckpointError if the object is gone.
  py::object get() const;

 private:
  py::object object_;  // or the function of a weak method
  py::object weak_;    // to the module; null if the reference is owning
  bool is_method_ = false;
};

}  // namespace reprise::python

#endif  // REPRISE_PYTHON_BINDINGS_MODULE_REFERENCE_H_
