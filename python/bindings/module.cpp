// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The extension module. Its name has the version of torch, whose internals it is compiled against.
#include "reprise/base/version.h"
#include "reprise/python/bindings/compiled_graph.h"
#include "reprise/python/bindings/python_configuration.h"
#include "reprise/python/bindings/python_guard.h"
#include "reprise/python/bindings/python_language.h"
#include "reprise/python/bindings/python_policy.h"
#include "reprise/python/bindings/python_region.h"
#include "reprise/python/bindings/python_reports.h"
#include "reprise/python/bindings/python_stores.h"
#include "reprise/python/bindings/result_cycles.h"

PYBIND11_MODULE(REPRISE_PYTHON_MODULE, module) {
  using namespace reprise::python;
  // NOLINTNEXTLINE(performance-unnecessary-value-param): the type that pybind11 asks for
  py::register_local_exception_translator([](std::exception_ptr error) {
    if (error) {
      set_python_error(error);
    }
  });
  install_language(py::module_::import("reprise._errors"), py::module_::import("reprise._parts"));
  module.attr("version") = REPRISE_VERSION_STRING;
  py::module_ stores = module.def_submodule("stores");
  add_stores(stores);
  py::module_ policies = module.def_submodule("policies");
  add_policies(policies);
  add_options(module);
  add_checkpoint(module);
  add_scope(module);
  add_keep(module);
  add_result_cycles(module);
  add_compiled_graphs(module);
  add_guards(module);
  add_configuration(module);
  add_memory_report(module);
  add_memory_budget(module);
  add_saved_tensors(module);
}
