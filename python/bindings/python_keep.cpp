// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// keep(): the tensors and the rest of a Python function's result.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reprise/engine/keep.h"
#include "reprise/python/bindings/python_region.h"

namespace reprise::python {
namespace {

using engine_internal::PartsOfResult;

// run: returns the tensors of the result, and the rest.
py::tuple keep(const std::string& name, const std::vector<at::Tensor>& arguments,
               const py::function& run) {
  const PartsOfResult parts = engine_internal::keep_parts(name, arguments, [&] {
    const auto [tensors, rest] = run().cast<std::pair<std::vector<at::Tensor>, py::object>>();
    return PartsOfResult{.tensors = tensors, .rest = share_object(rest)};
  });
  return py::make_tuple(parts.tensors, *static_cast<const py::object*>(parts.rest.get()));
}

}  // namespace

void add_keep(py::module_& module) {
  module.def("keep", &keep, py::arg("name"), py::arg("arguments"), py::arg("run"));
}

}  // namespace reprise::python
